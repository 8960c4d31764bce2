"""Training loops with parts that do nothing, so that only the time of the runtime itself is measured."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import repeat
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.nothing import Nothing
from placerl.harness.loop.schedule import STRICT, Fusion, Schedule
from placerl.harness.mapping import Mapping, Problem
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.runtime.compose import Parts
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload
from placerl.primitives.algorithms.ppo import PPO, Rollout

IN_TURNS = Schedule(presampled_batches=0)
_MAPPING = Mapping(NATIVE, NATIVE, CPU)


def empty_training(
    workload: Workload, problem: Problem, fusion: Fusion, schedule: Schedule = IN_TURNS
) -> Training:
    """Return a training whose parts do nothing, ready to take rounds.

    Args:
        fusion: `Fusion.STEP` makes whole gradient steps one call; otherwise their parts are separate calls.
        schedule: how the training is run, by default with all parts in its thread.
    """
    nothing = cast(Any, Nothing(problem.round_vector_steps * problem.actors))
    steps = nothing if fusion is Fusion.STEP else None
    parts = Parts(nothing, nothing, nothing, nothing, np.random.default_rng(0), steps)
    resolved = resolve(schedule, workload, _MAPPING, problem.batch_size, existing=fusion)
    training = Training(resolved, parts=parts)
    training.gradient_steps = 1
    return training


class IdleLearner(Nothing):
    """A learner of PPO, and the actors that use its policy, which do nothing."""

    def __init__(self, algorithm: PPO, problem: Problem) -> None:
        super().__init__(problem.trajectory_length * problem.actors)
        self.batch_size = problem.batch_size
        self.algorithm = IdlePpo(**{one.name: getattr(algorithm, one.name) for one in fields(algorithm)})
        rewards = self._transitions["reward"]
        self._transitions = dict.fromkeys(Rollout._fields, rewards)
        self._outcome.losses |= {"value": 0.0, "policy": 0.0, "kl": 0.0, "entropy": 0.0}

    def parameters(self) -> dict[str, npt.NDArray]:
        """Return no parameters, instead of the policy's and the value's."""
        return {}

    def step(self, *_: Any, variant: str = "full") -> Any:
        """Return the same outcome (TD errors and losses) each time, instead of taking a gradient step."""
        return self._outcome


class IdlePpo(PPO):
    """PPO that computes no advantages and deals empty minibatches."""

    def prepare(self, _: Any, rollout: Rollout) -> dict[str, npt.NDArray]:
        """Return no samples, instead of those of the actors' steps."""
        return {}

    def minibatches(self, *_: Any) -> Iterator[dict[str, npt.NDArray]]:
        """Yield empty minibatches without end."""
        return repeat({})


def empty_iterations(workload: Workload, algorithm: PPO, problem: Problem) -> OnPolicyTraining:
    """Return an on-policy training whose parts do nothing, ready to take iterations."""
    idle = cast(Any, IdleLearner(algorithm, problem))
    resolved = resolve(STRICT, workload, _MAPPING, problem.batch_size, existing=Fusion.NONE)
    return OnPolicyTraining(resolved, starting=lambda *_: idle, learner=idle)
