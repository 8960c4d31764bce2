"""Times C++ threads that work on one replay buffer, for several ways to share it (PAL VI-D, Fig. 9).

    placerl bench replay-threads [--batch-sizes 32,256] [--threads 1,2,4]

Each thread repeats: insert 8 items, sample a batch, update its priorities. The ways to share the buffer differ in
their locks; `harness/papers/pal/figure_9_locks.py` describes them. Before anything is timed, threads sample from a
small, contended buffer in each way, and each byte of each item is checked. The ways and the numbers of threads take
turns in a new random order in each round.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from placerl.harness.cli.bench.command import Bench, RoundsOption, cell, joined, numbers, section
from placerl.harness.core.progress import Report
from placerl.harness.measure import statistics
from placerl.harness.measure.statistics import Comparison, lower_quartile
from placerl.harness.papers.pal.figure_9_locks import (
    BINARY,
    CAPACITY,
    ONE_LOCK,
    OWNER,
    SHARINGS,
    THREADS,
    TWO_LOCKS,
    measure,
)
from placerl.harness.store.rows import ClaimRow

NAME = "bench-replay-threads"
BATCH_SIZES = (32, 256, 2048)
BUDGET_S = 150.0

Cells = dict[tuple[str, int, bool], ClaimRow]


def cells(rows: Sequence[ClaimRow], batch_size: int) -> Cells:
    """Return the rows of one batch size in a dict.

    A key is a tuple of three: the name of the way in which the threads share the buffer, the number of threads, and
    whether the row is the second timing of the same thing, which shows the noise (A/A null).
    """
    chosen = ((row.parameters or {}, row) for row in rows if row.batch_size == batch_size)
    return {(of["sharing"], of["threads"], of["null"]): row for of, row in chosen}


def table(rows: Sequence[ClaimRow]) -> str:
    """Return the results as Markdown: a table for each batch size.

    It has the rounds per second of each way to share the buffer at each number of threads, how much more threads gain,
    and the ratios of PAL's way, with two locks, to the others.
    """
    of = rows[0].parameters or {}
    lines = [
        "# Threads on one replay buffer",
        "",
        f"Rounds per second of all threads together (insert {of['inserted']}, sample B, update B), from the lower "
        f"quartile of the times; capacity {of['capacity']:,}, {of['row_bytes']} bytes an item. Provenance: "
        f"measured on {of['cores']} cores, beyond which more threads cannot compute at once. In brackets: how "
        "many times the rounds of the fewest threads on the same side. ~: too noisy.",
        "",
    ]
    for batch_size in dict.fromkeys(row.batch_size for row in rows):
        by_side = cells(rows, batch_size or 0)
        threads = list(dict.fromkeys(count for _, count, _ in by_side))
        texts = [
            *([name, *(_rate(by_side, name, count, threads[0]) for count in threads)] for name in SHARINGS),
            *(
                [f"two locks over {other}", *(_gain(by_side, other, count) for count in threads)]
                for other in (ONE_LOCK, BINARY, OWNER)
            ),
            ["A/A null", *(_null(by_side, count) for count in threads)],
        ]
        lines += section(f"B={batch_size}", ("side", *(f"{count} threads" for count in threads)), texts)
    return "\n".join(lines)


def _rate(by_side: Cells, sharing: str, threads: int, fewest: int) -> str:
    row, alone = by_side[sharing, threads, False], by_side[sharing, fewest, False]
    rate = 1 / lower_quartile(row.samples)
    noisy = "~" if row.status == "too_noisy" else ""
    scaling = statistics.paired_ratio(alone.samples, row.samples)
    return f"{noisy}{rate:,.0f} ({scaling.value:.2f}x [{scaling.low:.2f}, {scaling.high:.2f}])"


def _compared(by_side: Cells, other: str, threads: int) -> Comparison:
    ours, null = by_side[TWO_LOCKS, threads, False], by_side[TWO_LOCKS, threads, True]
    return statistics.compare(ours.samples, by_side[other, threads, False].samples, null.samples)


def _gain(by_side: Cells, other: str, threads: int) -> str:
    outcome = _compared(by_side, other, threads)
    if outcome.ratio is None:
        return outcome.reason
    times = outcome.ratio
    return f"{1 / times.value:.2f}x [{1 / times.high:.2f}, {1 / times.low:.2f}] ({outcome.verdict})"


def _null(by_side: Cells, threads: int) -> str:
    null = _compared(by_side, ONE_LOCK, threads).null
    return "too few rounds" if null is None else f"{null.value:.3f} [{null.low:.3f}, {null.high:.3f}]"


def bench(
    batch_sizes: Annotated[
        str, typer.Option("--batch-sizes", help="Items sampled at once, separated by commas.")
    ] = joined(BATCH_SIZES),
    threads: Annotated[
        str, typer.Option("--threads", help="Numbers of threads, separated by commas.")
    ] = joined(THREADS),
    capacity: Annotated[int, typer.Option("--capacity", min=1, help="Items of the buffer.")] = CAPACITY,
    rounds: RoundsOption = statistics.PAIRS,
    budget_s: Annotated[
        float, typer.Option("--budget-s", min=0, help="Seconds of all turns together.")
    ] = BUDGET_S,
) -> Bench[ClaimRow]:
    """Time threads that share one replay buffer: with two locks, one lock, or an owner thread (PAL Fig. 9)."""
    sizes, counts = numbers("--batch-sizes", batch_sizes), numbers("--threads", threads)

    def measured(report: Report) -> Sequence[ClaimRow]:
        return measure(sizes, rounds, budget_s, report, capacity=capacity, threads=counts)

    return Bench(NAME, ClaimRow, [cell(NAME, measured, budget_s)], table)
