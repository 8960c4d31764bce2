"""Compares the native sum tree's times with its targets, and formats the table of the replay benchmark."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from placerl.harness.cli.bench.command import section, shown
from placerl.harness.cli.bench.tree_rows import FLOORS, OURS, PAL
from placerl.harness.measure import rows as summary_rows
from placerl.harness.measure import statistics
from placerl.harness.measure.statistics import lower_quartile
from placerl.harness.store.rows import BenchResult

PEER_GAIN, FLOOR_RATIO, NULL_RATIO = "speedup_over_fastest_peer", "time_over_memory_floor", "null_ratio"
PAL_RATIO = "time_over_pal_tree"
LABELS = {
    PEER_GAIN: "native over the fastest peer",
    PAL_RATIO: "native's time over PAL's own tree",
    FLOOR_RATIO: "native's time over the memory floor",
    NULL_RATIO: "native's time over its own",
}
FLOOR_RATIO_TARGET = 2.0
PAL_RATIO_TARGET = 1.2
TARGETS_FROM = 256
"""The smallest batch for which targets over PAL's tree and the memory floor are set."""
SMALL_BATCH = 32

# Measured with `perf` on the kernels alone, at 2^20 leaves on one AVX-512 core, K=16, float32.
BOUNDS = {
    ("sample", True): "the call itself: one item takes 0.3 us to sample, a third of it the Generator's lock",
    ("sample", False): (
        "instructions within nodes: about 0.7 ns a level where running sums are kept (load, compare, mask to index, "
        "load), 1.4 ns for the scan of a leaf's node, and the draw itself"
    ),
    ("update", True): "the call itself: one item takes 0.1 us to update",
    ("update", False): (
        "writing the leaves and listing their nodes 55% (cache misses on the leaves' lines), sums 45%; running sums "
        "are left to the next sample, which takes about 2.5 ns for each node whose values have changed"
    ),
    ("update_and_sample", True): "the two calls themselves",
    (
        "update_and_sample",
        False,
    ): "what bounds the update and the sample, and the running sums that one leaves to the other",
}


def speedup_target(operation: str, batch_size: int) -> float:
    """Return the required speedup of the native tree over the fastest tree of another library."""
    if operation == "sample":
        return 4.0
    if batch_size <= SMALL_BATCH:
        return 3.0
    return 5.0 if operation == "update" else 4.0


@dataclass(frozen=True, kw_only=True)
class TreeResult(BenchResult, table="tree_result"):
    """The time of a call of a sum tree, or how the native tree's compares with another.

    Attributes:
        note: remarks that its worker reports.
    """

    peer: bool | None = None
    note: str | None = None


def judged(cell: Sequence[TreeResult]) -> Iterator[TreeResult]:
    """Yield rows that compare the native tree with itself, with others', and with the memory floor.

    The others are the fastest tree of another library, and PAL's own tree with the faster of its fanouts. The memory
    floor is the time that the memory accesses of a descent take alone. Each row is a ratio of times, of the
    means of the faster halves of the samples, with its 95% interval, from pairs of the same rounds. Its verdict is
    "met" if the whole interval reaches the goal, "missed" if the whole interval misses it, otherwise "no verdict"; or
    "no target". The interval is first widened by the difference between the two timings of the native tree (`reach`).

    Args:
        cell: the trees' rows for one operation, capacity and batch size.
    """
    timed = [row for row in cell if row.samples]
    ours = sorted((row for row in timed if row.backend == OURS), key=lambda row: bool(row.null))
    if len(ours) < 2:
        return
    native, null = ours
    operation, size = native.primitive.removeprefix("sum_tree."), native.batch_size or 0
    names = ("suite", "primitive", "backend", "device", "batch_size", "capacity")
    shared = {name: getattr(native, name) for name in names}

    def compared(other: TreeResult) -> statistics.Comparison:
        return statistics.compare(*summary_rows.paired(native, other, null))

    itself = compared(null)
    if itself.ratio:
        yield summary_rows.ratio(
            TreeResult, itself.ratio, **shared, quantity=NULL_RATIO, against=null.backend
        )
    if peers := [row for row in timed if row.peer]:
        peer = min(peers, key=_quick)
        outcome, goal = compared(peer), speedup_target(operation, size)
        if outcome.ratio:
            row = summary_rows.gain(
                TreeResult, outcome.ratio, **shared, quantity=PEER_GAIN, against=peer.backend, goal=goal
            )
            yield _with_verdict(row, outcome.reach, lambda gain: gain >= goal)
    for quantity, among, target in (
        (PAL_RATIO, PAL, PAL_RATIO_TARGET),
        (FLOOR_RATIO, FLOORS, FLOOR_RATIO_TARGET if operation != "update_and_sample" else None),
    ):
        if not (others := [row for row in timed if row.backend in among]):
            continue
        other = min(others, key=_quick)
        outcome = compared(other)
        if outcome.ratio:
            aim = target if size >= TARGETS_FROM else None
            row = summary_rows.ratio(
                TreeResult, outcome.ratio, **shared, quantity=quantity, against=other.backend, goal=aim
            )
            yield _with_verdict(row, outcome.reach, partial(operator.ge, aim or 0.0))


