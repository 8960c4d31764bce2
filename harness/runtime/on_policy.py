"""The training loop of algorithms that learn only from their own latest samples (PPO 2.1)."""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.loop.clock import HOST, LEARNER
from placerl.harness.loop.schedule import STRICT, Fusion, Schedule, is_on_policy
from placerl.harness.loop.virtual_time import VirtualTime
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.base import Platform
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.in_process import Actors
from placerl.harness.runtime.actors.pool import ActorPlan
from placerl.harness.runtime.clock import time_of, weights_bytes
from placerl.harness.runtime.compose import actors_of, check_processes, start_actors
from placerl.harness.runtime.native_iterations import NativeIterations, chosen_fusion
from placerl.harness.runtime.on_policy_loop import OnPolicyLoop
from placerl.harness.runtime.training import Training, links_of_map
from placerl.harness.workloads import Workload
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
        workload: the workload to train.
        mapping: backend and device of learner, replay management and storage.
        batch_size: M; by default the workload's.
        seed: seed of everything random.
        schedule: how the mapping is run. Schedule of a replay are not allowed (`check_options`), and the workload must
            have the requested number of actors (`Schedule.applied`). By default, with several threads there is one
            actor process per thread, up to the number of environments. In virtual time this process steps all
            environments.
        platform: gives the bandwidth of links to simulated devices.
        starting: starts the actors of a plan, for a learner, in a number of processes; None: `start_actors`.
        learner: the learner; None creates the mapping's.

    Attributes:
        gradient_steps: gradient steps taken so far.
        learner: the learner.
        fusion: always "none".
        provenance: provenance of the seconds that it reports, such as measured or simulated.

    Raises:
        UserError: mapping, batch size and workload are not compatible, or something is not installed.
    """

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        schedule: Schedule = STRICT,
        platform: Callable[[], Platform] = links_of_map,
        starting: Callable[[ActorPlan, Learner, int], Actors] | None = None,
        learner: Learner | None = None,
    ) -> None:
        check_processes(workload, schedule.processes or 0)
        super().__init__(workload, mapping, batch_size, seed, schedule, learner)
        self._time = time_of(mapping, self.learner, None, platform)
        virtual = isinstance(self._time, VirtualTime)
        processes = schedule.actor_processes(workload, virtual)
        if processes and virtual:
            raise UserError(workload.name, "actor processes", processes, "0 in virtual time")
        fields = columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}
        plan = actors_of(
            workload,
            self._environment_seed,
            self._exploration_seed,
            fields,
            self._length,
            clip=True,
            envpool=schedule.envpool,
            native=schedule.native_environments,
        )
        self._rng = np.random.default_rng(self._dealing_seed)
        self.provenance = self._time.provenance
        self._weights_bytes = weights_bytes(self._time, self.learner)
        size = self.learner.batch_size
        self._batch_bytes = size * sum(
            prod(shape[1:]) * dtype.itemsize for shape, dtype in self._algorithm.columns(size).values()
        )
        self._found: dict[str, float] = {}
        # Last: were anything after it to fail, nobody would end the processes.
        self._acting = (starting or start_actors)(plan, self.learner, processes)

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
            made = self._time.call(LEARNER, "learner", work, 0.0, {HOST: self._batch_bytes})
            self._time.wait(made.ready_s)  # the decision to stop early depends on it
            self.gradient_steps += 1

    def _step_on_next(self, minibatches: Iterator[dict[str, npt.NDArray]]) -> None:
        self._step(next(minibatches))

    def _step(self, batch: dict[str, npt.NDArray]) -> None:
        losses = self.learner.step(batch, variant=self._variant).losses
        self._found = self._found | losses
        if self._algorithm.early_stop(losses):
            self._variant = "value"

    def _losses(self) -> dict[str, float]:
        return self._found

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


def start(
    workload: Workload,
    mapping: Mapping,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    schedule: Schedule = STRICT,
) -> Training | OnPolicyTraining | NativeIterations:
    """Create the training that a workload's algorithm needs: on-policy, or with a replay.

    Args:
        workload: the workload to train.
        mapping: backend and device of learner, replay management and storage.
        batch_size: transitions per gradient step; by default the workload's.
        seed: seed of everything random.
        schedule: how the mapping is run.

    Raises:
        UserError: settings are not compatible, or something is not installed.
    """
    make: type[Training | OnPolicyTraining | NativeIterations] = Training
    if is_on_policy(workload):
        fused = chosen_fusion(workload, mapping, schedule) is Fusion.ITERATION
        make = NativeIterations if fused else OnPolicyTraining
    return make(workload, mapping, batch_size=batch_size, seed=seed, schedule=schedule)
