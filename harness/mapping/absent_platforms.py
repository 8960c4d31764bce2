"""Predictions for platforms that this project does not have.

Times of primitives are modelled from published numbers, and mappings are chosen from these times.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.shipped import shipped
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import (
    STRATEGIES,
    Entry,
    Mapping,
    PerformanceTable,
    Problem,
    Target,
    absent_loop,
    pearl24_authors,
)
from placerl.harness.mapping.answer import ANSWERING, MACHINE
from placerl.harness.mapping.candidates import candidates
from placerl.harness.mapping.predict import table_from, with_slow_links
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.roofline import (
    CountedWork,
    Modelled,
    OnFpga,
    PipelineCycles,
    Refused,
    modelled_times,
)
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23
from placerl.harness.platforms import (
    PlatformDevice,
    PlatformFile,
    SourcedCount,
    SourcedNumber,
    load,
    overheads,
)
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.workloads import Workload, from_tables, override
from placerl.harness.workloads import load as load_workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.explore.map_replay import ReplayDesign, replay_design
from placerl.primitives.graph.graph import Graph
from placerl.primitives.learner.fpga import pipeline
from placerl.primitives.learner.fpga.pipeline_resources import PipelineResources, available, dsps_alone
from placerl.primitives.learner.graph_learner import step_graph

TABLE_5 = shipped("results", "papers", "map_table_5.csv")
OPTIMAL = "optimal mapping"
PLACES = {"second best": "second best mapping", "worst": "worst mapping"}
"""Row of MAP Table V that names the second best mapping, and row that names the worst."""
_WORKLOADS = {"CartPole": "cartpole-ddpg", "Hopper": "hopper-ddpg", "Pong": "pong-dqn"}
MAP_WORKLOADS = tuple(_WORKLOADS.values())
"""The workloads of MAP's benchmarks."""
_ACTORS, _FANOUT = 16, 2  # MAP VII-A
_LEARNER, _STORAGE = 0, 2  # positions in a mapping


def work_of(workload: Workload, batch_size: int) -> CountedWork:
    """Return the arithmetic and memory traffic of a workload, counted from its traced gradient step."""
    return _work_of(json.dumps(workload.tables(), sort_keys=True), batch_size)


@cache
def _work_of(tables: str, batch_size: int) -> CountedWork:
    workload = from_tables(json.loads(tables), "a workload")
    algorithm = algorithm_of(workload)
    graph: Graph = step_graph(algorithm, batch_size, algorithm.variants[0])
    return CountedWork(
        macs=graph.multiply_accumulates(),
        state_bytes=sum(buffer.size_bytes for _, buffer in graph.of_kind("state")),
        batch_bytes=sum(buffer.size_bytes for _, buffer in graph.of_kind("input")),
        operations=len(graph.nodes),
        leaves=workload.replay.capacity,
        fanout=workload.replay.fanout,
    )


def modelled(
    workload: Workload, batch_size: int, platform: PlatformFile, inserted: int = 1
) -> list[Modelled | Refused]:
    """Return the time of each primitive of a workload on a platform, modelled from the platform's numbers.

    Args:
        platform: the devices, with their published numbers. An overhead that it does not state is one measured
            elsewhere (`platforms.overheads`).
        inserted: transitions that a call inserts.

    Returns:
        The times, and what an FPGA cannot hold.

    Raises:
        UserError: the platform lacks a number that is needed; the message names the field.
    """
    work, problem = work_of(workload, batch_size), problem_of(workload, batch_size)
    completed = overheads.completed(platform)[0]
    devices = tuple(_with_own_replay(device, workload, batch_size) for device in completed.device)
    completed = completed.model_copy(update={"device": devices})
    explored = partial(_explored, workload, batch_size)
    return list(modelled_times(completed, work, problem, explored, inserted))


