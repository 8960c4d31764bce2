"""The interface of every learner: it owns an algorithm's state and takes its gradient steps on NumPy batches."""

import math
from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch

from primitives.algorithms import Algorithm, checks
from primitives.one_caller import OwnProcess
from primitives.replay.device import DeviceBatch

_NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int64: np.dtype(np.int64),
    torch.uint8: np.dtype(np.uint8),
}
_BOOL = np.dtype(np.bool_)


class StepOutcome(NamedTuple):
    """The result of one gradient step.

    Attributes:
        td_errors: (B,) float, target minus value before the update; magnitudes are the new priorities.
        losses: losses by name.
    """

    td_errors: np.ndarray
    losses: dict[str, float]


def all_finite(array: np.ndarray) -> bool:
    """Return whether no element is NaN or infinite. One pass over the array usually shows that all are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(array, axis=None))
    return math.isfinite(total) or bool(np.isfinite(array).all())


def refuse_discounts(columns: Container[str], algorithm: Algorithm) -> None:
    """Check that n-step transitions are given only to an algorithm that reads their discounts.

    Raises:
        ValueError: there is a column `discount`, but the algorithm was created without `n_step`.
    """
    if "discount" in columns and not algorithm.n_step:
        raise ValueError(
            "batch: found column 'discount', of n-step returns; allowed: transitions of one step, "
            "or an algorithm made with n_step=True"
        )


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
        own: arrays of the learner's state by name.
        state: the state to load. It may lack "generator".

    Raises:
        ValueError: a name is missing or unknown, a shape differs, or a value is not of the right kind.
    """
    expected = {name: leaf.shape for name, leaf in own.items()} | {"gradient_steps": ()}
    for name in state.keys() - expected.keys() - {"generator"}:
        raise ValueError(f"state: found {name!r}; allowed: the names of this algorithm's state_dict")
    for name, shape in expected.items():
        found = np.asarray(state[name]).shape if name in state else "nothing"
        if found != shape:
            raise ValueError(f"state[{name!r}]: found {found}; allowed: an array of shape {shape}")
    leaves = {name: np.asarray(state[name]) for name in own}
    for name, leaf in leaves.items():
        if leaf.dtype.kind not in "biuf":
            raise ValueError(f"state[{name!r}]: found dtype {leaf.dtype}; allowed: {own[name].dtype}")
    steps = checked_count(state, "gradient_steps")
    generator = _generator_state(state["generator"]) if "generator" in state else None
    return CheckedState(leaves, steps, generator)


