"""The order of PAL's Algorithm 3: both orders are measured, and the verdict follows from how threads scale."""

from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import algorithm_3
from placerl.harness.papers.pal.algorithm_3 import PRINTED, UNLOCKED
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import verdict


def test_every_order_is_measured_with_every_number_of_threads() -> None:
    rows = algorithm_3.measure(silent, rounds=1, calls=2)
    found = [(details_of(row)["order"], details_of(row)["threads"], details_of(row)["null"]) for row in rows]
    assert found == [
        (order, threads, null)
        for order in ("printed", "unlocked sampling")
        for threads in (1, 2, 4)
        for null in (False, True)
    ]
    assert all(row.value and row.value > 0 for row in rows)


@pytest.mark.parametrize("order", [PRINTED, UNLOCKED])
def test_no_update_is_lost_between_threads(order: str) -> None:
    """Leaves are small whole numbers, so that sums are exact in whatever order they are made."""
    from placerl.harness._experiments import LockOrders

    tree = LockOrders(order, 64, 4)
    assert tree.total == tree.leaves_total == 64
    tree.run(4, 16, 500, 1)
    assert 64 < tree.total <= 64 * 7
    assert tree.total == tree.leaves_total


def test_an_unknown_order_is_refused() -> None:
    from placerl.harness._experiments import LockOrders

    with pytest.raises(ValueError, match="order: found 'none'; allowed: printed, unlocked sampling"):
        LockOrders("none", 8, 2)


def turns(printed: float, unlocked: float, cores: int, itself: float = 1.0, threads: int = 4) -> list[Row]:
    """Rows whose threads are so many times as fast as one."""
    made = algorithm_3.measure(silent, rounds=5, calls=1)
    gains = {(PRINTED, threads): printed, (UNLOCKED, threads): unlocked}
    rows = []
    for row in made:
        time_s = 1e-6 / gains.get((details_of(row)["order"], details_of(row)["threads"]), 1.0)
        time_s *= itself if details_of(row)["null"] else 1.0
        samples = tuple(time_s * (1 + 1e-3 * (7 * i % 30) / 30) for i in range(45))
        rows.append(
            replace(
                row,
                value=time_s,
                low=None,
                high=None,
                status="ok",
                reason="",
                samples=samples,
                details={**details_of(row), "cores": cores},
            )
        )
    return rows


@pytest.mark.parametrize(
    ("printed", "cores", "threads", "itself", "outcome"),
    [
        (0.5, 2, 2, 1.0, Outcome.NOT_REPRODUCED),
        (1.0, 2, 2, 1.0, Outcome.NOT_REPRODUCED),
        (1.9, 2, 2, 1.0, Outcome.IN_KIND),
        (1.4, 2, 2, 1.0, Outcome.NOT_REPRODUCED),  # a gain, but no linear one
        (1.9, 2, 2, 3.0, Outcome.NO_VERDICT),  # the side differs from itself by more
        (1.9, 4, 4, 1.0, Outcome.NOT_REPRODUCED),  # linear were 3.2
        (3.6, 4, 4, 1.0, Outcome.IN_KIND),
        (3.6, 8, 4, 1.0, Outcome.IN_KIND),  # PAL has 4
    ],
)
def test_the_verdict_on_the_order(
    printed: float, cores: int, threads: int, itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PAL-A3", tmp_path, *turns(printed, 1.5, cores, itself, threads)).finding
    assert found.outcome is outcome
    assert found.ours[0].value == pytest.approx(printed, rel=0.01)
    assert found.ours[1].value == pytest.approx(1.5, rel=0.01)


def test_threads_that_share_a_core_do_not_count(tmp_path: Path) -> None:
    """On 2 cores 4 threads are a tenth as fast as one, and 2 threads almost twice."""
    rows = turns(1.9, 1.9, 2, threads=2)
    for i, row in enumerate(rows):
        if details_of(row)["threads"] == 4:
            rows[i] = replace(row, value=1e-5, samples=tuple(10 * s for s in row.samples))
    found = verdict("PAL-A3", tmp_path / "two", *rows).finding
    assert found.outcome is Outcome.IN_KIND
    assert "2 threads, each on a core of its own (PAL has 4)" in found.explanation
    alone = verdict("PAL-A3", tmp_path / "one", *turns(0.5, 0.5, 1)).finding
    assert (alone.outcome, alone.needs) == (Outcome.NOT_RUN, algorithm_3.NEEDS_CORES)


def test_without_its_rows_it_is_not_run(tmp_path: Path) -> None:
    assert verdict("PAL-A3", tmp_path, *turns(1.0, 1.0, 4)[:-2]).finding.outcome is Outcome.NOT_RUN
