"""Checks what an environment's `reset` and `step` return, because a wrong value would be stored without a word.

NumPy repeats a scalar until it has the shape of an observation, reads "1" as a number and None as False. So each value
is checked before it is used, at a cost of two to three microseconds a step. What a different type means without doubt
is accepted: observations in another floating-point type or as a list, NumPy's scalars, integers for floats.
"""

from math import inf
from types import TracebackType
from typing import Any, NoReturn

import gymnasium
import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError

_BOOLS = (bool, np.bool_)
_LARGEST = float(np.finfo(np.float32).max)
"""Observations and rewards are stored in float32, or in the integers of their space."""
_LARGEST_SQUARE = _LARGEST**2
_NUMBERS = "biuf"
"""Kinds of NumPy's data types that are read as real numbers."""
_LARGEST_INTEGER = 1 << 1023  # beyond it a float is infinite
_FROM_RESET = "2 values: observation, info, as Gymnasium defines them since version 0.26"
_FROM_STEP = (
    "5 values: observation, reward, terminated, truncated, info, as Gymnasium defines them since version 0.26"
)
_CALLERS = (__name__, "gymnasium.wrappers.", "gymnasium.core", "gymnasium.utils.passive_env_checker")
"""Modules that call an environment's functions. An exception raised in one is about arguments or returned values."""


def source(environment: Any) -> str:
    """Return how errors name an environment: by the ID it is registered with, or else by its class."""
    spec = getattr(environment, "spec", None)
    name = getattr(spec, "id", None) or type(getattr(environment, "unwrapped", environment)).__name__
    return f"environment {name}"


