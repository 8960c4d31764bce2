"""Iterations of PPO in one native call: environments, policy, advantages and gradient steps, without the interpreter.

An iteration is that of PPO 2.1: N native environments take T steps with the current policy, `PPO.prepare` turns these
steps into T N samples, and K epochs of shuffled minibatches of M samples follow. The random numbers are drawn from
NumPy's generators in the order in which the loop in Python draws them, and the environments' trajectories are
Gymnasium's. The policy is evaluated for N observations at once instead of one by one, and values and log-probabilities
by the native executor instead of NumPy and PyTorch: their last bits may differ, and nothing else does.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.trace import trace
from placerl.primitives.learner import Learner, finite
from placerl.primitives.learner.native.calls import NativeCalls
from placerl.primitives.learner.native.executable import NativeExecutable
from placerl.primitives.one_caller import OneCaller, one_at_a_time
from placerl.primitives.training.acting_weights import acting_weights
from placerl.primitives.training.fitting import check_environments

COLUMNS = ("observation", "action", "log_probability", "advantage", "value_target")
"""Columns of the samples, in the order of `SampleColumn` in native/iterations.hpp."""
MOST_NUMBERS = 1 << 20
"""Random numbers and indices that are drawn for one call, unless a single iteration needs more."""
_NO_KL = -1


class _Explored(NamedTuple):
    """The state, which is unchanged, N actions, and their log-probabilities, (N,)."""

    state: Any
    action: Tensor
    log_probability: Tensor


class _Evaluated(NamedTuple):
    """The state, which is unchanged, and the values of observations, (n,)."""

    state: Any
    value: Tensor


@dataclass(frozen=True)
class Sources:
    """The sources of the random numbers of a training with PPO.

    Attributes:
        environments: seed of each environment, (N,) uint64.
        actions: generator of the random numbers with which actions are drawn.
        minibatches: generator of the random orders in which samples are divided into minibatches.
    """

    environments: npt.NDArray[np.uint64]
    actions: np.random.Generator
    minibatches: np.random.Generator


class OnPolicyIterations(OneCaller):
    """The iterations of a native learner of PPO on native environments.

    The learner can still be used directly: it and this object share the state and the count of gradient steps. While
    iterations run, no other thread may use it.
    One thread at a time may call this object: while a call of another is in progress, and in a forked process, a method
    raises RuntimeError.

    Args:
        learner: a learner of backend "native" for PPO with two networks, in float32; its batch size is M.
        environments: N native environments (`primitives.environments.make_native`) that begin the next episode in the
            same step. They are reset here, with a seed and once more without one, as actors in Python do.
        sources: seeds and generators of the random numbers.

    Raises:
        TypeError: the learner has another backend, or its algorithm is not PPO or is in float64.
        ValueError: the environments do not match the algorithm, or the batch is larger than an iteration.
        UnsupportedOperationError: the executor lacks an operation of the policy.
    """

    def __init__(self, learner: Learner, environments: Any, sources: Sources) -> None:
        from placerl.primitives import _native

        super().__init__()
        algorithm = _checked(learner, environments)
        assert isinstance(learner, NativeCalls)
        settings, count = algorithm.hyperparameters, environments.count
        self._samples = settings.trajectory_length * count
        if learner.batch_size > self._samples:
            raise ValueError(f"batch_size: found {learner.batch_size}; allowed: 1 to {self._samples}")
        self._algorithm, self._learner, self._sources = algorithm, learner, sources
        self._epochs = settings.epochs
        graphs = {
            "explore": exploring_graph(algorithm, count),
            "evaluate": evaluating_graph(algorithm, self._samples),
            "evaluate ends": evaluating_graph(algorithm, count),
        }
        threads = getattr(learner.programs, "threads", 1)
        self._acting = NativeExecutable(graphs, threads=threads)
        programs = learner.programs
        assert isinstance(programs, NativeExecutable)
        structure = algorithm.initialise(torch.Generator().manual_seed(0))
        self._losses = [_losses(programs.graphs[variant]) for variant in algorithm.variants]
        self._native = _native.training.OnPolicy(
            environments,
            _first_observations(environments, sources.environments),
            (
                self._acting._executor,
                [self._acting._programs[name] for name in graphs],
                acting_weights(algorithm, structure, self._acting),
            ),
            (programs._executor, acting_weights(algorithm, structure, programs)),
            [
                (programs._programs[variant], _inputs(programs.graphs[variant]), losses.get("kl", _NO_KL))
                for variant, losses in zip(algorithm.variants, self._losses, strict=True)
            ],
            (
                settings.trajectory_length,
                settings.epochs,
                learner.batch_size,
                settings.gamma,
                settings.gae_lambda,
                inf if settings.target_kl is None else 1.5 * settings.target_kl,
            ),
        )
        self._numbers_each = self._samples * max(self._native.draws, settings.epochs)

    @property
    @one_at_a_time
    def environment_steps(self) -> int:
        """The number of environment steps taken so far, over all environments."""
        return int(self._native.environment_steps)

    @property
    def gradient_steps_each(self) -> int:
        """The number of gradient steps of one iteration."""
        return self._samples // self._learner.batch_size * self._epochs

    @property
    @one_at_a_time
    def losses(self) -> dict[str, float]:
        """Return the losses by name, each from the last gradient step that computed it; empty before the first step."""
        kinds = list(zip(self._native.last_outputs, self._losses, strict=True))
        kinds.append(kinds.pop(self._native.last_kind))  # the newest step's losses replace older ones
        return {
            name: values[position] for values, places in kinds for name, position in places.items() if values
        }

    @one_at_a_time
    def run(self, iterations: int) -> None:
        """Run iterations of PPO: collect samples, then take gradient steps on them.

        Ctrl-C ends them after the native call in progress.

        Raises:
            ValueError: `iterations` is below 1, or a number of the samples is not finite; the iterations before it have
                been run.
            NotFiniteError: a number of the state is NaN or infinite after a gradient step, as in `Learner.step`.
        """
        checks.whole("iterations", iterations, 1)
        at_once = max(1, MOST_NUMBERS // self._numbers_each)
        while iterations > 0:
            self._run(min(iterations, at_once))
            iterations -= at_once

    def _run(self, iterations: int) -> None:
        sources, samples = self._sources, self._samples
        (draws,) = self._algorithm.draw_exploration(iterations * samples, 0, sources.actions).values()
        orders = np.empty((iterations * self._epochs, samples), np.int64)
        for order in orders:
            order[:] = sources.minibatches.permutation(samples)
        before = self._native.gradient_steps
        try:
            self._native.run(iterations, draws.reshape(-1), orders.reshape(-1))
        except FloatingPointError as error:
            taken = self._learner.gradient_steps + self._native.gradient_steps - before
            raise finite.not_finite(taken, str(error)) from None
        finally:
            self._learner.gradient_steps += self._native.gradient_steps - before
        self._learner._check_state(self._learner.gradient_steps - self._native.gradient_steps + before)

    @one_at_a_time
    def take_episodes(self) -> list[tuple[int, float]]:
        """Return a pair (environment step, return) for each episode that ended since the last call."""
        episodes: list[tuple[int, float]] = self._native.take_episodes()
        return episodes

    @one_at_a_time
    def spent_s(self) -> dict[str, float]:
        """Return the seconds spent so far, by kind of work.

        The keys are "environment" (steps), "infer" (actions), "prepare" (advantages) and "learner" (gradient steps).
        """
        spent: dict[str, float] = self._native.spent_s()
        return spent

    @one_at_a_time
    def samples(self) -> dict[str, npt.NDArray]:
        """Return copies of the columns of the last iteration's N T samples, by name.

        The columns are observation, action, log_probability, advantage and value_target, as from `PPO.prepare`.
        """
        shapes = self._algorithm.columns(self._samples)
        return {
            name: self._native.column(which).reshape(shapes[name].shape) for which, name in enumerate(COLUMNS)
        }


def refusal(algorithm: Any) -> str:
    """Return why an algorithm's iterations cannot run in one native call, as text; empty if they can."""
    if not isinstance(algorithm, PPO):
        return "it is not PPO"
    if algorithm.shared:
        return "its policy and value share a network"
    return "" if algorithm.dtype == torch.float32 else "it is not in float32"


