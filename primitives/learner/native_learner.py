"""The native learner: a `GraphLearner` whose actors' inference runs in the executor too.

An actor that asks for one action at a time spends most of it in calls: NumPy takes some ten of them for three
layers. Here the algorithm's `act` is one more program on the arena, which reads the weights where they lie.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from primitives.algorithms import Algorithm
from primitives.learner.base import StepOutcome, refuse_discounts
from primitives.learner.executable import Array
from primitives.learner.graph import Graph, UnsupportedOperationError
from primitives.learner.graph_learner import GraphLearner
from primitives.learner.native_backend import NativeExecutable
from primitives.learner.tracing import trace

_ACT = "act"
# What the executor checks of a column: `StepCall::Check` in bindings.cpp.
_NO_CHECK, _FINITE, _NOT_NEGATIVE, _BELOW_LIMIT = range(4)


class _Acted(NamedTuple):
    state: Any
    action: torch.Tensor


class _Step(NamedTuple):
    """One variant's call of the executor."""

    load: Callable[[list[Any]], bool]
    run: Callable[[list[Array], list[Array]], None]
    columns: list[str]
    weight: int | None  # position of the importance weights among the columns
    has_draws: bool
    outputs: list[Array]
    td_position: int
    td_shape: tuple[int, ...]
    losses: list[tuple[str, Array]]


def acting_graph(algorithm: Algorithm) -> Graph:
    """The graph of an algorithm's greedy action for one observation.

    Raises:
        UnsupportedOperationError: an operation that no graph backend has.
    """

    def step(state: Any, batch: Any) -> _Acted:
        return _Acted(state, algorithm.act(algorithm.acting_parameters(state), batch["observation"]))

    shape, dtype = algorithm.columns(1)["observation"]
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return trace(step, (state, {"observation": torch.zeros(shape, dtype=dtype)}))


def _with_acting(graphs: Mapping[str, Graph], algorithm: Algorithm, simd: str) -> NativeExecutable:
    try:
        return NativeExecutable({**graphs, _ACT: acting_graph(algorithm)}, simd=simd)
    except UnsupportedOperationError:
        return NativeExecutable(graphs, simd=simd)


def _acting_by(algorithm: Algorithm, act: Callable[[Array], Array]) -> Algorithm:
    """The same algorithm, but for its greedy actions, which `act` computes from observations (n, ...)."""
    kind = type(algorithm)
    acting = type(kind.__name__, (kind,), {"act": lambda self, parameters, observation: act(observation)})
    made: Algorithm = acting(**{entry.name: getattr(algorithm, entry.name) for entry in fields(algorithm)})
    return made


class NativeLearner(GraphLearner):
    """See the module's text; `primitives.learner.create` makes one."""

    def __init__(self, algorithm: Algorithm, *, device: str, batch_size: int, seed: int, simd: str) -> None:
        """Trace and lower the algorithm's steps and its `act`, and make the initial state.

        An `act` that the executor cannot run stays with NumPy; `acts_natively` says which it is.
        """
        super().__init__(
            algorithm,
            lambda graphs: _with_acting(graphs, algorithm, simd),
            backend="native",
            device=device,
            batch_size=batch_size,
            seed=seed,
        )
        self._acts = _ACT in self.executable.graphs
        self._explorer = algorithm
        if self._acts:
            self._prepare_acting()

        self._calls: dict[str, _Step] = {}

    @property
    def acts_natively(self) -> bool:
        """Whether greedy actions come from the executor; if not, from NumPy."""
        return self._acts

    def step(
        self, batch: Mapping[str, Array], weights: Array | None = None, *, variant: str | None = None
    ) -> StepOutcome:
        """Take one gradient step; see `Learner.step`.

        Arrays that are exactly as they should be are checked and taken over by one call of the executor; what is
        wrong with others, or how to convert them, is `Learner.step`'s to say.
        """
        refuse_discounts(batch)
        chosen = self.algorithm.variant(self.gradient_steps) if variant is None else variant
        call = self._calls.get(chosen)
        if call is None:
            if chosen not in self.algorithm.variants:
                return super().step(batch, weights, variant=variant)
            call = self._calls[chosen] = self._prepared(chosen)
        arrays = [batch.get(name) for name in call.columns]
        if call.weight is not None:
            arrays[call.weight] = self._ones if weights is None else weights
        if not call.load(arrays):
            return super().step(batch, weights, variant=variant)
        draws = []
        if call.has_draws:
            drawn = self.algorithm.draw(self.batch_size, self._generator)
            draws = [np.ascontiguousarray(value.numpy()) for value in drawn.values()]
        td_errors = np.empty(call.td_shape, np.float32)
        call.outputs[call.td_position] = td_errors
        call.run(draws, call.outputs)
        self.gradient_steps += 1
        return StepOutcome(td_errors, {name: array.item() for name, array in call.losses})

    def _prepared(self, variant: str) -> "_Step":
        from primitives import _native

        executable: Any = self.executable
        graph = executable.graphs[variant]
        columns = list(self._columns)
        rules = []
        for name, (shape, dtype) in self._columns.items():
            check, limit = _NO_CHECK, 0
            if dtype.kind == "f":
                check = _NOT_NEGATIVE if name == "weight" else _FINITE
            elif dtype.kind == "i":
                check, limit = _BELOW_LIMIT, self.algorithm.action_size
            rules.append((str(dtype), shape, name == "terminated", check, limit))
        call = _native.learner.StepCall(executable._executor, executable._programs[variant], rules)
        names = list(graph.outputs)
        outputs = [np.empty(view.shape, np.float32) for view in graph.outputs.values()]
        position = names.index("td_error")
        losses = [
            (name.removeprefix("losses/"), array)
            for name, array in zip(names, outputs, strict=True)
            if name != "td_error"
        ]
        inputs = [buffer.name for _, buffer in graph.of_kind("input")]
        assert inputs[: len(columns)] == [f"batch/{name}" for name in columns]
        weight = columns.index("weight") if "weight" in columns else None
        return _Step(
            call.load, call.run, columns, weight, len(inputs) > len(columns), outputs, position,
            outputs[position].shape, losses,
        )  # fmt: skip

    def _prepare_acting(self) -> None:
        executable: Any = self.executable
        graph = executable.graphs[_ACT]
        ((_, observation),) = graph.of_kind("input")
        action = graph.outputs["action"]
        self._observation = np.zeros(observation.shape, observation.dtype)
        self._action = np.zeros(action.shape, graph.buffers[action.buffer].dtype)
        program = executable._programs[_ACT]
        self._run_acting = partial(executable._executor.run, [program], [self._observation], [self._action])
        self._explorer = _acting_by(self.algorithm, self._act)

    def _act(self, observation: Array) -> Array:
        if not self._acts:
            return super()._act(observation)
        rows = []
        for one in observation:
            self._observation[0] = one
            if self._run_acting() >= 0:
                raise ValueError("observation: found NaN or infinity; allowed: finite numbers")
            rows.append(self._action.copy())
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        """The action that an actor takes while it gathers experience; see `Algorithm.explore`."""
        batch, single = self._observations(observation)
        action = self._explorer.explore(self._acting_arrays(), batch, environment_step, rng)
        return action[0] if single else action
