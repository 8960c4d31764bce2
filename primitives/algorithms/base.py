"""The interface of every algorithm: its state, batch, gradient step and action."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms.networks import Array, Network, NetworkDescription, Parameters
from placerl.primitives.algorithms.updates import PURE, Batch, Updates


class Column(NamedTuple):
    """One column of a batch: its shape, whose first dimension is the batch size, and its dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class StepResult(NamedTuple):
    """The result of a gradient step.

    Attributes:
        state: the new state, of the same structure as the old.
        losses: the losses by name, each a scalar tensor.
        td_error: (B,) float, target minus value before the update; its magnitude is the new priority.
    """

    state: Any
    losses: dict[str, Tensor]
    td_error: Tensor


NUMPY_DTYPES: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


ANNEALED = 0.01
"""The part of a step size that is left after `annealing_steps`."""


@dataclass(frozen=True)
class Hyperparameters:
    """The base class of the algorithms' hyper-parameters, with what all have; the subclasses document their own."""

    annealing_steps: int | None = field(default=None, kw_only=True)
    """Gradient steps over which Adam's step sizes fall linearly to a hundredth, and then stay; None: they stay."""

    def __post_init__(self) -> None:
        """Turn NumPy's numbers into Python's, so that a step is traced alike with either; check what all have."""
        for entry in fields(self):
            object.__setattr__(self, entry.name, checks.python_value(getattr(self, entry.name)))
        if self.annealing_steps is not None:
            checks.whole("annealing_steps", self.annealing_steps, 1)

    def annealing(self, steps: Tensor) -> float | Tensor:
        """Return the part of Adam's step sizes that is left: 1, or () float if they are annealed.

        To be called before the step's first update, since a learner may update `steps` in place.

        Args:
            steps: () float, the gradient steps so far.
        """
        if self.annealing_steps is None:
            return 1.0
        return torch.clamp(1 - (1 - ANNEALED) * (steps / self.annealing_steps), min=ANNEALED)

    @classmethod
    def of(cls, values: Self | Mapping[str, Any] | None) -> Self:
        """Create hyper-parameters from a mapping such as a workload's `[algorithm]` table.

        Args:
            values: values by the fields' names; fields left out get their defaults.

        Raises:
            ValueError: a name that the algorithm does not have, or a value out of range.
        """
        if isinstance(values, Hyperparameters):
            if not isinstance(values, cls):
                raise ValueError(f"hyperparameters: found {type(values)!r}; allowed: {cls!r}")
            return values
        given: dict[str, Any] = dict(checks.mapping("hyperparameters", {} if values is None else values))
        known = {entry.name for entry in fields(cls)}
        for name in given:
            checks.one_of("hyperparameters", name, known)
        return cls(**given)


