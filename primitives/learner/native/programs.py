"""The base class of executables on the native executor, in floats and in fixed point: it runs their programs."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import Buffer

# a guess, not tuned: CartPole's steps at B = 2048 are no faster when their small operations are shared
PART_NS = 1500.0


class NativePrograms(Executable):
    """Runs step graphs as programs of one C++ executor (`native/program.hpp`).

    Attributes:
        threads: threads that share the large operations of a step, including the caller's.
        simd: the instruction set in use.
    """

    threads: int
    simd: str
    _executor: Any
    _programs: dict[str, int]
    _inputs: list[Buffer]

    @abstractmethod
    def input(self, variant: str, name: str) -> Array:
        """Return the array in the executor's memory to which `step` copies an input.

        Args:
            name: name of the input, such as `batch/reward`.
        """

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step in one native call, and return copies of the graph's outputs by name."""
        arrays = [np.ascontiguousarray(value) for _, value in self.checked_inputs(variant, inputs)]
        outputs = self._empty_outputs(variant, ())
        self._run([variant], arrays, list(outputs.values()))
        return outputs

    def steps(self, variants: Sequence[str], inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run several gradient steps in one call.

        Args:
            variants: the variant (kind of gradient step) of each of the n steps.
            inputs: each input by its name, such as `batch/reward`, with n as first dimension: (n, *shape).

        Returns:
            Each output that all these variants have, by name, (n, *shape).

        Raises:
            ValueError: an input has a wrong shape or dtype, or a number is not finite; the state is unchanged.
        """
        count = len(variants)
        arrays = []
        for buffer in self._inputs:
            array = inputs.get(buffer.name)
            found = "nothing" if array is None else f"{array.shape} {array.dtype}"
            if array is None or array.shape != (count, *buffer.shape) or str(array.dtype) != buffer.dtype:
                raise ValueError(
                    f"{buffer.name}: found {found}; allowed: {(count, *buffer.shape)} {buffer.dtype}"
                )
            arrays.append(np.ascontiguousarray(array))
        names = {name for variant in set(variants) for name in self.graphs[variant].outputs}
        kinds = {tuple(self.graphs[variant].outputs) for variant in set(variants)}
        if len(kinds) > 1:
            raise ValueError(
                f"variants: found {set(variants)} with other outputs each; allowed: alike in {names}"
            )
        outputs = self._empty_outputs(variants[0], (count,)) if count else {}
        self._run(variants, arrays, list(outputs.values()))
        return outputs

    def _empty_outputs(self, variant: str, leading: tuple[int, ...]) -> dict[str, Array]:
        graph = self.graphs[variant]
        return {
            name: np.empty((*leading, *view.shape), graph.buffers[view.buffer].dtype)
            for name, view in graph.outputs.items()
        }

    def _run(self, variants: Sequence[str], inputs: list[Array], outputs: list[Array]) -> None:
        bad = self._executor.run([self._programs[variant] for variant in variants], inputs, outputs)
        if bad >= 0:
            names = [buffer.name for _, buffer in self.graphs[variants[0]].of_kind("input")]
            raise ValueError(f"{names[bad]}: found NaN or infinity; allowed: finite numbers")
