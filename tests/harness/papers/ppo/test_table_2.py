"""PPO Table 2: verdicts from rows of its iterations."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.row import Row
from tests.harness.old_form import details_of, replace, row_of

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.provenance import Provenance
from placerl.harness.measure import statistics
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.number import Number
from placerl.harness.papers.ppo import table_2, table_2_libraries
from placerl.harness.papers.ppo.figures_12_15_cycles import AT_ONCE, FLOAT32
from placerl.harness.papers.ppo.table_2 import MeasuredIteration, TimedIteration, of_samples
from placerl.harness.papers.ppo.table_2_iterations import (
    BENCHMARKS,
    CYCLES,
    EXPERIMENT,
    TIME,
)
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.tools import placed
from placerl.primitives.fpga.tools.placed import Placed
from tests.harness.papers.rows import PLACED_MHZ, claim_of, compared, frame_of

SMALL, LARGE = PpoIteration(16, 512, 64, 10), PpoIteration(16, 512, 512, 10)
CLOCK_MHZ = PLACED_MHZ
"""Which leaves verdicts as they are at the only other clock."""


def rows(
    benchmark: str,
    iteration: PpoIteration,
    host_s: float,
    infer_s: float,
    learner_s: float,
    device: str = "cpu",
    prepare_s: float = 0.0,
) -> list[Row]:
    """An iteration whose inferences and training take a second each on an accelerator at the placed clock."""
    second = int(1e6 * CLOCK_MHZ)
    shared: dict[str, Any] = {
        "suite": "claim",
        "workload": BENCHMARKS[benchmark],
        "primitive": "training",
        "batch_size": iteration.minibatch,
    }
    details = {"experiment": EXPERIMENT, "benchmark": benchmark, "iteration": asdict(iteration)}
    pace = [1 + 0.002 * number for number in range(9)]
    terms_s = {"environment": host_s, "infer": infer_s, "prepare": prepare_s, "learner": learner_s}
    walls_s = [sum(terms_s.values()) * each for each in pace]
    return [
        row_of(
            **shared,
            device=device,
            quantity=TIME,
            unit="s",
            provenance=Provenance.MEASURED,
            value=walls_s[4],
            samples=tuple(walls_s),
            details=details
            | {"terms_s": {name: [seconds * each for each in pace] for name, seconds in terms_s.items()}},
        ),
        row_of(
            **shared,
            quantity=CYCLES,
            unit="cycles",
            provenance=Provenance.SIMULATED,
            value=2.0 * second,
            details=details
            | {
                "core": FLOAT32,
                "clock_mhz": CLOCK_MHZ,
                "cycles": {"inference": second, "training": second},
            },
        ),
    ]


def finding(key: str, folder: Path, *made: list[Row]) -> Finding:
    """The finding from rows, next to programs of Baselines' kind that take as long as this project's.

    Without these, rows of this project refute nothing. Their medians are higher, so that they are not the fastest.
    """
    stored = [row for some in made for row in some]
    timed = [row for row in stored if row.quantity == TIME and row.device in table_2_libraries.DEVICES]
    stored += [replace(row, backend="ppo2_style", value=1.01 * row.value) for row in timed]
    return claim_of(key).evaluate(frame_of(folder, *stored)).finding


@pytest.mark.parametrize(
    ("small_s", "large_s", "outcome"),
    [
        (53.7, 14.8, Outcome.NO_VERDICT),  # at most 27.1 and 7.6 times as fast, as Spinning Up's Hopper
        (
            6.5,
            9.5,
            Outcome.NOT_REPRODUCED,
        ),  # the larger gain is that of the larger mini-batch, whatever is left out
        (1.2, 1.0, Outcome.NOT_REPRODUCED),  # slower than the CPU
        (6.5, 6.5, Outcome.NO_VERDICT),  # 3.5 times: below what is published for M = 64, not for M = 512
        (3.0, 2.0, Outcome.NOT_REPRODUCED),  # 1.75 and 1.25 times: below every published gain
    ],
)
def test_gains_over_the_cpu(small_s: float, large_s: float, outcome: Outcome, tmp_path: Path) -> None:
    made = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, small_s), (LARGE, large_s))]
    found = finding("PPO-T2-CPU", tmp_path, *made)
    assert found.outcome is outcome
    assert found.explanation.startswith("Of 3 statements about direction and order ")
    assert "of 2 upper bounds are below every gain that PPO publishes" in found.explanation
    assert "is an upper bound: no transfers, no Adam or loss" in found.explanation
    assert found.ours[0].value == pytest.approx((0.5 + small_s) / 2, rel=0.02)
    assert {number.provenance for number in found.ours} == {Provenance.SIMULATED}
    assert all(number.rows for number in found.ours)


@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-F10"])
@pytest.mark.parametrize("core", [None, AT_ONCE])
def test_cycles_of_a_core_of_integers_judge_nothing(key: str, core: str | None, tmp_path: Path) -> None:
    """As in rows of earlier versions, which do not say of which core they are."""
    made = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 1.2), (LARGE, 1.0))]
    assert finding(key, tmp_path / "float32", *made).outcome is Outcome.NOT_REPRODUCED
    for some in made:
        some[1] = replace(some[1], details={**details_of(some[1]), "core": core})
    found = finding(key, tmp_path / "integers", *made)
    assert (found.outcome, found.ours) == (Outcome.NOT_RUN, ())
    assert "float32 products (`placerl reproduce --only PPO-T2-CPU --tier standard`)" in found.needs


@pytest.mark.parametrize(
    ("mhz", "outcome"), [(CLOCK_MHZ, Outcome.NOT_REPRODUCED), (10 * CLOCK_MHZ, Outcome.NO_VERDICT)]
)
@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-F10"])
def test_the_placed_clock_of_the_float32_blocks_gives_a_verdict(
    key: str, mhz: float, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slower than the CPU at the assumed clock; only a placement tells whether it is at the design's own, too."""
    made = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 1.2), (LARGE, 1.0))]
    names = ("gemm-core float32=true side=2", "activation-unit", "adam-unit")
    table = {name: Placed("", 8, mhz + more, "", {}, {}) for more, name in enumerate(names)}
    monkeypatch.setattr(placed, "committed", lambda: table)
    assert finding(key, tmp_path / "placed", *made).outcome is outcome
    monkeypatch.setattr(placed, "committed", lambda: {names[1]: table[names[1]]})
    without = finding(key, tmp_path / "not", *made)
    assert without.outcome is Outcome.NO_VERDICT
    assert "gemm-core float32=true, adam-unit" in without.decides