def _quick(row: TreeResult) -> float:
    return float(lower_quartile(row.samples))


def _with_verdict(row: TreeResult, reach: float, meets: Callable[[float], bool]) -> TreeResult:
    assert row.low is not None
    assert row.high is not None
    ends = {meets(row.low / reach), meets(row.high * reach)}
    verdict = "no verdict" if len(ends) == 2 else "met" if ends == {True} else "missed"
    return replace(row, verdict="no target" if row.goal is None else verdict, reach=reach)


def table(measured: Sequence[TreeResult]) -> str:
    """Return the results as Markdown: a table for each capacity and operation, then missed targets, then notes.

    For each missed target the text says what limits the time of the call.
    """
    lines = [
        "# Sum trees: time per call from Python",
        "",
        "Microseconds a call, median over the rounds [95% interval]; ~: too noisy. Ratios are of the faster halves' "
        "means, from pairs of the same interleaved rounds. A target is met or missed where the whole interval is, "
        "widened by what the native tree differs from itself by. Provenance: measured.",
        "",
    ]
    missed = []
    for capacity, primitive in dict.fromkeys((m.capacity or 0, m.primitive) for m in measured):
        chosen = [m for m in measured if (m.capacity, m.primitive) == (capacity, primitive)]
        sizes = list(dict.fromkeys(m.batch_size or 0 for m in chosen))
        operation = primitive.removeprefix("sum_tree.")
        cells: dict[str, dict[int, str]] = {}
        for m in chosen:
            label = (
                LABELS.get(m.quantity) or f"{m.backend.replace('_', ' ')}{' (A/A null)' if m.null else ''}"
            )
            text = _reached(m) if m.quantity in LABELS else shown(m, 1e6)
            cells.setdefault(label, {})[m.batch_size or 0] = text
        ordered = [label for label in cells if label not in LABELS.values()] + [*LABELS.values()]
        lines += section(
            f"{operation}, capacity {capacity:,}",
            ("tree", *(f"B={size}" for size in sizes)),
            [[label, *(cells.get(label, {}).get(size, "no pairs") for size in sizes)] for label in ordered],
        )
        missed += [_missed(m, operation, capacity) for m in chosen if m.verdict in ("missed", "no verdict")]
    lines += [
        "## Targets missed or without a verdict, and what bounds the cell",
        "",
        *(missed or ["None."]),
        "",
    ]
    trees = {(m.backend, m.null): m for m in measured if m.quantity not in LABELS}
    notes = [
        f"- {name}{' (null)' if null else ''}: {m.version or 'no version'}. {m.reason if m.value is None else m.note}"
        for (name, null), m in trees.items()
    ]
    return "\n".join([*lines, "## Trees", "", *notes, ""])


def _reached(row: TreeResult) -> str:
    text = f"{row.value:.2f}x [{row.low:.2f}, {row.high:.2f}]"
    if row.quantity == NULL_RATIO:
        return text
    aim = (
        "no target"
        if row.goal is None
        else f"target {row.goal:g}x: {row.verdict}".replace("missed", "MISSED")
    )
    return f"{text} {(row.against or '').replace('_', ' ')}; {aim}"


def _missed(row: TreeResult, operation: str, capacity: int) -> str:
    bound = BOUNDS[operation, (row.batch_size or 0) <= SMALL_BATCH]
    return f"- {operation}, B={row.batch_size}, capacity {capacity:,}: {_reached(row)}. Bound by {bound}."