def _explored(workload: Workload, batch_size: int, device: PlatformDevice) -> OnFpga:
    """Return what the explorations of learner and replay find for a device."""
    own, board = device.own_fpga, device.learner_pipeline
    fpga = own or (catalogue.device(board) if board else None)
    if fpga is None:
        return OnFpga()
    algorithm, replay_lacks = algorithm_of(workload), ""
    if own is not None:
        design = _own_replay(own, workload, batch_size)
        lacking = PipelineResources(0, design.luts, design.flip_flops, 0).lacking(available(own))
        replay_lacks = f"a larger device: a sub-tree would need {lacking}" if lacking else ""
    if refused := pipeline.refusal(algorithm):
        # A roofline needs a peak, which the cells of an own FPGA do not give.
        no_peak = own is not None and device.peak_tops is None
        return OnFpga(None, f"{refused}, or peak_tops" if no_peak else "", replay_lacks)
    try:
        # What a unit of a paper's own hardware takes besides DSPs is not stated.
        best = pipeline.best_design(algorithm, batch_size, fpga, None if own else dsps_alone(fpga))
    except ValueError as error:
        return OnFpga(None, f"a larger device: {error}", replay_lacks)
    return OnFpga(PipelineCycles(best.formula_cycles, best.pipelines, best.samples), "", replay_lacks)


def _own_replay(own: FpgaDevice, workload: Workload, batch_size: int) -> ReplayDesign:
    return replay_design(batch_size, workload.replay.capacity, workload.replay.fanout, own)


def _with_own_replay(device: PlatformDevice, workload: Workload, batch_size: int) -> PlatformDevice:
    """Return a device that, if it is an own FPGA, states the memory and the sub-trees that its block RAMs give."""
    if (own := device.own_fpga) is None:
        return device
    megabytes = own.block_rams * own.block_ram_bits / 8e6
    of, source = Provenance.MODELLED, "from its block RAMs"
    banks = float(_own_replay(own, workload, batch_size).banks)
    filled = {
        "tree_pipelines": SourcedCount(value=banks, provenance=of, source=source),
        "last_level_cache_mb": SourcedNumber(value=megabytes, provenance=of, source=source),
    }
    unstated = {name: number for name, number in filled.items() if getattr(device, name) is None}
    return device.model_copy(update=unstated)


def times(workload: Workload, batch_size: int, platform: PlatformFile) -> list[PieceTime]:
    """Return the primitives' times on a platform that is not here, as rows of provenance `modelled` or `published`.

    What a device cannot hold is a row that is not run, with the reason.

    Raises:
        UserError: the platform lacks a number that is needed, or its published times are of another workload.
    """
    of = partial(_row, workload, batch_size, platform)
    if platform.name == pearl24_authors.PLATFORM:
        pearl24_authors.check(workload, batch_size)
        return [of(Modelled(entry, "PRL's authors, SysConfig/PT.csv")) for entry in pearl24_authors.entries()]
    return list(map(of, modelled(workload, batch_size, platform)))


def loop_times(workload: Workload, batch_size: int, platform: PlatformFile) -> list[PieceTime]:
    """Return the times of the training loop's calls on a platform that is not here (`absent_loop`), as rows.

    Empty if no committed run timed the workload's host, for an on-policy workload, and for published times.

    Raises:
        UserError: the platform lacks a number that is needed.
    """
    problem = problem_of(workload, batch_size)
    if problem.on_policy or platform.name == pearl24_authors.PLATFORM:
        return []
    host = absent_loop.host_calls(workload.name, batch_size)
    if host is None:
        return []
    rows = problem.round_vector_steps * problem.actors
    primitives, inserting = (
        [one for one in modelled(workload, batch_size, platform, inserted) if isinstance(one, Modelled)]
        for inserted in (1, rows)
    )
    calls = absent_loop.pieces(platform, primitives, inserting, problem, host)
    return [_row(workload, batch_size, platform, one) for one in calls]


