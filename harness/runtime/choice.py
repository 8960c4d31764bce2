"""Chooses a mapping (where learner and replay run) for a user's program: PRL's composer on times measured here.

PRL 5.2, Algorithm 2. Every learner and every sum tree that runs here is timed on the program's own sizes, in
interleaved rounds; a backend that cannot run the program is left out, with its reason. Devices that are simulated
take no part.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import Entry, Mapping, PerformanceTable, Prediction, Problem, Target
from placerl.harness.mapping.answer import MappingAnswer, PredictedRate
from placerl.harness.mapping.candidates import COMPARED_ONLY, candidates
from placerl.harness.mapping.strategies.pearl24 import Pearl24
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.pieces.base import PrimitiveCase, distinct, targets
from placerl.harness.pieces.learners import learner_targets, step_case
from placerl.harness.pieces.storage import storage_cases_on
from placerl.harness.pieces.trees import tree_cases
from placerl.harness.platforms import of_this_machine
from placerl.harness.runtime.resolve import check_unmapped
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import item_bytes
from placerl.primitives import sum_tree

ROUNDS, BUDGET_S = 15, 5.0
ROWS = 4_096
"""Most transitions and leaves in the timed replays; to fill in a million of them would take too long."""


@dataclass(frozen=True)
class MappingChoice:
    """A chosen mapping, and the reasons for the choice.

    Attributes:
        prediction: prediction for the chosen mapping.
        others: predictions for the other mappings, the fastest first.
        left_out: why backends took no part: a reason for each primitive that a backend failed to run, by text such as
            "sum_tree.sample on flat".
        ends_gps: each mapping's prediction, in gradient steps per second, if every time is at the slow or at the fast
            end of its 95% interval.
    """

    prediction: Prediction
    others: tuple[Prediction, ...]
    left_out: dict[str, str]
    ends_gps: dict[Mapping, tuple[float, float]]

    def answer(self) -> MappingAnswer:
        """Return the choice as `placerl.map` gives it."""
        second = PredictedRate(*self._numbers(self.others[0])) if self.others else None
        return MappingAnswer(
            *self._numbers(self.prediction), self.prediction.model, second, tuple(self.lines())
        )

    def _numbers(self, prediction: Prediction) -> tuple[str, float, float, float]:
        return str(prediction.mapping), prediction.gps, *self.ends_gps[prediction.mapping]

    def lines(self) -> list[str]:
        """Return a sentence that says what was chosen and why, and a line for each part that was left out."""
        return [self.sentence(), *(f"without {name}: {reason}" for name, reason in self.left_out.items())]

    def sentence(self) -> str:
        """Return what was chosen and why: the predicted rate, that of the runner-up, and the longest part."""
        best = self.prediction
        said = f"chose {best.mapping}, for which PRL's composer predicts {best.gps:,.0f} gradient steps/s"
        if self.others:
            second = self.others[0]
            said += f", {best.gps / second.gps:.2f} times the {second.gps:,.0f} of {second.mapping}"
        term, seconds = max(best.terms_s.items(), key=lambda item: item[1])
        return f"{said}; the longest part of a step is {term}, {1e6 * seconds:,.1f} us"


def choose(task: CustomTask, schedule: Schedule = STRICT) -> MappingChoice:
    """Time every backend that runs the program, and return the mapping that PRL's composer chooses from the times.

    Args:
        task: the program's task.
        schedule: how the mapping will be run. Learners are timed with the number of threads given here.

    Raises:
        UserError: no mapping could run the options, or no learner or no sum tree runs the program.
    """
    check_unmapped(schedule, task)
    parts = _pieces(task, schedule.threads)
    protocol = Protocol(rounds=ROUNDS, budget_s=BUDGET_S, fewest_rounds=5, threads=schedule.threads)
    timings = measure(distinct(parts), protocol)
    batch_size = task.training.batch_size
    entries, left_out = [], {}
    for one in parts:
        timing = one.timing(timings)
        if timing.median_s is None:
            left_out[f"{one.primitive} on {one.target}"] = timing.reason
        else:
            entries.append(_entry(one.primitive, one.target, batch_size, timing, timing.median_s))
    table, problem, platform = PerformanceTable(entries), _problem(task), of_this_machine()
    composer = Pearl24()
    try:
        best = composer.choose(table, problem, platform)
    except ValueError as error:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UserError(task.name, "mapping", f"none that runs: {reasons}", str(error)) from error
    rest = (mapping for mapping in candidates(table) if mapping != best.mapping)
    others = [composer.predict(table, problem, platform, mapping) for mapping in rest]
    slow = PerformanceTable(replace(entry, time_s=entry.high_s) for entry in entries)
    fast = PerformanceTable(replace(entry, time_s=entry.low_s) for entry in entries)
    ends: dict[Mapping, tuple[float, float]] = {}
    for mapping in (best.mapping, *(other.mapping for other in others)):
        low, high = sorted(composer.predict(end, problem, platform, mapping).gps for end in (slow, fast))
        ends[mapping] = low, high
    return MappingChoice(best, tuple(sorted(others, key=lambda other: -other.gps)), left_out, ends)


def _entry(primitive: str, target: Target, batch_size: int, timing: Timing, median_s: float) -> Entry:
    low, high = (median_s if end is None else end for end in (timing.low_s, timing.high_s))
    return Entry(primitive, target, batch_size, median_s, low, high, Provenance.MEASURED)


def _problem(task: CustomTask) -> Problem:
    settings, stored_bytes = task.training, item_bytes(task)
    return Problem(
        batch_size=settings.batch_size,
        item_words=-(-stored_bytes // 4),
        actors=settings.actors,
        update_interval=settings.update_interval,
        stored_bytes=stored_bytes,
    )


def _pieces(task: CustomTask, threads: int) -> list[PrimitiveCase]:
    """Return the timed pieces from which the composer chooses, on a replay of at most `ROWS` transitions."""
    batch_size, settings = task.training.batch_size, task.replay
    capacity = min(settings.capacity, ROWS)
    small = replace(task, replay=settings.model_copy(update={"capacity": capacity}))
    steps = [step_case(small, batch_size, target, threads=threads) for target in _chosen(learner_targets())]
    gather, _ = storage_cases_on(small, batch_size, CPU)
    if settings.prioritized:
        trees = [
            one
            for target in _chosen(targets(sum_tree.backends(), "flat"))
            for one in tree_cases(small, batch_size, target, inserted=task.training.actors)
        ]
    else:  # a uniform replay has no tree, only one form, and nothing to update
        trees = [
            _uniform("sample", batch_size, lambda _, rng: rng.integers(0, capacity, batch_size)),
            _uniform("update", batch_size, lambda _, rng: None),
        ]
    return [*(replace(one, primitive="learner.step") for one in steps), *trees, gather]


def _chosen(every: Iterable[Target]) -> list[Target]:
    return [target for target in every if target.backend not in COMPARED_ONLY]


def _uniform(name: str, batch_size: int, call: Callable[[None, np.random.Generator], Any]) -> PrimitiveCase:
    case: Case[None] = Case(
        f"sum_tree.{name} uniform", lambda: None, lambda _: None, lambda _, rng: rng, call
    )
    return PrimitiveCase(f"sum_tree.{name}", NATIVE, batch_size, case)
