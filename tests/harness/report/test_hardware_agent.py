import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.report.hardware_agent import hardware_agent, time_to_learn


def test_the_curve_is_the_recording_s() -> None:
    run, curve = hardware_agent()
    assert list(curve.environment_steps) == run.steps
    assert sum(curve.returns) == run.steps[-1]  # a CartPole episode returns its steps
    assert curve.last.provenance == Provenance.SIMULATED
    assert curve.last.value == pytest.approx(500, abs=25)


def test_the_time_to_learn_is_that_of_the_board_s_clock() -> None:
    steps, cycles, seconds = time_to_learn()
    assert 980 < cycles.value / steps.value < 1007 + 22
    assert seconds.value == pytest.approx(0.513, abs=0.001)
    assert (seconds.unit, seconds.provenance) == ("s", Provenance.SIMULATED)
