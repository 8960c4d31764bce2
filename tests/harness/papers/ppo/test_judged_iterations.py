"""Gains of PPO's iterations in virtual time."""

from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Outcome
from placerl.harness.papers.base import Finding
from placerl.harness.papers.number import Number
from placerl.harness.papers.ppo.judged_iterations import Gains, Joined, bands, gain_of, gain_over, judged
from placerl.primitives.fpga.cycles.ppo import PpoIteration


def test_iterations_of_different_runs_are_not_paired() -> None:
    """Paired, times that vary alike would have a gain without any noise."""
    varies_s = np.linspace(1.0, 2.0, 20)
    gain = gain_of("gain", varies_s, varies_s, 2 * varies_s, (1, 2))
    assert [number.value for number in gain] == pytest.approx([1.0, 0.5])
    assert gain.quick.low is not None
    assert gain.quick.high is not None
    assert gain.quick.low < 0.9 < 1.1 < gain.quick.high
    assert gain.quick.rows == (1, 2)
    modelled = "20 iterations in virtual time, with transfers, objective and Adam"
    assert gain.quick.source == f"20 iterations over {modelled}"
    over = gain_over("over", gain, gain)
    assert over.quick.value == pytest.approx(1.0)
    assert over.quick.low == pytest.approx(gain.quick.low / gain.quick.high)


def test_a_statement_holds_where_the_whole_interval_is_above_one() -> None:
    constant_s = np.full(6, 1.0)
    gain = gain_of("gain", 3 * constant_s, constant_s, 4 * constant_s, ())
    found = bands([gain], [gain_over("pair", gain, gain)])
    assert (list(found.hold), list(found.hold_slow)) == ([True, False], [False, False])
    assert (found.pairs, len(found.numbers)) == (1, 4)
    few = bands([gain_of("gain", 3 * constant_s[:2], constant_s, constant_s, ())], [])
    assert (list(few.hold), few.numbers[0].low) == ([False], None)


TERMS_S = {
    "learner": [1.0, 2.0],
    "infer": [0.5, 0.75],
    "learner_links": [10.0, 20.0],
    "deal": [100.0, 200.0],
    "objective": [1000.0, 2000.0],
    "infer_links": [30.0, 40.0],
    "draw": [300.0, 400.0],
    "prepare": [3000.0, 4000.0],
}


def iteration_at(clock_mhz: float) -> Joined:
    """Two iterations of a design at 200 MHz, with 7 transfers each."""
    parameters = SimpleNamespace(terms_s=TERMS_S, design_mhz=200.0, transfers=7)
    return Joined(SimpleNamespace(parameters=parameters, samples=(5000.0, 7000.0)), clock_mhz)


def test_only_what_the_accelerator_computes_takes_longer_at_a_lower_clock() -> None:
    assert list(iteration_at(200.0).terms_s("learner", "deal")) == [101.0, 202.0]
    assert list(iteration_at(100.0).terms_s("learner", "infer", "deal")) == [103.0, 205.5]
    assert list(iteration_at(200.0).wall_s(0.0)) == [5000.0, 7000.0]
    assert list(iteration_at(100.0).wall_s(0.0)) == [5001.5, 7002.75]


def test_each_transfer_of_a_whole_iteration_waits_for_its_latency() -> None:
    assert list(iteration_at(200.0).wall_s(0.25)) == [5001.75, 7001.75]


def test_a_part_waits_for_its_own_transfers() -> None:
    """Four agents with ten steps, 3 mini-batches: 6 updates with 3 transfers each, and 11 inferences with 2."""
    iteration = PpoIteration(agents=4, steps=10, minibatch=16, epochs=2)
    at_half = iteration_at(100.0)
    assert list(at_half.part_s("training", iteration, 0.0)) == [1112.0, 2224.0]
    assert list(at_half.part_s("training", iteration, 0.5)) == [1112.0 + 9.0, 2224.0 + 9.0]
    assert list(at_half.part_s("inference", iteration, 0.0)) == [3331.0, 4441.5]
    assert list(at_half.part_s("inference", iteration, 0.5)) == [3331.0 + 11.0, 4441.5 + 11.0]


@pytest.mark.parametrize(
    ("hold", "hold_slow", "pairs", "bounds", "outcome"),
    [
        ([True, True], [True, True], 1, Outcome.NO_VERDICT, Outcome.CONSISTENT),
        ([True, True], [True, True], 0, Outcome.NO_VERDICT, Outcome.NO_VERDICT),  # of no two mini-batches
        ([True, True], [True, False], 1, Outcome.NO_VERDICT, Outcome.NO_VERDICT),  # not with slow links
        ([True, False], [True, False], 1, Outcome.NO_VERDICT, Outcome.NO_VERDICT),
        ([True, False], [True, True], 1, Outcome.NO_VERDICT, Outcome.NO_VERDICT),
        ([True, True], [True, True], 1, Outcome.NOT_REPRODUCED, Outcome.NOT_REPRODUCED),  # by the bounds
    ],
)
def test_virtual_time_agrees_only_where_every_gain_holds_and_refutes_nothing(
    hold: list[bool], hold_slow: list[bool], pairs: int, bounds: Outcome, outcome: Outcome
) -> None:
    bound = Number("bound", 2.0, "ratio", Provenance.SIMULATED)
    number = Number("gain", 2.0, "ratio", Provenance.MODELLED)
    found = judged(Finding(bounds, (bound,), "bounds."), Gains([number], hold, hold_slow, pairs))
    assert found.outcome is outcome
    assert found.ours == (bound, number)
    counted = (
        f"{sum(hold)} of 2 gains are above 1 without latencies, {sum(hold_slow)} with 1000 us a transfer"
    )
    assert counted in found.explanation
    assert ("of no robot" in found.explanation.lower()) == (pairs == 0)


def test_without_iterations_in_virtual_time_the_bounds_stand() -> None:
    bounds = Finding(Outcome.NO_VERDICT, (), "bounds")
    assert judged(bounds, Gains([], [], [], 0)) is bounds