def test_each_bound_below_one_is_counted(tmp_path: Path) -> None:
    made = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 1.2), (LARGE, 1.0))]
    found = finding("PPO-T2-CPU", tmp_path, *made)
    assert "Of 3 statements about direction and order 2 are refuted" in found.explanation


def test_networks_that_prepare_samples_are_no_work_of_the_host(tmp_path: Path) -> None:
    """PPO 3 has both networks on the accelerator: without these 2 s the bound of the gain is 1.53, with them 1.20."""
    stored = rows("Hopper", LARGE, 5.2, 0.3, 3.5, prepare_s=2.0)
    found = finding("PPO-T2-CPU", tmp_path, stored)
    assert found.ours[0].value == pytest.approx(11.0 / 7.2, rel=0.01)
    assert found.outcome is Outcome.NO_VERDICT
    assert "one that takes no time at all would gain at most 2.12x." in found.explanation
    on_host = rows("Hopper", LARGE, 7.2, 0.3, 3.5)
    assert finding("PPO-T2-CPU", tmp_path / "host", on_host).outcome is Outcome.NOT_REPRODUCED


def test_a_drift_over_many_iterations_widens_the_interval() -> None:
    drift = np.linspace(1, 2, 40)
    item = MeasuredIteration(SimpleNamespace(Index=1), SimpleNamespace(Index=2))
    found = of_samples("x", drift, "s", item, Provenance.MEASURED)
    assert (found.low, found.high) == statistics.interval(drift, in_order=True)
    assert (found.low, found.high) != statistics.interval(drift)


