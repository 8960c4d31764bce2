"""Exhaustive search: predicts every mapping of the table with a performance model and chooses the best."""

from collections.abc import Callable

from harness.mapping.base import Mapping, Model, PerformanceTable, Platform, Prediction, Problem, candidates


class Exhaustive:
    """Tries every mapping with a performance model.

    Args:
        name: name of the strategy.
        model: predicts a mapping's throughput.
        candidates: returns the mappings of a table; mappings with a term that was not profiled are skipped.
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
        """Return the mapping with the highest prediction; among equal ones the first by name.

        Raises:
            ValueError: the table holds no complete mapping.
        """
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
        """Return the model's prediction for a mapping."""
        return self.model.predict(table, problem, platform, mapping)
