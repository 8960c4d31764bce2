"""MAP's own sum tree answers as cumulative sums do, and the verdict on its threads, also from made-up rows."""

from pathlib import Path

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome, Verdict
from placerl.harness.papers.map import figure_12_threads
from placerl.harness.papers.map.atomic_tree import AtomicSumTree
from placerl.harness.papers.map.figure_12_threads import EXPERIMENT, FIND, UPDATE, sides
from placerl.harness.plan import execution, plan, tiers
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of, replace, row_of
from tests.harness.papers.rows import claim_of, frame_of


@pytest.mark.parametrize("side", [side for side in sides() if not side.null], ids=str)
def test_every_side_answers_right(side: figure_12_threads.ThreadedSide) -> None:
    case = figure_12_threads.case(side, capacity=40_000)
    tree = case.setup()
    case.check(tree)
    case.call(tree, case.inputs(tree, np.random.default_rng(2)))
    case.check(tree)


def test_threads_that_meet_lose_no_difference() -> None:
    tree = AtomicSumTree(100, 4, threads=2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        tree.update(rng.integers(0, 100, 5000), rng.integers(1, 8, 5000))
    assert tree.total == tree.get(np.arange(100)).sum()


def test_no_leaf_of_priority_zero_is_found() -> None:
    tree = AtomicSumTree(37, 4, threads=1)
    tree.update(np.array([5]), np.array([1.0]))
    assert set(tree.find(np.linspace(0, np.nextafter(1, 0), 50))) == {5}


def test_a_core_for_two_threads_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    (row,) = figure_12_threads.measured(1.0, silent)
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason == "2 threads need as many cores, found 1"


def test_what_is_measured_leads_to_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through the store, as a tier's cell: which verdict is the machine's to say."""
    monkeypatch.setattr(figure_12_threads, "CAPACITY", 5000)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    no_time = replace(tiers.tier("quick"), experiment_s=0.0)
    (cell,) = (c for c in plan.plan(no_time) if c.key == "claim/MAP-F12-threads")
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "test-machine"})
        execution.execute(run, [cell], silent)
        frame = store.frame()
    claim = claim_of("MAP-F12-threads")
    assert claim.needs_cells([cell.key], no_time) == {cell.key}
    finding = claim.evaluate(frame).finding
    assert finding.outcome is Outcome.NO_VERDICT, "one round is too few"
    assert len(finding.ours) == 4
    assert {given["threads"] for given in frame["parameters"]} == {1, 2}
    blocks = {(timed.calls_per_block, timed.protocol["lead_in_calls"]) for timed in frame["timed"]}
    assert blocks == {(figure_12_threads.BLOCK_CALLS, figure_12_threads.LEAD_IN_CALLS)}, (
        "as many cold calls on either side"
    )


NULL = 1.004
"""The second measurement of each side is slower by this factor: to take it for the first one changes the gain."""


def rows(times_us: dict[tuple[str, int], float], spread: float = 0.01) -> list[Row]:
    """Rows of every side from the microseconds of each call with so many threads, whose samples differ by `spread`."""
    made = []
    for side in sides():
        time_s = times_us[side.call, side.threads] * 1e-6 * (NULL if side.null else 1)
        samples = tuple(time_s * (1 + spread * (7 * i % 30) / 30) for i in range(30))
        made.append(
            row_of(
                suite="claim",
                primitive=side.call,
                backend="atomic",
                device="cpu",
                batch_size=side.batch_size,
                quantity="time_per_call",
                unit="s",
                provenance=Provenance.MEASURED,
                value=time_s,
                low=time_s,
                high=(1 + spread) * time_s,
                samples=samples,
                details={
                    "experiment": EXPERIMENT,
                    "threads": side.threads,
                    "null": side.null,
                    "fanout": side.fanout,
                },
            )
        )
    return made


def times(find: float, update: float) -> dict[tuple[str, int], float]:
    """Microseconds with two threads; with one, 10."""
    return {(FIND, 1): 10.0, (FIND, 2): find, (UPDATE, 1): 10.0, (UPDATE, 2): update}


def verdict(folder: Path, made: list[Row]) -> Verdict:
    return claim_of("MAP-F12-threads").evaluate(frame_of(folder, *made))


@pytest.mark.parametrize(
    ("find", "update", "outcome"),
    [
        (5, 10, Outcome.IN_KIND),
        (5, 15, Outcome.IN_KIND),
        (5, 9.3, Outcome.IN_KIND),  # "almost negligible"
        (5, 6, Outcome.NOT_REPRODUCED),  # updates gain too
        (5, 8.8, Outcome.NOT_REPRODUCED),
        (12, 10, Outcome.NOT_REPRODUCED),
        (11.3, 10, Outcome.NOT_REPRODUCED),
        (10.7, 10, Outcome.NO_VERDICT),  # finds lose, but next to nothing
        (9.3, 10, Outcome.NO_VERDICT),  # or gain next to nothing
        (10, 10, Outcome.NO_VERDICT),
        (4, 10, Outcome.NO_VERDICT),  # 2 threads 2.5 times as fast: suspect
    ],
)
def test_the_verdict(find: float, update: float, outcome: Outcome, tmp_path: Path) -> None:
    finding = verdict(tmp_path, rows(times(find, update))).finding
    assert finding.outcome is outcome
    sizes = len(finding.ours) // 2
    assert sizes > 0
    expected = [10 / find] * sizes + [10 / update] * sizes
    assert [number.value for number in finding.ours] == pytest.approx(expected, rel=1e-6)
    assert bool(finding.ours[0].suspect) == (find < 5)
    # Two timings of one side differ by the factor NULL, which the shown intervals include.
    assert all(number.high / number.low > 2 * NULL - 1 for number in finding.ours)


@pytest.mark.parametrize(("spread", "outcome"), [(0.01, Outcome.IN_KIND), (1.0, Outcome.NO_VERDICT)])
def test_updates_that_may_gain_show_nothing(spread: float, outcome: Outcome, tmp_path: Path) -> None:
    """Finds are twice as fast; updates as fast as with one thread, with samples that differ by up to `spread`."""
    finds = [row for row in rows(times(5, 10)) if row.primitive == FIND]
    shift = {1: 0, 2: 11}  # so that pairs differ from one another
    updates = [
        replace(row, samples=row.samples[n:] + row.samples[:n])
        for row in rows(times(5, 10), spread=spread)
        if row.primitive == UPDATE
        for n in [shift[details_of(row)["threads"]]]
    ]
    finding = verdict(tmp_path, [*finds, *updates]).finding
    highest = max(n.high or 0 for n in finding.ours if n.quantity.startswith("priority update"))
    assert (highest > figure_12_threads.NEGLIGIBLE) == (spread > 0.1)
    assert "updates at 0 of 2" in finding.explanation
    assert finding.outcome is outcome


@pytest.mark.parametrize("size", figure_12_threads.BATCH_SIZES)
@pytest.mark.parametrize(
    ("find", "update", "outcome"),
    [
        (9.5, 10, Outcome.NO_VERDICT),
        (12, 10, Outcome.NOT_REPRODUCED),
        (5, 8, Outcome.NOT_REPRODUCED),
    ],
)
def test_one_batch_size_decides_against_the_statement(
    size: int, find: float, update: float, outcome: Outcome, tmp_path: Path
) -> None:
    """At the other size finds are twice as fast and updates as fast."""
    odd = [row for row in rows(times(find, update)) if row.batch_size == size]
    made = odd + [row for row in rows(times(5, 10)) if row.batch_size != size]
    assert verdict(tmp_path, made).finding.outcome is outcome


@pytest.mark.parametrize("call", [FIND, UPDATE])
def test_too_few_rounds_show_nothing(call: str, tmp_path: Path) -> None:
    made = [
        replace(row, samples=row.samples[:2]) if row.primitive == call else row for row in rows(times(5, 10))
    ]
    assert verdict(tmp_path, made).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(("null", "outcome"), [(1.01, Outcome.IN_KIND), (1.3, Outcome.NO_VERDICT)])
@pytest.mark.parametrize(("call", "find", "update"), [(FIND, 8.0, 10.0), (UPDATE, 5.0, 10.0)])
def test_a_difference_within_what_a_side_differs_from_itself_shows_nothing(
    call: str, find: float, update: float, null: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Two threads find 1.25 times as fast, or update as fast, and differ from themselves by a factor `null`."""
    made = [
        replace(row, samples=tuple(null / NULL * each for each in row.samples))
        if row.primitive == call and details_of(row)["null"]
        else row
        for row in rows(times(find, update))
    ]
    assert verdict(tmp_path, made).finding.outcome is outcome


@pytest.mark.parametrize("call", [FIND, UPDATE])
@pytest.mark.parametrize("lacking", [(1, False), (2, False), (2, True)])
def test_without_one_of_its_sides_a_call_is_not_judged(
    call: str, lacking: tuple[int, bool], tmp_path: Path
) -> None:
    def is_lacking(row: Row) -> bool:
        return row.primitive == call and (details_of(row)["threads"], details_of(row)["null"]) == lacking

    made = [row for row in rows(times(5, 10)) if not is_lacking(row)]
    assert verdict(tmp_path, made).needs == figure_12_threads.NEEDS


@pytest.mark.parametrize("name", ["another", "z"], ids=["before", "after"])
def test_rows_of_another_experiment_are_left_out(name: str, tmp_path: Path) -> None:
    others = [
        replace(row, details=dict(details_of(row)) | {"experiment": name}) for row in rows(times(12, 5))
    ]
    made = [*rows(times(5, 10)), *others]
    assert verdict(tmp_path, made).finding.outcome is Outcome.IN_KIND


@pytest.mark.parametrize("fanout", [16, None])
@pytest.mark.parametrize("update", [10.0, 6.0])
def test_trees_of_another_fanout_decide_nothing(update: float, fanout: int | None, tmp_path: Path) -> None:
    """MAP's have K = 2: updates of a wider tree add to fewer levels."""
    made = [
        replace(row, details=dict(details_of(row)) | {"fanout": fanout}) for row in rows(times(5, update))
    ]
    found = verdict(tmp_path / "alone", made).finding
    assert (found.outcome, len(found.ours)) == (Outcome.NO_VERDICT, 4)
    assert "MAP's K = 2" in found.explanation
    assert "MAP's K = 2" in found.decides
    found = verdict(tmp_path / "both", [*made, *rows(times(5, 10))]).finding
    assert found.outcome is Outcome.IN_KIND
