"""The strict training loop's performance model: every term in sequence on one thread (D = 0, MAP II-A2).

MAP Equation 3 describes a system whose parts overlap. Where they do not, the time of a gradient step is the
sum of its parts, the actor's environment steps included. Setting both predictions beside a run shows which
of the two machines it is.
"""

from harness.mapping.base import (
    Mapping,
    PerformanceTable,
    Prediction,
    Problem,
    Target,
    candidates,
    inputs_provenance,
)

CPU = Target("cpu")


class StrictLoop:
    """Sum of all terms of one gradient step; chooses by trying every mapping of the table."""

    name = "strict-loop"

    def choose(self, table: PerformanceTable, problem: Problem) -> Prediction:
        """The best of all mappings under this model.

        Raises:
            ValueError: the table holds no complete mapping.
        """
        has_storage = bool(table.targets("storage.gather"))
        predictions = [self.predict(table, problem, mapping) for mapping in candidates(table) if has_storage]
        if not predictions:
            raise ValueError("table: no mapping has times for all of its terms")
        return max(predictions, key=lambda prediction: prediction.gps)

    def predict(self, table: PerformanceTable, problem: Problem, mapping: Mapping) -> Prediction:
        """Seconds a gradient step: learner, replay, and `update_interval` environment steps."""
        calls_by_term = _calls(table, problem, mapping)
        terms_s = {
            term: calls * table.time_s(primitive, target)
            for term, (primitive, target, calls) in calls_by_term.items()
        }
        cells = tuple((primitive, target) for primitive, target, _ in calls_by_term.values())
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=1 / sum(terms_s.values()),
            terms_s=terms_s,
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )


def _calls(table: PerformanceTable, problem: Problem, mapping: Mapping) -> dict[str, tuple[str, Target, int]]:
    """Each term's primitive, target and calls a gradient step; of neighbours that fuse, the fused calls."""
    actor_calls = problem.update_interval
    cells = {
        "infer": ("actor.infer", mapping.learner, actor_calls),
        "environment": ("environment.step", CPU, actor_calls),
    }
    if mapping.storage == CPU and mapping.rmm in table.targets("fused.sample"):
        cells["insert"] = ("fused.insert", mapping.rmm, actor_calls)
        if mapping.learner == mapping.rmm and mapping.learner in table.targets("fused.step"):
            return cells | {"step": ("fused.step", mapping.learner, 1)}
        return cells | {
            "sample": ("fused.sample", mapping.rmm, 1),
            "learner": ("learner.step", mapping.learner, 1),
            "update": ("fused.update", mapping.rmm, 1),
        }
    return cells | {
        "insert": ("storage.insert", mapping.storage, actor_calls),
        "insert_priority": ("sum_tree.insert", mapping.rmm, actor_calls),
        "sample": ("sum_tree.sample", mapping.rmm, 1),
        "gather": ("storage.gather", mapping.storage, 1),
        "learner": ("learner.step", mapping.learner, 1),
        "update": ("sum_tree.update", mapping.rmm, 1),
    }
