"""Fixed-point training on NumPy: slow, plain, and the definition of right for the other backends."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from primitives.graph.graph import Graph, Node, View
from primitives.graph.interpreter import execute_node
from primitives.quantization import fixed_point, vector_unit
from primitives.quantization.executable import FixedPointExecutable
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.places import Located, Multiply, Product, Step, product_factor
from primitives.quantization.precision import Precision
from primitives.quantization.roles import Operand, Plain


def unavailable_reason() -> str:
    """Empty: NumPy is all it needs."""
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """The graphs, made ready to run."""
    return ReferenceExecutable(graphs, precision)


class ReferenceExecutable(FixedPointExecutable):
    """The graphs on NumPy arrays. Other backends go back to it for what they do not have."""

    def __init__(
        self, graphs: Mapping[str, Graph], precision: Precision, *, multiply: Multiply | None = None
    ) -> None:
        """As `FixedPointExecutable`.

        Args:
            graphs: by variant.
            precision: the formats.
            multiply: makes the exact sums of products: hardware's, where a model of hardware runs the step (see
                `processing_element`); by default `fixed_point.exact_matmul`.
        """
        self._multiply = multiply or (lambda a, b, operands: fixed_point.exact_matmul(a, b))
        super().__init__(graphs, precision)

    def _empty(self, size: int, dtype: str) -> Any:
        """A flat array of zeros."""
        return np.zeros(size, dtype)

    def _view(self, array: Any, view: View) -> Any:
        strides = tuple(stride * array.itemsize for stride in view.strides)
        return as_strided(array[view.offset :], view.shape, strides)

    def _numpy(self, array: Any) -> Array:
        """The array for NumPy to read, not to write."""
        return np.asarray(array)

    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy's values into an array of the same dtype."""
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
                self._write(target, np.asarray(math.fsum(values.ravel().tolist())))
            else:
                self._write(target, np.asarray(execute_node(node, [values])[0]))

        return run

    def codes(self, operand: Operand, raw: Array, fmt: Q) -> tuple[Array, float]:
        """An operand as the product reads it, and what one step of it stands for.

        Before `quantise`, raw values, whose extremes are captured; after it, centred codes of n bits.
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
        """A product's exact sums in the format of its result.

        Where both steps are powers of two this is a shift. Else the sum is scaled by one binary64 factor.

        Args:
            exact: int64, or Python's integers where a sum takes more.
            a_step, b_step: what 1 of A and of B stands for.
            out: the result's format.
        """
        factor = product_factor(a_step, b_step, out)
        mantissa, exponent = math.frexp(factor)
        if mantissa == 0.5:
            return out.store(fixed_point.shifted(exact, 1 - exponent))
        return out.store(fixed_point.round_half_up(exact.astype(np.float64) * factor))
