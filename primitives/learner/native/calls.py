"""The base class of learners on the native executor, which take each step and each action in one native call."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.executable import Array
from placerl.primitives.learner import finite
from placerl.primitives.learner.base import StepOutcome
from placerl.primitives.learner.columns import TERMINATED, WEIGHT
from placerl.primitives.learner.graph_learner import Compile, GraphLearner
from placerl.primitives.learner.native.programs import NativePrograms

# The checks of a column: `StepCall::Check` in native/step_call.hpp.
_NO_CHECK, _FINITE, _NOT_NEGATIVE, _IN_UNIT, _BELOW_LIMIT = range(5)
_NOT_FINITE = "observation: found NaN or infinity; allowed: finite numbers"


class _Acting(NamedTuple):
    """Inputs and outputs of the executor's call for a number of observations."""

    programs: list[int]
    draws: list[str]
    shape: tuple[int, ...]
    dtype: Any


class _Call(Protocol):
    """One variant's step in the executor: `StepCall::step` in native/step_call.hpp."""

    def __call__(
        self, batch: Mapping[str, Array], weights: Array | None, draw: Callable[[], object], /
    ) -> StepOutcome | None: ...


class NativeCalls(GraphLearner):
    """A learner on the native executor (`NativePrograms`), which takes each step and each action in one call.

    The native calls release the interpreter lock. A step or an action raises RuntimeError, and leaves the state as it
    was, while another thread's step or action of this learner is in progress; random numbers may have been drawn.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        compile_graphs: Compile,
        *,
        backend: str,
        device: str,
        batch_size: int,
        seed: int,
    ) -> None:
        """Create the learner as `GraphLearner` does."""
        self._acting_calls: dict[tuple[str, int], _Acting] = {}
        self._calls: dict[str, tuple[_Call, Callable[[], object]]] = {}
        super().__init__(
            algorithm, compile_graphs, backend=backend, device=device, batch_size=batch_size, seed=seed
        )
        self._in_one_call = all(dtype != np.float64 for _, dtype in self._columns.values())

    @property
    def in_one_call(self) -> bool:
        """Whether the executor can take one or many steps in one call. It cannot for an algorithm in float64."""
        return self._in_one_call

    @property
    def programs(self) -> NativePrograms:
        """This learner's executable, as the type that also gives access to its native programs."""
        assert isinstance(self.executable, NativePrograms)
        return self.executable

    def prepare_steps(self, count: int) -> int:
        """Prepare the next gradient steps, and return how many of them may be taken in one call.

        Args:
            count: number of requested steps, at least 1.

        Returns:
            1 to `count`.
        """
        return count

    def step(
        self, batch: Mapping[str, Array], weights: Array | None = None, *, variant: str | None = None
    ) -> StepOutcome:
        """Take one gradient step, and return TD errors and losses.

        A dict of arrays with exactly the right types is one call of the executor, which also checks the values.
        `Learner.step` handles every other batch: it converts it or reports what is wrong.
        """
        self._check_process()
        if variant is None:
            variant = self.algorithm.variant(self.gradient_steps)
        if not self._in_one_call or batch is None:
            return super().step(batch, weights, variant=variant)
        call, draw = self._calls.get(variant) or self._prepare(variant)
        try:
            outcome = call(batch, weights, draw)
        except FloatingPointError as error:
            self.gradient_steps += 1
            raise finite.not_finite(self.gradient_steps, str(error)) from None
        if outcome is None:
            return super().step(batch, weights, variant=variant)
        self.gradient_steps += 1
        self._check_state(self.gradient_steps - 1)
        return outcome

    def _prepare(self, variant: str) -> tuple[_Call, Callable[[], object]]:
        """Return a variant's call, and the function that draws its random numbers directly into the executor's
        memory.

        Raises:
            ValueError: the variant is unknown.
        """
        from placerl.primitives import _native

        checks.one_of("variant", variant, self.algorithm.variants)
        executable = self.programs
        graph = executable.graphs[variant]
        rules = []
        for name, (shape, dtype) in self._columns.items():
            check, limit = _NO_CHECK, 0
            if dtype.kind == "f":
                check = {WEIGHT: _NOT_NEGATIVE, TERMINATED: _IN_UNIT}.get(name, _FINITE)
            elif dtype.kind == "i":
                check, limit = _BELOW_LIMIT, self.algorithm.action_size
            rules.append((name, str(dtype), shape, name == TERMINATED, check, limit))
        inputs = [buffer.name for _, buffer in graph.of_kind("input")]
        assert inputs[: len(rules)] == [f"batch/{name}" for name in self._columns]
        outputs = [(name.removeprefix("losses/"), view.shape) for name, view in graph.outputs.items()]
        program = executable._programs[variant]
        call = _native.learner.StepCall(executable._executor, program, rules, outputs, StepOutcome)
        assert inputs[len(rules) :] == [f"draws/{name}" for name in self.algorithm.noises]
        draws = {
            name: torch.from_numpy(executable.input(variant, f"draws/{name}"))
            for name in self.algorithm.noises
        }
        draw = partial(self.algorithm.draw, self.batch_size, self._generator, draws)
        self._calls[variant] = call.step, draw
        return self._calls[variant]

    def _prepare_acting(self, name: str, number: int) -> _Acting:
        """Return the call for `number` observations: the program repeated that many times."""
        executable = self.programs
        graph = executable.graphs[name]
        _, *draws = (buffer.name.removeprefix("draws/") for _, buffer in graph.of_kind("input"))
        action = graph.outputs["action"]
        dtype = np.dtype(graph.buffers[action.buffer].dtype)
        acting = _Acting([executable._programs[name]] * number, draws, (number, *action.shape[1:]), dtype)
        self._acting_calls[name, number] = acting
        return acting

    def _acted(self, name: str, observation: Array, draws: Mapping[str, Array]) -> Array:
        number = len(observation)
        call = self._acting_calls.get((name, number)) or self._prepare_acting(name, number)
        executable = self.programs
        inputs = [np.ascontiguousarray(observation, self._columns["observation"][1])]
        inputs += [draws[draw] for draw in call.draws]
        if not self._in_one_call and not np.isfinite(inputs[0]).all():  # the executor checks float32
            raise ValueError(_NOT_FINITE)
        actions = np.empty(call.shape, call.dtype)
        if executable._executor.run(call.programs, inputs, [actions]) >= 0:
            raise ValueError(_NOT_FINITE)
        return actions