def reset(environment: gymnasium.Env[Any, Any], seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Reset an environment, and return its observation, unchecked, and its info.

    Raises:
        UserError: `reset` takes no seed, or returns something else than an observation and a dict.
    """
    try:
        returned = environment.reset() if seed is None else environment.reset(seed=seed)
    except Exception as error:
        _refuse_misfit(
            environment, "reset", error, f"reset(seed=..., options=...) that returns {_FROM_RESET}"
        )
        raise
    observation, info = _values(environment, "reset", returned, 2, _FROM_RESET)
    _check_info(environment, info)
    return observation, info


class Contract:
    """Steps and resets one environment, and checks all that it returns.

    Raises:
        UserError: the environment's observations have another shape.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], shape: tuple[int, ...]) -> None:
        space = environment.observation_space
        if space.shape != shape or space.dtype is None:
            allowed = f"a Box of shape {shape}, as that of the first environment"
            raise UserError(source(environment), "observation_space", space, allowed, names=())
        self._named = source(environment)
        self._environment = environment
        self._shape = shape
        self._dtype = space.dtype
        self._floats = space.dtype.kind == "f"
        actions = environment.action_space
        self._last = int(actions.n) - 1 if isinstance(actions, gymnasium.spaces.Discrete) else None

    def reset(self) -> npt.NDArray:
        """Begin an episode, and return its first observation.

        Raises:
            UserError: the environment returned something else than an observation and a dict.
        """
        return self._checked(reset(self._environment)[0])

    def step(self, action: Any) -> tuple[npt.NDArray, float, bool, bool]:
        """Take a step.

        Returns:
            The observation (not copied), the reward, and whether the episode was terminated or truncated.

        Raises:
            UserError: the environment returned something else, or a discrete action is outside its space.
        """
        if self._last is not None and not 0 <= action <= self._last:
            self._refuse("action", action, f"0 to {self._last}: the policy chose another")
        try:
            returned = self._environment.step(action)
        except Exception as error:
            _refuse_misfit(self._environment, "step", error, _FROM_STEP)
            raise
        if type(returned) is not tuple or len(returned) != 5:
            returned = _values(self._environment, "step", returned, 5, _FROM_STEP)
        observation, reward, terminated, truncated, info = returned
        if (
            type(observation) is not np.ndarray
            or observation.dtype is not self._dtype
            or observation.shape != self._shape
            or (self._floats and not _bounded(observation))
        ):
            observation = self._checked(observation)
        if type(reward) is not float:
            reward = self._number(reward)
        if not -_LARGEST <= reward <= _LARGEST:
            self._refuse("reward", reward, "a number that is finite in float32")
        if type(terminated) not in _BOOLS:
            terminated = self._truth("terminated", terminated)
        if type(truncated) not in _BOOLS:
            truncated = self._truth("truncated", truncated)
        if type(info) is not dict:
            _check_info(self._environment, info)
        return observation, reward, terminated, truncated

    def _checked(self, observation: Any) -> npt.NDArray:
        return checked_array(self._named, "observation", observation, self._shape, self._dtype)

    def _number(self, reward: Any) -> float:
        if type(reward) is int:  # NumPy has no type for one of more than 64 bits
            reward = float(reward) if abs(reward) < _LARGEST_INTEGER else np.inf
        array = _array(reward)
        if array is None or array.shape != () or array.dtype.kind not in _NUMBERS:
            self._refuse("reward", _described(reward), "a number")
        return float(array)

    def _truth(self, field: str, value: Any) -> bool:
        array = _array(value)
        if array is None or array.shape != () or array.dtype != np.bool_:
            self._refuse(field, _described(value), "True or False")
        return bool(array)

    def _refuse(self, field: str, found: object, allowed: str) -> NoReturn:
        raise UserError(self._named, field, found, allowed, names=())


def checked_array(
    named: str, field: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray:
    """Return an observation as an array of numbers, or refuse it.

    Args:
        shape, dtype: shape and data type of the observation space.

    Returns:
        An array of that shape: `value` itself if possible. Its numbers are finite in float32, and if `dtype` is one of
        integers, they are integers in its range.

    Raises:
        UserError: the value is something else.
    """
    array = _array(value)
    allowed = f"{dtype} of shape {shape}"
    if array is None or array.dtype.kind not in _NUMBERS or array.shape != shape:
        raise UserError(named, field, _described(value), allowed, names=())
    if array.dtype.kind == "f":
        if dtype.kind != "f":
            raise UserError(named, field, _described(value), allowed, names=())
        if not _bounded(array):
            wrong = array[~(np.abs(array.astype(np.float64)) <= _LARGEST)]
            if wrong.size:
                raise UserError(named, field, wrong[0], f"{allowed}, finite in float32", names=())
    elif dtype.kind in "iu" and array.dtype != dtype:
        limits = np.iinfo(dtype)
        wrong = array[(array < limits.min) | (array > limits.max)]
        if wrong.size:
            raise UserError(named, field, wrong[0], f"{allowed}, {limits.min} to {limits.max}", names=())
    return array


def check_pool(
    named: str, space: gymnasium.Space[Any], number: int, stepped: tuple[npt.NDArray, ...]
) -> None:
    """Check what a pool of environments, which are stepped in one call, returned for a step.

    Args:
        number: N, number of environments.
        stepped: observations (N, ...), and, unless the pool was reset, rewards, terminated and truncated, (N,) each.

    Raises:
        UserError: a value is wrong.
    """
    assert space.shape is not None
    assert space.dtype is not None
    observations, *others = stepped
    checked_array(named, "observation", observations, (number, *space.shape), space.dtype)
    for field, value, dtype in zip(
        ("reward", "terminated", "truncated"), others, (np.float32, np.bool_, np.bool_), strict=bool(others)
    ):
        if dtype is np.bool_ and value.dtype != dtype:
            raise UserError(named, field, _described(value), f"bool of shape {(number,)}", names=())
        checked_array(named, field, value, (number,), np.dtype(dtype))


class CheckedParts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Checks the arrays of an environment whose observations are a `Dict` or `Tuple`, nested or not.

    The check comes before they are flattened to one vector, in which a wrong shape would not be seen.
    """

    def observation(self, observation: Any) -> Any:
        """Return the observation with its arrays checked; UserError if a part is wrong."""
        return self._checked(observation, self.observation_space, "observation")

    def _checked(self, value: Any, space: Any, field: str) -> Any:
        named = source(self)
        if isinstance(space, gymnasium.spaces.Dict):
            if not isinstance(value, dict) or value.keys() != space.keys():
                allowed = f"a dict of {', '.join(map(repr, space))}"
                keys = isinstance(value, dict)
                found = f"a dict of {', '.join(map(repr, value))}" if keys else _described(value)
                raise UserError(named, field, found, allowed, names=())
            return {key: self._checked(value[key], part, f"{field}[{key!r}]") for key, part in space.items()}
        if isinstance(space, gymnasium.spaces.Tuple):
            if not isinstance(value, tuple | list) or len(value) != len(space):
                counted = isinstance(value, tuple | list)
                found = f"{type(value).__name__} of {len(value)}" if counted else _described(value)
                raise UserError(named, field, found, f"a tuple of {len(space)}", names=())
            parts = zip(value, space, strict=True)
            return tuple(self._checked(part, of, f"{field}[{i}]") for i, (part, of) in enumerate(parts))
        return checked_array(named, field, value, space.shape, space.dtype)


def _bounded(array: npt.NDArray) -> bool:
    """Return whether a sum of squares, which is cheaper than a search, shows that all numbers are finite in float32.

    Of NumPy's products `vdot` alone warns of no overflow. An `errstate` around another would take longer than the
    product, and also slow what the environment itself computes in NumPy.
    """
    return bool(np.vdot(array, array) < (_LARGEST_SQUARE if array.dtype.itemsize > 4 else inf))


def _values(environment: Any, field: str, returned: Any, number: int, allowed: str) -> tuple[Any, ...]:
    if not isinstance(returned, tuple | list) or len(returned) != number:
        counted = isinstance(returned, tuple | list)
        found = f"{len(returned)} values" if counted else f"no tuple, but {_described(returned)}"
        raise UserError(source(environment), field, found, allowed, names=())
    return tuple(returned)


def _check_info(environment: Any, info: Any) -> None:
    if not isinstance(info, dict):
        raise UserError(source(environment), "info", _described(info), "a dict", names=())


def _array(value: Any) -> npt.NDArray | None:
    try:
        return np.asarray(value)
    except Exception:  # lists of unequal lengths, or whatever a foreign array type raises
        return None


def _described(value: Any) -> str:
    """Return the data type and shape of an array, or the value itself."""
    if isinstance(value, np.ndarray | list | tuple) and (array := _array(value)) is not None:
        return f"{array.dtype} of shape {array.shape}"
    return repr(value) if isinstance(value, str) else f"{value} ({type(value).__name__})"


def _refuse_misfit(environment: Any, field: str, error: Exception, allowed: str) -> None:
    """Raise UserError if whoever called the environment's function failed, instead of the environment's own code.

    Gymnasium's wrappers fail so if `step` returns another number of values, and a call if `reset` takes no seed.
    """
    if isinstance(error, UserError):
        return
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = last.tb_frame.f_globals.get("__name__", "") if last else ""
    if module.startswith(_CALLERS):
        found = f"{type(error).__name__}: {error}"
        raise UserError(source(environment), field, found, allowed, names=()) from error
