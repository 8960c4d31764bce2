"""Measures the cells of a plan on the machines of a Ray cluster, each result stored as it comes.

Cells that need one another's rows form a chain, which one Ray actor measures, a call a cell: so what is compared was
measured on one machine. The actor holds its machine's resource (`MACHINE`), so that whatever is timed has the machine
to itself. Ray places the actors, keeps the rest waiting, and starts an actor anew when its node dies. Results go to
the store through this process, the single writer.
"""

import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from harness import machine, reproduce, workers
from harness.errors import UserError
from harness.measurement import Measurement
from harness.progress import Report, silent
from harness.reproduce import Cell
from harness.revision import revision
from harness.store import Run, Store
from harness.tiers import Tier

MACHINE = "placerl"
"""The custom resource that stands for one machine: `ray start --resources='{"placerl": 1}'`."""
RESTARTS = 3  # how often Ray starts a chain's actor anew, and its cell with it, when a node dies


class MachineChanged(Exception):
    """The chain goes on where its earlier rows were not measured."""


@ray.remote(num_cpus=0, resources={MACHINE: 1}, max_restarts=RESTARTS, max_task_retries=RESTARTS)
class _Chain:
    """One machine, for as long as it measures the cells of a chain."""

    def fingerprint(self) -> str:
        return machine.fingerprint()

    def describe(self) -> dict[str, Any]:
        return machine.describe().to_json()

    def build(self, names: Sequence[str]) -> None:
        """Builds baselines' environments, where this machine has none; a failure shows in the cells that need it."""
        workers.build_baselines(names)

    def measure(self, cell: Cell, before: list[Measurement], fingerprint: str) -> list[Measurement]:
        """The rows of a cell, from those of the chain's cells before it."""
        if before and machine.fingerprint() != fingerprint:
            raise MachineChanged
        with (
            tempfile.TemporaryDirectory(prefix="placerl-cell-") as folder,
            Store.open(Path(folder) / "chain.sqlite") as store,
        ):
            run = store.begin_run("chain", revision(), {"fingerprint": fingerprint})
            if before:
                run.finish("before", before)
            return cell.measure(run, silent)


@dataclass
class _State:
    """What is known of a chain: its cells, its actor, and once that has started, the run of its machine."""

    cells: list[Cell]
    actor: Any
    run: Run | None = None
    waiting: list[Cell] = field(default_factory=list)


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to the cluster at `address`; with "local", to one of this machine alone that ends with it.

    Raises:
        UserError: nothing answers there, or no node offers the resource `MACHINE`.
    """
    local = address == "local"
    if address not in ("local", "auto"):
        _require_listener(address)  # Ray itself would try for half a minute
    options: dict[str, Any] = {"resources": {MACHINE: 1}, "include_dashboard": False} if local else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise UserError(
            "command line", "--ray", f"{address!r}: {said}", "local, auto, or HOST:PORT of a cluster's head"
        ) from None
    try:
        if not ray.cluster_resources().get(MACHINE):
            offered = f"a node started with --resources='{{\"{MACHINE}\": 1}}'"
            raise UserError("command line", "--ray", f"no node of {address} offers {MACHINE!r}", offered)
        yield
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise UserError(
            "command line", "--ray", f"{address!r}: {error}", "local, auto, or HOST:PORT of a cluster's head"
        ) from None


def execute(
    store: Store, tier: Tier, cells: Sequence[Cell], report: Report, *, fresh: bool = False
) -> list[str]:
    """Measures the cells that the runs of their machines do not hold yet, storing each as it ends.

    Args:
        store: where to; each machine has a run of its own in it.
        tier: whose cells they are.
        cells: in the order in which they need one another; those of one `Cell.chain` stay together.
        report: told how far it is.
        fresh: measure again what an earlier run finished.

    Returns:
        The keys of the cells that failed.
    """
    chains: dict[str, list[Cell]] = {}
    for one in cells:
        chains.setdefault(one.chain or one.key, []).append(one)
    work = _Work(store, tier, fresh)
    pending: dict[Any, tuple[_State, Cell | None]] = {}
    for members in chains.values():
        state = _State(members, _Chain.remote())  # type: ignore[attr-defined]
        pending[state.actor.fingerprint.remote()] = (state, None)
    total_s, done_s = sum(cell.estimate_s for cell in cells), 0.0
    while pending:
        report(done_s, total_s, "")
        (ref,), _ = ray.wait(list(pending), num_returns=1)
        state, cell = pending.pop(ref)
        try:
            if cell is None:
                work.begin(state, ray.get(ref))
                done_s += sum(c.estimate_s for c in state.cells) - sum(c.estimate_s for c in state.waiting)
            else:
                assert state.run
                reproduce.store_rows(state.run, cell, ray.get(ref))
        except MachineChanged:
            pending[state.actor.fingerprint.remote()] = (state, None)
            continue
        except RayActorError as error:
            work.fail(state, [cell, *state.waiting] if cell else state.cells, error)
            continue
        except RayTaskError as error:
            work.fail(state, [cell] if cell else state.cells, error)
        if cell is not None:
            done_s += cell.estimate_s
            report(done_s, total_s, cell.key)
        if state.waiting:
            following = state.waiting.pop(0)
            pending[work.submit(state, following)] = (state, following)
        else:
            ray.kill(state.actor)  # its machine is free for the next chain
    report(total_s, total_s, "done")
    return work.failed


class _Work:
    """The runs of the machines that have answered, and what failed."""

    def __init__(self, store: Store, tier: Tier, fresh: bool) -> None:
        self.failed: list[str] = []
        self._store, self._tier, self._fresh = store, tier, fresh
        self._runs: dict[str, Run] = {}

    def begin(self, state: _State, fingerprint: str) -> None:
        """Opens the run of the machine that a chain has got, and says which of its cells wait."""
        if fingerprint not in self._runs:
            described = ray.get(state.actor.describe.remote())
            self._runs[fingerprint] = self._store.begin_run(
                self._tier.name, revision(), described, fresh=self._fresh
            )
        state.run = self._runs[fingerprint]
        state.waiting = [cell for cell in state.cells if not reproduce.finished(state.run, cell)]
        baselines = sorted({name for cell in state.waiting for name in cell.baselines})
        if baselines:
            state.actor.build.remote(baselines)

    def submit(self, state: _State, cell: Cell) -> Any:
        """Has the chain's machine measure a cell."""
        run = state.run
        assert run
        mine = [c for c in state.cells if c is not cell and reproduce.finished(run, c)]
        before = [row for c in mine for row in reproduce.rows_of(run, c)]
        return state.actor.measure.remote(cell, before, run.record.fingerprint)

    def fail(self, state: _State, cells: Sequence[Cell], error: Exception) -> None:
        """Stores that the cells failed, where there is a run to store it in."""
        cause = getattr(error, "cause", None) or error
        for cell in cells:
            self.failed.append(cell.key)
            if state.run:
                reproduce.store_rows(state.run, cell, [reproduce.failure(cell, cause)])
