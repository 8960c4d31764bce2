"""The native learner: a `GraphLearner` whose actors' inference runs in the executor too.

An actor that asks for one action at a time spends most of it in calls: NumPy takes some ten of them for three
layers. Here the algorithm's `act`, and `explored` with its noise, are two more programs on the arena, which read the
weights where they lie.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from primitives.algorithms import Algorithm, checks
from primitives.graph.executable import Array
from primitives.graph.graph import Graph, UnsupportedOperationError
from primitives.learner.acting import acting_by, acting_graph, exploring_graph
from primitives.learner.base import StepOutcome
from primitives.learner.graph_learner import GraphLearner
from primitives.learner.native.executable import NativeExecutable

_ACT, _EXPLORE = "act", "explore"
# What the executor checks of a column: `StepCall::Check` in native/step_call.hpp.
_NO_CHECK, _FINITE, _NOT_NEGATIVE, _BELOW_LIMIT = range(4)


class _Acting(NamedTuple):
    """What the executor's call for a number of observations takes and gives."""

    programs: list[int]
    draws: list[str]
    shape: tuple[int, ...]
    dtype: Any


class _Call(Protocol):
    """One variant's step in the executor: `StepCall::step` in native/step_call.hpp."""

    def __call__(
        self, batch: Mapping[str, Array], weights: Array | None, draw: Callable[[], object], /
    ) -> StepOutcome | None: ...


class NativeLearner(GraphLearner):
    """See the module's text; `primitives.learner.create` makes one."""

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        device: str,
        batch_size: int,
        seed: int,
        simd: str = "",
        threads: int = 1,
    ) -> None:
        """Trace and lower the algorithm's steps, its `act` and `explored`, and make the initial state.

        An `act` that the executor cannot run stays with NumPy: `acts_natively`, and `acting_refusal` says why. Of an
        `explored` that it cannot run, what goes beyond `act` does.
        """
        self._acting_refusal = ""

        def compiled(graphs: Mapping[str, Graph]) -> NativeExecutable:
            made = partial(NativeExecutable, simd=simd, threads=threads)
            for acting in ({_ACT: acting_graph, _EXPLORE: exploring_graph}, {_ACT: acting_graph}):
                try:
                    return made(
                        {**graphs, **{name: graph_of(algorithm) for name, graph_of in acting.items()}}
                    )
                except UnsupportedOperationError as error:
                    self._acting_refusal = "" if _EXPLORE in acting else str(error)
            return made(graphs)

        super().__init__(
            algorithm,
            compiled,
            backend="native",
            device=device,
            batch_size=batch_size,
            seed=seed,
        )
        self._acts = _ACT in self.executable.graphs
        self._explores = _EXPLORE in self.executable.graphs
        self._explorer = acting_by(algorithm, self._act) if self._acts else algorithm
        self._acting_calls: dict[tuple[str, int], _Acting] = {}
        self._calls: dict[str, tuple[_Call, Callable[[], object]]] = {}

    @property
    def acts_natively(self) -> bool:
        """Whether actions come from the executor; if not, from NumPy."""
        return self._acts

    @property
    def acting_refusal(self) -> str:
        """Which operation of `act` or `explored` the executor lacks; empty where it acts natively."""
        return self._acting_refusal

    def step(
        self, batch: Mapping[str, Array], weights: Array | None = None, *, variant: str | None = None
    ) -> StepOutcome:
        """Take one gradient step; see `Learner.step`.

        A dict of arrays that are exactly as they should be is one call of the executor, which checks them too; what
        is wrong with another batch, or how to convert it, is `Learner.step`'s to say.
        """
        if variant is None:
            variant = self.algorithm.variant(self.gradient_steps)
        call, draw = self._calls.get(variant) or self._prepare(variant)
        outcome = call(batch, weights, draw)
        if outcome is None:
            return super().step(batch, weights, variant=variant)
        self.gradient_steps += 1
        return outcome

    def _prepare(self, variant: str) -> tuple[_Call, Callable[[], object]]:
        """The call of a variant, made ready, and what draws its random numbers, straight into the executor's memory.

        Raises:
            ValueError: an unknown variant.
        """
        from primitives import _native

        checks.one_of("variant", variant, self.algorithm.variants)
        executable: Any = self.executable
        graph = executable.graphs[variant]
        rules = []
        for name, (shape, dtype) in self._columns.items():
            check, limit = _NO_CHECK, 0
            if dtype.kind == "f":
                check = _NOT_NEGATIVE if name == "weight" else _FINITE
            elif dtype.kind == "i":
                check, limit = _BELOW_LIMIT, self.algorithm.action_size
            rules.append((name, str(dtype), shape, name == "terminated", check, limit))
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
        """The call for so many observations: the program, so often, one after the other."""
        executable: Any = self.executable
        graph = executable.graphs[name]
        _, *draws = (buffer.name.removeprefix("draws/") for _, buffer in graph.of_kind("input"))
        action = graph.outputs["action"]
        dtype = np.dtype(graph.buffers[action.buffer].dtype)
        made = _Acting([executable._programs[name]] * number, draws, (number, *action.shape[1:]), dtype)
        self._acting_calls[name, number] = made
        return made

    def _acted(self, name: str, observation: Array, draws: Mapping[str, Array]) -> Array:
        number = len(observation)
        call = self._acting_calls.get((name, number)) or self._prepare_acting(name, number)
        executable: Any = self.executable
        inputs = [np.ascontiguousarray(observation, self._columns["observation"][1])]
        inputs += [draws[draw] for draw in call.draws]
        actions = np.empty(call.shape, call.dtype)
        if executable._executor.run(call.programs, inputs, [actions]) >= 0:
            raise ValueError("observation: found NaN or infinity; allowed: finite numbers")
        return actions

    def _act(self, observation: Array) -> Array:
        return self._acted(_ACT, observation, {}) if self._acts else super()._act(observation)

    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        """The action that an actor takes while it gathers experience; see `Algorithm.explore`."""
        batch, single = self._observations(observation)
        if self._explores:
            draws = self.algorithm.draw_exploration(len(batch), environment_step, rng)
            action = self._acted(_EXPLORE, batch, draws)
        else:
            action = self._explorer.explore(self._acting_arrays(), batch, environment_step, rng)
        return action[0] if single else action
