"""The actor: it steps environments with a policy, and collects the transitions in a local storage (MAP II-A1)."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.environments import contract
from placerl.harness.environments.contract import Contract
from placerl.harness.loop.training_loop import TD_ERROR
from placerl.primitives.replay.storage import FieldSpec

Policy = Callable[[npt.NDArray, int, np.random.Generator], npt.NDArray]
"""Maps observations (n, ...), environment steps so far and a random generator to n exploring actions."""

Evaluation = Callable[[Mapping[str, npt.NDArray]], npt.NDArray]
"""Maps n transitions by column to their (n,) TD errors, by the weights that the actor acts with."""


class Episode(NamedTuple):
    """One finished episode.

    Attributes:
        environment_step: number of environment steps, over all environments, taken when it ended.
        episode_return: undiscounted return.
    """

    environment_step: int
    episode_return: float


class Actor:
    """Steps several environments, with one inference of the policy for all of them, and returns transitions in batches.

    Transitions first go to a local storage, so that the replay is called once per batch instead of once per step. An
    episode ends by termination or by truncation, but only termination is recorded in a transition, because only
    termination ends the bootstrap. A transition's next observation is the episode's own last observation, not the
    first one after the reset.

    Args:
        environments: at least one, all with the same spaces, reset or not. What they return is checked (`Contract`).
        rng: source of the random numbers of actions.
        fields: columns of a transition (`primitives.replay.storage.transition_fields`), and `truncated` if it
            is needed; with `td_error`, the actor computes initial priorities (MAP II-A1).
        local_storage: vector steps that fit the local storage. A vector step steps every environment once, and adds
            one row per environment.
        clip: whether the policy's continuous actions may be outside [-1, 1]. The environments then get clipped
            actions, and the transitions hold the unclipped ones.
        columns: arrays of the local storage, (local_storage * environments, ...) each; by default new arrays.

    Raises:
        UserError: the environments' spaces differ, or one returned something else than its spaces and Gymnasium's
            interface say.

    Attributes:
        evaluates: whether transitions have the column `td_error`.
        environment_steps: steps taken so far, over all environments.
        environment_s, inference_s: seconds spent so far in environments and in inference (actions, TD errors).
    """

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Any, Any]],
        rng: np.random.Generator,
        fields: Mapping[str, FieldSpec],
        local_storage: int,
        *,
        clip: bool = False,
        columns: Mapping[str, npt.NDArray] | None = None,
    ) -> None:
        self._environments = list(environments)
        space = self._environments[0].action_space
        for environment in self._environments:
            if environment.action_space != space:
                named, own = contract.source(environment), environment.action_space
                raise UserError(named, "action_space", own, f"{space}, as in the first environment", names=())
        shape = fields["observation"].shape
        self._contracts = [Contract(environment, shape) for environment in self._environments]
        first = [each.reset() for each in self._contracts]
        self._prepare(first, space, rng, fields, local_storage, clip, columns)

    def _prepare(
        self,
        first: Sequence[npt.ArrayLike] | npt.NDArray,
        space: gymnasium.Space[Any],
        rng: np.random.Generator,
        fields: Mapping[str, FieldSpec],
        local_storage: int,
        clip: bool,
        columns: Mapping[str, npt.NDArray] | None,
    ) -> None:
        """Prepare everything but the environments: `first` are their first observations, `space` is their action
        space.
        """
        self._rng = rng
        self._steps_that_fit = local_storage
        rows = local_storage * len(first)
        self._columns = columns or {
            name: np.zeros((rows, *field.shape), field.dtype) for name, field in fields.items()
        }
        # by number of vector steps: the views that `collect` returns
        self._views: dict[int, dict[str, npt.NDArray]] = {}
        self._observations = np.stack([np.asarray(one, fields["observation"].dtype) for one in first])
        self._returns = [0.0] * len(first)
        self._space = space
        self._scale = scale_of(space)
        self._clip = clip and isinstance(space, gymnasium.spaces.Box)
        self._notes_truncation = "truncated" in fields
        self.evaluates = TD_ERROR in fields
        self._episodes: list[Episode] = []
        self.environment_steps = 0
        self.environment_s = 0.0
        self.inference_s = 0.0

    @property
    def observations(self) -> npt.NDArray:
        """Return the current observations, (environments, ...), for which the next actions are chosen."""
        return self._observations

    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def collect(
        self, steps: int, policy: Policy | None, evaluation: Evaluation | None = None
    ) -> dict[str, npt.NDArray]:
        """Step every environment `steps` times, and return the transitions.

        Args:
            steps: vector steps, at least 1 and at most what the local storage holds.
            policy: chooses the actions; None for uniformly random actions, as before learning starts.
            evaluation: computes the column `td_error`, if the actor has it.

        Returns:
            The transitions by column, (steps * environments, ...): views that the next call overwrites.

        Raises:
            ValueError: `steps` is below 1, or more than the local storage holds; or an evaluation is missing.
            UserError: an environment returned something else than its spaces and Gymnasium's interface say.
        """
        if not 1 <= steps <= self._steps_that_fit:
            raise ValueError(f"steps: found {steps}; allowed: 1 to {self._steps_that_fit}")
        if self.evaluates and evaluation is None:
            raise ValueError("evaluation: found None; allowed: a function, for the column td_error")
        columns, observations = self._columns, self._observations
        observed, acted = columns["observation"], columns["action"]
        number = len(observations)
        rows, now_s = steps * number, perf_counter()
        for row in range(0, rows, number):
            if policy is None:
                actions = self._random_actions(number)
            else:
                actions = policy(observations, self.environment_steps, self._rng)
            end = row + number
            observed[row:end] = observations
            acted[row:end] = actions
            acted_s = perf_counter()
            self.inference_s += acted_s - now_s
            if self._clip:
                actions = np.clip(actions, -1, 1)
            if self._scale is not None:
                actions = self._scaled(actions)
            if actions.dtype != self._space.dtype:
                actions = actions.astype(self._space.dtype)
            self._step_environments(row, actions)
            now_s = perf_counter()
            self.environment_s += now_s - acted_s
        if steps not in self._views:
            self._views[steps] = {name: column[:rows] for name, column in columns.items()}
        views = self._views[steps]
        if self.evaluates and evaluation is not None:
            transitions = {name: view for name, view in views.items() if name != TD_ERROR}
            views[TD_ERROR][:] = evaluation(transitions)
            self.inference_s += perf_counter() - now_s
        return views

    def _random_actions(self, number: int) -> npt.NDArray:
        if isinstance(self._space, gymnasium.spaces.Discrete):
            return self._rng.integers(self._space.n, size=number)
        return self._rng.uniform(-1, 1, (number, *self._columns["action"].shape[1:])).astype(np.float32)

    def _step_environments(self, row: int, actions: npt.NDArray) -> None:
        columns, observations, returns = self._columns, self._observations, self._returns
        for i, environment in enumerate(self._contracts):
            observation, reward, terminated, truncated = environment.step(actions[i])
            columns["next_observation"][row] = observation
            columns["reward"][row] = reward
            columns["terminated"][row] = terminated
            if self._notes_truncation:
                columns["truncated"][row] = truncated
            row += 1
            self.environment_steps += 1
            returns[i] += reward
            if terminated or truncated:
                self._episodes.append(Episode(self.environment_steps, returns[i]))
                returns[i] = 0.0
                observation = environment.reset()
            observations[i] = observation

    def _scaled(self, actions: npt.NDArray) -> npt.NDArray:
        assert self._scale
        low, half_range = self._scale
        return low + (actions + 1) * half_range

    def close(self) -> None:
        """Close the environments."""
        for environment in self._environments:
            environment.close()


def scale_of(space: gymnasium.Space[Any]) -> tuple[npt.NDArray, npt.NDArray] | None:
    """Return the lower bound and half the range of a continuous action space; None for [-1, 1], and where it is none.

    Half the range is so rounded that no action is above the upper bound.
    """
    if not isinstance(space, gymnasium.spaces.Box) or (np.all(space.low == -1) and np.all(space.high == 1)):
        return None
    wide = np.result_type(space.dtype, np.float32).type
    low, high = space.low.astype(wide), space.high.astype(wide)
    half_range = (high - low) / 2
    while (above := low + 2 * half_range > high).any():  # by rounding
        half_range = np.where(above, np.nextafter(half_range, wide(-1)), half_range)
    return low, half_range
