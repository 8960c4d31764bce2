"""Learning curves of this project and other libraries, each at its own best settings: `placerl learn --tier night`.

Every goal of `own_settings` is trained for as many environment steps by all systems, and evaluated 50 times
(`harness.compare.curves`). This project trains the shipped workload, and once more with the replay's other sampling:
uniform for prioritised, or prioritised for uniform. All systems train with one seed of all goals before the next seed
begins: whatever has been trained can be compared.

A score is a return on a scale from 0, that of random actions, to 1, the goal's; above 1 is above the goal. The score
of a training is that of the evaluations in its last fifth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.harness import workloads
from placerl.harness.compare.curves import QUANTITY, CurveOf, Extent
from placerl.harness.compare.own_settings import Goal, goals
from placerl.harness.compare.parts import OURS
from placerl.harness.core.suites import Suite
from placerl.harness.measure import over_tasks
from placerl.harness.measure.over_tasks import Interval, Tasks
from placerl.harness.runtime.seed_order import interleaved, last_fifth
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import LearningCurve
from placerl.harness.store.store import Run

EVALUATIONS = 50
PRIORITISED, UNIFORM = f"{OURS}, prioritised", f"{OURS}, uniform"
"""Names of this project with the replay's other sampling than the shipped workload's."""
_STEP_S = 2e-3  # roughly, for the progress bar


def sides(goal: Goal, systems: Sequence[str]) -> list[CurveOf]:
    """Return what is trained for a goal: some systems, and this project with the replay's other sampling.

    Args:
        systems: "placerl" and other libraries; those that the goal has no settings for are left out.
    """
    found = [CurveOf.of(Suite.LEARN, goal, name) for name in goal.systems if name in systems]
    for one in [one for one in found if one.system == OURS and one.item.algorithm.name != "ppo"]:
        prioritised = not one.item.replay.prioritized
        item = workloads.override(one.item, "replay.prioritized", prioritised, "learn")
        name = PRIORITISED if prioritised else UNIFORM
        found.append(
            replace(one, name=name, item=item, settings_from=f"{one.settings_from}, with another replay")
        )
    return found


def plan(systems: Sequence[str]) -> list[Cell]:
    """Return the cells (units of work of a run): one for each training.

    Args:
        systems: "placerl" and other libraries.
    """
    every = [(goal, side) for goal in goals().values() for side in sides(goal, systems)]
    seeds = max((side.item.training.seeds for _, side in every), key=len)
    return [
        side.cell(extent_of(goal), seed, goal.steps * _STEP_S)
        for seed, (goal, side) in interleaved(seeds, every)
        if seed in side.item.training.seeds
    ]


def extent_of(goal: Goal) -> Extent:
    """Return when the trainings of a goal are evaluated, and when they end."""
    return Extent(max(1, goal.steps // EVALUATIONS), steps=goal.steps)


@dataclass(frozen=True)
class Learnt:
    """What one training had learnt, and when.

    Attributes:
        workload, system, seed: the goal, who was trained, and with which seed.
        steps, seconds: environment steps and seconds of training at each evaluation.
        returns: mean return of each evaluation.
    """

    workload: str
    system: str
    seed: int
    steps: Sequence[int]
    seconds: Sequence[float]
    returns: Sequence[float]

    @classmethod
    def of(cls, row: Any) -> "Learnt":
        """Return what a row of a training says.

        Args:
            row: a `LearningCurve`, or a record of a frame with its columns.
        """
        return cls(row.workload, row.system, int(row.seed), row.steps_at, row.seconds_at, row.returns_at)

    @property
    def end(self) -> float:
        """The mean return of the evaluations in the last fifth."""
        return float(np.mean(last_fifth(self.returns)))

    @property
    def score(self) -> float:
        """The score of the evaluations in the last fifth."""
        return float(self._scores(self.end))

    def after_steps(self, share: float) -> float:
        """Return the score after a share of the goal's environment steps."""
        return float(self._scores(np.interp(share * goals()[self.workload].steps, self.steps, self.returns)))

    def after_seconds(self, seconds: float) -> float:
        """Return the score after so many seconds of training: what it ended with, if it had ended by then."""
        times, returns = [0.0, *self.seconds], [goals()[self.workload].random_return, *self.returns]
        return float(self._scores(np.interp(seconds, times, returns)))

    def _scores(self, returns: Any) -> Any:
        goal = goals()[self.workload]
        return (returns - goal.random_return) / (goal.threshold - goal.random_return)


