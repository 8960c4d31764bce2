"""Defines what trainings of algorithms that learn only from their own latest samples share (PPO 2.1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import ceil
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from placerl.harness.loop.real_time import RealTime
from placerl.harness.measure.conditions import set_blas_threads
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.training import Progress
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.learner import Learner


class OnPolicyLoop(ABC):
    """The base class of on-policy trainings, which run in iterations.

    In an iteration, N actors take T steps each. The N T samples are then learnt from in K epochs of minibatches of M
    samples.

    Args:
        resolved: what is trained, and how; its batch size is M, the samples of a minibatch.
        learner: the learner; None creates the mapping's.

    Attributes:
        fusion: which calls are joined into one native call.
        gradient_steps: gradient steps taken so far.
        learner: the learner.

    Raises:
        UserError: the learner cannot be created.
    """

    def __init__(self, resolved: Resolved, seed: int, learner: Learner | None = None) -> None:
        # `PPO.prepare` runs forward passes in NumPy and PyTorch, and some actors choose their actions with NumPy. With
        # small networks and two threads, `prepare` takes ten times as long for CartPole, and four times for Hopper.
        workload, mapping, schedule = resolved.workload, resolved.mapping, resolved.schedule
        torch.set_num_threads(schedule.threads if mapping.learner.backend == "torch" else 1)
        set_blas_threads(1)
        self._length = workload.algorithm.hyperparameters["trajectory_length"]
        self._actors = workload.training.actors
        seeds = np.random.SeedSequence(seed).spawn(4)
        self._environment_seed, self._exploration_seed, self._dealing_seed, learner_seed = seeds
        self.learner = learner or learner_of(workload, mapping, learner_seed, schedule)
        self._algorithm = cast(PPO, self.learner.algorithm)
        self.fusion, self._time = resolved.fusion, RealTime()
        self.gradient_steps = 0

    @property
    @abstractmethod
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""

    @property
    def _gradient_steps_each(self) -> int:
        """Gradient steps of an iteration."""
        samples = self._length * self._actors
        return samples // self.learner.batch_size * self._algorithm.hyperparameters.epochs

    @abstractmethod
    def _iterate(self, iterations: int) -> None:
        """Run iterations, and count their gradient steps."""

    @abstractmethod
    def _take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""

    @abstractmethod
    def _terms_s(self) -> dict[str, float]:
        """Return the seconds spent so far, by term."""

    @abstractmethod
    def _losses(self) -> dict[str, float]:
        """Return each loss of the last gradient step that has it, by name."""

    def greedy(self) -> Callable[[npt.NDArray], npt.NDArray]:
        """Return the learner's present policy, without exploration: it maps an observation to an action."""
        return self.learner.act

    @abstractmethod
    def close(self) -> None:
        """End the actors' processes, if there are any, and close the environments."""

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
        return self._advance(ceil(gradient_steps / self._gradient_steps_each))

    def _advance(self, iterations: int) -> Progress:
        before_s, before_terms_s = self._time.now_s(), self._terms_s()
        before = self.gradient_steps, self.environment_steps
        self._iterate(iterations)
        return Progress(
            gradient_steps=self.gradient_steps - before[0],
            environment_steps=self.environment_steps - before[1],
            wall_s=self._time.now_s() - before_s,
            episodes=self._take_episodes(),
            terms_s={name: value - before_terms_s[name] for name, value in self._terms_s().items()},
            losses=self._losses(),
        )
