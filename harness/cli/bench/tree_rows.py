"""The sum trees that the replay benchmark times: this project's and other libraries'.

Each tree runs in its own worker process (`baselines/tree_worker.py`), and each other library in its own virtual
environment.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.compare import protocol, registry
from harness.compare.protocol import FailureKind
from harness.mapping import Target
from harness.measure import statistics
from harness.measure.turns import Rounds, in_rounds
from primitives import sum_tree

PEERS = ("tianshou", "cpprb", "pfrl", "rllib", "torchrl")
OURS, NULL = "native", "native (null)"
FLOORS = ("load_independent", "load_dependent")
WORKER = registry.BASELINES / "tree_worker.py"
OWN_TREE = Path(__file__).parents[2] / "compare" / "own_tree.py"
MEMORY_FLOOR = OWN_TREE.with_name("own_memory_floor.py")
BLOCK_S = 2e-3
LARGEST_BLOCK = 2048
WARM_UP_CALLS = 3
"""Calls before the block length is determined: a first call does extra work, such as summing what was filled."""
COLD_CALL_S = 0.1
"""Seconds from which on a single call is a whole block."""
FILL_LIMIT_S = 120.0
CELL_LIMIT_S = 3.0
"""Seconds of one tree for the samples of one cell, so that a slow tree does not delay all others."""
_BLOCK_LIMIT_S = 120.0  # after which a worker is taken to hang
_FAILURE_CHARACTERS = 240


@dataclass
class Row:
    """One tree of the table.

    Attributes:
        name: name in the table.
        command: starts its worker.
        peer: whether it is another library's.
        device: device of its priorities, as a mapping names it.
        failure: why it is not timed, or no longer; empty if it is.
        version, note: as reported by the worker.
    """

    name: str
    command: list[str]
    peer: bool
    device: str = "cpu"
    failure: str = ""
    version: str = ""
    note: str = ""
    worker: protocol.Worker | None = field(default=None, repr=False)

    def ask(self, request: Mapping[str, object], limit_s: float) -> dict[str, object]:
        """Return the worker's answer; on failure an empty answer, with the reason stored in the row."""
        if self.failure:
            return {}
        try:
            self.worker = self.worker or protocol.Worker(self.command)
            return self.worker.ask_json(request, limit_s)
        except protocol.WorkerFailure as failure:
            self.worker = None
            # Without the path of this checkout, which is of no use to others.
            said = str(failure).replace(f"{registry.BASELINES.parent}/", "")
            self.failure = said[:_FAILURE_CHARACTERS]
            if failure.kind is FailureKind.TIMEOUT:
                asked = ", ".join(f"{name} {value}" for name, value in request.items())
                self.failure = f"not run: {asked} takes longer than {limit_s:g} s, the benchmark's limit"
            return {}

    def fill(self, capacity: int) -> None:
        """Create and fill a tree in place of the previous one. A failure is permanent, so fill the smallest
        first.
        """
        answer = self.ask({"capacity": capacity}, FILL_LIMIT_S)
        self.version = str(answer.get("version", self.version))
        self.note = str(answer.get("note", self.note))

    def block(self, operation: str, batch_size: int, calls: int, seed: int) -> float | None:
        """Return seconds per call over a block of calls; None on failure."""
        request = {"operation": operation, "batch_size": batch_size, "calls": calls, "seed": seed}
        answer = self.ask(request, _BLOCK_LIMIT_S)
        return float(answer["wall_s"]) / calls if answer else None  # type: ignore[arg-type]

    def close(self) -> None:
        """End the worker."""
        if self.worker:
            self.worker.close()
            self.worker = None


