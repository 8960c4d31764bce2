"""`make bench-adapters`: other libraries with their own replay and with this project's plugged in (PAL VI-F, Fig. 11).

    python -P -m harness.cli.bench.adapters_bench [--only tianshou ...] [--budget-s 60]

Training steps a second, acting and environment included, of each library in its own environment.
`harness/compare/adapters.py` says how the sides take turns.
"""

from collections.abc import Sequence
from functools import partial

from harness.cli.bench import command
from harness.compare import adapters
from harness.compare.adapters import GAIN, NULL, PAIRS, THROUGHPUT
from harness.core.row import Measurement
from harness.measure import statistics

LIBRARIES = tuple(dict.fromkeys(pair.library for pair in PAIRS))


def table(rows: Sequence[Measurement]) -> str:
    """Markdown: a row a library and algorithm, and which of `adapters.PAIRS` were measured."""
    lines = [
        "# Training with this project's replay in other libraries",
        "",
        "Gradient steps per second, median [95% interval]; the gain is a ratio of the faster halves' means, from "
        "pairs of the same interleaved rounds; ~: too noisy. Provenance: measured.",
        "",
        "| library, algorithm | own replay | this project's | gain | ours over itself (A/A) | verdict |",
        "|---|---|---|---|---|---|",
    ]
    notes = {}
    for name in dict.fromkeys(row.workload for row in rows):
        found = {(row.quantity, row.details.get("replay")): row for row in rows if row.workload == name}
        gain = found[GAIN, None]
        if gain.value is None:
            lines.append(f"| {name} | {gain.status.replace('_', ' ')}: {gain.reason} | | | | |")
            continue
        notes[gain.details["version"]] = gain.details["note"]
        texts = [
            *(_interval(found[THROUGHPUT, replay], ".1f") for replay in ("own", "ours")),
            _interval(gain, ".3f"),
            _interval(found[NULL, None], ".3f"),
            gain.details["verdict"] + (f": {why}" if (why := gain.details["why_no_verdict"]) else ""),
        ]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    measured = {row.workload for row in rows if row.quantity == GAIN and row.value is not None}
    for what, among in (("Measured", True), ("Not measured", False)):
        names = [pair.name for pair in PAIRS if (pair.name in measured) is among]
        lines += ["", f"{what}: {', '.join(names) or 'none'}."]
    lines += [
        "",
        *(f"- {version}: {note or 'both replays are prioritised'}." for version, note in notes.items()),
        "",
    ]
    return "\n".join(lines)


def _interval(row: Measurement, digits: str) -> str:
    noisy = "~" if row.status == "too_noisy" else ""
    return f"{noisy}{row.value:{digits}} [{row.low:{digits}}, {row.high:{digits}}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, stores its rows and writes `table.md`; 1 where a library failed."""
    parser = command.parser("Time training in other libraries with both replays.", "bench-adapters")
    parser.add_argument("--only", nargs="+", default=LIBRARIES, choices=LIBRARIES, help="libraries")
    parser.add_argument("--rounds", type=int, default=statistics.PAIRS, help="at most, of each pair")
    parser.add_argument("--budget-s", type=float, default=60.0, help="seconds of one pair's rounds")
    options = parser.parse_args(arguments)
    if options.rounds < statistics.FEWEST_PAIRS:
        parser.error(f"--rounds: found {options.rounds}; allowed: at least {statistics.FEWEST_PAIRS}")
    run = command.open_run(options)
    rows: list[Measurement] = []
    with adapters.importable_primitives() as package:
        for pair in PAIRS:
            if pair.library in options.only:
                key = f"bench-adapters/{pair.library}-{pair.algorithm}"
                measure = partial(adapters.measure, pair, options.rounds, options.budget_s, package)
                rows += command.measure_cell(run, key, measure)
    command.write_table(options, table(rows))
    return int(any(row.status == "failed" for row in rows))


if __name__ == "__main__":
    command.finish(main)
