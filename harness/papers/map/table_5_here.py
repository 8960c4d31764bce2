"""Compares MAP Table V with the devices here: what Algorithm 3 chooses from their times, and what mappings gain.

A cell of the table, a workload and a batch size, is judged where one machine's CPU and GPU were timed, next to the
simulated FPGA. MAP's learner here has no convolutions, so that Pong's cells are not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from placerl.harness import platforms
from placerl.harness.core.provenance import weakest
from placerl.harness.mapping import PerformanceTable, Target, absent_platforms
from placerl.harness.mapping.assignments import Assignment
from placerl.harness.mapping.problem import Problem, problem_of
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23
from placerl.harness.mapping.table import Entry
from placerl.harness.papers.device_order import exact
from placerl.harness.papers.device_times import CPU, FPGA, GPU, fastest, learner_times, replay_times
from placerl.harness.papers.evidence import number
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.number import Number, merge_rows, ratio
from placerl.harness.papers.tried_mappings import tried_mappings

KINDS = {"C": CPU, "G": GPU, "F": FPGA}
TARGETS = {CPU: Target("native"), GPU: Target("cuda"), FPGA: Target("fpga")}
CALLS = ("sum_tree.sample", "sum_tree.update")
ON_THREE_DEVICES = ("cartpole-ddpg", "hopper-ddpg")
"""The workloads whose learner runs on CPU, GPU and FPGA here."""


@dataclass(frozen=True)
class Choice:
    """What Algorithm 3 chooses for a cell of Table V from the times of a machine.

    Attributes:
        workload, batch_size: the cell.
        printed, ours: the printed mapping and the chosen one, such as `G-C-G`; `ours` lists several with "or" where
            noise leaves open which.
        times: the learner's times on CPU, GPU and FPGA.
        rows: index labels of all measurements behind the choice.
    """

    workload: str
    batch_size: int
    printed: str
    ours: str
    times: tuple[Number, ...]
    rows: tuple[int, ...]

    @property
    def as_printed(self) -> bool:
        """Return whether the choice is the printed mapping, whatever the noise."""
        return self.ours == self.printed

    @property
    def learner_as_printed(self) -> bool | None:
        """Return whether the learner is on the printed device; None where noise leaves it open."""
        devices = {one[0] for one in self.ours.split(" or ")}
        return devices == {self.printed[0]} if len(devices) == 1 else None


def choices(frame: pd.DataFrame) -> list[Choice]:
    """Return what Algorithm 3 chooses for each cell of Table V that a machine's times decide, in the table's order."""
    found = []
    for workload in ON_THREE_DEVICES:
        learner = fastest(learner_times(frame, workload))
        replay = {call: fastest(replay_times(frame, workload, call)) for call in CALLS}
        for size, printed in absent_platforms.printed_mappings(workload).items():
            by_call = {
                call: {kind: by_kind[kind][size] for kind in TARGETS if size in by_kind.get(kind, {})}
                for call, by_kind in {"learner.step": learner, **replay}.items()
            }
            if all(times.keys() == TARGETS.keys() for times in by_call.values()):
                problem = problem_of(absent_platforms.as_in_map(workload), size)
                ours = " or ".join(sorted(_chosen(by_call, problem)))
                every = [time for times in by_call.values() for time in times.values()]
                times = tuple(by_call["learner.step"].values())
                found.append(Choice(workload, size, printed, ours, times, merge_rows(every)))
    return found


def _chosen(by_call: Mapping[str, Mapping[str, Number]], problem: Problem) -> set[str]:
    """Return what Algorithm 3 chooses with the times of each device at their lower or all at their upper bounds."""
    platform = platforms.load("map-tpds23")
    chosen = set()
    for ends in product((0, 1), repeat=len(TARGETS)):
        end_of = dict(zip(TARGETS, ends, strict=True))
        table = PerformanceTable(
            _entry(call, kind, problem.batch_size, time, end_of[kind])
            for call, times in by_call.items()
            for kind, time in times.items()
        )
        chosen.add(absent_platforms.letters(MapTpds23().choose(table, problem, platform).mapping))
    return chosen


def _entry(call: str, kind: str, size: int, time: Number, end: int) -> Entry:
    time_s = max(0.0, interval(exact(time))[end])
    return Entry(call, TARGETS[kind], size, time_s, time_s, time_s, time.provenance)


def said_of(found: Sequence[Choice]) -> str:
    """Say how many choices are as printed, and which are not."""
    wrong = [
        f"{one.workload}, batch size {one.batch_size}: {one.ours} for {one.printed}"
        for one in found
        if not one.as_printed
    ]
    places = ", ".join(f"{one.workload} at {one.batch_size}" for one in found)
    return (
        f"From the times of this machine's CPU and GPU and of the simulated FPGA Algorithm 3 chooses "
        f"{len(found) - len(wrong)} of {len(found)} mappings as printed ({places})."
        + (f" Others: {'; '.join(wrong)}." if wrong else "")
    )


def counted(found: Sequence[Choice]) -> Number:
    """Return how many choices are as printed, as a number with the weakest provenance of the times."""
    provenance = weakest(*(time.provenance for one in found for time in one.times))
    rows = tuple(sorted({label for one in found for label in one.rows}))
    name = f"here: optimal mappings as printed, of {len(found)}"
    source = "Algorithm 3 on times of this machine's CPU and GPU and of the simulated FPGA"
    return Number(name, sum(one.as_printed for one in found), "count", provenance, source, rows=rows)


def gains(frame: pd.DataFrame, pairs: Iterable[Any]) -> list[Number]:
    """Return what the optimal mapping gains over another one of Table V in trainings here, where both were run.

    Args:
        pairs: rows of the experiment that models the gains: each names both mappings and the column.
    """
    tried, found = tried_mappings(frame), []
    for pair in pairs:
        by_choice = tried.get((pair.workload, int(pair.batch_size)), {})
        named = (pair.parameters.optimal, pair.parameters.other)
        rows = [by_choice.get(Assignment(KINDS[one[0]], KINDS[one[2]])) for one in named]
        if any(row is None or pd.isna(row.value) for row in rows):
            continue
        title = f"here, {pair.parameters.column}: {named[0]} over {named[1]}"
        found.append(ratio(title, *(number(row, one) for row, one in zip(rows, named, strict=True))))
    return found
