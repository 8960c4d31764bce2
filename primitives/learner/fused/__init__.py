"""Fused gradient steps: n steps of a replay and a learner on one processor, in one native call without Python.

Each step samples, gathers, trains and updates the priorities, in this order. The training is the same bit by bit
as with separate calls.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives import checks
from placerl.primitives.learner import Learner, finite
from placerl.primitives.learner.columns import TERMINATED, WEIGHT, refuse_columns
from placerl.primitives.learner.native.calls import NativeCalls
from placerl.primitives.one_caller import OneCaller, one_at_a_time
from placerl.primitives.replay import ConcurrentReplay

_COLUMN, _WEIGHT, _DRAW = range(3)


class FusedSteps(OneCaller):
    """Takes gradient steps of a native learner on a `ConcurrentReplay`, many steps in one native call.

    The replay and the learner can still be used directly: they share the state and the counts of steps and
    samples. One thread at a time may take steps, and meanwhile no other thread may use the learner.

    Args:
        learner: a learner of backend "native".

    Raises:
        TypeError: the learner has another backend, or its algorithm is in float64.
        ValueError: the replay lacks a column that the learner reads, holds it with another shape or dtype, or
            holds a column that the learner does not read, such as the discounts of n-step transitions.
    """

    def __init__(self, replay: ConcurrentReplay, learner: Learner) -> None:
        super().__init__()
        replay._check_process()
        if not isinstance(learner, NativeCalls):
            raise TypeError(f"learner: found backend {learner.backend!r}; allowed: 'native'")
        if not learner.in_one_call:
            raise TypeError("learner: found an algorithm in float64; allowed: float32")
        refuse_columns(replay.storage.fields, learner._columns)
        self._replay, self._learner, self._executable = replay, learner, learner.programs
        self._draws: list[str] = []
        graphs = self._executable.graphs
        # Which outputs are losses, by program. A variant that updates less has fewer losses.
        self._losses = {
            self._executable._programs[variant]: [
                (name.removeprefix("losses/"), position)
                for position, name in enumerate(graphs[variant].outputs)
                if name.startswith("losses/")
            ]
            for variant in learner.algorithm.variants
        }
        td_outputs = [0] * len(self._executable._programs)
        for variant in learner.algorithm.variants:
            program, graph = self._executable._programs[variant], graphs[variant]
            td_outputs[program] = list(graph.outputs).index("td_error")
            inputs = [buffer for _, buffer in graph.of_kind("input")]
            if inputs != self._executable._inputs:
                raise TypeError(
                    f"learner: variant {variant!r} reads {inputs}; allowed: the same as the first"
                )
        self._programs = self._executable._programs
        self._last = self._programs[learner.algorithm.variants[0]]
        sources = [
            (*self._source(buffer), buffer.name, self._limit(buffer)) for buffer in self._executable._inputs
        ]
        self._fused = self._in_native(sources, td_outputs)

    def _in_native(self, sources: list[tuple[int, int, str, int]], td_outputs: list[int]) -> Any:
        """Return the native steps.

        Args:
            sources: (kind, index, name, limit) of each input.
            td_outputs: the position of the TD errors among the outputs of each program.
        """
        from placerl.primitives._native import fused

        return fused.Fused(
            self._replay._native,
            self._executable._executor,
            self._learner.batch_size,
            sources,
            td_outputs,
        )

    def _source(self, buffer: Any) -> tuple[int, int]:
        kind, name = buffer.name.split("/", 1)
        if kind == "draws":
            self._draws.append(name)
            return _DRAW, len(self._draws) - 1
        if name == WEIGHT:
            return _WEIGHT, 0
        columns = self._replay.storage.columns
        if name not in columns:
            raise ValueError(f"replay: found columns {sorted(columns)}; allowed: those with {name!r}")
        column = columns[name]
        as_it_is = str(column.dtype) == buffer.dtype
        # As in `Learner.step`; the native steps convert booleans of one byte a row.
        as_float = name == TERMINATED and column.dtype == np.bool_ and buffer.dtype == "float32"
        if column.shape[1:] != buffer.shape[1:] or not (as_it_is or as_float):
            raise ValueError(
                f"replay: found column {name!r} of {column.shape[1:]} {column.dtype}; "
                f"allowed: {buffer.shape[1:]} {buffer.dtype}"
            )
        return _COLUMN, list(columns).index(name)

    def _limit(self, buffer: Any) -> int:
        """Return the limit of a column's numbers (`in_range` in native/memory.hpp), as `Learner.step` checks them."""
        name = buffer.name.removeprefix("batch/")
        if name == TERMINATED:
            return 1
        return self._learner.algorithm.action_size if buffer.dtype == "int64" else 0

    @one_at_a_time
    def run(self, steps: int, rng: np.random.Generator) -> None:
        """Take gradient steps: each samples a batch, trains on it and updates its priorities.

        Args:
            steps: number of steps, at least 1.

        Raises:
            TypeError: `rng` is not a Generator.
            ValueError: there is nothing to sample; a number in a batch is not finite or out of range (the steps before
                it have been taken); or a TD error is too large for a priority (its step has been taken, too).
            NotFiniteError: a TD error or a number of the state is NaN or infinite, as in `Learner.step`; its step
                counts as taken, and gives no priorities.
            RuntimeError: another process created this object: this is a forked copy. Or a call of another thread is
                in progress.
        """
        checks.whole("steps", steps, 1)
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: found {type(rng).__name__}; allowed: numpy.random.Generator")
        while steps > 0:
            at_once = self._learner.prepare_steps(steps)
            self._run(at_once, rng, self._fused.run)
            steps -= at_once

    def _run(self, steps: int, rng: np.random.Generator, native: Callable[..., None]) -> None:
        """Take `steps` gradient steps in a call of `native`, which gets their programs and random numbers."""
        learner, taken_before = self._learner, self._fused.taken
        first, variant = learner.gradient_steps, learner.algorithm.variant
        programs = [self._programs[variant(step)] for step in range(first, first + steps)]
        try:
            native(programs, rng, self._replay.betas(self._samples(steps)), self._drawn(steps))
        except FloatingPointError as error:
            raise finite.not_finite(first + self._fused.taken - taken_before, str(error)) from None
        finally:
            learner.gradient_steps += self._fused.taken - taken_before
        self._last = programs[-1]
        learner._check_state(first)

    def _samples(self, steps: int) -> int:
        """Return how many samples a call of `steps` gradient steps draws."""
        return steps

    def insert(self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None) -> None:
        """Insert items into the replay, as `ConcurrentReplay.insert` does."""
        self._replay.insert(batch, td_errors)

    def drain(self) -> None:
        """Do nothing, because all work is done when a call returns.

        `RelaxedSteps`, whose work may still be going on, replaces this method by one that waits.
        """

    @property
    def losses(self) -> dict[str, float]:
        """The losses of the last step, by name; empty before the first step."""
        scalars = self._fused.scalars
        return {name: scalars[position] for name, position in self._losses[self._last] if scalars}

    def _drawn(self, steps: int) -> list[npt.NDArray]:
        """Draw the random numbers of the algorithm itself, (steps, ...) each."""
        if not self._draws:
            return []
        learner = self._learner
        drawn = [learner.algorithm.draw(learner.batch_size, learner._generator) for _ in range(steps)]
        return [np.stack([one[name].numpy() for one in drawn]) for name in self._draws]
