"""The runtime's own loop: the sum of its pieces as the runtime calls them, its own time included.

Where `StrictLoop` adds up the papers' primitives, each profiled alone, this model adds up what one thread really
calls in a round: an actor's collection with its inference, the insertion of a round's transitions, then either whole
gradient steps in one fused call, or sampling with gathering, the learner's step and the priority update. What
remains is the runtime itself, profiled with parts that do nothing.

On-policy, an iteration is T vector steps of collection, the preparation of the samples (advantages, returns), and
K epochs of minibatches (PPO 2.1); a gradient step is charged its share of it. Early stopping is not foreseen.

| primitive | a call is | target |
|---|---|---|
| `round.collect` | the vector steps of one round (on-policy: one vector step) | the learner, whose policy acts |
| `round.insert` | the insertion of a round's transitions | the replay management |
| `round.sample` | sampling, gathering, importance weights | the replay management |
| `round.learn` | a step on a batch just gathered (on-policy: a minibatch dealt and learnt) | the learner |
| `round.update` | the priority update | the replay management |
| `fused_round.collect`, `.insert` | the same where the gradient steps are fused | learner and replay management |
| `fused_round.steps` | the gradient steps of a round, fused | learner and replay management |
| `round.prepare` | advantages and returns of an iteration | cpu |
| `round.runtime`, `fused_round.runtime` | a round of the runtime whose parts do nothing | cpu |
"""

from harness.mapping.base import (
    Cell,
    Mapping,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Target,
    inputs_provenance,
)

CPU = Target("cpu")

Calls = dict[str, tuple[Cell, float]]
"""By term: a cell of the table, and its calls a gradient step."""


class ComposedLoop:
    """Sum of the pieces of one gradient step, as the runtime composes them."""

    name = "composed-loop"

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Seconds a gradient step; KeyError where a piece was not profiled."""
        calls = _on_policy(problem, mapping) if problem.on_policy else _off_policy(table, problem, mapping)
        terms_s = {term: times * table.time_s(*cell) for term, (cell, times) in calls.items()}
        cells = tuple(cell for cell, _ in calls.values())
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=1 / sum(terms_s.values()),
            terms_s=terms_s,
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )


def composed_candidates(table: PerformanceTable) -> list[Mapping]:
    """Every mapping whose pieces were profiled; on-policy there is no replay to map, and it reads native."""
    managers = table.targets("round.sample") or [Target("native")]
    return [Mapping(learner, rmm, CPU) for learner in table.targets("round.learn") for rmm in managers]


def _off_policy(table: PerformanceTable, problem: Problem, mapping: Mapping) -> Calls:
    learner, rmm = mapping.learner, mapping.rmm
    share = 1 / problem.round_gradient_steps
    if mapping.storage == CPU and learner == rmm and ("fused_round.steps", learner) in table:
        return {
            "actor": (("fused_round.collect", learner), share),
            "insert": (("fused_round.insert", rmm), share),
            "step": (("fused_round.steps", learner), share),
            "loop": (("fused_round.runtime", CPU), share),
        }
    return {
        "actor": (("round.collect", learner), share),
        "insert": (("round.insert", rmm), share),
        "sample and gather": (("round.sample", rmm), 1),
        "learner": (("round.learn", learner), 1),
        "update": (("round.update", rmm), 1),
        "loop": (("round.runtime", CPU), share),
    }


def _on_policy(problem: Problem, mapping: Mapping) -> Calls:
    steps = problem.epochs * (problem.trajectory_length * problem.actors // problem.batch_size)
    return {
        "actor": (("round.collect", mapping.learner), problem.trajectory_length / steps),
        "prepare": (("round.prepare", CPU), 1 / steps),
        "learner": (("round.learn", mapping.learner), 1),
    }
