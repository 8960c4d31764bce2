"""The interface of every learner: it owns an algorithm's state and takes its gradient steps on NumPy batches."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.learner import finite
from placerl.primitives.learner.columns import (
    BOOL,
    NUMPY_DTYPES,
    TERMINATED,
    WEIGHT,
    NumpyColumn,
    all_finite,
    checked_batch,
    checked_weights,
    numpy_columns,
    refuse_columns,
)
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device import DeviceBatch

_MOST_SEED = 2**64 - 1  # of PyTorch's generators


class StepOutcome(NamedTuple):
    """The result of one gradient step.

    Attributes:
        td_errors: (B,) float, target minus value before the update; magnitudes are the new priorities.
        losses: losses by name.
    """

    td_errors: np.ndarray
    losses: dict[str, float]


class CheckedState(NamedTuple):
    """A state that can be loaded without an error.

    Attributes:
        leaves: arrays of numbers of the algorithm's state by name, with its shapes; dtypes may differ.
        gradient_steps: number of gradient steps taken.
        generator: state of the generator of draws, as `torch.Generator.set_state` takes it; None if the state has none.
    """

    leaves: dict[str, np.ndarray]
    gradient_steps: int
    generator: torch.Tensor | None


def checked_state(own: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> CheckedState:
    """Check the whole of a `state_dict`, so that nothing of a wrong one is loaded.

    Args:
        state: the state to load. It may lack "generator".

    Raises:
        ValueError: a name is missing or unknown, a shape differs, or a value is not of the right kind, or larger than
            the learner's dtype can hold.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"state: found {type(state).__name__}; allowed: what state_dict returns")
    expected = {name: leaf.shape for name, leaf in own.items()} | {"gradient_steps": ()}
    for name in state.keys() - expected.keys() - {"generator"}:
        raise ValueError(f"state: found {name!r}; allowed: the names of this algorithm's state_dict")
    for name, shape in expected.items():
        found = np.asarray(state[name]).shape if name in state else "nothing"
        if found != shape:
            raise ValueError(f"state[{name!r}]: found {found}; allowed: an array of shape {shape}")
    leaves = {name: np.asarray(state[name]) for name in own}
    for name, leaf in leaves.items():
        kind = own[name].dtype.kind
        if leaf.dtype.kind not in {"f": "iuf", "i": "iu", "u": "iu"}.get(kind, kind):
            raise ValueError(f"state[{name!r}]: found dtype {leaf.dtype}; allowed: {own[name].dtype}")
        with np.errstate(over="ignore"):
            too_large = np.isinf(leaf.astype(own[name].dtype, copy=False)) if kind == "f" else np.False_
        if (too_large & np.isfinite(leaf)).any():
            raise ValueError(
                f"state[{name!r}]: found a number too large; allowed: numbers that fit {own[name].dtype}"
            )
    steps = checked_count(state, "gradient_steps")
    generator = _generator_state(state["generator"]) if "generator" in state else None
    return CheckedState(leaves, steps, generator)


def checked_count(state: Mapping[str, Any], name: str) -> int:
    """Return a number of steps of a `state_dict`.

    Raises:
        ValueError: the value is not a whole number of at least 0.
    """
    value = np.asarray(state[name])
    steps = int(value) if value.shape == () and value.dtype.kind in "iu" else -1
    if steps < 0:
        raise ValueError(f"state[{name!r}]: found {state[name]}; allowed: a whole number of at least 0")
    return steps


def _generator_state(value: Any) -> torch.Tensor:
    array = np.array(value)
    try:
        state = torch.from_numpy(array)
        torch.Generator().set_state(state)
    except (TypeError, RuntimeError):
        raise ValueError(
            f"state['generator']: found {array.shape} {array.dtype}; allowed: that of a state_dict"
        ) from None
    return state