def _checked(learner: Learner, environments: Any) -> PPO:
    if not isinstance(learner, NativeCalls) or not isinstance(learner.programs, NativeExecutable):
        raise TypeError(f"learner: found backend {learner.backend!r}; allowed: 'native', in float32")
    algorithm = learner.algorithm
    if reason := refusal(algorithm):
        raise TypeError(
            f"learner: found algorithm {algorithm.name!r}: {reason}; allowed: PPO of two networks"
        )
    assert isinstance(algorithm, PPO)
    check_environments(environments, algorithm)
    return algorithm


def _first_observations(environments: Any, seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    first = np.zeros(environments.count * environments.observation_width, np.float32)
    environments.reset(np.asarray(seeds, np.uint64), None, first)
    environments.reset(None, None, first)
    return first


def _inputs(graph: Graph) -> list[int]:
    return [COLUMNS.index(buffer.name.removeprefix("batch/")) for _, buffer in graph.of_kind("input")]


def _losses(graph: Graph) -> dict[str, int]:
    """Return where a graph has its losses among its outputs, by name."""
    return {
        name.removeprefix("losses/"): position
        for position, name in enumerate(graph.outputs)
        if name.startswith("losses/")
    }


def _example(algorithm: PPO, count: int) -> tuple[Any, dict[str, Tensor]]:
    shape, dtype = algorithm.columns(count)["observation"]
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return state, {"observation": torch.zeros(shape, dtype=dtype)}


@lru_cache(maxsize=64)
def exploring_graph(algorithm: PPO, count: int) -> Graph:
    """Return the graph of `count` actions with their log-probabilities, named "action" and "log_probability"."""

    def step(state: Any, batch: Any, draws: Any) -> _Explored:
        parameters = algorithm.acting_parameters(state)
        return _Explored(state, *algorithm.drawn_with_probability(parameters, batch["observation"], draws))

    drawn = algorithm.draw_exploration(count, 0, np.random.default_rng(0))
    draws = {name: torch.from_numpy(value) for name, value in drawn.items()}
    return trace(step, (*_example(algorithm, count), draws))


@lru_cache(maxsize=64)
def evaluating_graph(algorithm: PPO, count: int) -> Graph:
    """Return the graph of the values of `count` observations, named "value"."""

    def step(state: Any, batch: Any) -> _Evaluated:
        parameters = algorithm.acting_parameters(state)
        return _Evaluated(state, algorithm.values(parameters, batch["observation"]))

    return trace(step, _example(algorithm, count))