def timed_less(made: list[list[Row]], count: int) -> list[list[Row]]:
    """The same iterations, each timed only so often."""
    fewer = []
    for timed, counted in made:
        terms_s = {name: samples[:count] for name, samples in details_of(timed)["terms_s"].items()}
        details = {**details_of(timed), "terms_s": terms_s}
        fewer.append([replace(timed, samples=timed.samples[:count], details=details), counted])
    return fewer


@pytest.mark.parametrize(
    ("count", "outcome"), [(1, Outcome.NO_VERDICT), (4, Outcome.NO_VERDICT), (5, Outcome.NOT_REPRODUCED)]
)
@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-F10"])
def test_too_few_iterations_for_an_interval_refute_nothing(
    key: str, count: int, outcome: Outcome, tmp_path: Path
) -> None:
    made = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 0.6), (LARGE, 0.5))]
    assert finding(key, tmp_path, *timed_less(made, count)).outcome is outcome


def test_an_iteration_that_table_2_lacks_is_below_none_of_its_gains(tmp_path: Path) -> None:
    iteration = PpoIteration(3, 100, 50, 2)
    stored = rows("Hopper", iteration, 1.0, 2.0, 2.0)
    assert finding("PPO-T2-CPU", tmp_path, stored).outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("high", "below"),
    [(1.39, False), (1.38, True), (None, False)],  # at the end of its interval, if it has one
)
def test_a_bound_is_below_the_published_gains_of_its_own_iteration_alone(
    high: float | None, below: bool
) -> None:
    gain = Number("gain", 1.0, "ratio", Provenance.SIMULATED, low=0.5, high=high)
    published = [
        (TimedIteration(iteration, library), Number("published", value, "ratio", Provenance.PUBLISHED))
        for iteration, library, value in (
            (SMALL, "Baselines", 1.39),
            (SMALL, "Spinning Up", 26.0),
            (LARGE, "Baselines", 0.5),
        )
    ]
    for library in ("", "Baselines"):
        assert table_2._below(gain, TimedIteration(SMALL, library), published) is below
    assert table_2._below(gain, TimedIteration(SMALL, "Spinning Up"), published) is (high is not None)
    for other in (TimedIteration(PpoIteration(3, 100, 50, 2)), TimedIteration(LARGE, "Spinning Up")):
        assert not table_2._below(gain, other, published)


def test_an_iteration_far_longer_than_its_parts_is_no_baseline(tmp_path: Path) -> None:
    made = [rows("Hopper", item, 0.1, 0.5, s) for item, s in ((SMALL, 3.0), (LARGE, 2.0))]
    key = "PPO-T2-CPU"
    assert finding(key, tmp_path / "parts", *made).outcome is Outcome.NOT_REPRODUCED
    made[1][0] = replace(made[1][0], samples=tuple(1.4 * sample for sample in made[1][0].samples))
    found = finding(key, tmp_path / "far", *made)
    assert found.outcome is Outcome.NO_VERDICT
    assert "Suspect" in found.explanation
    assert finding(key, tmp_path / "none").outcome is Outcome.NOT_RUN


@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-F10"])
def test_bounds_that_only_the_slower_clock_refutes_give_no_verdict(key: str, tmp_path: Path) -> None:
    made = [rows("Hopper", item, 0.1, 4.0, s) for item, s in ((SMALL, 9.0), (LARGE, 5.0))]
    cycles = {part: int(1e7 * CLOCK_MHZ) for part in ("inference", "training")}
    for some in made:
        some[1] = replace(
            some[1], details=details_of(some[1]) | {"clock_mhz": 10 * CLOCK_MHZ, "cycles": cycles}
        )
    found = finding(key, tmp_path, *made)
    assert found.outcome is Outcome.NO_VERDICT
    assert f"at {10 * CLOCK_MHZ:.3g} MHz no verdict, at {CLOCK_MHZ:.3g} MHz, which" in found.explanation
    assert found.explanation.count("A gain is an upper bound") == 1
    assert "reaches on an ECP5, not reproduced." in found.explanation


