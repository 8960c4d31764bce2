"""The training loop of algorithms that learn only from their own latest samples (PPO 2.1)."""

from collections.abc import Callable
from math import ceil, prod
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.mapping.base import Platform
from harness.mapping.loop import HOST, LEARNER
from harness.runtime.clock import time_of, weights_bytes
from harness.runtime.compose import actors_of, check_processes, learner_of, start_actors
from harness.runtime.options import STRICT, Fusion, Options, is_on_policy
from harness.runtime.training import Progress, Training, links_of_map
from harness.workloads import Workload
from harness.workloads.task import columns_of
from primitives.algorithms.ppo import PPO, Rollout
from primitives.replay import FieldSpec


class OnPolicyTraining:
    """On-policy training in iterations of sample generation and model update.

    N actors take T steps each with the current policy, followed by K epochs of minibatches of M samples. If the
    policy stops early, the other steps of the iteration update only the value network (PPO 3.3). There is no replay,
    so of the mapping only the learner's backend and device are used. The same seed and number of processes give the
    same training.

    Args:
        workload: the workload to train.
        mapping: the mapping.
        batch_size: M; by default the workload's.
        seed: seed of everything random.
        options: how the mapping is run. Options of a replay are not allowed (`check_options`), and the workload must
            have the requested number of actors (`Options.applied`). By default, with several threads there is one
            actor process per thread, up to the number of environments.
        platform: gives the bandwidth of links to simulated devices.

    Attributes:
        gradient_steps: gradient steps taken so far.
        learner: the learner.
        fusion: always "none".
        provenance: provenance of the seconds that it reports; see `Training`.

    Raises:
        UserError: mapping, batch size and workload are not compatible, or something is not installed.
    """

    fusion = Fusion.NONE

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        options: Options = STRICT,
        platform: Callable[[], Platform] = links_of_map,
    ) -> None:
        # With another learner, PyTorch only runs a small forward pass in `prepare`.
        threads, settings = options.threads, workload.training
        torch.set_num_threads(threads if mapping.learner.backend == "torch" else 1)
        options.check_applied(workload)
        processes = options.processes
        if processes is None:
            processes = min(threads, settings.actors) if threads > 1 else 0
        check_processes(workload, processes)
        size = settings.batch_size if batch_size is None else batch_size
        self._length = workload.algorithm.hyperparameters["trajectory_length"]
        self._actors = settings.actors
        if size > self._length * self._actors:
            allowed = f"1 to actors * trajectory_length, {self._length * self._actors}"
            raise UserError(workload.name, "batch_size", size, allowed)
        environment_seed, exploration_seed, dealing_seed, learner_seed = np.random.SeedSequence(seed).spawn(4)
        fields = columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}
        self.learner = learner_of(workload, mapping, size, learner_seed, threads, options.delay)
        plan = actors_of(
            workload,
            environment_seed,
            exploration_seed,
            fields,
            self._length,
            clip=True,
            envpool=options.envpool,
            native=options.native_environments,
        )
        self._acting = start_actors(plan, self.learner, processes)
        self._algorithm = cast(PPO, self.learner.algorithm)
        self._rng = np.random.default_rng(dealing_seed)
        self._time = time_of(mapping, self.learner, None, platform)
        self.provenance = self._time.provenance
        self._weights_bytes = weights_bytes(self._time, self.learner)
        self._batch_bytes = size * sum(
            prod(shape[1:]) * dtype.itemsize for shape, dtype in self._algorithm.columns(size).values()
        )
        self._losses: dict[str, float] = {}
        self.gradient_steps = 0

    @property
    def environment_steps(self) -> int:
        """Steps taken so far, over all environments."""
        return self._acting.environment_steps

    def warm_up(self) -> Progress:
        """Run one iteration, which is part of the training but not of its throughput."""
        return self._advance(1)

    def advance(self, gradient_steps: int) -> Progress:
        """Continue training for at least `gradient_steps`, in whole iterations, and return what happened.

        The first call also runs the warm-up, which the result does not include.

        Raises:
            ValueError: `gradient_steps` is below 1.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        samples = self._length * self._actors
        steps = samples // self.learner.batch_size * self._algorithm.hyperparameters.epochs
        return self._advance(ceil(gradient_steps / steps))

    def close(self) -> None:
        """End the actors' processes, if there are any, and close the environments."""
        self._acting.close()

    def _advance(self, iterations: int) -> Progress:
        before_s, before_terms_s = self._time.now_s(), self._terms_s()
        before = self.gradient_steps, self.environment_steps
        for _ in range(iterations):
            self._iterate()
        return Progress(
            gradient_steps=self.gradient_steps - before[0],
            environment_steps=self.environment_steps - before[1],
            wall_s=self._time.now_s() - before_s,
            episodes=self._acting.take_episodes(),
            terms_s={name: value - before_terms_s[name] for name, value in self._terms_s().items()},
            losses=self._losses,
        )

    def samples(self) -> dict[str, npt.NDArray]:
        """Collect the transitions of one iteration, and return the samples to learn from, by column."""
        self._time.deliver(LEARNER, "publish", self._acting.publish, self._weights_bytes, 0.0)
        transitions = self._acting.collect(self._length)
        shape = (self._length, self._actors)
        by_step = {name: column.reshape(*shape, *column.shape[1:]) for name, column in transitions.items()}
        rollout, parameters = Rollout(**by_step), self.learner.parameters()
        prepared = self._time.call(HOST, "prepare", lambda: self._algorithm.prepare(parameters, rollout))
        return prepared.value

    def _iterate(self) -> None:
        samples = self.samples()
        self._variant = "full"
        minibatches = self._algorithm.minibatches(samples, self.learner.batch_size, self._rng)
        steps = (
            self._length * self._actors // self.learner.batch_size * self._algorithm.hyperparameters.epochs
        )
        for _ in range(steps):
            made = self._time.call(
                LEARNER, "learner", lambda: self._step(next(minibatches)), 0.0, {HOST: self._batch_bytes}
            )
            self._time.wait(made.ready_s)  # the decision to stop early depends on it
            self.gradient_steps += 1

    def _step(self, batch: dict[str, npt.NDArray]) -> None:
        losses = self.learner.step(batch, variant=self._variant).losses
        self._losses = self._losses | losses
        if self._algorithm.early_stop(losses):
            self._variant = "value"

    def _terms_s(self) -> dict[str, float]:
        spent_s = self._time.terms_s
        simulated = ("publish",) if self._time.is_simulated(LEARNER) else ()
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
    options: Options = STRICT,
) -> Training | OnPolicyTraining:
    """Create the training that a workload's algorithm needs: on-policy, or with a replay.

    Args:
        workload, mapping, batch_size, seed: see `Training`.
        options: how the mapping is run.

    Raises:
        UserError: settings are not compatible, or something is not installed.
    """
    make = OnPolicyTraining if is_on_policy(workload) else Training
    return make(workload, mapping, batch_size=batch_size, seed=seed, options=options)