def _row(workload: Workload, batch_size: int, platform: PlatformFile, piece: Modelled | Refused) -> PieceTime:
    found: Entry | Refused
    came: dict[str, Any]
    if isinstance(piece, Modelled):
        found = piece.entry
        came = {"provenance": found.provenance, "value": found.time_s, "formula": piece.formula}
    else:
        found = piece
        came = {"provenance": Provenance.MODELLED, "status": "not_run", "reason": f"needs {piece.reason}"}
    return PieceTime(
        suite=Suite.ABSENT_PLATFORM,
        workload=workload.name,
        primitive=found.primitive,
        backend=found.target.backend,
        device=found.target.device,
        batch_size=batch_size,
        quantity="time_per_call",
        target=str(found.target),
        platform=platform.name,
        **came,
    )


def batch_sizes(workload: Workload, platform: str) -> tuple[int, ...]:
    """Return the batch sizes for which a platform of this name has times: the workload's, or the published one."""
    if platform == pearl24_authors.PLATFORM:
        return (pearl24_authors.BATCH_SIZE,)
    return tuple(workload.training.batch_sizes)


def predictions(
    workload: Workload, batch_size: int, platform: PlatformFile
) -> tuple[list[PieceTime], list[PredictedRate]]:
    """Return the primitives' times on a platform that is not here, and every strategy's predictions from them.

    Returns:
        The rows of the times (`times`, `loop_times`), and the rows of predictions. If the platform states no latency,
        each prediction also has the one that slow links would give (`predict.with_slow_links`).
    """
    profile, problem = _inputs(workload, batch_size, platform)
    rows = with_slow_links(workload, batch_size, profile, platform, problem=problem)
    host = absent_loop.host_calls(workload.name, batch_size)
    said = None
    if host is not None:
        said = f"Acting and the loop's own time: {host.source}, x {absent_loop.slowdown(platform):.3g}"
    return profile, [_about_the_host(row, said) if row.strategy == ANSWERING else row for row in rows]


def _about_the_host(row: PredictedRate, said: str | None) -> PredictedRate:
    """Return a prediction of the loop that says where the host's calls come from, or that no run timed them."""
    if said is None and row.value is None:
        return replace(
            row, reason=f"needs acting and the loop's own time, which no committed run has for {row.workload}"
        )
    return row if said is None else replace(row, notes={**row.notes, MACHINE: said})


def _inputs(
    workload: Workload, batch_size: int, platform: PlatformFile
) -> tuple[list[PieceTime], Problem | None]:
    """Return the rows of times on a platform, and what strategies see of the workload if it is not the workload's."""
    profile = [*times(workload, batch_size, platform), *loop_times(workload, batch_size, platform)]
    # A call of the authors' composer inserts the transitions of its 256 actors.
    return profile, pearl24_authors.problem() if platform.name == pearl24_authors.PLATFORM else None


def choice(workload: Workload, batch_size: int, platform: PlatformFile) -> str:
    """Return the mapping that is the answer to a user (`answer.chosen_of`); empty if no strategy chooses one.

    Raises:
        UserError: as `predictions`.
    """
    profile, problem = _inputs(workload, batch_size, platform)
    table = table_from(profile, batch_size)
    for strategy in sorted(STRATEGIES.values(), key=lambda one: one.name != ANSWERING):
        with suppress(ValueError, UserError):  # it lacks something, and chooses none
            of = problem or problem_of(workload, batch_size)
            return str(strategy.choose(table, of, platform).mapping)
    return ""


@dataclass(frozen=True)
class MapTable5Cell:
    """One cell of MAP Table V, next to what MAP's Algorithm 3 chooses from the published numbers.

    Attributes:
        published: the printed mapping, such as `G-C-G` (learner, replay management, storage): C for CPU, G for GPU,
            F for FPGA.
        ours: the mapping that Algorithm 3 chooses from the modelled times, in the same letters.
        learner_s, rmm_s: modelled seconds of the learner and of the replay management on the chosen devices.
        banks: S, the sub-trees that this project's exploration gives the FPGA's replay management (MAP VI-A2); `ours`
            has MAP's own.
        with_banks: the mapping that Algorithm 3 chooses with `banks`.
        reason: why `ours` differs from the printed mapping; empty if it does not.
    """

    workload: str
    batch_size: int
    published: str
    ours: str
    learner_s: float
    rmm_s: float
    banks: int
    with_banks: str
    reason: str = ""


