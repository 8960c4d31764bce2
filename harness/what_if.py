"""What a platform that is not here would run where: times from its published numbers, predictions from those."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.mapping import Mapping, MapTpds23, PerformanceTable, Target
from harness.mapping.roofline import Modelled, Work, modelled_times
from harness.measurement import Measurement
from harness.platform_model import Platform, load
from harness.predicting import measurements, problem_of
from harness.runtime.compose import algorithm_of
from harness.workload import Workload, override
from harness.workload import load as load_workload
from primitives.learner.graph import Graph
from primitives.learner.graph_learner import step_graph

TABLE_5 = Path(__file__).parents[1] / "results" / "papers" / "map_table_5.csv"
_WORKLOADS = {"CartPole": "cartpole-ddpg", "Hopper": "hopper-ddpg", "Pong": "pong-dqn"}
_ACTORS, _FANOUT = 16, 2  # MAP VII-A


def work_of(workload: Workload, batch_size: int) -> Work:
    """What a workload asks of any device, counted from its traced gradient step."""
    algorithm = algorithm_of(workload)
    graph: Graph = step_graph(algorithm, batch_size, algorithm.variants[0])
    return Work(
        macs=graph.multiply_accumulates(),
        state_bytes=sum(buffer.size_bytes for _, buffer in graph.of_kind("state")),
        batch_bytes=sum(buffer.size_bytes for _, buffer in graph.of_kind("input")),
        operations=len(graph.nodes),
        leaves=workload.replay.capacity,
        fanout=workload.replay.fanout,
    )


def modelled(workload: Workload, batch_size: int, platform: Platform) -> list[Modelled]:
    """The primitive table of a platform, from its numbers alone.

    Raises:
        UserError: the platform lacks a number that is needed; it names the field.
    """
    return list(modelled_times(platform, work_of(workload, batch_size), problem_of(workload, batch_size)))


def predictions(
    workload: Workload, batch_size: int, platform: Platform
) -> tuple[list[Measurement], list[Measurement]]:
    """Rows of the modelled primitive table, and the predictions that every strategy makes from it."""
    profile = [
        Measurement(
            suite="what-if",
            workload=workload.name,
            primitive=made.entry.primitive,
            backend=made.entry.target.backend,
            device=made.entry.target.device,
            batch_size=batch_size,
            quantity="time_per_call",
            unit="s",
            provenance=made.entry.provenance,
            value=made.entry.time_s,
            details={"target": str(made.entry.target), "platform": platform.name, "formula": made.formula},
        )
        for made in modelled(workload, batch_size, platform)
    ]
    return profile, measurements(workload, batch_size, profile, platform)


@dataclass(frozen=True)
class Cell:
    """One cell of MAP Table V, beside what Algorithm 3 chooses from the published numbers.

    Attributes:
        workload, batch_size: of the cell.
        published: the printed mapping, `G-C-G`: C for CPU, G for GPU, F for FPGA.
        ours: the mapping of Algorithm 3 on the modelled table, in the same letters.
        learner_s, rmm_s: modelled seconds of the chosen targets.
    """

    workload: str
    batch_size: int
    published: str
    ours: str
    learner_s: float
    rmm_s: float


def map_table_5(workload: str = "", batch_size: int | None = None) -> Iterator[Cell]:
    """MAP Table V on MAP's platform: its 11 optimal mappings, with 16 actors and K = 2 (MAP VII-A).

    Args:
        workload, batch_size: only these cells; all when left out.
    """
    platform = load("map-tpds23")
    with TABLE_5.open() as file:
        printed = [row for row in csv.DictReader(file) if row["row"] == "optimal mapping"]
    for row in printed:
        environment, size = row["column"].split(", batch size ")
        name = _WORKLOADS[environment]
        if (workload and name != workload) or (batch_size and int(size) != batch_size):
            continue
        item = load_workload(name)
        item = override(item, "replay.fanout", _FANOUT, "MAP VII-A")
        item = override(item, "training.actors", _ACTORS, "MAP VII-A")
        table = PerformanceTable(made.entry for made in modelled(item, int(size), platform))
        found = MapTpds23().choose(table, problem_of(item, int(size)), platform)
        yield Cell(
            name,
            int(size),
            row["printed"],
            letters(found.mapping),
            found.terms_s["learner"],
            found.terms_s["rmm"],
        )


def letters(mapping: Mapping) -> str:
    """A mapping as MAP prints it, `G-C-G`."""
    return "-".join(_letter(target) for target in (mapping.learner, mapping.rmm, mapping.storage))


def _letter(target: Target) -> str:
    device = target.device.partition(":")[0]
    return {"cpu": "C", "cuda": "G", "opencl": "G", "fpga": "F"}[device]
