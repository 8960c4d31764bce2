"""Compares the design parameters that MAP's exploration printed with those that this project's exploration chooses.

MAP Table VI prints DP, the number of learner pipelines, PI, the samples of each, and S, the replay manager's
sub-trees. `placerl explore map` chooses them by the same rules (VI-A2) from what this project's own units need.
"""

from dataclasses import dataclass
from functools import cache

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, by_a_model
from placerl.harness.papers.number import Number, from_cell, integers
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore import map_replay
from placerl.primitives.learner.fpga import pipeline, pipeline_resources

DEVICE = "u200"  # MAP VII-A
NETWORKS = {
    "CartPole": {"actor": (4, 8, 8, 1), "critic": (5, 8, 8, 1)},
    "Hopper": {"actor": (11, 256, 256, 3), "critic": (14, 256, 256, 1)},
}
"""The networks of MAP Table III, by benchmark: the neurons of their layers, inputs first."""
ON_FPGA = {"CartPole": (32, 256, 2048, 16384), "Hopper": (32,)}
"""The batch sizes at which Table V maps the learner to the FPGA; there DP and PI were in use."""
BATCH_SIZES = (32, 256, 2048, 16384)
SOURCE = "placerl explore map, from the resources of this project's units"
UNKNOWN = (
    "MAP states neither what a unit of its own takes nor its crossbar, and another choice follows from other units: "
    "nothing here refutes the table."
)


@dataclass(frozen=True)
class ExploredLearner:
    """The learner's design that the exploration chooses for a benchmark, next to the printed one.

    Attributes:
        pipelines: DP of the chosen design.
        cycles: its cycles per gradient step by MAP's formula (VI-A2).
        printed_cycles: cycles of the fastest design with the printed DP that fits; None if none fits.
        bound_by: the resource of which the chosen design takes the largest share, such as "DSPs".
    """

    pipelines: int
    cycles: int
    printed_cycles: int | None
    bound_by: str


@cache
def explored(benchmark: str, batch_size: int, printed: int) -> ExploredLearner:
    """Explore the learner's design for a benchmark of MAP's on its device."""
    limit = pipeline_resources.available(catalogue.device(DEVICE))
    designs = pipeline.designs(NETWORKS[benchmark], batch_size, limit)
    best = designs[0]
    as_printed = (design.formula_cycles for design in designs if design.pipelines == printed)
    bound_by = pipeline_resources.NAMES[best.resources.scarcest(limit)]
    return ExploredLearner(best.pipelines, best.formula_cycles, next(as_printed, None), bound_by)


def printed_parameters() -> tuple[Number, ...]:
    """Return the printed DP, and the largest S of the printed range from 1 to 32."""
    banks = Number("largest S", map_replay.MOST_BANKS, "count", Provenance.PUBLISHED, "MAP Table VI")
    return from_cell("map_table_6", "hardware parameters", "data parallel factor (DP)"), banks


def _replay(batch_size: int) -> map_replay.ReplayDesign:
    capacity, fanout = integers("MAP.replay_capacity", "MAP.fanout")
    return map_replay.replay_design(batch_size, capacity, fanout, catalogue.device(DEVICE))


def _apart(place: tuple[str, int], learner: ExploredLearner, printed: int) -> str:
    """Say what the exploration chooses in place of the printed DP, and what the printed one would take."""
    name, size = place
    said = f"{name} at batch size {size} has DP = {learner.pipelines}, bound by {learner.bound_by}"
    if learner.printed_cycles is None:
        return f"{said}; DP = {printed} does not fit"
    return f"{said}; DP = {printed} takes {learner.printed_cycles / learner.cycles:.3g} times the cycles"


def _count(quantity: str, value: int) -> Number:
    return Number(quantity, value, "count", Provenance.MODELLED, SOURCE)


class ParametersAreExplored(Claim):
    """Checks MAP Table VI: the exploration chooses DP = 2, PI = B / 2, and S from 1 to 32.

    DP is explored where Table V maps the learner to the FPGA, and S at all of MAP's batch sizes. PI follows from DP.
    """

    key, place, position = "MAP-T6-parameters", "VI-A2, Table VI", 24
    statement = "The exploration chooses two learner pipelines (DP = 2) and up to 32 sub-trees (S)"
    published = printed_parameters()
    decides = "what a unit of MAP's learner and its crossbar take on the FPGA, which MAP does not state"

    def judge(self, _: pd.DataFrame) -> Finding:
        printed = int(from_cell("map_table_6", "hardware parameters", "data parallel factor (DP)").value)
        ours: list[Number] = []
        learners = {
            (benchmark, size): explored(benchmark, size, printed)
            for benchmark, sizes in ON_FPGA.items()
            for size in sizes
        }
        for (benchmark, size), learner in learners.items():
            ours.append(_count(f"{benchmark}, batch size {size}: DP", learner.pipelines))
        banks = {size: _replay(size) for size in BATCH_SIZES}
        ours += [_count(f"batch size {size}: S", design.banks) for size, design in banks.items()]
        other = {place: learner for place, learner in learners.items() if learner.pipelines != printed}
        most = max(design.banks for design in banks.values())
        said = f"DP is as printed in {len(learners) - len(other)} of {len(learners)} configurations"
        said += "".join(f"; {_apart(place, learner, printed)}" for place, learner in other.items()) + ". "
        said += f"S is at most {most}, printed {map_replay.MOST_BANKS}, bound by {banks[BATCH_SIZES[-1]].bound_by}."
        return by_a_model(not other and most == map_replay.MOST_BANKS, tuple(ours), said, unknown=UNKNOWN)