def map_table_5(workload: str = "", batch_size: int | None = None) -> Iterator[MapTable5Cell]:
    """Yield each of the 11 optimal mappings of MAP Table V, with what Algorithm 3 chooses on MAP's platform.

    As in the paper, there are 16 actors, and a node of the sum tree has K = 2 children (MAP VII-A).

    Args:
        workload, batch_size: yield only the mappings for these; by default for all.
    """
    platform, cells = load("map-tpds23"), _table_5()
    for (row, column), printed in cells.items():
        name, size = _configuration(column)
        if row != OPTIMAL or (workload and name != workload) or (batch_size and size != batch_size):
            continue
        table, problem = _on_maps_platform(name, size, platform)
        prediction = MapTpds23().choose(table, problem, platform)
        ours, terms_s = letters(prediction.mapping), prediction.terms_s
        why = _difference(table, problem, printed, ours)
        banks, explored = _with_explored_banks(name, size, platform)
        again = MapTpds23().choose(*_on_maps_platform(name, size, explored), explored)
        yield MapTable5Cell(
            name,
            size,
            printed,
            ours,
            terms_s["learner"],
            terms_s["rmm"],
            banks,
            letters(again.mapping),
            why,
        )


def _with_explored_banks(name: str, size: int, platform: PlatformFile) -> tuple[int, PlatformFile]:
    """Return the S that the exploration chooses for the platform's FPGA, and the platform with it."""
    fpga = platform.find("fpga")
    assert fpga.learner_pipeline is not None and fpga.tree_pipelines is not None, "map-tpds23 states both"  # noqa: PT018
    board = catalogue.device(fpga.learner_pipeline)
    banks = replay_design(size, load_workload(name).replay.capacity, _FANOUT, board).banks
    stated = fpga.tree_pipelines.model_copy(update={"value": float(banks)})
    banked = fpga.model_copy(update={"tree_pipelines": stated})
    devices = tuple(banked if device.key == fpga.key else device for device in platform.device)
    return banks, platform.model_copy(update={"device": devices})


@dataclass(frozen=True)
class MapTable5Gain:
    """One gain of MAP Table V, the throughput of the optimal mapping relative to another, modelled here.

    The throughputs are those of MAP Equation 3 on times modelled from the published numbers.

    Attributes:
        place: "second best" or "worst", the table's name for the other mapping.
        optimal, other: the printed mappings, as letters (`MapTable5Cell`).
        gain: modelled throughput under `optimal` divided by that under `other`.
        in_place: whether `other` also is the second best (or worst) by the model, among all mappings whose
            throughput differs from that of `optimal`. Equally fast mappings share a place.
    """

    workload: str
    batch_size: int
    place: str
    column: str
    optimal: str
    other: str
    gain: float
    in_place: bool


def map_table_5_gains() -> Iterator[MapTable5Gain]:
    """Yield the gains of MAP Table V whose other mapping the table prints, modelled on MAP's platform.

    A gain is the throughput of the optimal mapping divided by that of the second best or the worst mapping. As in
    `map_table_5`, the throughputs come from times that are modelled from published numbers.
    """
    platform, cells = load("map-tpds23"), _table_5()
    for (row, column), other in cells.items():
        if row not in PLACES.values() or not other:
            continue
        name, size = _configuration(column)
        table, problem = _on_maps_platform(name, size, platform)
        rates = {letters(m): MapTpds23().predict(table, problem, platform, m).gps for m in candidates(table)}
        optimal = cells[OPTIMAL, column]
        others = [rate for rate in rates.values() if rate != rates[optimal]]
        for place, pick in (("second best", max), ("worst", min)):
            if row == PLACES[place]:
                gain, in_place = rates[optimal] / rates[other], rates[other] == pick(others)
                yield MapTable5Gain(name, size, place, column, optimal, other, gain, in_place)


