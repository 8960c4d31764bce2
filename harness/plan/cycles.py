"""Finds the clock cycles of simulated hardware that tiers need, and simulates those that the committed table lacks.

Measurements only look cycles up (`primitives.fpga.cycles.timed_block`). Which they need follows from the same functions
that count them: here they are called while their requests are recorded. A module of a paper that needs some has a
function `cycle_requests`, which yields such calls for a tier, each with a name, or `SIMULATED_TRAININGS`, the batch
sizes of its trainings by tier and workload.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.progress import Report, silent
from placerl.harness.mapping import Target
from placerl.harness.papers import discovery
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.profile.simulated_devices import DEVICES
from placerl.harness.validate.plan import GRIDS
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.fpga.cycles import timed_block
from placerl.primitives.fpga.cycles.table import CyclesTable, parsed, size_order
from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import MOST_BANKS
from placerl.primitives.learner.fpga import fpga_backend, pipeline
from placerl.primitives.learner.graph_learner import step_graph


@dataclass(frozen=True)
class DesignNeed:
    """The cycles of a design that tiers need.

    Attributes:
        block: the hardware block.
        parameters: the design's parameters.
        sizes: the sizes of calls that are needed, by their text.
    """

    block: TimedBlock
    parameters: Sequence[Any]
    sizes: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the design's text, by which the table has it."""
        return self.block.design(self.parameters)

    @property
    def is_current(self) -> bool:
        """Return whether the table has the design as its code is now."""
        return self.block.is_current(self.parameters)

    @property
    def missing(self) -> dict[str, Any]:
        """Return the sizes that the table lacks, by their text; all if the design has changed."""
        return {
            text: self.sizes[text] for text in self.block.lacking(self.parameters, list(self.sizes.values()))
        }


def needs(tiers: Sequence[str], report: Report = silent) -> list[DesignNeed]:
    """Return the cycles that tiers need, by design, sorted by the designs' names.

    Args:
        report: called with the number of requests made, their number, and the current one.
    """
    asking = {name: ask for tier in tiers for name, ask in _asking(TIERS[tier])}
    with timed_block.recorded() as wanted:
        for number, (name, ask) in enumerate(asking.items()):
            report(number, len(asking), name)
            ask()
    designs = [
        DesignNeed(block, parameters, sizes) for (block, _), (parameters, sizes) in wanted.sizes.items()
    ]
    return sorted(designs, key=lambda need: need.name)


def _asking(tier: Tier) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that look up cycles that a tier's cells need, each with a name."""
    from placerl.primitives.fpga.cycles.blocks import replay  # needs the extra fpga

    banks = (1 << bits for bits in range(MOST_BANKS.bit_length()))
    for count in banks:
        yield f"replay, S = {count}", partial(replay.BLOCK.results, [count], replay.SIZES)
    for item in map(workloads.load, sorted({*tier.workloads, *GRIDS[tier.name]})):
        for size in sorted(_batch_sizes(tier, item)):
            yield f"{item.name}, batch size {size}", partial(_learner_steps, item, size)
    for module in discovery.modules():
        if requests := getattr(module, "cycle_requests", None):
            yield from requests(tier)


def _batch_sizes(tier: Tier, item: Workload) -> set[int]:
    sizes = {size for size in tier.batch_sizes if size <= item.replay.capacity}
    sizes |= {item.training.batch_size, *(item.training.batch_sizes if tier.own_batch_sizes else ())}
    sizes |= set(GRIDS[tier.name].get(item.name, ()))
    for module in discovery.modules():
        sizes |= getattr(module, "SIMULATED_TRAININGS", {}).get(tier.name, {}).get(item.name, set())
    return sizes


def _learner_steps(item: Workload, batch_size: int) -> None:
    """Look up a gradient step on the systolic core, and on every pipeline that fits one of the devices."""
    algorithm = algorithm_of(item)
    for variant in algorithm.variants:
        # The core refuses a convolution of too many images; the cell then fails with its words.
        with suppress(ValueError):
            fpga_backend.node_cycles(step_graph(algorithm, batch_size, variant))
    if pipeline.refusal(algorithm):
        return
    for device in DEVICES:
        board = catalogue.device(Target.parse(device).location)
        for count in pipeline.pipeline_counts(batch_size):
            try:
                design = pipeline.best_design(algorithm, batch_size, board, pipelines=count)
            except ValueError:  # it does not fit, nor do more
                break
            pipeline.simulated_passes(design)


def update(
    table: CyclesTable, wanted: Sequence[DesignNeed], report: Report, write: Callable[[], None]
) -> None:
    """Bring designs of a table up to date: simulate what it lacks, and keep what depends on no change.

    If only the code of a design has changed, and neither its Verilog nor the code that reads its results, its cycles
    stay. Otherwise all of them are simulated again.

    Args:
        report: called with the sizes done, their number, and the current one.
        write: called after each design, also if it is interrupted.
    """
    total, done = sum(len(need.missing) for need in wanted), 0
    for need in wanted:
        report(done, max(total, 1), need.name)
        lacking = len(need.missing)
        if not lacking and need.is_current:
            continue
        key, before = need.block.key(need.parameters), table.designs.get(need.name)
        if before is None or (before.verilog, before.reading) != (key.verilog, key.reading):
            table.results.pop(need.name, None)
        known = table.results.setdefault(need.name, {})
        left = sorted((text for text in need.sizes if text not in known), key=size_order)
        table.designs[need.name] = key
        try:
            for number, text in enumerate(left):
                report(done + number, max(total, 1), f"{need.name}: {text}")
                (result,) = need.block.simulated_once(need.parameters, [need.sizes[text]])
                table.add(need.name, text, result)
        finally:  # also where it is interrupted
            write()
        done += lacking


@dataclass(frozen=True)
class Difference:
    """A result of the table that a new simulation does not confirm.

    Attributes:
        stored, simulated: the two results.
    """

    design: str
    size: str
    stored: Any
    simulated: Any


def check(table: CyclesTable, count: int, seed: int, report: Report) -> list[Difference]:
    """Simulate results of a table anew, drawn at random, and return those that differ."""
    from placerl.primitives.fpga.cycles.blocks import every_block

    every = [(design, size) for design, by_size in sorted(table.results.items()) for size in sorted(by_size)]
    drawn = np.random.default_rng(seed).choice(len(every), min(count, len(every)), replace=False)
    differences = []
    for number, place in enumerate(drawn.tolist()):
        design, size = every[place]
        report(number, len(drawn), f"{design}: {size}")
        name, parameters = parsed(design)
        (again,) = every_block()[name].simulated(parameters, [json.loads(size)])
        again, stored = json.loads(json.dumps(again)), table.results[design][size]
        if again != stored:
            differences.append(Difference(design, size, stored, again))
    return differences
