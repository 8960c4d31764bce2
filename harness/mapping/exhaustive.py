"""Exhaustive search: predicts the throughput of every mapping, and chooses the mapping with the highest."""

from collections.abc import Callable

from placerl.harness.mapping.base import Model, Platform, Prediction
from placerl.harness.mapping.candidates import candidates
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import PerformanceTable
from placerl.harness.mapping.target import Mapping


class Exhaustive:
    """A mapping strategy that predicts every mapping with a performance model and chooses the fastest.

    Args:
        model: predicts a mapping's throughput.
        candidates: returns the mappings of a table; mappings for which the table lacks a time are skipped.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        candidates: Callable[[PerformanceTable], list[Mapping]] = candidates,
    ) -> None:
        self.name = name
        self.model = model
        self.loop = model.loop
        self._candidates = candidates

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Return the prediction for the mapping with the highest one; among equal ones, the first by name."""
        predictions = []
        for mapping in sorted(self._candidates(table)):
            try:
                predictions.append(self.predict(table, problem, platform, mapping))
            except KeyError:
                continue
        if not predictions:
            raise ValueError("table: no mapping has times for all of its terms")
        return max(predictions, key=lambda prediction: prediction.gps)

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput that the model predicts for a mapping."""
        return self.model.predict(table, problem, platform, mapping)
