"""Measures the cells of a plan on the machines of a Ray cluster, and stores each result as it arrives.

A cell is a piece of the plan whose results (rows) are stored together. It runs as a Ray task that holds its
machine's resource (`MACHINE`), so that nothing else is timed on that machine meanwhile. Cells that need each
other's rows form a chain and run on the same machine, one after another. Ray places the tasks, queues those that
find no free machine, and retries a task whose worker or node dies. Only this process writes to the store.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from placerl.harness.cluster.connection import MACHINE, RESTARTS, brief
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.revision import revision
from placerl.harness.core.row import Row
from placerl.harness.plan.execution import tell_stored
from placerl.harness.plan.tiers import Tier
from placerl.harness.platforms import this_machine
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store


class Elsewhere(NamedTuple):
    """The answer of a task that measured nothing, because it ran on a machine of another kind than requested.

    The task's rows belong to a run, a set of results of one kind of machine. A machine's fingerprint, a hash of its
    hardware, identifies the kind.

    Attributes:
        node: Ray's name of the machine.
    """

    node: str
    machine: dict[str, Any]


class OtherCode(NamedTuple):
    """The answer of a task that measured nothing, because its machine has another revision of the code."""

    node: str
    revision: str


class Measured(NamedTuple):
    """The answer of a task that measured its cell, a piece of the plan."""

    node: str
    rows: Sequence[Row]


class _Before(Run):
    """Replaces the run of a cell on another machine: holds the rows of the cells before it, without a store."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)

    def measurements(self, **chosen: Any) -> Sequence[Row]:
        return [row for row in self._rows if all(getattr(row, name) == is_ for name, is_ in chosen.items())]


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Return this machine's fingerprint, cached: it queries drivers and programs."""
    return this_machine.fingerprint()


@lru_cache(maxsize=1)
def _revision() -> str:
    """Return the revision of the code on this machine; a worker keeps that of its first cell, because it imports
    only once.
    """
    return revision()


@ray.remote(num_cpus=0, resources={MACHINE: 1}, max_retries=RESTARTS)
def _measure(
    cell: Cell, before: Sequence[Row], fingerprint: str, code: str
) -> Elsewhere | OtherCode | Measured:
    """Measure a cell here, if this machine has the given fingerprint and revision."""
    node = ray.get_runtime_context().get_node_id()
    if _revision() != code:
        return OtherCode(node, _revision())
    if _fingerprint() != fingerprint:
        return Elsewhere(node, this_machine.describe().to_json())
    registry.build_baselines(cell.baselines)  # on a machine that lacks them; a failure shows in the cell
    try:
        rows = cell.measured(_Before(before), silent)
    except Exception as error:  # one failing cell must not stop the others; its error is stored and shown
        rows = [cell.failure(error)]
    return Measured(node, rows)


@ray.remote(num_cpus=0, max_retries=RESTARTS)
def _describe() -> tuple[dict[str, Any], str]:
    """Return the description of this machine, and the revision of its code."""
    return this_machine.describe().to_json(), _revision()


def _on(node: str, *, or_another: bool) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=or_another)


@dataclass
class _Chain:
    """Cells that need each other, the run of the machine that measures them, and its node once it is known."""

    cells: list[Cell]
    run: Run
    node: str = ""
    waiting: list[Cell] = field(default_factory=list)


class PlanOutcome(NamedTuple):
    """The result of measuring a plan.

    Attributes:
        failed: the keys of the cells that failed, such as "profile/hopper-ddpg/256".
        waited_s: seconds in which this process only waited for the machines.
    """

    failed: list[str]
    waited_s: float


def execute(
    store: Store, tier: Tier, cells: Sequence[Cell], report: Report, *, fresh: bool = False
) -> list[str]:
    """Measure on the cluster all cells that are not stored yet, and store the rows of each as it ends.

    Args:
        cells: in an order in which each follows the cells that it needs; cells of one `Cell.chain` run on one
            machine.
        fresh: whether to begin new runs, in which every cell is measured again.

    Returns:
        The keys of the cells that failed.

    Raises:
        UserError: a machine of the cluster has another revision of the code; the message names it.
    """
    return ClusterPlan(store, tier, cells, fresh=fresh).execute(report).failed


