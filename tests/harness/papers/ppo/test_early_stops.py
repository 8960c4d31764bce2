"""The updates after which PPO's policy stops: rows of trainings, and what they mean for load balancing (Fig. 15)."""

from dataclasses import asdict
from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.machines import of_no_machine
from placerl.harness.papers.ppo import early_stops, judged_stops
from placerl.harness.papers.ppo.cycle_models import published_throughput
from placerl.harness.papers.ppo.early_stops import COUNT, EXPERIMENT, StopColumns, update_cycles
from placerl.harness.papers.ppo.figures_12_15_cycles import SPINNING_UP
from placerl.harness.papers.ppo.virtual_iterations import accelerator
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.tools import placed
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import claim_of, frame_of

SHORT = PpoIteration(agents=2, steps=8, minibatch=8, epochs=2)


CYCLES = {"Hopper": 40_000, "Humanoid": 270_000}


def trained(benchmark: str, *policy_updates: int, seed: int = 0, times: int = 2) -> Row:
    """A training whose updates take `CYCLES` on one unit, and on both as many by `times`."""
    cycles = CYCLES[benchmark]
    columns = StopColumns(
        benchmark, asdict(SPINNING_UP), seed, list(policy_updates), [cycles] * 2, [cycles // times] * 2
    )
    fields = {"primitive": "training", "quantity": COUNT, "provenance": Provenance.MEASURED}
    return EXPERIMENT.row(columns, batch_size=SPINNING_UP.minibatch, value=1.0, **fields)


def finding(folder: Path, *rows: Row) -> Finding:
    return claim_of("PPO-F15").evaluate(frame_of(folder, *rows)).finding


def test_trainings_give_a_row_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco", reason="needs the extra mujoco")
    monkeypatch.setattr(early_stops, "SPINNING_UP", SHORT)
    monkeypatch.setattr(early_stops, "ITERATIONS", 2)
    rows = early_stops.measured("Hopper", silent)
    stated = [EXPERIMENT.read(row.parameters) for row in rows]
    assert [each.seed for each in stated] == list(early_stops.SEEDS)
    for row, each in zip(rows, stated, strict=True):
        assert len(each.policy_updates) == 2
        assert all(1 <= count <= SHORT.updates for count in each.policy_updates)
        assert row.value == sum(each.policy_updates) / 2
        assert each.shared_cycles == update_cycles("Hopper", SHORT.minibatch // 2)


def test_an_update_takes_less_time_on_both_units_and_than_with_the_other_network() -> None:
    design = accelerator("Humanoid").cycles
    whole = design.forward_cycles(512) + design.training_cycles(512)
    policy, value = update_cycles("Humanoid", 512)
    halves = update_cycles("Humanoid", 256)
    assert value < policy < whole, "both networks wait for Adam"
    assert all(0.5 < half / one < 0.52 for half, one in zip(halves, (policy, value), strict=True))


def test_running_gains_are_those_of_the_updates_that_both_units_share(tmp_path: Path) -> None:
    """In the first iteration half of the value network's updates are left, in the second none."""
    frame = frame_of(tmp_path, trained("Hopper", 160, 320), trained("Humanoid", 320, 320))
    rows = judged_stops.stopped(frame)
    one = 100 * published_throughput("Hopper").gain(SPINNING_UP, 160 * 20_000)
    assert judged_stops.running_gains(rows["Hopper"][0], None) == pytest.approx([one, one / 2])
    assert judged_stops.running_gains(rows["Humanoid"][0], None) == [0, 0]


@pytest.mark.parametrize(
    ("hopper", "humanoid", "outcome"),
    [
        ((20, 320), (2, 2), Outcome.IN_KIND),  # the larger network gains more
        ((20, 20), (319, 319), Outcome.NOT_REPRODUCED),  # in the other order
        ((20, 320), (2, *[320] * 5), Outcome.NO_VERDICT),  # ranges that overlap, too small at one clock
    ],
)
def test_balancing_is_judged_by_the_stops_of_trainings(
    hopper: tuple[int, ...], humanoid: tuple[int, ...], outcome: Outcome, tmp_path: Path
) -> None:
    rows = [trained("Hopper", *hopper), trained("Humanoid", *humanoid)]
    assert finding(tmp_path, *rows).outcome is outcome


def test_a_pair_of_units_that_trains_more_than_twice_as_fast_is_suspect(tmp_path: Path) -> None:
    found = finding(tmp_path, trained("Hopper", 20, times=3), trained("Humanoid", 2))
    assert found.outcome is Outcome.NO_VERDICT
    assert "with 2 times the resources" in found.explanation


def test_the_clock_is_that_of_the_float32_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo's networks have no convolutions, so that their design has no addresses of windows."""
    clocks = {"gemm-core float32=true side=2": 60.0, "activation-unit": 62.0, "adam-unit": 61.0}
    clocks |= {"processing-element": 50.0, "layout-transform": 40.0}
    rows = {name: placed.Placed("", 8, mhz, "", {}, {}) for name, mhz in clocks.items()}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    said = finding(tmp_path, trained("Hopper", 20), trained("Humanoid", 2)).explanation
    assert "at 60 MHz, which the slowest placed block of the design (gemm-core)" in said


@pytest.mark.parametrize(
    ("hopper", "humanoid", "outcome"),
    [
        ((20, 320), (2, 2), Outcome.CONSISTENT),  # in kind at the assumed clock
        ((20, 20), (319, 319), Outcome.NO_VERDICT),  # not reproduced at it
    ],
)
def test_an_integer_s_clock_does_not_stand_for_the_float32_design_s(
    hopper: tuple[int, ...],
    humanoid: tuple[int, ...],
    outcome: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {"processing-element width=32": placed.Placed("", 8, 170.0, "", {}, {})}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    found = finding(tmp_path, trained("Hopper", *hopper), trained("Humanoid", *humanoid))
    assert found.outcome is outcome
    assert (
        "of these blocks of the design: gemm-core float32=true, activation-unit, adam-unit."
        in found.explanation
    )


def test_gains_span_the_trainings(tmp_path: Path) -> None:
    rows = [trained("Hopper", count, 320, seed=count) for count in (10, 20, 40)]
    found = finding(tmp_path, *rows, trained("Humanoid", 2, 2))
    numbers = {number.quantity: number for number in found.ours}
    stops = numbers["Hopper: updates of the policy in iteration 1, of 320"]
    assert (stops.low, stops.value, stops.high) == (10, 20, 40)
    assert stops.provenance is Provenance.MEASURED
    assert (
        "Hopper's policy takes 20 of 320 updates in the first iteration and 320 in number 2"
        in found.explanation
    )
    assert "the running gain falls (trainings: 3)" in found.explanation
    assert "the running gain does not fall (trainings: 1)" in found.explanation


def test_counts_stay_with_the_machine_whose_rounding_they_depend_on() -> None:
    assert not of_no_machine(trained("Hopper", 20))


def test_one_robot_alone_decides_nothing(tmp_path: Path) -> None:
    found = finding(tmp_path, trained("Hopper", 2, 2))
    assert (found.outcome, found.ours) == (Outcome.NOT_RUN, ())
    assert "Humanoid" in found.needs


def test_running_gains_are_drawn_with_the_published_ones(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, trained("Hopper", 20, 320), trained("Humanoid", 2, 2))
    assert points(claim_of("PPO-F15").draw(frame)) == {
        "training alone, measured stops (modelled)": 4,
        "throughput (published)": 4,
    }