def checked_count(state: Mapping[str, Any], name: str) -> int:
    """Return a number of steps of a `state_dict`.

    Args:
        state: the state to load.
        name: name of the number, such as "gradient_steps".

    Raises:
        ValueError: the value is not a whole number of at least 0.
    """
    try:
        steps = int(state[name])
    except (TypeError, ValueError, OverflowError):
        steps = -1
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
            environment_step: number of environment steps so far, for schedules.
            rng: source of the random numbers.
        """

    def acting_td_errors(
        self, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return TD errors that the policy's parameters suffice for, (n,); see `Algorithm.acting_td_errors`.

        Args:
            parameters: the parameters to act with, from `Learner.policy_parameters`.
            batch: the columns of n transitions.
        """


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
            ValueError: a batch size below 1 or a negative seed.
        """
        super().__init__()
        checks.whole("batch_size", batch_size, 1)
        checks.whole("seed", seed, 0)
        self.algorithm = algorithm
        self.batch_size = batch_size
        self.device = device
        self.seed = seed
        self.gradient_steps = 0
        self._columns = {
            name: (shape, _NUMPY_DTYPES[dtype])
            for name, (shape, dtype) in algorithm.columns(batch_size).items()
        }
        self._ones = np.ones(batch_size, _NUMPY_DTYPES[algorithm.dtype])

    def step(
        self,
        batch: Mapping[str, np.ndarray],
        weights: np.ndarray | None = None,
        *,
        variant: str | None = None,
    ) -> StepOutcome:
        """Take one gradient step.

        Args:
            batch: each column of `algorithm.columns(batch_size)` except `weight`, with its shape and dtype;
                `terminated` may be bool. Other columns are ignored, except `discount`, which an algorithm without
                `n_step` refuses. A batch in this learner's device memory (`place`) is read there.
            weights: (B,) importance weights, at least 0; by default all 1.
            variant: the kind of step, one of `algorithm.variants`; by default that of the next step.

        Returns:
            TD errors and losses.

        Raises:
            ValueError: a column is missing, has another shape or dtype, or is not finite; or the variant is unknown.
                The message names the argument, the value found and the allowed values; the state is unchanged.
            RuntimeError: another process created this learner.
        """
        self._check_process()
        if variant is None:
            variant = self.algorithm.variant(self.gradient_steps)
        else:
            checks.one_of("variant", variant, self.algorithm.variants)
        resident = self._resident(batch)
        if resident is None:
            outcome = self._step(self._checked(batch, weights), variant)
        else:
            host = self._checked({}, weights, resident.fields)
            outcome = self._step_resident(resident, host, variant)
        self.gradient_steps += 1
        return outcome

    @property
    def place(self) -> Hashable:
        """An identifier of the device memory in which this learner reads batches directly (`RowMemory.place`).

        It is None if the learner reads batches only from the host's memory.
        """
        return None

    def _resident(self, batch: Mapping[str, np.ndarray]) -> DeviceBatch | None:
        """Return the batch if this learner reads it in place; None if the host must check it first.

        Values on a device are not read back: what was ever inserted is finite and in range, or the host looks.
        """
        if not isinstance(batch, DeviceBatch) or batch.place != self.place:
            return None
        refuse_discounts(batch.fields, self.algorithm)
        for name, (shape, dtype) in self._columns.items():
            if name == "weight":
                continue
            field = batch.fields.get(name)
            if field is None or (batch.batch_size, *field.shape) != shape:
                return None
            if np.dtype(field.dtype) != (_BOOL if name == "terminated" else dtype):
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
            ValueError: the observation has another shape.
        """
        self._check_process()
        batch, single = self._observations(observation)
        action = self._act(batch)
        return action[0] if single else action

    def explore(self, observation: np.ndarray, environment_step: int, rng: np.random.Generator) -> np.ndarray:
        """Return the actions that an actor takes while it gathers experience, such as greedy actions with noise.

        Args:
            observation: (n, *observation_shape), or one observation without the first dimension.
            environment_step: number of environment steps so far, for schedules.
            rng: source of the random numbers.
        """
        self._check_process()
        batch, single = self._observations(observation)
        action = self.algorithm.explore(self._acting_arrays(), batch, environment_step, rng)
        return action[0] if single else action

    def acting_td_errors(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return TD errors that actors can compute, as initial priorities, (n,); see `Algorithm.acting_td_errors`.

        Args:
            batch: the columns of n transitions, without `weight`.

        Raises:
            NotImplementedError: the acting parameters do not give values, or the learner acts in fixed point.
        """
        self._check_process()
        return self.policy().acting_td_errors(self._acting_arrays(), batch)

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

    def _observations(self, observation: np.ndarray) -> tuple[np.ndarray, bool]:
        shape = self.algorithm.observation_shape
        single = observation.shape == shape
        if not single and observation.shape[1:] != shape:
            raise ValueError(
                f"observation: found shape {observation.shape}; allowed: {shape} or (n, *{shape})"
            )
        return (observation[None] if single else observation), single

    def _checked(
        self, batch: Mapping[str, np.ndarray], weights: np.ndarray | None, elsewhere: Container[str] = ()
    ) -> dict[str, np.ndarray]:
        """Return every column, except those that are `elsewhere`, checked."""
        if weights is not None and "weight" not in self._columns:
            raise ValueError(f"weights: found some; allowed: none for {self.algorithm.name}")
        refuse_discounts(batch, self.algorithm)
        checked = {}
        for name, (shape, dtype) in self._columns.items():
            if name in elsewhere:
                continue
            if name == "weight":
                array = self._ones if weights is None else weights
            elif name in batch:
                array = batch[name]
            else:
                raise ValueError(f"batch: column {name!r} is missing; allowed: {', '.join(self._columns)}")
            checked[name] = self._checked_column(name, array, shape, dtype)
        return checked

    def _checked_column(
        self, name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> np.ndarray:
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name}: found {type(array).__name__}; allowed: a NumPy array")
        if array.shape != shape:
            raise ValueError(f"{name}: found shape {array.shape}; allowed: {shape}")
        if array.dtype == _BOOL and name == "terminated":
            return array.astype(dtype)
        if array.dtype != dtype:
            raise ValueError(f"{name}: found dtype {array.dtype}; allowed: {dtype}")
        if dtype.kind == "f":
            if not all_finite(array):
                raise ValueError(f"{name}: found NaN or infinity; allowed: finite numbers")
            if name == "weight" and array.min() < 0:
                raise ValueError(f"weight: found {array.min()}; allowed: numbers of at least 0")
        elif dtype.kind == "i" and (array.min() < 0 or array.max() >= self.algorithm.action_size):
            raise ValueError(
                f"{name}: found values in [{array.min()}, {array.max()}]; "
                f"allowed: integers in [0, {self.algorithm.action_size})"
            )
        return array
