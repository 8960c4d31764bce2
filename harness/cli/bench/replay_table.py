"""Compares the native sum tree's times with its targets, and formats the table of the replay benchmark."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from placerl.harness.cli.bench.command import section
from placerl.harness.cli.bench.tree_rows import FLOORS, OURS
from placerl.harness.core.row import Measurement, Row
from placerl.harness.measure import rows as summary_rows
from placerl.harness.measure import statistics
from placerl.harness.measure.statistics import lower_quartile

PEER_GAIN, FLOOR_RATIO, NULL_RATIO = "speedup_over_fastest_peer", "time_over_memory_floor", "null_ratio"
FLOOR_RATIO_TARGET = 2.0
FLOOR_TARGET_FROM = 256
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
        "writing the leaves and noting their nodes 46% (cache misses on the leaves' lines), noting parents 28%, sums "
        "of leaves' nodes 22%, running sums 4%; the upper levels are summed once a call, so that small batches pay "
        "more an item"
    ),
}


def speedup_target(operation: str, batch_size: int) -> float:
    """Return the required speedup of the native tree over the fastest tree of another library.

    Args:
        operation: "sample" or "update".
    """
    if operation == "sample":
        return 4.0
    return 3.0 if batch_size <= SMALL_BATCH else 5.0


def judged(cell: Sequence[Row]) -> Iterator[Row]:
    """Yield rows that compare the native tree with itself, the fastest tree of another library, and the memory floor.

    The memory floor is the time that the memory accesses of a descent take alone. Each row is a ratio of times, of the
    means of the faster halves of the samples, with its 95% interval, from pairs of the same rounds.
    `details["verdict"]` is "met" if the whole interval reaches the target, "missed" if the whole interval misses it,
    otherwise "no verdict"; or "no target". The interval is first widened by the difference between the two timings
    of the native tree.

    Args:
        cell: the trees' rows for one operation, capacity and batch size.
    """
    timed = [row for row in cell if row.samples]
    ours = [row for row in timed if row.backend == OURS]
    if len(ours) < 2:
        return
    native, null = ours
    if null.details["null"] is False:
        native, null = null, native
    operation, size = native.primitive.removeprefix("sum_tree."), native.batch_size or 0
    shared: dict[str, Any] = {
        name: getattr(native, name) for name in ("suite", "primitive", "backend", "device", "batch_size")
    }

    def compared(other: Row) -> statistics.Comparison:
        pairs = min(len(native.samples), len(null.samples), len(other.samples))
        return statistics.compare(native.samples[:pairs], other.samples[:pairs], null.samples[:pairs])

    def details(other: Row, **more: Any) -> dict[str, Any]:
        return {"capacity": native.details["capacity"], "against": other.backend} | more

    itself = compared(null)
    if itself.ratio:
        yield summary_rows.ratio(
            Measurement, itself.ratio, **shared, quantity=NULL_RATIO, details=details(null)
        )
    if peers := [row for row in timed if row.details["peer"]]:
        peer = min(peers, key=_quick)
        outcome, target = compared(peer), speedup_target(operation, size)
        if outcome.ratio:
            row = summary_rows.gain(
                Measurement, outcome.ratio, **shared, quantity=PEER_GAIN, details=details(peer, target=target)
            )
            yield _with_verdict(row, outcome.reach, lambda gain: gain >= target)
    if floors := [row for row in timed if row.backend in FLOORS]:
        floor = min(floors, key=_quick)
        outcome = compared(floor)
        if outcome.ratio:
            aim = FLOOR_RATIO_TARGET if size >= FLOOR_TARGET_FROM else None
            row = summary_rows.ratio(
                Measurement, outcome.ratio, **shared, quantity=FLOOR_RATIO, details=details(floor, target=aim)
            )
            yield _with_verdict(row, outcome.reach, lambda times: times <= FLOOR_RATIO_TARGET)


def _quick(row: Row) -> float:
    return float(lower_quartile(row.samples))


def _with_verdict(row: Measurement, reach: float, meets: Callable[[float], bool]) -> Row:
    assert row.low is not None
    assert row.high is not None
    ends = {meets(row.low / reach), meets(row.high * reach)}
    verdict = "no verdict" if len(ends) == 2 else "met" if ends == {True} else "missed"
    if row.details["target"] is None:
        verdict = "no target"
    return replace(row, details={**row.details, "verdict": verdict, "reach": reach})


def table(measured: Sequence[Row]) -> str:
    """Return the results as Markdown: a table for each capacity and operation, then missed targets, then notes.

    For each missed target the text says what limits the time of the call.

    Args:
        measured: rows of the store with times and comparisons, from `replay_bench.measure`.
    """
    lines = [
        "# Sum trees: time per call from Python",
        "",
        "Microseconds a call, median over the rounds [95% interval]; ~: too noisy. Ratios are of the faster halves' "
        "means, from pairs of the same interleaved rounds. A target is met or missed where the whole interval is, "
        "widened by what the native tree differs from itself by. Provenance: measured.",
        "",
    ]
    capacities = dict.fromkeys(m.details["capacity"] for m in measured)
    missed: list[str] = []
    for capacity in capacities:
        for primitive in dict.fromkeys(m.primitive for m in measured):
            chosen = [m for m in measured if m.details["capacity"] == capacity and m.primitive == primitive]
            sizes = list(dict.fromkeys(m.batch_size or 0 for m in chosen))
            operation = primitive.removeprefix("sum_tree.")
            cells = []
            times = [m for m in chosen if m.quantity == "time_per_call"]
            for name, null in dict.fromkeys((m.backend, m.details["null"]) for m in times):
                found = {m.batch_size: m for m in times if (m.backend, m.details["null"]) == (name, null)}
                label = f"{name.replace('_', ' ')}{' (A/A null)' if null else ''}"
                cells.append([label, *(_time(found[size]) for size in sizes)])
            for quantity, label in (
                (PEER_GAIN, "native over the fastest peer"),
                (FLOOR_RATIO, "native's time over the memory floor"),
                (NULL_RATIO, "native's time over its own"),
            ):
                reached = {m.batch_size: m for m in chosen if m.quantity == quantity}
                texts = [_reached(reached[size]) if size in reached else "no pairs" for size in sizes]
                cells.append([label, *texts])
                missed += [_missed(m, operation, capacity) for m in reached.values() if _misses(m)]
            columns = ("tree", *(f"B={size}" for size in sizes))
            lines += section(f"{operation}, capacity {capacity:,}", columns, cells)
    lines += [
        "## Targets missed or without a verdict, and what bounds the cell",
        "",
        *(missed or ["None."]),
        "",
    ]
    trees = {_tree(m): m.details for m in measured if m.quantity == "time_per_call"}
    notes = [f"- {name}: {told['version'] or 'no version'}. {told['note']}" for name, told in trees.items()]
    return "\n".join([*lines, "## Trees", "", *notes, *_reasons(measured), ""])


def _tree(row: Row) -> str:
    return f"{row.backend} (null)" if row.details["null"] else row.backend


def _time(row: Row) -> str:
    if row.value is None or row.low is None or row.high is None:
        return row.status.replace("_", " ")
    noisy = "~" if row.status == "too_noisy" else ""
    return f"{noisy}{row.value * 1e6:.3g} [{row.low * 1e6:.3g}, {row.high * 1e6:.3g}]"


def _reached(row: Row) -> str:
    text = f"{row.value:.2f}x [{row.low:.2f}, {row.high:.2f}]"
    if row.quantity == NULL_RATIO:
        return text
    against, target, verdict = (row.details[name] for name in ("against", "target", "verdict"))
    aim = "no target" if target is None else f"target {target:g}x: {verdict.replace('missed', 'MISSED')}"
    return f"{text} {against.replace('_', ' ')}; {aim}"


def _misses(row: Row) -> bool:
    return row.details.get("verdict") in ("missed", "no verdict")


def _missed(row: Row, operation: str, capacity: int) -> str:
    bound = BOUNDS[operation, (row.batch_size or 0) <= SMALL_BATCH]
    return f"- {operation}, B={row.batch_size}, capacity {capacity:,}: {_reached(row)}. Bound by {bound}."


def _reasons(measured: Sequence[Row]) -> list[str]:
    """Return the reasons of what was not run in some cells only."""
    return [
        f"- {m.backend}, {m.primitive.removeprefix('sum_tree.')}, B={m.batch_size}, capacity "
        f"{m.details['capacity']:,}: {m.reason}"
        for m in measured
        if m.status == "not_run"
    ]
