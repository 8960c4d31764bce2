"""Measures on this machine how long each step of a cluster takes, as input for the simulation of many nodes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import numpy as np
import ray

from placerl.harness.cluster import cells as on_cluster
from placerl.harness.cluster.connection import connected
from placerl.harness.cluster.scale import Service
from placerl.harness.cluster.training import ClusterTraining, Size
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.plan import tiers
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import OtherResult
from placerl.harness.store.store import Run, Store
from placerl.harness.workloads import Workload

CELLS, CELL_S = 60, 0.02
ROUNDS = 20
TEN_GBIT_BYTES_PER_S = 1.25e9


@ray.remote(num_cpus=0)
class _Idle:
    def nothing(self) -> None: ...


def measure(workload: Workload, mapping: Mapping, cell_s: float, link_bytes_per_s: float) -> Service:
    """Measure the service times of a workload on a Ray cluster that runs on this machine alone.

    Args:
        cell_s: seconds that a machine takes to measure one cell (a piece of a plan); taken as given, not measured.
        link_bytes_per_s: bandwidth of the links between machines; taken as given, not measured.
    """
    with connected("local"), tempfile.TemporaryDirectory(prefix="placerl-service-") as folder:
        writer_s = _writer_s(Path(folder) / "store.sqlite")
        call_s = _call_s()
        training = ClusterTraining(workload, mapping, Size())
        try:
            training.warm_up()
            calls = training.calls
            told = training.advance(ROUNDS * training.gradient_steps_a_round)
            rounds = (training.calls - calls) or 1
            weights_bytes = training.weights_bytes()
            steps, vector_steps = training.gradient_steps_a_round, training.environment_steps_an_actor
            inserts = training.inserts_a_round
        finally:
            training.close()

    def a_call(*terms: str, calls_a_round: int = 1) -> float:
        return sum(told.terms_s.get(term, 0.0) for term in terms) / (rounds * calls_a_round) + call_s

    return Service(
        cell_s=cell_s,
        writer_s=writer_s,
        collect_s=a_call("environment", "infer"),
        collected=vector_steps,
        insert_s=a_call("insert", calls_a_round=inserts),
        sample_s=a_call("sample"),
        update_s=a_call("update"),
        call_s=call_s,
        learn_s=a_call("learner", "state"),
        batches=steps,
        weights_bytes=weights_bytes,
        link_bytes_per_s=link_bytes_per_s,
    )


def _writer_s(path: Path) -> float:
    """Return the seconds that the submitting and committing process is busy with one cell of a profile's size."""

    def rows(run: Run, report: Report) -> Sequence[Row]:
        sleep(CELL_S)  # so that the writer waits for machines, and not machines for the writer
        row = OtherResult(
            suite=Suite.SCALE,
            primitive="cell",
            quantity="rows",
            provenance=Provenance.MEASURED,
            value=1.0,
            samples=tuple(np.linspace(0, 1, 100)),
        )
        return [row] * 10

    with Store.open(path) as store:
        tier = tiers.tier("quick")
        on_cluster.execute(store, tier, [Cell("first", 0, rows)], silent)
        plan = on_cluster.ClusterPlan(store, tier, [Cell(str(number), 0, rows) for number in range(CELLS)])
        begin_s = perf_counter()
        outcome = plan.execute(silent)
        return (perf_counter() - begin_s - outcome.waited_s) / CELLS


def _call_s() -> float:
    """Return seconds per call of an actor's method with many calls under way: Ray's own share of a visit."""
    idle = _Idle.remote()  # type: ignore[attr-defined]
    ray.get(idle.nothing.remote())
    seconds = []
    for _ in range(5):
        begin_s = perf_counter()
        ray.get([idle.nothing.remote() for _ in range(200)])
        seconds.append((perf_counter() - begin_s) / 200)
    ray.kill(idle)
    return median(seconds)
