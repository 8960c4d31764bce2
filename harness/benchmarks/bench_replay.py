"""`make bench-replay`: every sum tree in one table, timed in interleaved rounds.

    python -m harness.benchmarks.bench_replay [--out results/bench-replay] [--rounds 15] [--batch-sizes 32 256 ...]

Each tree lives in a process of its own, in its own environment (`baselines/tree_worker.py`), filled to its capacity
and checked before anything is timed. In each round every tree does one block of calls, one tree at a time, in an
order drawn anew; each call is a whole call from Python with arguments of its own, random numbers included in
`sample`. Beside each cell stand the fastest peer, the memory floor, and whether the target of the replay is met. A
tree that fails is a row that says why.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness import comparison, workers
from harness.machine import describe
from harness.mapping import Target
from harness.measurement import Measurement
from harness.progress import bar
from harness.provenance import Provenance
from primitives import sum_tree

BATCH_SIZES = (32, 256, 2048, 16384)
CAPACITIES = (2**17, 2**20, 10**7)
OPERATIONS = ("sample", "update")
FLOORS = ("load_independent", "load_dependent")
PEERS = ("tianshou", "cpprb", "pfrl", "rllib", "torchrl")
WORKER = workers.BASELINES / "tree_worker.py"
BLOCK_S = 2e-3
LARGEST_BLOCK = 2048
FILL_LIMIT_S = 300.0
BLOCK_LIMIT_S = 120.0
FAILURE_CHARACTERS = 240
FLOOR_RATIO_TARGET = 2.0
FLOOR_TARGET_FROM = 256

# From `perf` over the kernels alone, at 2^20 leaves on one AVX-512 core; what a cell that misses has to be read with.
BOUNDS = """What bounds `native` (profile: perf, 2048 items, 2^20 leaves, K=16, float32, AVX-512):

- B=32: the call itself. One item takes 0.3 us to sample, a third of it the Generator's lock, and 0.1 us to update.
- sample, B >= 256: instructions within nodes, not memory: about 0.7 ns a level where running sums are kept (load,
  compare, mask to index, load) and 1.4 ns for the scan of a leaf's node, for five levels, and the draw itself.
