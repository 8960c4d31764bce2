"""Fixed-point training on NumPy: slow and simple, the reference that other backends must match."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placerl.primitives.graph.graph import Graph, Node, UnsupportedOperationError, View
from placerl.primitives.graph.interpreter import execute_node
from placerl.primitives.quantization import fixed_point, vector_unit
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.places import Located, Multiply, Product, Step, product_factor
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.roles import Operand, Plain, Storage


def unavailable_reason() -> str:
    """Return an empty string: the backend needs only NumPy."""
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """Return an executable that runs step graphs in NumPy.

    Args:
        device: ignored; it is always the CPU.
    """
    return ReferenceFixedPointExecutable(graphs, precision)


def exact_sum(values: Sequence[float]) -> float:
    """Return the correctly rounded sum of floats; infinities, NaN and overflow are treated as in IEEE 754."""
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    try:
        return math.fsum(values)
    except OverflowError:  # of a partial sum: the sum itself may be in range
        total = sum(map(Fraction, values))
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf


class ReferenceFixedPointExecutable(FixedPointExecutable):
    """Runs step graphs in fixed point on NumPy arrays; the PyTorch backend is derived from it."""

    def __init__(
        self, graphs: Mapping[str, Graph], precision: Precision, *, multiply: Multiply | None = None
    ) -> None:
        """Prepare the graphs as `FixedPointExecutable` does.

        Args:
            multiply: computes the exact sums of products: a model of hardware (see `processing_element`), or by
                default `fixed_point.exact_matmul`.
        """
        self._multiply = multiply or (lambda a, b, operands: fixed_point.exact_matmul(a, b))
        self._steps: dict[str, list[Step]] = {}
        super().__init__(graphs, precision)

    def _memory(self) -> dict[str, list[Any]]:
        first = next(iter(self.graphs))
        return {
            variant: [
                self._empty(
                    0 if buffer.kind == "state" and variant != first else buffer.size,
                    self._dtype(variant, i),
                )
                for i, buffer in enumerate(graph.buffers)
            ]
            for variant, graph in self.graphs.items()
        }

    def _prepare(self, variant: str) -> None:
        self._steps[variant] = [
            self._planned(variant, position, node) for position, node in enumerate(self.graphs[variant].nodes)
        ]

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step, node by node.

        Args:
            inputs: each input by its buffer's name, such as `batch/reward`, with the buffer's shape and dtype.

        Returns:
            Each output by its name, as a copy.
        """
        buffers = self._buffers[variant]
        for position, value in self.checked_inputs(variant, inputs):
            self._write(buffers[position], value.ravel())
        for run in self._steps[variant]:
            run()
        graph = self.graphs[variant]
        outputs = {}
        for name, view in graph.outputs.items():
            place = self._at(variant, view)
            value = self._real(self._numpy(place.array), place.storage)
            outputs[name] = np.array(value, graph.buffers[view.buffer].dtype)
        return outputs

    def profile(self, variant: str, steps: int) -> list[tuple[Node, float]]:
        """Time each node (array operation) in a number of gradient steps, which change the learner's state.

        Returns:
            Each node, in order, with its shortest time in seconds.
        """
        least_s = [math.inf] * len(self._steps[variant])
        for _ in range(steps):
            for i, run in enumerate(self._steps[variant]):
                began_s = perf_counter()
                run()
                least_s[i] = min(least_s[i], perf_counter() - began_s)
        return list(zip(self.graphs[variant].nodes, least_s, strict=True))

    def _planned(self, variant: str, position: int, node: Node) -> Step:
        inputs = [self._at(variant, view) for view in node.inputs]
        outputs = [self._at(variant, view) for view in node.outputs]
        match node.kind:
            case "elementwise":
                return self._elementwise(node, inputs, outputs)
            case "matmul":
                if not all(isinstance(place.storage, Q) for place in (*inputs, *outputs)):
                    where = node.source or "unknown line"
                    raise UnsupportedOperationError(f"matmul at {where}: its operands are not fixed-point")
                return self._matmul(Product(self._roles[variant].operands[position], *inputs, *outputs))
            case "reduce":
                return self._reduce(node, inputs[0], outputs[0])
            case "scatter_add" if inputs[0].storage != inputs[2].storage:
                where = node.source or "unknown line"
                found = f"{inputs[2].storage} to {inputs[0].storage}"
                raise UnsupportedOperationError(f"scatter_add at {where}: adds {found}, of another format")
        return self._moved(node, inputs, outputs[0])

    def _moved(self, node: Node, inputs: list[Located], target: Located) -> Step:
        """Return the step of a node that moves numbers, and may add them, as 64-bit integers."""
        data = inputs[0].storage

        def run() -> None:
            values = [self._numpy(place.array) for place in inputs]
            if isinstance(data, Q):
                values = [
                    value.astype(np.int64) if isinstance(place.storage, Q) else value
                    for value, place in zip(values, inputs, strict=True)
                ]
            (result,) = execute_node(node, values)
            self._move(result, Plain.WHOLE if node.kind == "argreduce" else data, target)

        return run

    def _move(self, values: Array, source: Storage, target: Located) -> None:
        """Write integers of the source's format, exactly or rounded once."""
        if isinstance(source, Q) and isinstance(target.storage, Q):
            stored = target.storage.rescale(values, source.fraction_bits)
            self.count(target.label, stored.saturated)
            self._assign(target.array, stored.raw)
        else:
            self._write(target, self._real(values, source))

    def _empty(self, size: int, dtype: str) -> Any:
        """Return a flat array of zeros."""
        return np.zeros(size, dtype)

    def _view(self, array: Any, view: View) -> Any:
        strides = tuple(stride * array.itemsize for stride in view.strides)
        return as_strided(array[view.offset :], view.shape, strides)

    def _numpy(self, array: Any) -> Array:
        """Return the array as a read-only NumPy array."""
        return np.asarray(array)

    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy values into an array of the same dtype."""
        array[...] = values

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        def run() -> None:
            with np.errstate(all="ignore"):
                registers = [self._real(self._numpy(place.array), place.storage) for place in inputs]
                for instruction in node.program:
                    arguments = [registers[i] for i in instruction.arguments]
                    registers.append(vector_unit.NUMPY.apply(instruction, arguments))
                results = [registers[i] for i in node.results]
            for place, result in zip(outputs, results, strict=True):
                self._write(place, np.broadcast_to(result, place.array.shape))

        return run

    def _matmul(self, product: Product) -> Step:
        a_format, b_format, c_format = product.formats()

        def run() -> None:
            a, a_step = self.codes(product.operands[0], product.a.array, a_format)
            b, b_step = self.codes(product.operands[1], product.b.array, b_format)
            stored = self.rounded(self._multiply(a, b, product.operands), a_step, b_step, c_format)
            self.count(product.c.label, stored.saturated)
            product.c.array[...] = stored.raw

        return run

    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        def run() -> None:
            values = self._numpy(source.array)
            if isinstance(source.storage, Q):
                values = values.astype(np.int64)
                (reduced,) = execute_node(node, [values])
                self._move(reduced, source.storage, target)
            elif node.attributes["op"] == "sum" and source.storage is not Plain.WHOLE:
                # Correctly rounded, so that the order of the terms does not matter.
                self._write(target, np.asarray(exact_sum(values.ravel().tolist())))
            else:
                self._write(target, np.asarray(execute_node(node, [values])[0]))

        return run

    def codes(self, operand: Operand, raw: Array, fmt: Q) -> tuple[Array, float]:
        """Return the integers that a product reads as an operand, and the number that the integer 1 represents.

        Before `quantise` the integers are the raw values, whose range is recorded; after it, n-bit codes
        (`Affine.centred`).
        """
        self.capture(operand, raw)
        affine = self.affine.get(operand.key)
        if affine is None:
            return raw, fmt.resolution
        stored = affine.centred(raw, fmt)
        self.count(f"{operand.role} codes", stored.saturated)
        return stored.raw, affine.delta

    @staticmethod
    def rounded(exact: Array, a_step: float, b_step: float, out: Q) -> fixed_point.Stored:
        """Return a product's exact sums, rounded once to the format of its result.

        If both steps are powers of two this is a shift; otherwise the sum is multiplied by one binary64 factor.

        Args:
            exact: int64, or Python's integers if a sum needs more bits.
            a_step, b_step: the numbers that 1 of A and 1 of B represent.
        """
        factor = product_factor(a_step, b_step, out)
        mantissa, exponent = math.frexp(factor)
        if mantissa == 0.5:
            return out.store(fixed_point.shifted(exact, 1 - exponent))
        return out.store(fixed_point.round_half_up(exact.astype(np.float64) * factor))
