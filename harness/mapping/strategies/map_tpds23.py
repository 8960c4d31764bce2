"""MAP Algorithm 3: the greedy mapping of learner, replay management and storage (MAP VI-B).

The throughput of learner or replay management on a target is B divided by its time (MAP VI-A3); the replay
management's time is sampling plus update. The system's throughput is the smaller of the two (MAP Equation 3),
because they overlap. Transfers and everything else are assumed to be hidden.
"""

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.base import Platform, Prediction
from placerl.harness.mapping.candidates import least_traffic, rmm_targets
from placerl.harness.mapping.exhaustive import Exhaustive
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import Mapping, Target

BUSY_THREADS = 3
"""Threads of MAP's loop that are always busy: actors, replay manager and learner (MAP V-B)."""


class MapTpds23:
    """MAP's mapping strategy (Algorithm 3), which chooses devices for a training's parts, with its performance model.

    The model is Equation 3.
    """

    name = "map-tpds23"
    loop = Loop.RELAXED

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Return the mapping of MAP Algorithm 3 and the throughput that Equation 3 predicts for it.

        Among equally fast backends the first by name is chosen, so that the choice does not depend on the
        table's order.
        """
        learners, managers = table.targets("learner.step"), rmm_targets(table)
        if not learners or not managers:
            missing = "learner.step" if not learners else "sum_tree.sample and sum_tree.update"
            raise ValueError(f"table: no target has a time for {missing}")

        # Step 1 (lines 4-5).
        learner = min(learners, key=lambda target: table.time_s("learner.step", target))
        # Step 2 (lines 4-7). The listing prunes after its argmax, and the text gives the reason: replay
        # management on the learner's GPU slows down the learner, so it must not be chosen if another target keeps
        # up.
        learner_s = table.time_s("learner.step", learner)
        keeping_up = [target for target in managers if _rmm_s(table, target) <= learner_s]
        if learner.device.startswith("cuda") and any(one.device != learner.device for one in keeping_up):
            managers = [target for target in managers if target.device != learner.device]
            keeping_up = [target for target in keeping_up if target in managers]
        # Targets that keep up with the learner are equal under Equation 3. Among them MAP takes the one with the
        # fewest devices and the least communication (VII-D); the actors are on the CPU in any case.
        rmm = min(
            keeping_up or managers,
            key=lambda target: (
                (len({"cpu", learner.device, target.device}), target.device != learner.device)
                if keeping_up
                else (0, False),
                _rmm_s(table, target),
            ),
        )
        # Step 3 (lines 9-16).
        mapping = Mapping(learner, rmm, _storage(table, problem, learner, rmm))
        return self.predict(table, problem, platform, mapping)

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput that MAP Equation 3 predicts: that of the slower of learner and replay management.

        If both share a GPU, their times add up instead (MAP VI-B step 2).
        """
        learner_s = table.time_s("learner.step", mapping.learner)
        rmm_s = _rmm_s(table, mapping.rmm)
        shared = mapping.learner.device == mapping.rmm.device and mapping.learner.device.startswith("cuda")
        step_s = learner_s + rmm_s if shared else max(learner_s, rmm_s)
        cells = (
            ("learner.step", mapping.learner),
            ("sum_tree.sample", mapping.rmm),
            ("sum_tree.update", mapping.rmm),
        )
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=1 / step_s,
            terms_s={"learner": learner_s, "rmm": rmm_s},
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )


def _rmm_s(table: PerformanceTable, target: Target) -> float:
    return table.time_s("sum_tree.sample", target) + table.time_s("sum_tree.update", target)


def _storage(table: PerformanceTable, problem: Problem, learner: Target, rmm: Target) -> Target:
    """Return the device with the least remote traffic, in words per gradient step (MAP Algorithm 3, lines 10-15).

    Only traffic between devices counts: components on the storage's device cost nothing.
    """
    costs = [
        (learner.device, problem.batch_size * problem.item_words),
        ("cpu", problem.actors * problem.item_words),
        (rmm.device, problem.batch_size),
    ]
    return least_traffic(table, costs, lambda place, other, words: words if place != other else 0.0)


STRATEGIES = (MapTpds23(), Exhaustive("exhaustive", MapTpds23()))
