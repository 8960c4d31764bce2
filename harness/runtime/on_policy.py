"""The training loop of algorithms that learn only from their own latest samples (PPO 2.1)."""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.clock import HOST, LEARNER
from placerl.harness.mapping.base import Platform
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.in_process import Actors
from placerl.harness.runtime.actors.pool import ActorPlan
from placerl.harness.runtime.clock import time_of, weights_bytes
from placerl.harness.runtime.compose import actors_of, start_actors
from placerl.harness.runtime.on_policy_loop import OnPolicyLoop
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.training import links_of_map
from placerl.harness.workloads.task import columns_of
from placerl.primitives.algorithms.ppo import Rollout
from placerl.primitives.learner import Learner
from placerl.primitives.replay import FieldSpec


class OnPolicyTraining(OnPolicyLoop):
    """On-policy training in iterations of sample generation and model update.

    N actors take T steps each with the current policy, followed by K epochs of minibatches of M samples. If the
    policy stops early, the other steps of the iteration update only the value network (PPO 3.3). There is no replay,
    so of the mapping only the learner's backend and device are used. The same seed and number of processes give the
    same training.

    Args:
        resolved: what is trained, and how; its batch size is M. By default, with several threads there is one actor
            process per thread, up to the number of environments. In virtual time this process steps all environments.
        platform: gives the bandwidth of links to simulated devices.
        starting: starts the actors of a plan, for a learner, in a number of processes; None: `start_actors`.
        learner: the learner; None creates the mapping's.

    Attributes:
        gradient_steps: gradient steps taken so far.
        policy_steps: those that also trained the policy.
        learner: the learner.
        provenance: provenance of the seconds that it reports, such as measured or simulated.

    Raises:
        UserError: a part cannot be created.
    """

    def __init__(
        self,
        resolved: Resolved,
        *,
        seed: int = 0,
        platform: Callable[[], Platform] = links_of_map,
        starting: Callable[[ActorPlan, Learner, int], Actors] | None = None,
        learner: Learner | None = None,
    ) -> None:
        super().__init__(resolved, seed, learner)
        workload, schedule = resolved.workload, resolved.schedule
        self._time = time_of(resolved.mapping, self.learner, None, platform)
        fields = columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}
        plan = actors_of(
            workload,
            self._environment_seed,
            self._exploration_seed,
            fields,
            self._length,
            schedule,
            clip=True,
        )
        self._rng = np.random.default_rng(self._dealing_seed)
        self.provenance = self._time.provenance
        self._weights_bytes = weights_bytes(self._time, self.learner)
        size = self.learner.batch_size
        self._batch_bytes = size * sum(
            prod(shape[1:]) * dtype.itemsize for shape, dtype in self._algorithm.columns(size).values()
        )
        self._last_losses: dict[str, float] = {}
        self.policy_steps = 0
        # Last: were anything after it to fail, nobody would end the processes.
        self._acting = (starting or start_actors)(plan, self.learner, resolved.processes)

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self._acting.environment_steps

    def close(self) -> None:
        """End the actors' processes, if there are any, and close the environments."""
        self._acting.close()

    def samples(self) -> dict[str, npt.NDArray]:
        """Collect the transitions of one iteration, and return the samples to learn from, by column."""
        self._time.deliver(LEARNER, "publish", self._acting.publish, self._weights_bytes, 0.0)
        transitions = self._time.act(self._acting.collect, self._length)
        shape = (self._length, self._actors)
        by_step = {name: column.reshape(*shape, *column.shape[1:]) for name, column in transitions.items()}
        rollout, parameters = Rollout(**by_step), self.learner.parameters()
        prepared = self._time.call(HOST, "prepare", lambda: self._algorithm.prepare(parameters, rollout))
        return prepared.value

    def _iterate(self, iterations: int) -> None:
        for _ in range(iterations):
            self._learn(self.samples())

    def _learn(self, samples: dict[str, npt.NDArray]) -> None:
        self._variant = "full"
        minibatches = self._algorithm.minibatches(samples, self.learner.batch_size, self._rng)
        simulated = self._time.is_simulated(LEARNER)
        for _ in range(self._gradient_steps_each):
            work = partial(self._step_on_next, minibatches)
            if simulated:  # its seconds do not include the host's dealing
                work = partial(self._step, self._time.call(HOST, "deal", partial(next, minibatches)).value)
            step = self._time.call(LEARNER, "learner", work, 0.0, {HOST: self._batch_bytes})
            self._time.wait(step.ready_s)  # the decision to stop early depends on it
            self.gradient_steps += 1

    def _step_on_next(self, minibatches: Iterator[dict[str, npt.NDArray]]) -> None:
        self._step(next(minibatches))

    def _step(self, batch: dict[str, npt.NDArray]) -> None:
        losses = self.learner.step(batch, variant=self._variant).losses
        self.policy_steps += self._variant == "full"
        self._last_losses = self._last_losses | losses
        if self._algorithm.early_stop(losses):
            self._variant = "value"

    def _losses(self) -> dict[str, float]:
        return self._last_losses

    def _take_episodes(self) -> list[Episode]:
        return self._acting.take_episodes()

    def _terms_s(self) -> dict[str, float]:
        spent_s = self._time.terms_s
        simulated = ("publish", "deal") if self._time.is_simulated(LEARNER) else ()
        return {
            "environment": self._acting.environment_s,
            "infer": self._acting.inference_s,
            **{name: spent_s[name] for name in ("prepare", "learner", *simulated)},
        }