def _table_5() -> dict[tuple[str, str], str]:
    """Return the printed cells by row and column."""
    with TABLE_5.open() as file:
        return {(row["row"], row["column"]): row["printed"] for row in csv.DictReader(file)}


def printed_mappings(workload: str) -> dict[int, str]:
    """Return the optimal mappings of a workload that MAP Table V prints, such as `F-F-F`, by batch size."""
    cells = {
        _configuration(column): printed for (row, column), printed in _table_5().items() if row == OPTIMAL
    }
    return {size: printed for (name, size), printed in cells.items() if name == workload}


def _configuration(column: str) -> tuple[str, int]:
    """Return workload and batch size of a column of MAP Table V."""
    environment, size = column.split(", batch size ")
    return _WORKLOADS[environment], int(size)


def as_in_map(name: str) -> Workload:
    """Return a workload with MAP's number of actors and MAP's K, children of a node of the sum tree (VII-A)."""
    item = override(load_workload(name), "replay.fanout", _FANOUT, "MAP VII-A")
    return override(item, "training.actors", _ACTORS, "MAP VII-A")


def _on_maps_platform(name: str, size: int, platform: PlatformFile) -> tuple[PerformanceTable, Problem]:
    item = as_in_map(name)
    pieces = modelled(item, size, platform)
    table = PerformanceTable(piece.entry for piece in pieces if isinstance(piece, Modelled))
    return table, problem_of(item, size)


def _difference(table: PerformanceTable, problem: Problem, printed: str, ours: str) -> str:
    """Explain where two mappings differ, with the numbers that decided and what the paper does not state."""
    for part, (theirs, mine) in enumerate(zip(printed.split("-"), ours.split("-"), strict=True)):
        if theirs == mine:
            continue
        if part == _STORAGE:
            batch, inserted = problem.batch_size * problem.item_words, problem.actors * problem.item_words
            return (
                f"storage {mine}, printed {theirs}: by Algorithm 3's own count a storage beside the learner saves "
                f"{batch:,} words a step and costs {inserted:,} from the actors, so that it belongs there"
            )
        times_us = [1e6 * _time_s(table, part, letter) for letter in (mine, theirs)]
        said = f"{mine} {times_us[0]:,.1f} us, printed {theirs} {times_us[1]:,.1f} us"
        if part == _LEARNER:
            return (
                f"learner {said}, CPU and GPU at the peaks of Table IV and the FPGA by VI-A2's cycles: which is "
                "faster depends on the share of its peak that each learner reaches, and Fig. 11, which shows that, is "
                "lost from the text"
            )
        learner_us = 1e6 * _time_s(table, _LEARNER, ours.split("-")[_LEARNER])
        return (
            f"replay management {said}, beside a learner of {learner_us:,.1f} us: at Table IV's bandwidth the CPU "
            "keeps up; at IV-D4's ~140 cycles an access it would not, nor at batch size 2048, where it is printed"
        )
    return ""


def _time_s(table: PerformanceTable, part: int, letter: str) -> float:
    primitives = ("learner.step",) if part == _LEARNER else ("sum_tree.sample", "sum_tree.update")
    (target,) = (one for one in table.targets(primitives[0]) if _letter(one) == letter)
    return sum(table.time_s(primitive, target) for primitive in primitives)


def letters(mapping: Mapping) -> str:
    """Return a mapping in MAP's notation, such as `G-C-G` for learner, replay management and storage.

    C is the CPU, G a GPU, F an FPGA.
    """
    return "-".join(_letter(target) for target in (mapping.learner, mapping.rmm, mapping.storage))


def _letter(target: Target) -> str:
    device = target.device.partition(":")[0]
    return {"cpu": "C", "cuda": "G", "opencl": "G", "fpga": "F"}[device]
