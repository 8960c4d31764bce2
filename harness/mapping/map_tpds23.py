"""MAP Algorithm 3: the greedy mapping of learner, replay management and storage (MAP VI-B).

Throughput of a primitive on a target is B / time of a call (MAP VI-A3), the replay management's time being
sampling plus update. The system's throughput is the smaller of the learner's and the replay management's
(MAP Equation 3): the two overlap, and transfers and everything else are taken to be hidden.
"""

from math import inf

from harness.mapping.base import (
    Mapping,
    PerformanceTable,
    Prediction,
    Problem,
    Target,
    can_store,
    inputs_provenance,
    rmm_targets,
    storage_on,
)


class MapTpds23:
    """MAP's strategy and its performance model."""

    name = "map-tpds23"

    def choose(self, table: PerformanceTable, problem: Problem) -> Prediction:
        """The mapping of MAP Algorithm 3 and the throughput that Equation 3 predicts for it.

        Ties go to the target that comes first by name, so that the choice does not depend on the table's order.

        Raises:
            ValueError: no target was profiled for the learner or for the replay management.
        """
        learners, managers = table.targets("learner.step"), rmm_targets(table)
        if not learners or not managers:
            missing = "learner.step" if not learners else "sum_tree.sample and sum_tree.update"
            raise ValueError(f"table: no target has a time for {missing}")

        # Step 1 (lines 4-5).
        learner = min(learners, key=lambda target: table.time_s("learner.step", target))
        # Step 2 (lines 4-7). The listing prunes after its argmax; the text says why: replay management on
        # the learner's own GPU slows the learner, so it must not be picked when another target keeps up.
        if learner.device.startswith("cuda"):
            elsewhere = [target for target in managers if target.device != learner.device]
            learner_s = table.time_s("learner.step", learner)
            if any(_rmm_s(table, target) <= learner_s for target in elsewhere):
                managers = elsewhere
        rmm = min(managers, key=lambda target: _rmm_s(table, target))
        # Step 3 (lines 9-16).
        return self.predict(table, problem, Mapping(learner, rmm, _storage(table, problem, learner, rmm)))

    def predict(self, table: PerformanceTable, problem: Problem, mapping: Mapping) -> Prediction:
        """MAP Equation 3 for one mapping; on a GPU that both share, the times add up (MAP VI-B step 2)."""
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
    """The device with the least remote traffic, in words a gradient step (MAP Algorithm 3, lines 10-15).

    Only traffic that crosses devices counts: components beside the storage cost nothing. Where the table says
    which devices hold a storage (`storage.gather` was profiled there), it is one of those.
    """
    traffic_words = {
        "learner": (learner.device, problem.batch_size * problem.item_words),
        "actors": ("cpu", problem.actors * problem.item_words),
        "rmm": (rmm.device, problem.batch_size),
    }
    best_device, least_words = "cpu", inf
    for device, _ in traffic_words.values():
        if not can_store(table, device):
            continue
        remote_words = sum(words for other, words in traffic_words.values() if other != device)
        if remote_words < least_words:
            best_device, least_words = device, remote_words
    return storage_on(best_device)
