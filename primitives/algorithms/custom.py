"""A user's algorithm: a gradient step and a policy in plain PyTorch, which every learner can run.

The step is a pure function with static shapes. `step(state, batch)` returns the new state and a dict with
"td_error" (B,) and one () tensor per loss. The state is a dict, possibly nested, of tensors.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks, tree
from placerl.primitives.algorithms.networks import Array, Network, Parameters
from placerl.primitives.algorithms.updates import PURE

Step = Callable[[Any, Any], tuple[Any, dict[str, Tensor]]]
Act = Callable[[Any, Tensor], Tensor]


class MisfitError(ValueError):
    """A user's function returns something else than it must.

    Attributes:
        function: which function, with its own name and its line.
        field: the part of what it returns that is wrong.
        found, allowed: what was found and what is allowed there.
    """

    def __init__(self, role: str, function: Any, field: str, found: object, allowed: object) -> None:
        own = getattr(function, "__qualname__", type(function).__name__).rpartition(".")[2]
        code = getattr(function, "__code__", None)
        names = [own] if own != role else []
        names += [f"{code.co_filename}:{code.co_firstlineno}"] if code else []
        self.function = f"{role} ({', '.join(names)})" if function is not None and names else role
        self.field, self.found, self.allowed = field, found, allowed
        super().__init__(f"{self.function}: {field}: found {found}; allowed: {allowed}")


def _missing(*_: Any) -> Any:
    raise ValueError("step, act: found none; allowed: functions")


@dataclass(frozen=True, eq=False)
class CustomAlgorithm(base.Algorithm):
    """An algorithm made of functions given by the user. The module's docstring describes the step.

    Attributes:
        state: the state before training.
        step: function that takes one gradient step: it maps state and batch to the new state, and the TD errors and
            losses by name.
        policy: maps the state and observations (n, *observation_shape) to greedy actions, as `Algorithm.act`
            returns them.
        exploration: for discrete actions the probability of a random action, [0, 1]; for continuous actions the
            standard deviation of Gaussian noise, at least 0.
    """

    name: ClassVar[str] = "own"
    action_kinds: ClassVar[tuple[str, ...]] = ("continuous", "discrete")
    finite_state: ClassVar[bool] = False  # infinity may be the start of a user's running minimum

    state: Any = None
    step: Step = _missing
    policy: Act = _missing
    exploration: float = 0.1

    # Functions and tensors cannot be compared for equality: each algorithm equals only itself, as caches need.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        """Raise ValueError for an exploration out of range."""
        checks.in_range("exploration", self.exploration, 0, 1 if self.discrete else math.inf)

    def check(self) -> None:
        """Check on a batch of zeros that step and policy fit the state and the environment.

        Raises:
            MisfitError: the step returns a state of another structure, no "td_error" (B,) or losses that are not
                scalars, or the policy returns actions of another shape or type, or outside their range.
        """
        size = 3
        batch = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in self.columns(size).items()}
        self._check_step(dict(batch), size)
        self._check_policy(batch["observation"], *self.columns(size)["action"])

    def _check_step(self, batch: dict[str, Tensor], size: int) -> None:
        try:
            old = {name: _leaf(leaf) for name, leaf in tree.flatten(self.state).items()}
        except TypeError as error:
            raise MisfitError(
                "state", None, "type", str(error).split("; ")[0], "nested dicts of tensors"
            ) from None
        returned = self.step(self.initialise(torch.Generator()), batch)
        if not isinstance(returned, tuple) or len(returned) != 2:
            found = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
            raise MisfitError(
                "step", self.step, "result", found, "2 values: the new state, a dict of outputs"
            )
        new, told = returned
        try:
            leaves = {name: _leaf(leaf) for name, leaf in tree.flatten(new).items()}
        except (TypeError, AttributeError):
            raise MisfitError("step", self.step, "new state", type(new).__name__, _listed(old)) from None
        if leaves != old:
            raise MisfitError("step", self.step, "new state", _listed(leaves), f"as the old, {_listed(old)}")
        if not isinstance(told, Mapping):
            raise MisfitError("step", self.step, "outputs", type(told).__name__, "a dict of tensors")
        outputs = {str(name): _leaf(value) for name, value in told.items()}
        if "td_error" not in outputs:
            allowed = f"td_error ({size},) for {size} transitions, and losses ()"
            raise MisfitError("step", self.step, "outputs", ", ".join(outputs) or "none", allowed)
        for name, value in told.items():
            shape = (size,) if name == "td_error" else ()
            if not isinstance(value, Tensor) or tuple(value.shape) != shape or not value.is_floating_point():
                allowed = f"a tensor of floating-point numbers of shape {shape} for {size} transitions"
                raise MisfitError("step", self.step, f"outputs[{name!r}]", _leaf(value), allowed)

    def _check_policy(self, observation: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        action = self.act(self.acting_parameters(self.state), observation)
        number, allowed = len(observation), f"{shape} {dtype}"
        if not isinstance(action, Tensor) or (tuple(action.shape), action.dtype) != (shape, dtype):
            allowed = f"{allowed} for {number} observations"
            raise MisfitError("act", self.policy, "actions", _leaf(action), allowed)
        low, high = (0, self.action_size - 1) if self.discrete else (-1, 1)
        wrong = action[~((action >= low) & (action <= high))]
        if len(wrong):
            raise MisfitError("act", self.policy, "actions", wrong[0].item(), f"{low} to {high}")

    @property
    def networks(self) -> dict[str, Network]:
        """An empty dict, because the layers of a user's networks are not known."""
        return {}

    def initialise(self, generator: torch.Generator) -> Any:
        """Return a copy of the state before training, which does not depend on the seed."""
        return tree.map_tensors(lambda leaf: leaf.detach().clone(), self.state)

    def gradient_step(
        self, state: Any, batch: Any, draws: Any = None, variant: str = "full"
    ) -> base.StepResult:
        """Return the result of the user's step.

        If the learner updates in place, the new values are copied into the old state. A new leaf or an output may
        be a leaf of the old state, or a view of one.
        """
        new, told = self.step(state, dict(batch))
        rest = dict(told)
        if self.updates is not PURE:
            rest = _overwrite(state, new, rest)
            new = state
        td_error = rest.pop("td_error")
        return base.StepResult(new, rest, td_error)

    def acting_parameters(self, state: Any) -> Parameters:
        """Return the whole state by name, because it is not known which part of the state the policy reads."""
        return tree.flatten(state)

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return the greedy actions that the user's policy chooses.

        Returns:
            (n,) int64 for discrete actions, else (n, action_size) in [-1, 1].
        """
        if isinstance(observation, np.ndarray):
            tensors = {name: torch.from_numpy(np.asarray(value)) for name, value in parameters.items()}
            with torch.no_grad():
                return self.act(tensors, torch.from_numpy(observation)).numpy()
        return self.policy(tree.unflatten(self.state, parameters), observation)

    def draw_exploration(
        self, number: int, environment_step: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draw the random numbers of exploring actions.

        Returns:
            For continuous actions "noise", (number, A) standard normal. For discrete actions "random", (number,) bool:
            whether an action is random, and "action", (number,) int64: the random action.
        """
        if not self.discrete:
            return super().draw_exploration(number, environment_step, rng)
        random = rng.random(number) < self.exploration
        return {"random": random, "action": rng.integers(self.action_size, size=number)}

    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return the policy's action with noise, or for discrete actions sometimes replaced by a random action."""
        action = self.act(parameters, observation)
        if self.discrete:
            return networks.choose(draws["random"], draws["action"], action)
        return networks.clip(action + self.exploration * draws["noise"], -1, 1)


def _overwrite(state: Any, new: Any, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy the leaves of the new state into the old state's tensors.

    Leaves of the new state and outputs that share memory with the old state are cloned first, because the copies
    overwrite it.

    Returns:
        The outputs, by name.
    """
    old, leaves = tree.flatten(state), tree.flatten(new)
    overwritten = {leaf.untyped_storage().data_ptr() for leaf in old.values()}

    def unshared(leaf: Tensor) -> Tensor:
        return leaf.clone() if leaf.untyped_storage().data_ptr() in overwritten else leaf

    changed = {name: unshared(leaf) for name, leaf in leaves.items() if leaf is not old[name]}
    outputs = {name: unshared(output) for name, output in outputs.items()}
    for name, leaf in changed.items():
        old[name].copy_(leaf)
    return outputs


def _leaf(value: Any) -> str:
    """Return the shape and type of a tensor as text, or the type of what is none."""
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def _listed(leaves: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {leaf}" for name, leaf in leaves.items()) or "no tensors"
