"""Threads on one replay: every side is checked, then measured, and the table and the claim read what was stored."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.measure import statistics
from placerl.harness.papers import Outcome, claims
from placerl.harness.papers.pal import figure_9_locks
from placerl.harness.papers.pal.figure_9_locks import (
    BINARY,
    EXPERIMENT,
    ONE_LOCK,
    OWNER,
    SHARINGS,
    TWO_LOCKS,
    LockedSide,
)
from placerl.harness.platforms import available_memory
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of, replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of


@pytest.mark.parametrize("sharing", SHARINGS)
def test_items_stay_whole_however_threads_share_them(sharing: str) -> None:
    figure_9_locks.check(sharing)


class _Torn:
    size = figure_9_locks.CHECK_CAPACITY

    def run(self, *_: object) -> tuple[float, int, int]:
        return 0.1, 10, 1


def test_one_torn_item_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_9_locks, "make", lambda *_: _Torn())
    with pytest.raises(ValueError, match="two locks: of 320 sampled items 1 were not whole"):
        figure_9_locks.measure((32,), 5, 1.0, lambda *_: None)


def test_where_the_replays_do_not_fit_the_memory_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_9_locks, "check", lambda _: None)
    needed = (len(SHARINGS) + 1) * 1000 * (105 + figure_9_locks.TREE_BYTES)
    monkeypatch.setattr(available_memory, "measurement_bytes", lambda: needed)
    assert figure_9_locks.measure((8,), 5, 0.0, lambda *_: None, capacity=1000, threads=(1,))
    monkeypatch.setattr(available_memory, "measurement_bytes", lambda: needed - 1)
    with pytest.raises(NotEnoughMemory, match=r"needs 0\.00 GB of memory"):
        figure_9_locks.measure((8,), 5, 0.0, lambda *_: None, capacity=1000, threads=(1,))


def test_unknown_sharing() -> None:
    with pytest.raises(ValueError, match="sharing: found 'no locks'"):
        figure_9_locks.make("no locks", 8)


def turns(times_us: dict[tuple[str, int], float]) -> list[Row]:
    """Rows of one batch size, seconds a round, with samples that vary by 1%."""
    rows: list[Row] = []
    for (sharing, threads), time_us in times_us.items():
        samples = [time_us * 1e-6 * (1 + 0.01 * (7 * i % 30) / 30) for i in range(30)]
        of: dict[str, Any] = {
            "primitive": figure_9_locks.PRIMITIVE,
            "batch_size": 64,
            "quantity": "time_per_call",
        }
        of |= {"backend": "binary" if sharing == BINARY else "native", "device": "cpu"}
        nulls = (False, True) if sharing == TWO_LOCKS else (False,)
        rows += [EXPERIMENT.summary(samples, LockedSide(sharing, threads, null), **of) for null in nulls]
    return rows


ONE_THREAD = {(TWO_LOCKS, 1): 10, (ONE_LOCK, 1): 10, (BINARY, 1): 30, (OWNER, 1): 20}


@pytest.mark.parametrize(
    ("threads", "two", "one", "binary", "outcome"),
    [
        (4, 5, 11, 30, Outcome.REPRODUCED),
        (4, 5, 11, 15, Outcome.IN_KIND),  # not as much faster as the paper says
        (2, 5, 11, 30, Outcome.IN_KIND),  # PAL's is of 4 threads
        (4, 8, 9, 40, Outcome.NOT_REPRODUCED),  # one lock lets threads go on at once, too
        (4, 10, 11, 40, Outcome.NO_VERDICT),  # two locks do not let them
        (2, 12, 13, 40, Outcome.NOT_REPRODUCED),  # nor here, and they even slow them down
        (4, 2, 11, 30, Outcome.NO_VERDICT),  # 5 times as fast on 4 cores
        (2, 4, 11, 30, Outcome.NO_VERDICT),  # 2.5 times as fast on 2 cores
        (4, 11, 9, 30, Outcome.NOT_REPRODUCED),
        (4, 10, 10, 30, Outcome.NO_VERDICT),
    ],
)
def test_the_verdict_on_two_locks(
    threads: int, two: float, one: float, binary: float, outcome: Outcome, tmp_path: Path
) -> None:
    several = {
        (TWO_LOCKS, threads): two,
        (ONE_LOCK, threads): one,
        (BINARY, threads): binary,
        (OWNER, threads): 20,
    }
    if threads < 4:  # threads without cores of their own refute nothing
        several |= {(TWO_LOCKS, 4): 99, (ONE_LOCK, 4): 9, (BINARY, 4): 9, (OWNER, 4): 9}
    rows = turns(ONE_THREAD | several)
    rows = [replace(row, details={**details_of(row), "cores": threads}) for row in rows]
    (claim,) = (claim for claim in claims() if claim.key == "PAL-F9-locks")
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "test-machine"})
        run.finish("locks", rows)
        frame = store.frame()
    found = claim.evaluate(frame)
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(one / two, rel=0.01)
    assert f"same locks), at {threads} threads two locks are" in found.finding.explanation
    assert "Every thread has a core of its own; PAL has 4 threads." in found.finding.explanation
    assert ("Suspect: " in found.finding.explanation) == (10 / two > threads)
    assert claim.evaluate(frame[frame["backend"] != "binary"]).finding.outcome is Outcome.NOT_RUN


def frame_at(folder: Path, times_us: dict[int, dict[tuple[str, int], float]]) -> pd.DataFrame:
    """Turns on 4 cores at several batch sizes."""
    return frame_of(
        folder,
        *(
            replace(row, batch_size=size, details={**details_of(row), "cores": 4})
            for size, some in times_us.items()
            for row in turns(ONE_THREAD | some)
        ),
    )


def test_what_one_of_two_batch_sizes_contradicts_is_no_verdict(tmp_path: Path) -> None:
    """PAL states no batch size."""
    good = {(TWO_LOCKS, 4): 5, (ONE_LOCK, 4): 11, (BINARY, 4): 30, (OWNER, 4): 20}
    bad = good | {(TWO_LOCKS, 4): 14}
    found = figure_9_locks.TwoLocksRunInParallel().judge(frame_at(tmp_path / "one", {64: bad, 1024: good}))
    assert found.outcome is Outcome.NO_VERDICT
    assert "more than one at 1 and less at 1, with one lock more at 0." in found.explanation
    assert "Only some batch sizes contradict the paper, which does not state its own." in found.explanation
    both = figure_9_locks.TwoLocksRunInParallel().judge(frame_at(tmp_path / "both", {64: bad, 1024: bad}))
    assert both.outcome is Outcome.NOT_REPRODUCED


def test_threads_that_differ_from_their_copy_by_as_much_do_not_scale(tmp_path: Path) -> None:
    four = {(TWO_LOCKS, 4): 8, (ONE_LOCK, 4): 11, (BINARY, 4): 30, (OWNER, 4): 20}
    rows = frame_at(tmp_path / "alike", {64: four})
    assert figure_9_locks.TwoLocksRunInParallel().judge(rows).outcome is Outcome.IN_KIND
    copies = [
        replace(row, samples=tuple(1.28 * sample for sample in row.samples))
        if details_of(row)["null"] and details_of(row)["threads"] == 4
        else row
        for row in turns(ONE_THREAD | four)
    ]
    copies = [replace(row, details={**details_of(row), "cores": 4}) for row in copies]
    found = figure_9_locks.TwoLocksRunInParallel().judge(frame_of(tmp_path / "apart", *copies))
    assert found.outcome is Outcome.NO_VERDICT
    assert "with two locks 4 threads do more than one at 0" in found.explanation


def test_on_one_core_it_is_not_run(tmp_path: Path) -> None:
    four_threads = {(TWO_LOCKS, 4): 12, (ONE_LOCK, 4): 13, (BINARY, 4): 40, (OWNER, 4): 20}
    rows = [replace(row, details={**details_of(row), "cores": 1}) for row in turns(ONE_THREAD | four_threads)]
    found = figure_9_locks.TwoLocksRunInParallel().judge(frame_of(tmp_path, *rows))
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_9_locks.NEEDS_CORES)


@pytest.mark.parametrize(
    ("budget_s", "rounds"),
    [(59.9, statistics.FEWEST_PAIRS), (60.0, statistics.PAIRS), (600.0, statistics.PAIRS)],
)
def test_threads_take_whole_rounds_and_more_of_them_in_a_minute(
    budget_s: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(figure_9_locks, "measure", lambda *arguments: asked.append(arguments) or [])
    assert figure_9_locks.experiment(budget_s, silent) == []
    assert asked == [((64, 1024), rounds, budget_s, silent)]


def test_a_point_is_a_number_of_threads_of_a_way_to_share(tmp_path: Path) -> None:
    rows = turns({**ONE_THREAD, (TWO_LOCKS, 4): 5, (OWNER, 4): 40})
    figure = figure_9_locks.TwoLocksRunInParallel().draw(frame_of(tmp_path, *rows))
    assert points(figure) == {TWO_LOCKS: 2, ONE_LOCK: 1, BINARY: 1, OWNER: 2}
    assert figure is not None
    assert figure.axes[0].containers[0][0].get_ydata()[0] == pytest.approx(1e5, rel=0.01)
