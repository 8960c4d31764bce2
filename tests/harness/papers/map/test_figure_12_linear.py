"""The FPGA's replay with S in proportion to the batch: what is counted, and what its growth says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import figure_12_linear
from placerl.harness.papers.map.figure_12_linear import BATCH_SIZES, CALLS, EXPERIMENT, ScaledReplay, banks_of
from placerl.primitives.sum_tree import fpga_backend
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of, verdict

LIMIT = 1024


def rows(
    cycles: Callable[[int], float], odd: Callable[[int], float] | None = None, fanout: int = 2
) -> Iterator[Row]:
    """Cycles by batch size; those of the update may be others."""
    for call, of_call in zip(CALLS, (cycles, odd or cycles), strict=True):
        for size in BATCH_SIZES:
            yield EXPERIMENT.row(
                ScaledReplay(call, fanout, banks_of(size, LIMIT)),
                primitive="replay manager",
                backend="fpga",
                device="fpga",
                batch_size=size,
                quantity="cycles",
                provenance=Provenance.SIMULATED,
                value=of_call(size),
            )


def flat_then(above: Callable[[int], float]) -> Callable[[int], float]:
    return lambda size: 100.0 if size <= LIMIT else above(size)


STRAIGHT = flat_then(lambda size: 70 + 0.05 * size)


@pytest.mark.parametrize(
    ("cycles", "odd", "outcome"),
    [
        (STRAIGHT, None, Outcome.IN_KIND),
        (flat_then(lambda size: 0.1 * size), None, Outcome.IN_KIND),
        (lambda size: 0.1 * size, None, Outcome.NOT_REPRODUCED),  # in proportion at small batches too
        (STRAIGHT, lambda size: 0.1 * size, Outcome.NOT_REPRODUCED),
        (STRAIGHT, flat_then(lambda size: 1e-4 * size**1.5), Outcome.NOT_REPRODUCED),  # a curve
        (flat_then(lambda size: 100.0), None, Outcome.NOT_REPRODUCED),
    ],
)
def test_growth_below_and_above_the_stated_size_decides(
    cycles: Callable[[int], float], odd: Callable[[int], float] | None, outcome: Outcome, tmp_path: Path
) -> None:
    assert verdict("MAP-F12-linear", tmp_path, *rows(cycles, odd)).finding.outcome is outcome


def test_the_projects_own_fanout_is_listed_and_not_judged(tmp_path: Path) -> None:
    found = verdict("MAP-F12-linear", tmp_path, *rows(STRAIGHT), *rows(lambda size: 0.1 * size, fanout=16))
    assert (found.finding.outcome, len({n.quantity for n in found.finding.ours})) == (Outcome.IN_KIND, 12)
    alone = verdict("MAP-F12-linear", tmp_path / "alone", *rows(STRAIGHT, fanout=16))
    assert alone.finding.outcome is Outcome.NOT_RUN


def test_two_sizes_on_a_side_are_too_few(tmp_path: Path) -> None:
    few = [row for row in rows(STRAIGHT) if row.batch_size not in (4096, 8192)]
    assert verdict("MAP-F12-linear", tmp_path, *few).finding.outcome is Outcome.NOT_RUN


def test_sub_trees_are_in_proportion_to_the_batch() -> None:
    assert [banks_of(size, LIMIT) for size in (1, 32, 64, 1024, 16384)] == [1, 1, 2, 32, 32]


def test_cycles_are_counted_for_both_fanouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_12_linear, "BATCH_SIZES", (32, 64))
    counted = figure_12_linear.simulated(lambda *_: None)
    assert [(row.parameters["fanout"], row.batch_size, row.parameters["banks"]) for row in counted[::2]] == [
        (2, 32, 1),
        (2, 64, 2),
        (16, 32, 1),
        (16, 64, 2),
    ]
    # One lane takes a request a cycle; then the path of the last one, through 20 levels of 4 cycles.
    by_call = {row.parameters["call"]: row.value for row in counted[:2]}
    assert by_call == {"sample": 118, "update": 118}
    shown = points(figure_12_linear.FpgaTimesAreLinear().draw(frame_of(tmp_path, *counted)))
    assert shown == {f"{call}, K = {fanout} (simulated)": 2 for fanout in (2, 16) for call in CALLS.values()}


def test_without_the_hardware_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "the extra fpga")
    (row,) = figure_12_linear.simulated(lambda *_: None)
    assert (row.status, row.reason) == ("not_run", "needs the extra fpga")
