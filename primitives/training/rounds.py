"""Rounds of off-policy training in one native call: environments, policy, replay and gradient steps.

A round is that of the loop in Python: N native environments take V steps, each with one inference per environment on
the learner's weights, their transitions are inserted, and G gradient steps follow. The random numbers are drawn from
the same generators in the same order, and the environments' trajectories are Gymnasium's, so that the training is the
same, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from placerl.primitives import checks
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.native.native_backend import NativeLearner
from placerl.primitives.one_caller import one_at_a_time
from placerl.primitives.replay import ConcurrentReplay
from placerl.primitives.training.exploration import exploration_of
from placerl.primitives.training.parallel import COLUMNS, check_parts

CALL_S = 0.05
"""About the longest native call, seconds: Ctrl-C ends the rounds after the call in progress."""


@dataclass(frozen=True)
class Acting:
    """What acts in the rounds.

    Attributes:
        environments: N native environments (`primitives.environments.make_native`) that begin the next episode in the
            same step. They are reset here, with a seed and once more without one, as actors in Python do.
        seeds: seed of each environment, (N,).
        rng: generator of the random numbers of actions.
        vector_steps: V, steps of all environments in a round, at least 1.
        gradient_steps: G, gradient steps in a round, at least 1.
        filled_at_once: most vector steps that `FusedRounds.fill` takes at once, at least 1.
        environment_steps: environment steps that count as taken before, at least 0; exploration decreases with them.
    """

    environments: Any
    seeds: Sequence[int]
    rng: np.random.Generator
    vector_steps: int = 1
    gradient_steps: int = 1
    filled_at_once: int = 1
    environment_steps: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        checks.whole("vector_steps", self.vector_steps, 1)
        checks.whole("gradient_steps", self.gradient_steps, 1)
        checks.whole("filled_at_once", self.filled_at_once, 1)
        checks.whole("environment_steps", self.environment_steps, 0)


class FusedRounds(FusedSteps):
    """Runs whole rounds of a native learner, a `ConcurrentReplay` and native environments in one native call.

    Gradient steps can also be taken alone, with `run`. New items get the largest priority so far.

    Args:
        replay: with the columns of transitions of one step.
        learner: a learner of backend "native" in float32, whose executor computes exploring actions.
        acting: the environments, and the steps of a round.

    Raises:
        TypeError: the learner has another backend, or its executor does not compute its exploring actions.
        ValueError: actors in C++ cannot act for the algorithm, or the environments or the replay do not fit it.
        RuntimeError: another process created the replay: this is a forked copy.
    """

    def __init__(self, replay: ConcurrentReplay, learner: Learner, acting: Acting) -> None:
        if not isinstance(learner, NativeLearner):
            raise TypeError(f"learner: found backend {learner.backend!r}; allowed: 'native', in float32")
        check_parts(learner.algorithm, [acting.environments], replay)
        self._acting, self._program = acting, learner.exploring_program
        self._rounds_at_once = 1
        super().__init__(replay, learner)

    def _in_native(self, sources: list[tuple[int, int, str, int]], td_outputs: list[int]) -> Any:
        from placerl.primitives import _native

        acting, learner, columns = self._acting, self._learner, list(self._replay.storage.columns)
        environments = acting.environments
        first = np.zeros(environments.count * environments.observation_width, np.float32)
        environments.reset(np.asarray(acting.seeds, np.uint64), None, first)
        environments.reset(None, None, first)
        return _native.training.Rounds(
            self._replay._native,
            self._executable._executor,
            learner.batch_size,
            sources,
            td_outputs,
            (
                environments,
                first,
                [
                    max(acting.vector_steps, acting.filled_at_once),
                    acting.vector_steps,
                    acting.gradient_steps,
                    acting.environment_steps,
                ],
                self._program,
                [columns.index(name) for name in COLUMNS],
            ),
            exploration_of(learner.algorithm),
        )

    @one_at_a_time
    def fill(self, vector_steps: int) -> None:
        """Take vector steps with uniformly random actions, and insert their transitions.

        Raises:
            ValueError: `vector_steps` is below 1 or above `Acting.filled_at_once`.
        """
        acting, environments = self._acting, self._acting.environments
        checks.whole("vector_steps", vector_steps, 1, acting.filled_at_once)
        number = vector_steps * environments.count
        if environments.action_count:
            actions = acting.rng.integers(environments.action_count, size=number)
        else:
            actions = acting.rng.uniform(-1, 1, number * environments.action_width).astype(np.float32)
        self._fused.fill(actions, vector_steps)

    @one_at_a_time
    def run_rounds(self, rounds: int, rng: np.random.Generator) -> None:
        """Run rounds: vector steps with exploring actions, the insertion of their transitions, and gradient steps.

        Args:
            rng: generator of the random numbers of sampling.

        Raises:
            TypeError, ValueError, NotFiniteError, RuntimeError: as `run` raises them; ValueError also if `rounds` is
                below 1, or if an observation or an action is not finite.
        """
        checks.whole("rounds", rounds, 1)
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: found {type(rng).__name__}; allowed: numpy.random.Generator")
        acting = self._acting
        native = partial(self._fused.run_rounds, acting.rng)
        while rounds > 0:
            at_once = min(rounds, self._rounds_at_once)
            begin_s = perf_counter()
            self._run(at_once * acting.gradient_steps, rng, native)
            took_s = perf_counter() - begin_s
            self._rounds_at_once = max(1, int(at_once * min(2.0, CALL_S / took_s)))
            rounds -= at_once

    @property
    @one_at_a_time
    def environment_steps(self) -> int:
        """The number of environment steps taken so far, over all environments."""
        return int(self._fused.environment_steps)

    @one_at_a_time
    def take_episodes(self) -> list[tuple[int, float]]:
        """Return a pair (environment step, return) for each episode that ended since the last call."""
        episodes: list[tuple[int, float]] = self._fused.take_episodes()
        return episodes

    @one_at_a_time
    def spent_s(self) -> dict[str, float]:
        """Return the seconds that the rounds have spent so far, by kind of work.

        The keys are "environment" (steps), "infer" (actions), "insert" and "step" (whole gradient steps).
        """
        spent: dict[str, float] = self._fused.spent_s()
        return spent
