"""The training loop of algorithms that learn from their own latest samples alone (PPO 2.1)."""

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
from harness.runtime.compose import Fusion, actors_of, check_processes, learner_of, start_actors
from harness.runtime.options import STRICT, Options, is_on_policy
from harness.runtime.training import Progress, Training, links_of_map
from harness.workloads import Workload
from harness.workloads.task import columns_of
from primitives.algorithms.ppo import PPO, Rollout
from primitives.replay import FieldSpec


class OnPolicyTraining:
    """Iterations of sample generation and model update: the same seed and processes train the same.

    N actors take T steps each with the present policy; K epochs of minibatches of M follow. Where the policy
    stops early, the other steps of the iteration update the value network alone (PPO 3.3). There is no
    replay: of the mapping, the learner alone has something to run.

    Args:
        workload: what to train.
        mapping: what runs where.
        batch_size: M; the workload's by default.
        seed: of everything random.
        threads: that the learner may compute with: PyTorch's in this process, or the native learner's.
        processes: to step the environments in, side by side; 0: in this one, one after the other.
        envpool: step the environments with EnvPool (`harness.environments.env_pool`).
        delay: of a learner of precision "dynamic", gradient steps; see `compose.learner_of`.
        platform: tells the speed of links to simulated devices.

    Attributes:
        gradient_steps: taken so far.
        learner: the learner at work.
        fusion: nothing is fused here.
        provenance: of the seconds that it tells; see `Training`.

    Raises:
        UserError: mapping, batch size and workload do not fit together, or something is not installed.
    """

    fusion = Fusion.NONE

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        threads: int = 1,
        processes: int = 0,
        envpool: bool = False,
        delay: int | None = None,
        platform: Callable[[], Platform] = links_of_map,
    ) -> None:
        # A small forward pass in `prepare` is all that PyTorch does beside another learner.
        torch.set_num_threads(threads if mapping.learner.backend == "torch" else 1)
        check_processes(workload, processes)
        settings = workload.training
        size = settings.batch_size if batch_size is None else batch_size
        self._length = workload.algorithm.hyperparameters["trajectory_length"]
        self._actors = settings.actors
        if size > self._length * self._actors:
            allowed = f"1 to actors * trajectory_length, {self._length * self._actors}"
            raise UserError(workload.name, "batch_size", size, allowed)
        environment_seed, exploration_seed, dealing_seed, learner_seed = np.random.SeedSequence(seed).spawn(4)
        fields = columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}
        self.learner = learner_of(workload, mapping, size, learner_seed, threads, delay)
        plan = actors_of(
            workload, environment_seed, exploration_seed, fields, self._length, clip=True, envpool=envpool
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
        """Taken so far, over all environments."""
        return self._acting.environment_steps

    def warm_up(self) -> Progress:
        """One iteration: part of training, but not of its throughput."""
        return self._advance(1)

    def advance(self, gradient_steps: int) -> Progress:
        """Train on for at least `gradient_steps`: whole iterations.

        Raises:
            ValueError: `gradient_steps` below 1.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        samples = self._length * self._actors
        steps = samples // self.learner.batch_size * self._algorithm.hyperparameters.epochs
        return self._advance(ceil(gradient_steps / steps))

    def close(self) -> None:
        """End the actors' processes, where there are some, and close the environments."""
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

    def _iterate(self) -> None:
        self._time.deliver(LEARNER, "publish", self._acting.publish, self._weights_bytes, 0.0)
        transitions = self._acting.collect(self._length)
        shape = (self._length, self._actors)
        by_step = {name: column.reshape(*shape, *column.shape[1:]) for name, column in transitions.items()}
        rollout, parameters = Rollout(**by_step), self.learner.parameters()
        samples = self._time.call(HOST, "prepare", lambda: self._algorithm.prepare(parameters, rollout)).value
        self._variant = "full"
        minibatches = self._algorithm.minibatches(samples, self.learner.batch_size, self._rng)
        steps = (
            self._length * self._actors // self.learner.batch_size * self._algorithm.hyperparameters.epochs
        )
        for _ in range(steps):
            made = self._time.call(
                LEARNER, "learner", lambda: self._step(next(minibatches)), 0.0, {HOST: self._batch_bytes}
            )
            self._time.wait(made.ready_s)  # whether to stop early hangs on it
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
    """The training loop that a workload's algorithm needs, ready to run.

    Args:
        workload, mapping, batch_size, seed: see `Training`.
        options: how it is run.

    Raises:
        UserError: something does not fit together, or is not installed.
    """
    processes, threads, envpool = options.processes, options.threads, options.envpool
    if is_on_policy(workload):
        if processes is None:
            processes = min(threads, workload.training.actors) if threads > 1 else 0
        return OnPolicyTraining(
            workload,
            mapping,
            batch_size=batch_size,
            seed=seed,
            threads=threads,
            processes=processes,
            envpool=envpool,
            delay=options.delay,
        )
    return Training(
        workload,
        mapping,
        batch_size=batch_size,
        seed=seed,
        threads=threads,
        presampled_batches=options.presampled_batches,
        fusion=options.fusion,
        overlap=options.overlap,
        processes=processes or 0,
        learners=options.learners,
        reallocate=options.reallocate,
        replay_beside=options.replay_beside,
        envpool=envpool,
        delay=options.delay,
    )
