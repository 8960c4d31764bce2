"""PAL Equation 5: how many cores collect data and how many train (PAL V-D, VI-G).

    f_a(x_a) = update_interval x f_l(x_l),   x_a + x_l <= M

f_a and f_l are the throughputs of collection (environment steps per second) and consumption (gradient steps per
second) as functions of the numbers of cores x_a and x_l; M is the number of all cores. Cores are whole numbers, so
equality is rarely possible: the exhaustive search chooses the allocation with the most gradient steps per second.
"""

from collections.abc import Callable
from dataclasses import dataclass

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.base import Platform, Prediction
from placerl.harness.mapping.candidates import rmm_targets
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import Cell, PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import CPU, Mapping

Curve = Callable[[int], float]
"""A function from a number of cores to a throughput, 1/s."""


@dataclass(frozen=True)
class CoreAllocation:
    """Numbers of cores for actors and learners, and the throughput of both together.

    Attributes:
        actor_cores, learner_cores: numbers of cores for actors (x_a in Equation 5) and for learners (x_l).
        gradient_steps_per_s: the smaller of two numbers of gradient steps per second: those that the learners can take
            (f_l), and those for which the actors collect enough environment steps (f_a / update_interval).
        imbalance: |f_a - update_interval f_l| divided by the larger of the two terms; 0 if Equation 5 holds.
    """

    actor_cores: int
    learner_cores: int
    gradient_steps_per_s: float
    imbalance: float


def allocate(collection: Curve, consumption: Curve, cores: int, update_interval: int) -> CoreAllocation:
    """Find the best numbers of cores by trying every allocation, O(M^2) as in PAL VI-G.

    Args:
        collection: f_a, environment steps per second by number of cores.
        consumption: f_l, gradient steps per second by number of cores.
        cores: M, at least 2.
        update_interval: environment steps per gradient step.

    Returns:
        The allocation with the most gradient steps per second; among equal ones the best balanced, then the one with
        the fewest cores.

    Raises:
        ValueError: there are fewer than two cores.
    """
    if cores < 2:
        raise ValueError(f"cores: found {cores}; allowed: at least 2, one for actors and one for learners")
    allocations = []
    for actor_cores in range(1, cores):
        for learner_cores in range(1, cores - actor_cores + 1):
            collected = collection(actor_cores) / update_interval
            consumed = consumption(learner_cores)
            imbalance = abs(collected - consumed) / max(collected, consumed)
            allocations.append(
                CoreAllocation(actor_cores, learner_cores, min(collected, consumed), imbalance)
            )
    return max(
        allocations,
        key=lambda one: (one.gradient_steps_per_s, -one.imbalance, -one.actor_cores - one.learner_cores),
    )


class ActorsLearners:
    """PAL's mapping strategy: it divides cores between actors and learners by Equation 5; the storage is on the CPU.

    Throughputs are assumed to grow linearly with the cores, from the table's times for one core, as in PAL Figure 10
    below saturation. A learner on a device of its own has a constant throughput and takes one host core.
    """

    name = "pal21"
    loop = Loop.OVERLAPPED

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Return the prediction for the mapping that trains fastest with its best division of cores."""
        possible = (
            Mapping(learner, rmm, CPU)
            for learner in table.targets("learner.step")
            for rmm in rmm_targets(table)
        )
        mappings = [
            mapping
            for mapping in possible
            if all(cell in table for cell in (*_collecting(mapping), *_training(mapping)))
        ]
        if not mappings:
            raise ValueError(
                "table: no mapping has times for environment, inference, storage, replay and learner"
            )
        predictions = (self.predict(table, problem, platform, mapping) for mapping in mappings)
        return max(predictions, key=lambda prediction: prediction.gps)

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput of one mapping with its best division of cores."""
        collecting, training = _collecting(mapping), _training(mapping)
        collect_s = sum(table.time_s(*cell) for cell in collecting)
        train_s = sum(table.time_s(*cell) for cell in training)
        parallel = mapping.learner.device == "cpu"
        allocation = allocate(
            lambda cores: cores / collect_s,
            lambda cores: (cores if parallel else 1) / train_s,
            platform.cpu_cores,
            problem.update_interval,
        )
        used = (*collecting, *training)
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=allocation.gradient_steps_per_s,
            terms_s={
                "actors": problem.update_interval * collect_s / allocation.actor_cores,
                "learners": train_s / (allocation.learner_cores if parallel else 1),
            },
            cells=used,
            inputs=inputs_provenance(table, used),
            settings={"actor_cores": allocation.actor_cores, "learner_cores": allocation.learner_cores},
        )


def _collecting(mapping: Mapping) -> list[Cell]:
    """Return what an actor calls for each environment step."""
    return [
        ("environment.step", CPU),
        ("actor.infer", mapping.learner),
        ("storage.insert", mapping.storage),
        ("sum_tree.insert", mapping.rmm),
    ]


def _training(mapping: Mapping) -> list[Cell]:
    """Return what a learner calls for each gradient step."""
    return [
        ("sum_tree.sample", mapping.rmm),
        ("storage.gather", mapping.storage),
        ("learner.step", mapping.learner),
        ("sum_tree.update", mapping.rmm),
    ]


STRATEGIES = (ActorsLearners(),)