@dataclass(frozen=True)
class Algorithm(ABC):
    """A reinforcement learning algorithm for an environment's shapes.

    An algorithm is immutable: parameters and optimiser are in its state, which every gradient step takes and returns.

    `gradient_step` is a pure function with static shapes and no control flow that depends on data, in float32 or
    float64, so that it can be traced into a graph. Some algorithms have several kinds of step (a target network
    copied every thousandth step, a policy updated every second step). Each kind is a *variant* and is traced to
    its own graph; `variant(n)` names the variant of step n.

    Attributes:
        observation_shape: (S,) for vectors, (channels, height, width) for pixels.
        action_size: components of a continuous action, or the number of discrete ones.
        network: kind and size of the networks.
        hyperparameters: the algorithm's hyper-parameters, such as `DdpgHyperparameters`.
        dtype: float32 or float64, of parameters and batch.
        updates: computes gradients, Adam's updates and Polyak averages; a learner may replace it by a faster version.
        action_kind: "continuous" or "discrete", one of the class's `action_kinds`.
        noises: class attribute: names of the random numbers that a step takes, such as "target_noise".
        finite_state: class attribute: whether every number of the state is finite unless a training has failed, so that
            a learner may search it for NaN and infinity.
        actors_evaluate: class attribute: whether actors can compute TD errors (`acting_td_errors`), if the algorithm
            was created with `evaluating`.
        n_step: whether batches hold n-step transitions (`primitives.replay.NStepReturns`), whose column
            `discount` replaces gamma.
        evaluating: whether the acting parameters also hold what `acting_td_errors` needs, such as DDPG's critic.
    """

    name: ClassVar[str]
    action_kinds: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]] = ()
    finite_state: ClassVar[bool] = True
    actors_evaluate: ClassVar[bool] = False

    observation_shape: tuple[int, ...]
    action_size: int
    network: NetworkDescription = field(default_factory=NetworkDescription)
    hyperparameters: Any = None
    dtype: torch.dtype = torch.float32
    updates: Updates = PURE
    action_kind: str = ""
    n_step: bool = False
    evaluating: bool = False

    @property
    def discrete(self) -> bool:
        """Whether actions are indices of discrete actions."""
        return self.action_kind == "discrete"

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the kinds of gradient step; "full" updates everything."""
        return ("full",)

    def variant(self, step: int) -> str:
        """Return the name of the kind of gradient step number `step`, counted from 0, such as "full"."""
        return "full"

    @property
    @abstractmethod
    def networks(self) -> dict[str, Network]:
        """The networks that are trained, by their names in the state, such as "actor" and "critic"."""

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> Any:
        """Return the state before training: random parameters, and the optimisers' initial moments."""

    def columns(self, batch_size: int) -> dict[str, Column]:
        """Return the shape and dtype of each column that `gradient_step` reads, by name.

        By default the columns are those of transitions: observation, action, reward, next_observation, terminated and
        weight, and, if `n_step`, discount. `terminated` holds 0 or 1 in `dtype`. A learner's batch holds all columns
        but `weight`, the importance weights, which it takes as the argument `weights` (`Learner.step`).
        """
        pixels = self.network.kind == "nature_cnn"
        observation = Column((batch_size, *self.observation_shape), torch.uint8 if pixels else self.dtype)
        scalar = Column((batch_size,), self.dtype)
        action = (
            Column((batch_size,), torch.int64)
            if self.discrete
            else Column((batch_size, self.action_size), self.dtype)
        )
        return {
            "observation": observation,
            "action": action,
            "reward": scalar,
            "next_observation": observation,
            "terminated": scalar,
            **({"discount": scalar} if self.n_step else {}),
            "weight": scalar,
        }

    def draw(
        self, batch_size: int, generator: torch.Generator, out: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Draw the random numbers of one gradient step, by name: (B, A) standard normal for each of `noises`.

        Args:
            generator: source of the random numbers, which are on its device.
            out: tensors to write to, such as an earlier draw's; new tensors if None.
        """
        if out is None:
            shape = (batch_size, self.action_size)
            out = {
                name: torch.empty(shape, dtype=self.dtype, device=generator.device) for name in self.noises
            }
        for tensor in out.values():
            tensor.normal_(generator=generator)
        return out

    @abstractmethod
    def gradient_step(self, state: Any, batch: Batch, draws: Batch, variant: str = "full") -> StepResult:
        """Return the result of one gradient step, without changing the arguments.

        Args:
            batch: the columns that `columns` lists.
            draws: the random numbers that `draw` returns.
            variant: the kind of step, one of `variants`.
        """

    @abstractmethod
    def acting_parameters(self, state: Any) -> Parameters:
        """Return the part of the state that `act` and `explore` need, which a learner sends to its actors."""

    @abstractmethod
    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return the greedy action.

        Args:
            parameters: from `acting_parameters`, as tensors or NumPy arrays.
            observation: (n, *observation_shape), tensor or NumPy array like the parameters.

        Returns:
            (n,) int64 for discrete actions, else (n, action_size) in [-1, 1].
        """

    def acting_td_errors(
        self, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return TD errors that actors can compute, as initial priorities of their transitions (MAP II-A1).

        Args:
            parameters: from `acting_parameters` of an algorithm that is `evaluating`, as NumPy arrays.
            batch: the columns of n transitions, without `weight`; `terminated` may be bool.

        Returns:
            (n,) target minus value, in the algorithm's dtype.

        Raises:
            NotImplementedError: the acting parameters do not give values (`actors_evaluate`).
        """
        raise NotImplementedError(f"{self.name}: its acting parameters give actions, not values")

    def draw_exploration(
        self, number: int, environment_step: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draw the random numbers of exploring actions; by default standard normal "noise", (number, A).

        Args:
            number: number of actions.

        Returns:
            Arrays (number, ...) by name, for `explored`.
        """
        return {"noise": rng.standard_normal((number, self.action_size), NUMPY_DTYPES[self.dtype])}

    @abstractmethod
    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return the actions that an actor takes while it gathers experience: a pure function of its arguments.

        Args:
            parameters: from `acting_parameters`, as tensors or NumPy arrays.
            observation: (n, *observation_shape), tensor or NumPy array like the parameters.
            draws: from `draw_exploration`, as tensors or NumPy arrays like the parameters.

        Returns:
            (n,) int64 for discrete actions, else (n, action_size) in [-1, 1]. PPO's continuous actions may be outside
            [-1, 1]: clip them when they are applied, and store them unclipped.
        """

    def explore(
        self,
        parameters: Mapping[str, np.ndarray],
        observation: np.ndarray,
        environment_step: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the actions that an actor takes while it gathers experience.

        It draws random numbers with `draw_exploration`, and passes them to `explored`.

        Args:
            observation: (n, *observation_shape).
        """
        draws = self.draw_exploration(len(observation), environment_step, rng)
        return self.explored(parameters, observation, draws)


def lesser(first: Tensor, second: Tensor) -> Tensor:
    """Return the element-wise minimum, computed with `torch.where`.

    The traced derivative of `torch.minimum` writes in place, which a step graph cannot express.
    """
    return torch.where(first < second, first, second)
