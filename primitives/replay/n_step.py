"""n-step returns, computed before transitions are inserted into the replay."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.checks import cast, number
from placerl.primitives.replay.whole_copy import CopiedWhole
from placerl.primitives.sum_tree.base import checked_integer

REWARD_KINDS = "biuf"


class NStepReturns(CopiedWhole):
    """Turns the single steps of several environments into n-step transitions.

    The transition that starts at step t carries

        reward           r(t) + gamma r(t+1) + ... + gamma^(m-1) r(t+m-1)
        next_observation the observation after step t+m-1
        terminated       whether step t+m-1 terminated the episode
        discount         gamma^m

    with m = n, or fewer when the episode ends first. The target of a learner whose algorithm was created with
    `n_step=True` is `reward + (1 - terminated) * discount * value(next_observation)`. No return crosses the end
    of an episode. A truncated episode ended for a reason outside the environment, so its last transitions still
    use the value of their next observation (terminated is False); those of a terminated episode do not.

    The sum is Sutton and Barto's n-step return (Reinforcement Learning, 2nd edition, equation 7.1).
    """

    def __init__(self, n: int, gamma: float, environments: int = 1) -> None:
        """Create an object that holds no steps yet.

        Args:
            n: largest number of steps in a transition, at least 1.
            gamma: discount of one step, in [0, 1].
            environments: E, environments stepped together, at least 1.

        Raises:
            TypeError: an argument of another type.
            ValueError: an argument out of its range.
        """
        self.n = n = checked_integer("n", n, 1)
        self.gamma = number("gamma", gamma, "0 to 1")
        self.environments = environments = checked_integer("environments", environments, 1)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma: found {gamma}; allowed: 0 to 1")
        # The sum of n rewards must not overflow.
        self._reward_max = float(np.finfo(np.float32).max) / n
        # Row s holds the transitions that started s steps after a multiple of n, one column per environment.
        self._live = np.zeros((n, environments), np.bool_)
        self._age = np.zeros((n, environments), np.int64)
        self._reward = np.zeros((n, environments), np.float64)
        self._started: dict[str, npt.NDArray] = {}
        self._step = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(deepcopy(state))  # arrays of a pickle may be in memory that is read-only

    def add(self, step: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray] | None:
        """Take one step of every environment.

        Args:
            step: `observation` (E, ...), `action` (E, ...), `reward` (E,), `next_observation` (E, ...): the one that
                the step led to, also at an episode's end (not the first of the next episode); `terminated` (E,) bool
                and `truncated` (E,) bool. `truncated` must be True for an environment that is reset early.

        Returns:
            The transitions that are now complete, oldest first within each environment: columns
            `observation`, `action`, `reward` (float32), `next_observation`, `terminated` (bool), `discount`
            (float32), each (m, ...), m from 1 to n * E; None if none is complete.

        Raises:
            TypeError: rewards that are no real numbers, or `terminated` or `truncated` that are not bool.
            ValueError: columns missing or unknown, not E rows, a `next_observation` of another shape than
                `observation`, numbers that those of the first step would cut, such as floats after integers, or a
                reward whose sum over n steps may exceed float32; state unchanged.
        """
        arrays = self._checked(step)
        reward = arrays["reward"].astype(np.float64)
        terminated = arrays["terminated"]
        ended = terminated | arrays["truncated"]

        slot = self._step % self.n
        self._step += 1
        for name in ("observation", "action"):
            if name not in self._started:
                self._started[name] = np.zeros((self.n, *arrays[name].shape), arrays[name].dtype)
            self._started[name][slot] = arrays[name]
        self._live[slot] = True
        self._age[slot] = 0
        self._reward[slot] = 0.0

        self._reward += np.where(self._live, self.gamma**self._age * reward, 0.0)
        self._age += self._live
        complete = self._live & ((self._age == self.n) | ended)
        self._live &= ~complete

        oldest_first = (slot + 1 + np.arange(self.n)) % self.n
        environment, order = np.nonzero(complete[oldest_first].T)
        if not len(environment):
            return None
        start = oldest_first[order], environment
        return {
            "observation": self._started["observation"][start],
            "action": self._started["action"][start],
            "reward": self._reward[start].astype(np.float32),
            "next_observation": arrays["next_observation"][environment],
            "terminated": terminated[environment],
            "discount": (self.gamma ** self._age[start]).astype(np.float32),
        }

    def add_steps(self, steps: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray] | None:
        """Take several steps of every environment.

        Args:
            steps: the columns of `add`, (steps * E, ...) each, in the order of the steps.

        Returns:
            The transitions that are now complete, as `add` returns them, one step's after the other's.

        Raises:
            TypeError, ValueError: as of `add`; the steps before the wrong one are taken.
        """
        number = self.environments
        complete = [
            one
            for row in range(0, len(steps["reward"]), number)
            if (one := self.add({name: column[row : row + number] for name, column in steps.items()}))
        ]
        if not complete:
            return None
        return {name: np.concatenate([one[name] for one in complete]) for name in complete[0]}

    def _checked(self, step: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray]:
        names = {"observation", "action", "reward", "next_observation", "terminated", "truncated"}
        if step.keys() != names:
            found = sorted(map(str, step))
            raise ValueError(f"step: found columns {found}; allowed: exactly {sorted(names)}")
        arrays = {name: np.asarray(column) for name, column in step.items()}
        for name, array in arrays.items():
            expected: tuple[int, ...] = (self.environments,)
            if name in self._started:
                expected = self._started[name].shape[1:]
            elif name in ("observation", "action"):
                expected += array.shape[1:]
            elif name == "next_observation":
                expected += arrays["observation"].shape[1:]
            if array.shape != expected:
                raise ValueError(f"step[{name!r}]: found shape {array.shape}; allowed: {expected}")
            if name in self._started and not np.can_cast(array.dtype, self._started[name].dtype, "same_kind"):
                first = self._started[name].dtype
                raise ValueError(
                    f"step[{name!r}]: found dtype {array.dtype}; allowed: as in the first step, {first}"
                )
            if name in self._started:
                arrays[name] = cast(f"step[{name!r}]", array, self._started[name].dtype)
            if name in ("terminated", "truncated") and array.dtype != np.bool_:
                raise TypeError(f"step[{name!r}]: found dtype {array.dtype}; allowed: bool")
        reward = arrays["reward"]
        if reward.dtype.kind not in REWARD_KINDS:
            raise TypeError(f"step['reward']: found dtype {reward.dtype}; allowed: real numbers")
        too_large = np.isfinite(reward) & (np.abs(reward.astype(np.float64)) > self._reward_max)
        if too_large.any():
            raise ValueError(
                f"step['reward']: found {reward[too_large][0]}; "
                f"allowed: at most {self._reward_max:.4g} in magnitude over {self.n} steps"
            )
        return arrays
