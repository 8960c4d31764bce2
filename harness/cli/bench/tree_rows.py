"""The sum trees that the replay benchmark times: this project's and other libraries'.

Each tree runs in its own worker process (`baselines/tree_worker.py`), and each other library in its own virtual
environment.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from placerl.harness.compare import protocol, registry
from placerl.harness.compare.protocol import FailureKind
from placerl.harness.mapping import Target
from placerl.harness.measure.protocol import Case
from placerl.primitives import sum_tree

PEERS = ("tianshou", "cpprb", "pfrl", "rllib", "torchrl")
OURS, NULL = "native", "native (null)"
PAL = ("pal 16", "pal 1024")
"""PAL's own tree with the fanout of the native tree, and with one that updates faster."""
FLOORS = ("load_independent", "load_dependent")
WORKER = registry.BASELINES / "tree_worker.py"
OWN_TREE = Path(__file__).parents[2] / "compare" / "own_tree.py"
PAL_TREE = OWN_TREE.with_name("pal_tree.py")
MEMORY_FLOOR = OWN_TREE.with_name("own_memory_floor.py")
BLOCK_S = 2e-3
LARGEST_BLOCK = 2048
FILL_LIMIT_S = 120.0
CELL_LIMIT_S = 3.0
"""Seconds of one tree for one operation, capacity and batch size after which it takes part in no further round, so that
a slow one does not delay others.
"""
_BLOCK_LIMIT_S = 120.0  # after which a worker is taken to hang
_FAILURE_CHARACTERS = 240


@dataclass
class TreeRow:
    """A sum tree that the benchmark times, which is one row of its table, and the worker process that runs it.

    Attributes:
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

    def block(self, operation: str, batch_size: int, calls: int, seed: int) -> float:
        """Let the worker time a block of calls, and return the seconds that they took.

        Args:
            operation: "sample", "update" or "update_and_sample", or one of `FLOORS`.

        Raises:
            RuntimeError: it failed, now or before.
        """
        request = {"operation": operation, "batch_size": batch_size, "calls": calls, "seed": seed}
        answer = self.ask(request, _BLOCK_LIMIT_S)
        if not answer:
            raise RuntimeError(self.failure)
        return float(answer["wall_s"])  # type: ignore[arg-type]

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


def pal_rows() -> list[TreeRow]:
    """Return a row for PAL's own tree with each of two fanouts, which the name ends with."""
    return [
        TreeRow(name, [sys.executable, str(WORKER), str(PAL_TREE), name.split()[1]], peer=False)
        for name in PAL
    ]


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def peer_rows(names: Iterable[str]) -> list[TreeRow]:
    """Return a row for the sum tree of each of some other libraries.

    If a library's virtual environment does not exist, the row says so, and the tree is not timed.
    """
    rows = []
    for name in names:
        python = registry.baseline_python(name)
        row = TreeRow(name, [str(python), str(WORKER), str(registry.BASELINES / name / "tree.py")], peer=True)
        if not python.exists():
            row.failure = "not run: needs its environment, which --build makes"
        rows.append(row)
    return rows


def case(row: TreeRow, operation: str, batch_size: int, rng: np.random.Generator) -> Case[TreeRow]:
    """Return the case (a function to time) that calls a tree, which has been filled; its process times the calls.

    Args:
        operation: "sample", "update" or "update_and_sample"; the memory floors have one of their own.
    """
    asked = row.name if row.name in FLOORS else operation

    def block(tree: TreeRow, calls: int) -> float:
        return tree.block(asked, batch_size, calls, int(rng.integers(2**32)))

    return Case(
        name=row.name,
        setup=lambda: row,
        check=lambda _: None,  # its worker checks it when it is filled
        inputs=lambda tree, rng: None,
        call=lambda tree, arguments: None,
        block=block,
    )


def within_limit(
    seconds: Mapping[str, Mapping[int, float]], round_s: Mapping[str, float], left_s: float
) -> list[str]:
    """Return the trees that take part in the next round: those that are expected to stay below `CELL_LIMIT_S`.

    The arguments are those of `harness.measure.protocol.Narrow`.
    """
    return [name for name, took_s in round_s.items() if (len(seconds[name]) + 1) * took_s <= CELL_LIMIT_S]