@dataclass(frozen=True)
class Compared:
    """Trainings of several systems and goals, and their figures over tasks.

    Args:
        runs: what was learnt; the last one counts of a goal, a system and a seed.
    """

    runs: Sequence[Learnt]

    @classmethod
    def of(cls, rows: Sequence[Any]) -> "Compared":
        """Return the trainings of rows that have a value, of goals that there are."""
        some = [row for row in rows if row.quantity == QUANTITY and row.returns_at and row.status == "ok"]
        newest = {(row.workload, row.system, row.seed): row for row in some if row.workload in goals()}
        return cls([Learnt.of(row) for row in newest.values()])

    @cached_property
    def systems(self) -> list[str]:
        """The systems, this project first."""
        return sorted({run.system for run in self.runs}, key=lambda name: (not name.startswith(OURS), name))

    @property
    def libraries(self) -> list[str]:
        """The systems without this project's other replays."""
        return [name for name in self.systems if name not in (PRIORITISED, UNIFORM)]

    @property
    def tasks(self) -> list[str]:
        """The goals with trainings, in the order of their file."""
        return [name for name in goals() if any(run.workload == name for run in self.runs)]

    def of_task(self, task: str, system: str) -> list[Learnt]:
        """Return the trainings of a system for a goal, by seed."""
        mine = [run for run in self.runs if (run.workload, run.system) == (task, system)]
        return sorted(mine, key=lambda run: run.seed)

    def common(self, systems: Sequence[str]) -> list[str]:
        """Return the goals for which each of some systems has a training."""
        return [task for task in self.tasks if all(self.of_task(task, name) for name in systems)]

    def scores(self, tasks: Sequence[str], system: str) -> Tasks:
        """Return the scores of a system: for each of some goals those of its seeds."""
        return [[run.score for run in self.of_task(task, system)] for task in tasks]

    def over_steps(self, tasks: Sequence[str], system: str, shares: Sequence[float]) -> list[Interval]:
        """Return the interquartile mean of the scores after each of some shares of the environment steps."""
        return [
            over_tasks.mean(
                [[run.after_steps(share) for run in self.of_task(task, system)] for task in tasks]
            )
            for share in shares
        ]

    def over_seconds(self, tasks: Sequence[str], system: str, seconds: npt.ArrayLike) -> list[Interval]:
        """Return the interquartile mean of the scores after each of some seconds of training."""
        return [
            over_tasks.mean(
                [[run.after_seconds(time) for run in self.of_task(task, system)] for task in tasks]
            )
            for time in np.asarray(seconds, float)
        ]

    def improvement(self, system: str) -> Interval | None:
        """Return the probability that this project's score is higher than a system's; None without a common goal."""
        tasks = self.common([OURS, system])
        if not tasks:
            return None
        return over_tasks.improvement(self.scores(tasks, OURS), self.scores(tasks, system))

    def when_ours_ended(self, system: str) -> Interval | None:
        """Return the mean score of a system after the seconds in which this project ended; None without a common goal.

        These are the median seconds of this project's trainings of each goal.
        """
        tasks = self.common([OURS, system])
        if not tasks:
            return None
        scores = []
        for task in tasks:
            ended_s = float(np.median([run.seconds[-1] for run in self.of_task(task, OURS)]))
            scores.append([run.after_seconds(ended_s) for run in self.of_task(task, system)])
        return over_tasks.mean(scores)


def rows_of(run: Run) -> list[LearningCurve]:
    """Return the rows of a run's trainings."""
    return [row for row in run.rows(LearningCurve, suite=Suite.LEARN) if row.quantity == QUANTITY]


def by_task(compared: Compared) -> list[list[str]]:
    """Return lines of text for each goal and system: their names, the return at the end, the seconds, and the seeds."""
    lines = []
    for task in compared.tasks:
        for system in compared.systems:
            if runs := compared.of_task(task, system):
                found = over_tasks.mean([[run.end for run in runs]])
                seconds = float(np.median([run.seconds[-1] for run in runs]))
                lines.append([task, system, shown(found, ".4g"), f"{seconds:.3g}", str(len(runs))])
    return lines


def over_all(compared: Compared) -> list[list[str]]:
    """Return lines of text for each system.

    They are its name, the number of goals in common with this project, the score at the end, that when this project has
    ended, and the probability that this project's is higher.
    """
    lines = []
    for system in compared.systems:
        if tasks := compared.common([OURS, system]):
            score = over_tasks.mean(compared.scores(tasks, system))
            ended, higher = compared.when_ours_ended(system), compared.improvement(system)
            own = system == OURS
            lines.append([system, str(len(tasks)), shown(score), shown(ended), "" if own else shown(higher)])
    return lines


def shown(found: Interval | None, digits: str = ".2f") -> str:
    """Return a figure as text, with its interval if it has one; empty if there is none."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.value:{digits}}"
    return f"{found.value:{digits}} [{found.low:{digits}}, {found.high:{digits}}]"
