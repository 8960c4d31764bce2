import pytest

from harness.core.provenance import Provenance
from harness.report.hardware_agent import hardware_agent


def test_the_curve_is_the_recording_s() -> None:
    run, curve = hardware_agent()
    assert list(curve.environment_steps) == run.steps
    assert sum(curve.returns) == run.steps[-1]  # a CartPole episode returns its steps
    assert curve.last.provenance == Provenance.SIMULATED
    assert curve.last.value == pytest.approx(500, abs=25)