def own_rows() -> list[Row]:
    """Return the available backends, with PyTorch's also on CUDA if there is a device, NumPy in float32, and the
    A/A null.
    """
    names = [status.name for status in sum_tree.backends() if status.available and not status.simulated]
    rows = [(name, Target(name).device, [name]) for name in names]
    if "flat" in names and _torch_sees_cuda():
        rows.append(("flat cuda", "cuda", ["flat", json.dumps({"device": "cuda"})]))
    rows.append(("reference float32", "cpu", ["reference", json.dumps({"dtype": "float32"})]))
    rows.append((NULL, "cpu", [OURS]))
    return [
        Row(name, [sys.executable, str(WORKER), str(OWN_TREE), *rest], peer=False, device=device)
        for name, device, rest in rows
    ]


def floor_rows() -> list[Row]:
    """Return the memory floors, each measured in its own process."""
    return [Row(name, [sys.executable, str(WORKER), str(MEMORY_FLOOR)], peer=False) for name in FLOORS]


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def peer_rows(names: Iterable[str]) -> list[Row]:
    """Return one row per sum tree of another library.

    A library whose virtual environment does not exist has a row that says so, and is not timed.

    Args:
        names: the libraries, of `PEERS`.
    """
    rows = []
    for name in names:
        python = registry.baseline_python(name)
        row = Row(name, [str(python), str(WORKER), str(registry.BASELINES / name / "tree.py")], peer=True)
        if not python.exists():
            row.failure = "not run: needs its environment, which --build makes"
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TreeSamples:
    """The samples of one tree in one cell.

    Attributes:
        seconds: seconds per call, one sample per round; empty if there are none.
        reason: why there are none.
    """

    seconds: tuple[float, ...] = ()
    reason: str = ""


def cell_samples(
    rows: Sequence[Row],
    operations: Mapping[str, str],
    batch_size: int,
    rounds: int,
    rng: np.random.Generator,
    limit_s: float = CELL_LIMIT_S,
) -> dict[str, TreeSamples]:
    """Time each row in interleaved rounds; a slow one takes part in the first rounds only.

    Args:
        rows: the trees, filled.
        operations: the operation of each row, by name.
        batch_size: items per call.
        rounds: number of samples.
        rng: generator for orders and seeds.
        limit_s: seconds for the samples of one row; a row too slow for an interval within it is not run.
    """
    calls: dict[str, int] = {}
    turns: dict[str, int] = {}
    reasons: dict[str, str] = {}

    def block(row: Row, count: int) -> float | None:
        return row.block(operations[row.name], batch_size, count, int(rng.integers(2**32)))

    for row in rows:
        count, cold = 1, WARM_UP_CALLS
        while (seconds := block(row, count)) is not None:  # warms up, and finds the length of a block
            if cold and seconds < COLD_CALL_S:
                cold -= 1
                continue
            if seconds * count >= BLOCK_S or count == LARGEST_BLOCK:
                calls[row.name], turns[row.name] = count, min(rounds, int(limit_s / (seconds * count)))
                break
            count = min(LARGEST_BLOCK, max(count + 1, int(1.2 * BLOCK_S / max(seconds, 1e-9))))
        if turns.get(row.name, rounds) < statistics.FEWEST_SAMPLES:
            reasons[row.name] = (
                f"not run: a call takes {seconds:.2g} s, of which {statistics.FEWEST_SAMPLES} are the fewest samples: "
                f"more than the {limit_s:g} s that the benchmark gives a tree and a cell"
            )
            turns[row.name] = 0

    def turn(row: Row) -> Callable[[], float | None]:
        blocks = (block(row, calls[row.name]) for _ in range(turns[row.name]))
        return lambda: next(blocks, None)

    timed = {row.name: turn(row) for row in rows if turns.get(row.name)}
    samples = in_rounds(timed, Rounds(rounds, seed=int(rng.integers(2**32))))
    return {row.name: _samples(row, samples.get(row.name, []), reasons.get(row.name, "")) for row in rows}


def _samples(row: Row, seconds: Sequence[float], reason: str) -> TreeSamples:
    reason = reason or row.failure
    return TreeSamples(reason=reason) if reason or not seconds else TreeSamples(tuple(seconds))
