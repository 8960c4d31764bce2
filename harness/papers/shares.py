"""Decides statements about shares of a gain in return, from as few seeds as it takes (`harness.measure.sequential`).

A curve is a variant of a training; one of them is the reference. A curve's gain is the difference between the
interquartile means over seeds of its return at the end and of the reference's at the beginning, and its share is its
gain over the reference's. A statement says whether a share is above a limit. The statements of one workload, and the
one that the reference gains at all, share the error rate, so that all of them hold together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placerl.harness.core.suites import Suite
from placerl.harness.measure.sequential import LOOKS, Decision, decide
from placerl.harness.papers.experiments import Experiment
from placerl.harness.store.rows import ClaimRow
from placerl.harness.store.store import Run

Limits = tuple[tuple[str, float], ...]
"""Statements: the name of a curve, and the limit that its share is above or not."""


def decisions(
    limits: Limits, reference: str, first: Sequence[float], finals: Mapping[str, Sequence[float]]
) -> dict[tuple[str, float], Decision]:
    """Return what the sequential test says of each statement.

    Args:
        reference: name of the curve whose gain is the whole.
        first: the reference's returns at the beginning of training, one per seed.
        finals: the returns at the end of training by curve, one per seed, in the same order.
    """
    count, whole = len(limits) + 1, finals[reference]
    gains = decide((1.0, -1.0), (whole, first), count)
    if gains.above is None:
        return dict.fromkeys(limits, gains)
    if not gains.above:  # no share of a loss is judged, whatever further seeds show
        return dict.fromkeys(limits, Decision(None, LOOKS[-1]))
    return {
        (curve, limit): decide((1.0, -limit, limit - 1.0), (finals[curve], whole, first), count)
        for curve, limit in limits
    }


@dataclass(frozen=True)
class SequentialTrainings:
    """Trainings of one workload, with one more seed of every curve until all statements are decided.

    Attributes:
        experiments, quantity: whose rows hold the return at the end of training.
        curves: names of the curves, the reference first.
        limits: the statements that are tested together.
        ends: those that end the trainings; empty for all.
        first: returns the return at the beginning of training from a row and its columns, and None if the row is of a
            training of another length.
    """

    experiments: tuple[Experiment, ...]
    quantity: str
    workload: str
    curves: tuple[str, ...]
    limits: Limits
    first: Callable[[ClaimRow, Any], float | None]
    ends: Limits = ()
    _known: dict[tuple[str, int], bool] = field(default_factory=dict, compare=False, repr=False)

    def ended(self, run: Run) -> bool:
        """Return whether the rows of a run and its siblings decide every statement, or hold the most seeds.

        A seed counts whatever run of the store trained it, on any machine and with any revision of the code.
        """
        state = run.record.key, len(run.cells())
        if state not in self._known:
            self._known.clear()
            self._known[state] = self._ended(run)
        return self._known[state]

    def _ended(self, run: Run) -> bool:
        first: dict[int, float] = {}
        finals: dict[str, dict[int, float]] = {curve: {} for curve in self.curves}
        sought = {"suite": Suite.CLAIM, "workload": self.workload}
        for row in (row for each in run.counted() for row in each.rows(ClaimRow, **sought)):
            if row.experiment not in self.experiments or row.quantity != self.quantity or row.value is None:
                continue
            columns = self.experiments[self.experiments.index(row.experiment)].read(row.parameters)
            begin = self.first(row, columns)
            if begin is not None and columns.curve in finals:
                finals[columns.curve][columns.seed] = row.value
                if columns.curve == self.curves[0]:
                    first[columns.seed] = begin
        seeds = sorted(set.intersection(*(set(of) for of in finals.values())))
        decided = decisions(
            self.limits,
            self.curves[0],
            [first[seed] for seed in seeds],
            {curve: [of[seed] for seed in seeds] for curve, of in finals.items()},
        )
        return all(decided[statement].ended for statement in self.ends or self.limits)
