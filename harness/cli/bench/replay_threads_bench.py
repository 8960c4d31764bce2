"""`make bench-replay-threads`: threads on one replay buffer, by how they share it (PAL VI-D, Fig. 9).

    python -P -m harness.cli.bench.replay_threads_bench [--batch-sizes 32 256 ...] [--threads 1 2 4]

Each thread, one of C++'s, goes round: insert 8 items, sample a batch, update its priorities. Before anything is timed
every side samples from a small, contended buffer, where each byte of each item is checked. The sides and numbers of
threads take turns in an order drawn anew each round. `harness/papers/pal/locks.py` says what the sides are.
"""

from collections.abc import Sequence

from harness.cli.bench import command
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.statistics import Comparison, lower_quartile
from harness.papers.pal.locks import BINARY, CAPACITY, ONE_LOCK, OWNER, SHARINGS, THREADS, TWO_LOCKS, measure

BATCH_SIZES = (32, 256, 2048)
BUDGET_S = 150.0

Cells = dict[tuple[str, int, bool], Measurement]


def cells(rows: Sequence[Measurement], batch_size: int) -> Cells:
    """Rows of a batch size by sharing, threads, and whether they are the A/A null."""
    chosen = (row for row in rows if row.batch_size == batch_size)
    return {(row.details["sharing"], row.details["threads"], row.details["null"]): row for row in chosen}


def table(rows: Sequence[Measurement]) -> str:
    """Markdown: for each batch size the rounds a second, what more threads bring, and two locks against the others."""
    details = rows[0].details
    lines = [
        "# Threads on one replay buffer",
        "",
        f"Rounds per second of all threads together (insert {details['inserted']}, sample B, update B), from the lower "
        f"quartile of the times; capacity {details['capacity']:,}, {details['row_bytes']} bytes an item. Provenance: "
        f"measured on {details['cores']} cores, beyond which more threads cannot compute at once. In brackets: how "
        "many times the rounds of the fewest threads on the same side. ~: too noisy.",
        "",
    ]
    for batch_size in dict.fromkeys(row.batch_size for row in rows):
        found = cells(rows, batch_size or 0)
        threads = list(dict.fromkeys(count for _, count, _ in found))
        lines += [f"## B={batch_size}", ""]
        lines += ["| side | " + " | ".join(f"{count} threads" for count in threads) + " |"]
        lines += ["|---" * (1 + len(threads)) + "|"]
        for sharing in SHARINGS:
            texts = [_rate(found, sharing, count, threads[0]) for count in threads]
            lines.append(f"| {sharing} | " + " | ".join(texts) + " |")
        for other in (ONE_LOCK, BINARY, OWNER):
            texts = [_gain(found, other, count) for count in threads]
            lines.append(f"| **two locks over {other}** | " + " | ".join(texts) + " |")
        lines.append("| A/A null | " + " | ".join(_null(found, count) for count in threads) + " |")
        lines.append("")
    return "\n".join(lines)


def _rate(found: Cells, sharing: str, threads: int, fewest: int) -> str:
    row, alone = found[sharing, threads, False], found[sharing, fewest, False]
    rate = 1 / lower_quartile(row.samples)
    noisy = "~" if row.status == "too_noisy" else ""
    scaling = statistics.paired_ratio(alone.samples, row.samples)
    return f"{noisy}{rate:,.0f} ({scaling.value:.2f}x [{scaling.low:.2f}, {scaling.high:.2f}])"


def _compared(found: Cells, other: str, threads: int) -> Comparison:
    ours, null = found[TWO_LOCKS, threads, False], found[TWO_LOCKS, threads, True]
    return statistics.compare(ours.samples, found[other, threads, False].samples, null.samples)


def _gain(found: Cells, other: str, threads: int) -> str:
    outcome = _compared(found, other, threads)
    if outcome.ratio is None:
        return outcome.reason
    times = outcome.ratio
    return f"{1 / times.value:.2f}x [{1 / times.high:.2f}, {1 / times.low:.2f}]: {outcome.verdict}"


def _null(found: Cells, threads: int) -> str:
    null = _compared(found, ONE_LOCK, threads).null
    return "too few rounds" if null is None else f"{null.value:.3f} [{null.low:.3f}, {null.high:.3f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, stores its rows and writes `table.md`."""
    parser = command.parser("Time threads that share one replay buffer.", "bench-replay-threads")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--capacity", type=int, default=CAPACITY, help="items of the buffer")
    parser.add_argument("--rounds", type=int, default=statistics.PAIRS, help="turns of each side")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="seconds of all turns together")
    options = parser.parse_args(arguments)
    if options.rounds < statistics.FEWEST_PAIRS:
        parser.error(f"--rounds: found {options.rounds}; allowed: at least {statistics.FEWEST_PAIRS}")
    for name in ("batch_sizes", "threads"):
        if min(getattr(options, name)) < 1:
            parser.error(
                f"--{name.replace('_', '-')}: found {min(getattr(options, name))}; allowed: at least 1"
            )
    run = command.open_run(options)
    rows = command.measure_cell(
        run,
        "bench-replay-threads",
        lambda report: measure(
            options.batch_sizes,
            options.rounds,
            options.budget_s,
            report,
            capacity=options.capacity,
            threads=options.threads,
        ),
    )
    command.write_table(options, table(rows))
    return 0


if __name__ == "__main__":
    command.finish(main)