class ClusterPlan:
    """Measures the cells (pieces) of a plan on the connected cluster.

    Args:
        cells: in an order in which each follows the cells whose rows it needs.
    """

    def __init__(self, store: Store, tier: Tier, cells: Sequence[Cell], *, fresh: bool = False) -> None:
        self._store, self._tier, self._fresh = store, tier, fresh
        self._revision = revision()
        self._nodes = list(_machines())
        self._runs: dict[str, Run] = {}  # by fingerprint
        self._failed: list[str] = []
        self._total_s = sum(cell.estimate_s for cell in cells)
        chains: dict[str, list[Cell]] = {}
        for cell in cells:
            chains.setdefault(cell.chain or cell.key, []).append(cell)
        commonest = self._commonest_run()
        self._chains = [self._begun(_Chain(members, commonest)) for members in chains.values()]

    def execute(self, report: Report) -> PlanOutcome:
        """Measure the unfinished cells, store their rows, and return when all have succeeded or failed.

        Args:
            report: called with the seconds of work done, the seconds of all work, and a text such as the key of the
                cell just measured.
        """
        done_s = self._total_s - sum(cell.estimate_s for chain in self._chains for cell in chain.waiting)
        waited_s = 0.0
        pending: dict[Any, tuple[_Chain, Cell]] = {}
        for chain in self._chains:
            pending |= self._next_task(chain)
        while pending:
            report(done_s, self._total_s, "")
            begin_s = perf_counter()
            (ref,), _ = ray.wait(list(pending), num_returns=1)
            waited_s += perf_counter() - begin_s
            chain, cell = pending.pop(ref)
            if self._take(chain, cell, ref):
                done_s += cell.estimate_s
                report(done_s, self._total_s, cell.key)
            pending |= self._next_task(chain)
        report(self._total_s, self._total_s, "done")
        return PlanOutcome(self._failed, waited_s)

    def _commonest_run(self) -> Run:
        """Return the run of the most common kind of machine."""
        asked = [
            _describe.options(scheduling_strategy=_on(node, or_another=False)).remote()
            for node in self._nodes
        ]
        by_fingerprint: dict[str, list[dict[str, Any]]] = {}
        for node, ref in zip(self._nodes, asked, strict=True):
            with suppress(RayError):  # a node that has just died
                described, its_revision = ray.get(ref)
                if its_revision != self._revision:
                    allowed = f"machines with this one's code, {self._revision}"
                    raise UserError("command line", "--ray", _other_code(node, its_revision), allowed)
                by_fingerprint.setdefault(described["fingerprint"], []).append(described)
        if not by_fingerprint:
            raise RuntimeError(f"no node that offers {MACHINE!r} answers")
        return self._run_of(max(by_fingerprint.values(), key=len)[0])

    def _run_of(self, described: dict[str, Any]) -> Run:
        fingerprint = described["fingerprint"]
        if fingerprint not in self._runs:
            self._runs[fingerprint] = self._store.begin_run(
                self._tier.name, self._revision, described, fresh=self._fresh
            )
        return self._runs[fingerprint]

    def _begun(self, chain: _Chain) -> _Chain:
        """Return the chain with its unfinished cells, on the node that measured its finished ones."""
        run = chain.run
        for cell in chain.cells:
            for row in cell.rows(run):
                if (node := row.node) in self._nodes:
                    chain.node = node
        chain.waiting = [c for c in chain.cells if c.due(run)]
        return chain

    def _next_task(self, chain: _Chain) -> dict[Any, tuple[_Chain, Cell]]:
        """Submit the chain's next cell; returns an empty dict if none is left."""
        if not chain.waiting:
            return {}
        cell, run = chain.waiting.pop(0), chain.run
        mine = [c for c in chain.cells if c is not cell and c.finished(run)]
        before = [row for c in mine for row in c.rows(run)]
        task = _measure
        if chain.node:  # if that node is gone, Ray takes another one
            task = _measure.options(scheduling_strategy=_on(chain.node, or_another=True))
        return {task.remote(cell, before, run.record.fingerprint, self._revision): (chain, cell)}

    def _take(self, chain: _Chain, cell: Cell, ref: Any) -> bool:
        """Store the result of a task; returns False if the chain starts again on another kind of machine."""
        try:
            answer: Elsewhere | OtherCode | Measured = ray.get(ref)
        except RayError as dead:  # its workers or nodes died repeatedly, or memory ran out
            answer = Measured("", [cell.failure(RuntimeError(brief(dead)))])
        if isinstance(answer, OtherCode):  # from a machine that joined later or was updated meanwhile
            error = RuntimeError(f"{_other_code(*answer)}, not this process's {self._revision}")
            answer = Measured("", [cell.failure(error)])
        chain.node = answer.node or chain.node  # a worker that died has no node
        if isinstance(answer, Elsewhere):
            chain.run = self._run_of(answer.machine)
            self._begun(chain)
            return False
        rows = [replace(row, node=answer.node) for row in answer.rows]
        cell.store(chain.run, rows)
        tell_stored(chain.run, cell)
        if cell.failed(chain.run):
            self._failed.append(cell.key)
        return True


def _other_code(node: str, its_revision: str) -> str:
    """Return the text that names a machine with another revision of the code."""
    host = next((each["NodeManagerHostname"] for each in ray.nodes() if each["NodeID"] == node), node)
    return f"machine {host} has revision {its_revision}"


def _machines() -> Iterator[str]:
    """Yield the nodes that offer a machine."""
    return (node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(MACHINE))