- update, B >= 256: writing the leaves and noting their nodes 46% (cache misses on the leaves' lines), noting parents
  28%, sums of leaves' nodes 22%, running sums 4%. At B=256 the upper levels, summed once a call, weigh more an item.
"""


def speedup_target(operation: str, batch_size: int) -> float:
    """How many times as fast as the fastest peer `native` shall be."""
    if operation == "sample":
        return 4.0
    return 3.0 if batch_size <= 32 else 5.0


@dataclass
class Row:
    """One tree of the table.

    Attributes:
        name: as printed.
        command: starts its worker.
        peer: somebody else's library.
        device: where it keeps its priorities, as a mapping names it.
        failure: why it is not timed (any more); empty when it is.
        version, note: the worker's.
    """

    name: str
    command: list[str]
    peer: bool
    device: str = "cpu"
    failure: str = ""
    version: str = ""
    note: str = ""
    worker: workers.Worker | None = field(default=None, repr=False)

    def ask(self, request: dict[str, object], limit_s: float) -> dict[str, object]:
        """The worker's answer; on failure an empty one, and the row says why."""
        if self.failure:
            return {}
        try:
            self.worker = self.worker or workers.Worker(self.command)
            return self.worker.ask_json(request, limit_s)
        except workers.WorkerFailure as failure:
            self.worker = None
            self.failure = str(failure)[:FAILURE_CHARACTERS]
            return {}

    def close(self) -> None:
        """Ends the worker."""
        if self.worker:
            self.worker.close()
            self.worker = None


def own_rows() -> list[Row]:
    """The available backends, PyTorch's on CUDA too where it sees a device, and NumPy in float32."""
    names = [status.name for status in sum_tree.backends() if status.available]
    rows = [(name, Target(name).device, [name]) for name in names]
    if "flat" in names and _torch_sees_cuda():
        rows.append(("flat cuda", "cuda", ["flat", json.dumps({"device": "cuda"})]))
    rows.append(("reference float32", "cpu", ["reference", json.dumps({"dtype": "float32"})]))
    script = str(Path(__file__).parent.parent / "timed_tree.py")
    return [
        Row(name, [sys.executable, str(WORKER), script, *rest], peer=False, device=device)
        for name, device, rest in rows
    ]


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def peer_rows(names: Iterable[str]) -> list[Row]:
    """A row a peer whose environment is there; one that says so for the others."""
    rows = []
    for name in names:
        python = workers.baseline_python(name)
        row = Row(name, [str(python), str(WORKER), str(workers.BASELINES / name / "tree.py")], peer=True)
        if not python.exists():
            row.failure = "not run: needs its environment, which --build makes"
        rows.append(row)
    return rows


def cell_samples(
    rows: Sequence[Row], operations: dict[str, str], batch_size: int, rounds: int, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Seconds a call, a sample each round, of each row that can.

    Args:
        rows: the trees, filled.
        operations: what each row is asked to do, by name.
        batch_size: items of a call.
        rounds: samples.
        rng: orders and seeds.
    """
    calls: dict[str, int] = {}

    def block(row: Row, count: int) -> float | None:
        request = {"operation": operations[row.name], "batch_size": batch_size, "calls": count}
        answer = row.ask({**request, "seed": int(rng.integers(2**32))}, BLOCK_LIMIT_S)
        return float(answer["wall_s"]) / count if answer else None  # type: ignore[arg-type]

    for row in rows:
        count = 1
        while (seconds := block(row, count)) is not None:  # warms up, and finds the length of a block
            if seconds * count >= BLOCK_S or count == LARGEST_BLOCK:
                calls[row.name] = count
                break
            count = min(LARGEST_BLOCK, max(count + 1, int(1.2 * BLOCK_S / max(seconds, 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for position in rng.permutation(len(rows)):
            row = rows[position]
            if row.name in calls and (seconds := block(row, calls[row.name])) is not None:
                samples[row.name].append(seconds)
    return {name: seconds for name, seconds in samples.items() if len(seconds) == rounds}


def measurement(
    primitive: str, row: Row, batch_size: int, capacity: int, samples_s: Sequence[float] | None
) -> Measurement:
    """One row of the store, or of the export."""
    details = {"capacity": capacity, "version": row.version, "note": row.note, "peer": row.peer}
    common: dict[str, Any] = {
        "suite": "bench-replay",
        "primitive": primitive,
        "backend": row.name,
        "device": row.device,
    }
    quantity: dict[str, Any] = {
        "batch_size": batch_size,
        "quantity": "time_per_call",
        "unit": "s",
        "details": details,
    }
    if not samples_s:
        status = "not_run" if row.failure.startswith("not run") else "failed"
        return Measurement(
            **common,
            **quantity,
            provenance=Provenance.MEASURED,
            status=status,
            reason=row.failure or "failed",
        )
    low, high = comparison.interval(samples_s)
    return Measurement(
        **common,
        **quantity,
        provenance=Provenance.MEASURED,
        value=float(np.median(samples_s)),
        low=low,
        high=high,
        samples=tuple(samples_s),
    )


def run(
    capacities: Sequence[int], batch_sizes: Sequence[int], rounds: int, rows: Sequence[Row], seed: int = 0
) -> list[Measurement]:
    """Times every cell; the rows' failures stay with the rows."""
    rng = np.random.default_rng(seed)
    native = next(row for row in rows if row.name == "native")
    floors = [Row(name, native.command, peer=False) for name in FLOORS]
    measured: list[Measurement] = []
    steps, done = len(capacities) * (1 + len(OPERATIONS) * len(batch_sizes)), 0
    with bar("trees") as report:
        try:
            for capacity in capacities:
                report(done, steps, f"filling trees of {capacity} leaves")
                for row in [*rows, *floors]:
                    answer = row.ask({"capacity": capacity}, FILL_LIMIT_S)
                    row.version = str(answer.get("version", row.version))
                    row.note = str(answer.get("note", row.note))
                done += 1
                for operation in OPERATIONS:
                    for batch_size in batch_sizes:
                        report(done, steps, f"{operation} {batch_size}, {capacity} leaves")
                        wanted = dict.fromkeys([row.name for row in rows], operation)
                        wanted |= {row.name: row.name for row in floors}
                        timed = [*rows, *floors]
                        samples = cell_samples(timed, wanted, batch_size, rounds, rng)
                        measured += [
                            measurement(
                                f"sum_tree.{operation}", row, batch_size, capacity, samples.get(row.name)
                            )
                            for row in timed
                        ]
                        done += 1
        finally:
            for row in [*rows, *floors]:
                row.close()
    return measured


def verdict(cell: dict[str, Measurement], operation: str, batch_size: int) -> str:
    """What `native` reached in one cell, against the fastest peer and the memory floor, by lower quartiles."""
    quick = {name: float(comparison.lower_quartile(m.samples)) for name, m in cell.items() if m.samples}
    if "native" not in quick:
        return "native failed"
    ours = quick["native"]
    parts = []
    if peers := [name for name in quick if cell[name].details["peer"]]:
        fastest = min(peers, key=quick.__getitem__)
        ratio, target = quick[fastest] / ours, speedup_target(operation, batch_size)
        met = "met" if ratio >= target else "MISSED"
        parts.append(f"{ratio:.1f}x {fastest} (target {target:g}x: {met})")
    floors = [quick[name] for name in FLOORS if name in quick]
    if batch_size >= FLOOR_TARGET_FROM and floors:
        ratio = ours / min(floors)
        met = "met" if ratio <= FLOOR_RATIO_TARGET else "MISSED"
        parts.append(f"{ratio:.1f}x the floor (target {FLOOR_RATIO_TARGET:g}x: {met})")
    return "; ".join(parts)


def table(measured: Sequence[Measurement], rows: Sequence[Row]) -> str:
    """Markdown: a table for each capacity and operation, microseconds a call, then why rows have no number."""
    lines = ["# Sum trees: time per call from Python", ""]
    lines += ["Microseconds a call, median over the rounds [95% interval]; provenance: measured.", ""]
    capacities = list(dict.fromkeys(m.details["capacity"] for m in measured))
    sizes = list(dict.fromkeys(m.batch_size for m in measured))
    for capacity in capacities:
        for operation in OPERATIONS:
            chosen = [
                m
                for m in measured
                if m.details["capacity"] == capacity and m.primitive == f"sum_tree.{operation}"
            ]
            cells = {size: {m.backend: m for m in chosen if m.batch_size == size} for size in sizes if size}
            lines += [f"## {operation}, capacity {capacity:,}", ""]
            lines += ["| tree | " + " | ".join(f"B={size}" for size in cells) + " |"]
            lines += ["|---" * (1 + len(cells)) + "|"]
            for name in dict.fromkeys(m.backend for m in chosen):
                texts = [_text(cells[size][name]) for size in cells]
                lines.append(f"| {name.replace('_', ' ')} | " + " | ".join(texts) + " |")
            lines += [f"| **native** | {' | '.join(verdict(cells[s], operation, s) for s in cells)} |", ""]
    notes = [f"- {row.name}: {row.version or 'no version'}. {row.failure or row.note}" for row in rows]
    return "\n".join([*lines, BOUNDS, "Notes", "", *notes, ""])


def _text(m: Measurement) -> str:
    if m.value is None or m.low is None or m.high is None:
        return m.status.replace("_", " ")
    return f"{m.value * 1e6:.3g} [{m.low * 1e6:.3g}, {m.high * 1e6:.3g}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and writes `table.md` and `measurements.json`."""
    parser = argparse.ArgumentParser(description="Time every sum tree, interleaved.")
    parser.add_argument("--out", type=Path, default=Path("results/bench-replay"), help="folder to write to")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each cell, at least 5")
    parser.add_argument("--capacities", type=int, nargs="+", default=CAPACITIES)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument(
        "--build", action="store_true", help="make the peers' environments where they are missing"
    )
    options = parser.parse_args(arguments)
    if options.rounds < comparison.FEWEST_SAMPLES:
        parser.error(f"--rounds: found {options.rounds}; allowed: at least {comparison.FEWEST_SAMPLES}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.build:
        workers.build_baselines(options.peers)
    rows = [*own_rows(), *peer_rows(options.peers)]
    measured = run(options.capacities, options.batch_sizes, options.rounds, rows)
    text = table(measured, rows)
    content = {
        "machine": describe(measure_links=False).to_json(),
        "measurements": [m.to_json() for m in measured],
    }
    (options.out / "measurements.json").write_text(json.dumps(content))
    (options.out / "table.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
