"""Trains with PPO in iterations that are each one native call (`primitives.training.on_policy`)."""

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import STRICT, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import check_native_environments, environment_seeds
from placerl.harness.runtime.on_policy_loop import OnPolicyLoop
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives.environments import make_native
from placerl.primitives.training.on_policy import OnPolicyIterations, Sources, refusal


def fusions(task: Task, mapping: Mapping, schedule: Schedule) -> tuple[Fusion, ...]:
    """Return which calls can be joined into one native call for an on-policy task: none, or also whole iterations.

    A whole iteration can be one call if environments and learner are native and there is no actor process.

    Args:
        task: the on-policy task that is trained.
        mapping: gives the learner.
        schedule: say whether environments are native, and how many processes are requested.
    """
    alone = not schedule.actor_processes(task)
    able = schedule.native_environments and mapping.learner == NATIVE and alone
    return (Fusion.NONE, Fusion.ITERATION) if able and not refusal(algorithm_of(task)) else (Fusion.NONE,)


def chosen_fusion(task: Task, mapping: Mapping, schedule: Schedule) -> Fusion:
    """Return which calls are joined into one native call: as requested, or by default as many as possible.

    Raises:
        UserError: the task, the mapping or the options do not allow the requested fusion.
    """
    possible = fusions(task, mapping, schedule)
    chosen = possible[-1] if schedule.fusion is None else schedule.fusion
    if chosen not in possible:
        needed = (
            ""
            if chosen is not Fusion.ITERATION
            else (f"; {chosen} with --native-environments, a native learner, two networks and no processes")
        )
        raise UserError(task.name, "fusion", chosen, ", ".join(possible) + needed)
    return chosen


class NativeIterations(OnPolicyLoop):
    """On-policy training (PPO) in which each iteration is one native call.

    The same seed draws the same random numbers as `OnPolicyTraining`: both train the same until the differences of
    rounding have grown (`primitives.training.on_policy`).

    Args:
        workload: the workload to train.
        mapping: gives the learner, which must be native.
        batch_size: samples of a minibatch; by default the workload's.
        seed: seed of everything random.
        schedule: how the mapping is run; environments must be native, and no actor process requested.

    Attributes:
        gradient_steps: gradient steps taken so far.
        learner: the learner.
        fusion: always "iteration".
        provenance: always "measured".

    Raises:
        UserError: mapping, batch size and workload are not compatible, or something is not installed.
    """

    fusion = Fusion.ITERATION
    provenance = Provenance.MEASURED

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        schedule: Schedule = STRICT,
    ) -> None:
        check_native_environments(workload, schedule.envpool)
        super().__init__(workload, mapping, batch_size, seed, schedule)
        sources = Sources(
            np.array(environment_seeds(self._environment_seed, self._actors), np.uint64),
            np.random.default_rng(self._exploration_seed),
            np.random.default_rng(self._dealing_seed),
        )
        environments = make_native(workload.environment.id, self._actors, autoreset="same_step")
        self._iterations = OnPolicyIterations(self.learner, environments, sources)

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self._iterations.environment_steps

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    def _iterate(self, iterations: int) -> None:
        before = self.learner.gradient_steps
        try:
            self._iterations.run(iterations)
        finally:
            self.gradient_steps += self.learner.gradient_steps - before

    def _take_episodes(self) -> list[Episode]:
        return [Episode(step, total) for step, total in self._iterations.take_episodes()]

    def _terms_s(self) -> dict[str, float]:
        return self._iterations.spent_s()

    def _losses(self) -> dict[str, float]:
        return self._iterations.losses
