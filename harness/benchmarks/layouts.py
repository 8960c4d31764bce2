"""The layout ablation of PAL IV-C4 and VI-H: fanouts, and node groups on cache lines or across them.

    python -P -m harness.benchmarks.layouts [--out results/bench-layouts] [--capacities 1000 10000 ...]

For each capacity, the native tree with each fanout, its node groups aligned and not, samples and updates batches in
interleaved rounds.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.comparison import lower_quartile
from harness.machine import describe
from harness.measure import Case, Protocol, Timing, measure
from harness.progress import bar
from harness.tree_layouts import TreeLayout, check, priorities
from primitives.sum_tree import SumTree

CAPACITIES = (10**3, 10**4, 10**5, 10**6, 10**7)
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
OPERATIONS = ("sample", "update")
BATCH_SIZE = 256


def cases(operation: str, capacity: int, batch_size: int) -> list[Case[SumTree]]:
    """A case a layout."""

    def case(fanout: int, aligned: bool) -> Case[SumTree]:
        layout = TreeLayout(capacity, fanout, aligned)

        def inputs(tree: SumTree, rng: np.random.Generator) -> tuple[Any, ...]:
            if operation == "sample":
                return (batch_size, rng)
            return (rng.integers(0, capacity, batch_size), priorities(rng, batch_size))

        return Case(
            name=f"K={fanout}, {'aligned' if aligned else 'not aligned'}",
            setup=layout.make,
            check=check,
            inputs=inputs,
            call=lambda tree, arguments: getattr(tree, operation)(*arguments),
        )

    return [case(fanout, aligned) for fanout in FANOUTS for aligned in (True, False)]


def table(timings: dict[tuple[str, int], dict[str, Timing]], batch_size: int) -> str:
    """Markdown: a row a layout, a column a capacity, for each operation."""
    lines = ["# Layouts of the native sum tree", ""]
    lines += [
        f"Microseconds a call of {batch_size}, median over the rounds; provenance: measured; ~ too noisy.",
        "",
    ]
    for operation in OPERATIONS:
        columns = {capacity: found for (name, capacity), found in timings.items() if name == operation}
        lines += [
            f"## {operation}",
            "",
            "| layout | " + " | ".join(f"{capacity:,}" for capacity in columns) + " |",
        ]
        lines += ["|---" * (1 + len(columns)) + "|"]
        for layout in next(iter(columns.values())):
            texts = [_text(found[layout]) for found in columns.values()]
            lines.append(f"| {layout} | " + " | ".join(texts) + " |")
        best = [_fastest(found.values()) for found in columns.values()]
        lines += ["| **fastest** | " + " | ".join(best) + " |", ""]
    failures = {
        f"- {t.name}: {t.reason}"
        for found in timings.values()
        for t in found.values()
        if t.status == "failed"
    }
    return "\n".join([*lines, *sorted(failures)])


def _fastest(timings: Iterable[Timing]) -> str:
    """Of those that were timed, by lower quartile as comparisons go."""
    timed = [timing for timing in timings if timing.samples_s]
    return min(timed, key=lambda t: lower_quartile(t.samples_s)).name if timed else "none"


def _text(timing: Timing) -> str:
    if timing.median_s is None:
        return timing.status
    return f"{'~' if timing.status == 'too_noisy' else ''}{timing.median_s * 1e6:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the ablation and writes `table.md` and `measurements.json`."""
    parser = argparse.ArgumentParser(description="Time the native sum tree over fanouts and alignments.")
    parser.add_argument("--out", type=Path, default=Path("results/bench-layouts"), help="folder to write to")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each case")
    parser.add_argument("--capacities", type=int, nargs="+", default=CAPACITIES)
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    timings: dict[tuple[str, int], dict[str, Timing]] = {}
    measurements = []
    steps = [(operation, capacity) for operation in OPERATIONS for capacity in options.capacities]
    with bar("layouts") as report:
        for done, (operation, capacity) in enumerate(steps):
            report(done, len(steps), f"{operation}, {capacity} leaves")
            timings[operation, capacity] = measure(
                cases(operation, capacity, options.batch_size), Protocol(rounds=options.rounds)
            )
            measurements += [
                timing.measurement(
                    suite="bench-layouts",
                    primitive=f"sum_tree.{operation}",
                    backend="native",
                    device="cpu",
                    batch_size=options.batch_size,
                    details={"capacity": capacity, "layout": timing.name},
                )
                for timing in timings[operation, capacity].values()
            ]
    text = table(timings, options.batch_size)
    content = {
        "machine": describe(measure_links=False).to_json(),
        "measurements": [m.to_json() for m in measurements],
    }
    (options.out / "measurements.json").write_text(json.dumps(content))
    (options.out / "table.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
