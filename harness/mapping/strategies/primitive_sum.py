"""Models the strict training loop as the sum of the papers' primitives, one after another on one thread.

MAP Equation 3 describes a system whose parts overlap. If nothing overlaps (D = 0, MAP II-A2), the time of a gradient
step is the sum of the papers' primitives, including the actor's environment steps. This model adds up primitives
that were each profiled alone, with warm caches and without the replay's work around its tree. `ComposedLoop`
includes these effects, because it uses calls timed as the runtime makes them.
"""

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.base import Platform, Prediction
from placerl.harness.mapping.exhaustive import Exhaustive
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import CPU, Mapping


class PrimitiveSum:
    """A performance model that adds up the times of all primitives of one gradient step."""

    name = "primitive-sum"
    loop = Loop.STRICT

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the predicted throughput of a mapping.

        A gradient step takes the learner's step, the replay's operations, and `update_interval` environment steps.
        """
        steps = problem.update_interval
        calls = {
            "environment": ("environment.step", CPU, steps),
            "infer": ("actor.infer", mapping.learner, steps),
            "insert": ("storage.insert", mapping.storage, steps),
            "insert priority": ("sum_tree.insert", mapping.rmm, steps),
            "sample": ("sum_tree.sample", mapping.rmm, 1),
            "gather": ("storage.gather", mapping.storage, 1),
            "learner": ("learner.step", mapping.learner, 1),
            "update": ("sum_tree.update", mapping.rmm, 1),
        }
        terms_s = {
            term: times * table.time_s(primitive, target)
            for term, (primitive, target, times) in calls.items()
        }
        cells = tuple((primitive, target) for primitive, target, _ in calls.values())
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=1 / sum(terms_s.values()),
            terms_s=terms_s,
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )


STRATEGIES = (Exhaustive(PrimitiveSum.name, PrimitiveSum()),)