class Policy(Protocol):
    """An object with which actors in other threads and processes choose actions. It can be pickled.

    Every `Algorithm` is a policy.
    """

    def explore(
        self,
        parameters: Mapping[str, np.ndarray],
        observation: np.ndarray,
        environment_step: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the actions that an actor takes while it gathers experience.

        Args:
            parameters: the parameters to act with, from `Learner.policy_parameters`.
            observation: (n, *observation_shape).
        """

    def acting_td_errors(
        self, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return TD errors that the policy's parameters suffice for, (n,); see `Algorithm.acting_td_errors`."""


class Learner(OwnProcess, ABC):
    """The base class of learners. A learner owns an algorithm's state, and takes gradient steps on one device.

    One thread at a time may use a learner. It belongs to one process, as the threads of PyTorch and of a device do: a
    copy made by a fork raises RuntimeError when it is used. Actors in other processes get `policy` and
    `policy_parameters`.

    Attributes:
        backend: the backend's name, such as "torch".
        algorithm: the algorithm that is learnt.
        batch_size: transitions per gradient step.
        device: the device on which the learner runs, such as "cpu".
        gradient_steps: number of gradient steps taken.
    """

    backend: ClassVar[str]

    def __init__(self, algorithm: Algorithm, *, device: str, batch_size: int, seed: int) -> None:
        """Check and store the arguments that every backend has.

        Raises:
            ValueError: a batch size below 1, or a seed outside [0, 2^64).
        """
        super().__init__()
        checks.whole("batch_size", batch_size, 1)
        checks.whole("seed", seed, 0, _MOST_SEED)
        self.algorithm = algorithm
        self.batch_size = int(batch_size)
        self.device = device
        self.seed = int(seed)
        self.gradient_steps = 0
        self._columns = numpy_columns(algorithm, batch_size)
        self._ones = np.ones(batch_size, NUMPY_DTYPES[algorithm.dtype])

    def step(
        self,
        batch: Mapping[str, np.ndarray],
        weights: np.ndarray | None = None,
        *,
        variant: str | None = None,
    ) -> StepOutcome:
        """Take one gradient step.

        Args:
            batch: exactly the columns of `algorithm.columns(batch_size)` except `weight`, with their shapes and dtypes;
                `terminated` may be bool. A batch in this learner's device memory (`place`) is read there.
            weights: (B,) importance weights, at least 0, in the algorithm's dtype: the column `weight` of the gradient
                step. By default all are 1.
            variant: the kind of step, one of `algorithm.variants`; by default that of the next step.

        Returns:
            TD errors and losses.

        Raises:
            ValueError: a column is missing or unknown (so is `weight`), has another shape or dtype, is not finite or
                out of range; the weights do not fit; or the variant is unknown. The message names the argument, the
                value found and the allowed values; the state is unchanged.
            NotFiniteError: a TD error of this step or a number of the new state is NaN or infinite, such as after a
                learning rate that is too high; the step counts as taken, and the state is of no use.
            RuntimeError: another process created this learner.
        """
        self._check_process()
        if variant is None:
            variant = self.algorithm.variant(self.gradient_steps)
        else:
            checks.one_of("variant", variant, self.algorithm.variants)
        resident = self._resident(batch)
        if resident is None:
            checked = checked_batch(batch, self._columns, self.algorithm.action_size)
            outcome = self._step(checked | self._weights(weights), variant)
        else:
            host = self._weights(weights)
            outcome = self._step_resident(resident, host, variant)
        self.gradient_steps += 1
        self._require_finite(outcome)
        self._check_state(self.gradient_steps - 1)
        return outcome

    def _require_finite(self, outcome: StepOutcome) -> None:
        """Raise NotFiniteError if the last gradient step has given NaN or infinity (`finite.require_finite`)."""
        state = self.state_dict if self.algorithm.finite_state else dict
        finite.require_finite(self.gradient_steps, outcome.td_errors, outcome.losses, state)
        if self.algorithm.finite_state and self._overflowed():
            finite.require_finite_state(self.gradient_steps, self.gradient_steps, self.state_dict())

    @abstractmethod
    def _overflowed(self) -> bool:
        """Return whether a number of the state may be NaN or infinite after the last step; False says that none is."""

    def _check_state(self, checked: int) -> None:
        """Search the state for NaN and infinity, if a multiple of `CHECK_INTERVAL` was reached.

        Args:
            checked: number of gradient steps before the one or more that have just been taken.

        Raises:
            NotFiniteError: a number of the state is not finite.
        """
        intervals = checked // finite.CHECK_INTERVAL
        if self.gradient_steps // finite.CHECK_INTERVAL > intervals and self.algorithm.finite_state:
            first = intervals * finite.CHECK_INTERVAL + 1
            finite.require_finite_state(first, self.gradient_steps, self.state_dict())

    @property
    def place(self) -> Hashable:
        """An identifier of the device memory in which this learner reads batches directly (`Device.place`).

        It is None if the learner reads batches only from the host's memory.
        """
        return None

    def _resident(self, batch: Mapping[str, np.ndarray]) -> DeviceBatch | None:
        """Return the batch if this learner reads it in place; None if the host must check it first.

        Values on a device are not read back: what was ever inserted is finite and in range, or the host looks.
        """
        if not isinstance(batch, DeviceBatch) or batch.place != self.place:
            return None
        refuse_columns(batch.fields, self._columns)
        for name, (shape, dtype) in self._columns.items():
            if name == WEIGHT:
                continue
            field = batch.fields.get(name)
            if field is None or (batch.batch_size, *field.shape) != shape:
                return None
            if np.dtype(field.dtype) != (BOOL if name == TERMINATED else dtype):
                return None
            least, most = batch.bounds(name)
            if not (math.isfinite(least) and math.isfinite(most)):
                return None
            if dtype.kind == "i" and not 0 <= least <= most < self.algorithm.action_size:
                return None
        return batch

    def _step_resident(self, batch: DeviceBatch, host: dict[str, np.ndarray], variant: str) -> StepOutcome:
        """Take one step on a batch in this learner's `place`; `host` holds the columns that the batch lacks."""
        raise NotImplementedError(f"{self.backend}: it has no place")

    def act(self, observation: np.ndarray) -> np.ndarray:
        """Return the greedy action.

        Args:
            observation: (n, *observation_shape), or one observation without the first dimension.

        Returns:
            (n,) int64 for discrete actions, else (n, action_size) float in [-1, 1]; without n for a single
            observation.

        Raises:
            ValueError: the observation has another shape or dtype than the algorithm's column `observation`, or is
                not finite.
        """
        self._check_process()
        batch, single = self._observations(observation)
        action = self._act(batch)
        return action[0] if single else action

    def explore(self, observation: np.ndarray, environment_step: int, rng: np.random.Generator) -> np.ndarray:
        """Return the actions that an actor takes while it gathers experience, such as greedy actions with noise.

        Args:
            observation: (n, *observation_shape), or one observation without the first dimension.

        Raises:
            ValueError: the observation is wrong as for `act`, or another argument.
        """
        self._check_process()
        batch, single = self._exploring(observation, environment_step, rng)
        action = self.algorithm.explore(self._acting_arrays(), batch, environment_step, rng)
        return action[0] if single else action

    def acting_td_errors(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return TD errors that actors can compute, as initial priorities, (n,); see `Algorithm.acting_td_errors`.

        Args:
            batch: the columns of n transitions, without `weight`, as for `step`.

        Raises:
            NotImplementedError: the acting parameters do not give values, or the learner acts in fixed point.
            ValueError: the batch is wrong, as for `step`; n is the length of its first column.
        """
        self._check_process()
        first = next(iter(batch.values()), None) if isinstance(batch, Mapping) else None
        count = len(first) if isinstance(first, np.ndarray) and first.ndim else 1
        columns = {
            name: NumpyColumn((count, *shape[1:]), dtype) for name, (shape, dtype) in self._columns.items()
        }
        checked = checked_batch(batch, columns, self.algorithm.action_size)
        return self.policy().acting_td_errors(self._acting_arrays(), checked)

    @abstractmethod
    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters that actors need for `Algorithm.act` and `explore`, by name."""

    @abstractmethod
    def state_dict(self) -> dict[str, np.ndarray]:
        """Return everything that `load_state_dict` needs to continue exactly from here, as copies, by name."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state that `state_dict` returned, of this or any other backend with the same algorithm.

        Raises:
            ValueError: a name is missing or unknown, a shape differs, or a value is not of the right kind; the state is
                unchanged.
        """

    @abstractmethod
    def _step(self, batch: dict[str, np.ndarray], variant: str) -> StepOutcome:
        """Take one step on a checked batch that has every column, including `weight`, in its exact dtype."""

    @abstractmethod
    def _acting_arrays(self) -> Mapping[str, np.ndarray]:
        """Return the acting parameters as read-only arrays that are valid until the next step."""

    def _act(self, observation: np.ndarray) -> np.ndarray:
        return self.algorithm.act(self._acting_arrays(), observation)

    def policy(self) -> Policy:
        """Return a policy for actors in other threads or processes.

        With this learner's `policy_parameters` it chooses the same actions as the learner.
        """
        return self.algorithm

    def policy_parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters that the object from `policy` needs, by name.

        Their names, shapes and dtypes never change.
        """
        return self.parameters()

    def _exploring(
        self, observation: np.ndarray, environment_step: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, bool]:
        """Check the arguments of `explore`, and return the observations as `_observations` does."""
        if type(environment_step) is not int or environment_step < 0:
            checks.whole("environment_step", environment_step, 0)
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: found {type(rng).__name__}; allowed: numpy.random.Generator")
        return self._observations(observation)

    def _observations(self, observation: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return observations as (n, ...), checked, and whether there was a single one without the first dimension."""
        shape, dtype = self.algorithm.observation_shape, self._columns["observation"].dtype
        if not isinstance(observation, np.ndarray) or isinstance(observation, np.ma.MaskedArray):
            raise ValueError(
                f"observation: found {type(observation).__name__}; allowed: a NumPy array without a mask"
            )
        single = observation.shape == shape
        if not single and (observation.shape[1:] != shape or not len(observation)):
            raise ValueError(
                f"observation: found shape {observation.shape}; allowed: {shape} or (n, *{shape})"
            )
        other = observation.dtype != dtype
        searched = observation.dtype.kind == "f" and (other or self._searches_observations)
        if searched and not all_finite(observation):
            raise ValueError("observation: found NaN or infinity; allowed: finite numbers")
        if other:
            raise ValueError(f"observation: found dtype {observation.dtype}; allowed: {dtype}")
        return (observation[None] if single else observation), single

    @property
    def _searches_observations(self) -> bool:
        """Whether observations are searched for NaN and infinity here; otherwise what computes the actions does."""
        return True

    def _weights(self, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the column `weight`, checked; nothing if the algorithm has none."""
        if WEIGHT in self._columns:
            return {
                WEIGHT: self._ones if weights is None else checked_weights(weights, self._columns[WEIGHT])
            }
        if weights is not None:
            raise ValueError(f"weights: found some; allowed: none for {self.algorithm.name}")
        return {}
