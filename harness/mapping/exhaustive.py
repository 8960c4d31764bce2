"""Exhaustive search: every mapping of the table under a performance model, the best of them chosen."""

from collections.abc import Callable

from harness.mapping.base import Mapping, Model, PerformanceTable, Platform, Prediction, Problem, candidates


class Exhaustive:
    """Tries every mapping under a model.

    Args:
        name: of the strategy.
        model: what judges a mapping.
        candidates: the mappings of a table; those with a term that was not profiled are left out.
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
        """The mapping with the highest prediction; of equals the first by name.

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
        """The model's."""
        return self.model.predict(table, problem, platform, mapping)
