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

from placerl.harness.compare import protocol, registry
from placerl.harness.compare.protocol import FailureKind
from placerl.harness.mapping import Target
from placerl.harness.measure import statistics
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.primitives import sum_tree

PEERS = ("tianshou", "cpprb", "pfrl", "rllib", "torchrl")
OURS, NULL = "native", "native (null)"
FLOORS = ("load_independent", "load_dependent")
WORKER = registry.BASELINES / "tree_worker.py"
OWN_TREE = Path(__file__).parents[2] / "compare" / "own_tree.py"
MEMORY_FLOOR = OWN_TREE.with_name("own_memory_floor.py")
BLOCK_S = 2e-3
LARGEST_BLOCK = 2048
WARM_UP_CALLS = 3
"""Untimed calls before the length of a block is found; the first does extra work, such as summing new priorities."""
COLD_CALL_S = 0.1
"""A call that takes at least these seconds needs no warm-up, and is a block of its own."""
FILL_LIMIT_S = 120.0
CELL_LIMIT_S = 3.0
"""Most seconds of one tree for one operation, capacity and batch size, so that a slow one does not delay others."""
_BLOCK_LIMIT_S = 120.0  # after which a worker is taken to hang
_FAILURE_CHARACTERS = 240


@dataclass
class TreeRow:
    """A sum tree that the benchmark times, which is one row of its table, and the worker process that runs it.

    Attributes:
        name: name in the table.
        command: command that starts its worker.
        peer: whether it is another library's tree.
        device: device that holds its priorities, such as "cpu" or "cuda".
        failure: why it is not timed, or no longer; empty if it is.
        version, note: version and remarks that the worker reports.
        worker: the running worker; None before its start, and after a failure.
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
        """Send a request to the worker, which is started if necessary, and return its answer.

        Args:
            request: sent as JSON.
            limit_s: seconds until the answer must be complete.

        Returns:
            The answer; empty after a failure, whose reason is stored in `failure`.
        """
        if self.failure:
            return {}
        try:
            if not self.worker:
                variables = {} if self.peer else registry.own_modules()
                self.worker = protocol.Worker(self.command, environment_variables=variables)
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
        """Let the worker create a tree with `capacity` leaves in place of its last one, and set all priorities.

        After a failure this tree is not timed again at any capacity, so the smallest capacity should come first.
        """
        answer = self.ask({"capacity": capacity}, FILL_LIMIT_S)
        self.version = str(answer.get("version", self.version))
        self.note = str(answer.get("note", self.note))

    def block(self, operation: str, batch_size: int, calls: int, seed: int) -> float | None:
        """Let the worker time a block of calls, and return the mean seconds per call; None after a failure.

        Args:
            operation: "sample" or "update", or one of `FLOORS`.
            calls: number of calls.
            seed: seed of the calls' arguments.
        """
        request = {"operation": operation, "batch_size": batch_size, "calls": calls, "seed": seed}
        answer = self.ask(request, _BLOCK_LIMIT_S)
        return float(answer["wall_s"]) / calls if answer else None  # type: ignore[arg-type]

    def close(self) -> None:
        """End the worker process, if it runs."""
        if self.worker:
            self.worker.close()
            self.worker = None


def own_rows() -> list[TreeRow]:
    """Return a row for each of this project's trees that can run here.

    There is one row for each available backend. The backend "flat" has another one on CUDA if PyTorch finds a device,
    and "reference" another one in float32. The native tree has a second row, which shows how far two timings of the
    same tree differ (A/A null).
    """
    names = [status.name for status in sum_tree.backends() if status.available and not status.simulated]
    rows = [(name, Target(name).device, [name]) for name in names]
    if "flat" in names and _torch_sees_cuda():
        rows.append(("flat cuda", "cuda", ["flat", json.dumps({"device": "cuda"})]))
    rows.append(("reference float32", "cpu", ["reference", json.dumps({"dtype": "float32"})]))
    rows.append((NULL, "cpu", [OURS]))
    return [
        TreeRow(name, [sys.executable, str(WORKER), str(OWN_TREE), *rest], peer=False, device=device)
        for name, device, rest in rows
    ]


def floor_rows() -> list[TreeRow]:
    """Return the rows that time only the memory accesses of descents in a tree: the memory floor.

    There are two rows: in one, each access waits for the one before it; in the other, no access waits.
    """
    return [TreeRow(name, [sys.executable, str(WORKER), str(MEMORY_FLOOR)], peer=False) for name in FLOORS]


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def peer_rows(names: Iterable[str]) -> list[TreeRow]:
    """Return a row for the sum tree of each of some other libraries.

    If a library's virtual environment does not exist, the row says so, and the tree is not timed.

    Args:
        names: the libraries, some of `PEERS`.
    """
    rows = []
    for name in names:
        python = registry.baseline_python(name)
        row = TreeRow(name, [str(python), str(WORKER), str(registry.BASELINES / name / "tree.py")], peer=True)
        if not python.exists():
            row.failure = "not run: needs its environment, which --build makes"
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TreeSamples:
    """The times of one tree for one operation, capacity and batch size.

    Attributes:
        seconds: seconds per call, one sample per round; empty if there are none.
        reason: why there are no samples; empty if there are some.
    """

    seconds: tuple[float, ...] = ()
    reason: str = ""


def cell_samples(
    rows: Sequence[TreeRow],
    operations: Mapping[str, str],
    batch_size: int,
    rounds: int,
    rng: np.random.Generator,
    limit_s: float = CELL_LIMIT_S,
) -> dict[str, TreeSamples]:
    """Time several trees in interleaved rounds, at one batch size; a slow one takes part in the first rounds only.

    Args:
        rows: the trees, which have been filled.
        operations: the operation to time, such as "sample", by the name of the row.
        rounds: samples of each tree.
        rng: generator for the order of the turns and the seeds.
        limit_s: most seconds for the samples of one tree. If it is too slow for the fewest samples of an interval in
            this time, it is not run.

    Returns:
        The samples of each row, by name, or why it has none.
    """
    calls: dict[str, int] = {}
    turns: dict[str, int] = {}
    reasons: dict[str, str] = {}

    def block(row: TreeRow, count: int) -> float | None:
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

    def turn(row: TreeRow) -> Callable[[], float | None]:
        blocks = (block(row, calls[row.name]) for _ in range(turns[row.name]))
        return lambda: next(blocks, None)

    timed = {row.name: turn(row) for row in rows if turns.get(row.name)}
    samples = in_rounds(timed, Rounds(rounds, seed=int(rng.integers(2**32))))
    return {row.name: _samples(row, samples.get(row.name, []), reasons.get(row.name, "")) for row in rows}


def _samples(row: TreeRow, seconds: Sequence[float], reason: str) -> TreeSamples:
    reason = reason or row.failure
    return TreeSamples(reason=reason) if reason or not seconds else TreeSamples(tuple(seconds))