def test_what_transfers_may_hide_refutes_nothing(tmp_path: Path) -> None:
    """The bound of the small mini-batch's gain is the lower one, but only by products that are a part of all."""
    few, many = rows("Hopper", SMALL, 0.0, 0.5, 6.5), rows("Hopper", LARGE, 0.0, 0.5, 6.4)
    slow = {"inference": int(1e6 * CLOCK_MHZ), "training": int(3e6 * CLOCK_MHZ)}
    few[1] = replace(few[1], details=details_of(few[1]) | {"cycles": slow})
    found = finding("PPO-T2-CPU", tmp_path, few, many)
    assert found.ours[0].value < 0.6 * found.ours[1].value
    assert found.outcome is Outcome.NO_VERDICT


def test_what_of_the_cpu_was_used_is_said(tmp_path: Path) -> None:
    before, now = rows("Hopper", SMALL, 1.0, 2.0, 4.0), rows("Hopper", LARGE, 1.0, 2.0, 2.0)
    now[0] = replace(now[0], details=details_of(now[0]) | {"threads": 8, "processes": 4})
    said = "learner threads + environment processes: 1 + 0, 8 + 4 (of what"
    for key in ("PPO-T2", "PPO-T2-CPU", "PPO-F10"):
        assert said in finding(key, tmp_path / key, before, now).explanation


def test_what_a_gpu_is_for_is_not_run_without_one(tmp_path: Path) -> None:
    here = rows("Hopper", SMALL, 1.0, 2.0, 4.0)
    found = finding("PPO-T2", tmp_path / "a", here)
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, "a CUDA device")
    assert [number.value for number in found.ours] == pytest.approx([8192 / 7, 8192 / 3], rel=0.02)
    on_gpu = rows("Hopper", SMALL, 1.0, 40.0, 40.0, "cuda")[:1]
    assert finding("PPO-T2", tmp_path / "b", here, on_gpu).outcome is Outcome.NO_VERDICT
    on_gpu = rows("Hopper", SMALL, 1.0, 3.0, 3.0, "cuda")[:1]  # 2.3 times, where 3.4 and 26 are published
    assert finding("PPO-T2", tmp_path / "d", here, on_gpu).outcome is Outcome.NOT_REPRODUCED
    on_gpu = rows("Hopper", SMALL, 1.0, 0.9, 0.9, "cuda")[:1]
    assert finding("PPO-T2", tmp_path / "c", here, on_gpu).outcome is Outcome.NOT_REPRODUCED


def test_gains_over_stable_baselines3_are_listed_where_it_was_compared(tmp_path: Path) -> None:
    here = rows("Hopper", SMALL, 1.0, 2.0, 4.0)
    alone = finding("PPO-T2", tmp_path / "alone", here)
    assert "was not run beside it" in alone.explanation
    ours = compared(2.0, "faster", workload="hopper-ppo")
    other = compared(5.0, "faster", workload="pong-ppo")
    found = finding("PPO-T2", tmp_path / "compared", here, [ours, other])
    assert found.explanation.startswith("Gains over Stable-Baselines3's PPO, a library of today")
    assert [number.value for number in found.ours[len(alone.ours) :]] == [2.0]
    without = finding("PPO-T2", tmp_path / "without", [ours])
    assert (without.outcome, [number.value for number in without.ours]) == (Outcome.NOT_RUN, [2.0])


def test_one_bound_that_reaches_a_published_gain_over_the_gpu_leaves_it_open(tmp_path: Path) -> None:
    """2.3 times: less than is published for the small mini-batch (3.4 and 26), not for the large one (1.4)."""
    made = [
        some
        for item in (SMALL, LARGE)
        for some in (rows("Hopper", item, 1.0, 2.0, 4.0), rows("Hopper", item, 1.0, 3.0, 3.0, "cuda")[:1])
    ]
    assert finding("PPO-T2", tmp_path / "both", *made).outcome is Outcome.NO_VERDICT
    assert finding("PPO-T2", tmp_path / "small", *made[:2]).outcome is Outcome.NOT_REPRODUCED
    assert finding("PPO-T2", tmp_path / "large", *made[2:]).outcome is Outcome.NO_VERDICT
