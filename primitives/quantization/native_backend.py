"""Fixed-point training in C++, to the same bits as NumPy's, by the widest vectors.

A product runs on 16-bit multipliers, its operands in as many digits of 16 bits as they take, or on 32-bit ones,
whichever is cheaper (native/digit_plan.hpp); all of it is exact, so that only the time tells which it was. What the
kernels do not have (products in batches, gathers, sums that 64 bits cannot hold) is done by the definition in NumPy.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from primitives.algorithms import checks
from primitives.learner.graph import Graph, Node
from primitives.learner.native_elementwise import merged
from primitives.quantization.affine import Affine
from primitives.quantization.executable import FixedPointExecutable
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.native_programs import (
    AddRectify,
    Mask,
    SlotProgram,
    in_floats,
    integer_operations,
)
from primitives.quantization.places import Located, Product, Step, product_factor
from primitives.quantization.precision import Precision
from primitives.quantization.reference_backend import ReferenceExecutable
from primitives.quantization.roles import Plain

SIMD = ("", "avx512vnni", "avx512", "avx2", "portable")
# `Kind` in operations.hpp; fixed-point comes first.
_KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "bool": 5, "uint8": 6}
_LARGEST_SHIFT = 62
_AS_IT_IS = (False, 0.0, 0.0, 0.0)


def unavailable_reason() -> str:
    """Why this backend cannot be used here; empty when it can."""
    try:
        from primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """The graphs, made ready to run on the widest instruction set of this processor."""
    return NativeExecutable(graphs, precision)


class NativeExecutable(ReferenceExecutable):
    """See the module's text.

    Attributes:
        simd: the instruction set in use.
        narrow_products: how many matrix products ran on 16-bit multipliers so far.
        wide_products: on 32-bit ones.
        narrow_multiply_accumulates: the 16-bit ones in them: of two digits and three, six for each of the product.
        wide_multiply_accumulates: the 32-bit ones.
    """

    def __init__(self, graphs: Mapping[str, Graph], precision: Precision, *, simd: str = "") -> None:
        """As `FixedPointExecutable`.

        Args:
            simd: one of `SIMD`; empty for the widest that this processor has.

        Raises:
            ValueError: the processor lacks the instruction set.
        """
        from primitives import _native

        checks.one_of("simd", simd, SIMD)
        self._native: Any = _native.quantization
        self.simd: str = self._native.simd(simd)
        self._op_codes = {name: i for i, name in enumerate(self._native.OPERATIONS.split())}
        self.narrow_products = self.wide_products = 0
        self.narrow_multiply_accumulates = self.wide_multiply_accumulates = 0
        super().__init__(graphs, precision)

    def _matmul(self, product: Product) -> Step:
        by_definition = super()._matmul(product)
        if product.c.array.ndim != 2:
            return by_definition
        formats = product.formats()
        sides = [
            (_address(p.array), *p.array.shape, *_steps(p.array)) for p in (product.a, product.b, product.c)
        ]
        native = self._native.Product(self.simd, *sides, formats[2].lowest, formats[2].highest)
        labels = (*(f"{operand.role} codes" for operand in product.operands), product.c.label)
        captured = [operand.bits(self.precision) is not None for operand in product.operands]
        terms = prod(product.a.array.shape) * product.c.array.shape[1]
        call = self._call(product)

        def run() -> None:
            nonlocal call
            if call.affine != tuple(self.affine.get(operand.key) for operand in product.operands):
                call = self._call(product)
            if call.arguments is None or not native.run(*call.arguments):
                by_definition()
                return
            if self.capturing:
                for operand, wanted, (low, high) in zip(
                    product.operands, captured, native.extremes, strict=True
                ):
                    if wanted:
                        self.widen(operand, low, high)
            a_digits, b_digits = native.digits
            if a_digits:
                self.narrow_products += 1
                self.narrow_multiply_accumulates += a_digits * b_digits * terms
            else:
                self.wide_products += 1
                self.wide_multiply_accumulates += terms
            for label, saturated in zip(labels, native.saturated, strict=True):
                self.count(label, saturated)

        return run

    def _call(self, product: Product) -> "_Call":
        """How a product reads its operands now."""
        (a, b), (a_format, b_format, c_format) = product.operands, product.formats()
        affine = (self.affine.get(a.key), self.affine.get(b.key))
        a_step, b_step = (
            rule.delta if rule else fmt.resolution
            for rule, fmt in zip(affine, (a_format, b_format), strict=True)
        )
        factor = product_factor(a_step, b_step, c_format)
        mantissa, exponent = math.frexp(factor)
        scaled, places = mantissa != 0.5, 1 - exponent
        if not scaled and abs(places) > _LARGEST_SHIFT:
            return _Call(affine, None)
        readings = (_reading(rule, fmt) for rule, fmt in zip(affine, (a_format, b_format), strict=True))
        return _Call(affine, (*readings, scaled, 0 if scaled else places, factor))

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        operations = integer_operations(node, inputs, outputs)
        if operations is not None:
            return self._integers(operations)
        if not in_floats(node):
            return super()._elementwise(node, inputs, outputs)
        places = [*inputs, *outputs]
        shape, strides = merged(outputs[0].array.shape, [_steps(place.array) for place in places])
        if not shape:
            shape, strides = [1], [[0]] * len(places)
        program = SlotProgram(node, len(inputs), self._op_codes)
        native = self._native.Elementwise(self.simd, shape, program.slots)
        for slot, value in program.constants:
            native.add_constant(slot, value)
        for i, place in enumerate(inputs):
            step = place.storage.resolution if isinstance(place.storage, Q) else 1.0
            native.add_input(_address(place.array), _kind(place), step, strides[i], program.slot_of[i])
        for instruction in program.instructions:
            native.add_instruction(*instruction)
        for i, place in enumerate(outputs):
            fmt = place.storage
            limits = (float(fmt.lowest), float(fmt.highest)) if isinstance(fmt, Q) else (0.0, 0.0)
            scale = 2.0**fmt.fraction_bits if isinstance(fmt, Q) else 1.0
            slot = program.slot_of[node.results[i]]
            native.add_output(
                _address(place.array), _kind(place), scale, *limits, strides[len(inputs) + i], slot
            )
        labels = [place.label for place in outputs]

        def run() -> None:
            if native.run():
                for label, saturated in zip(labels, native.saturated, strict=True):
                    self.count(label, saturated)

        return run

    def _integers(self, operations: list[AddRectify | Mask]) -> Step:
        calls: list[tuple[str, Callable[[], int]]] = []
        for one in operations:
            y, x, bias = (_address(p.array) if p else 0 for p in (one.y, one.x, one.bias))
            rows, columns = one.y.array.shape
            if isinstance(one, AddRectify):
                assert isinstance(one.y.storage, Q)
                limit = one.y.storage.highest
                call = partial(
                    self._native.add_rectify, y, x, bias, rows, columns, one.places, limit, self.simd
                )
            else:
                g = _address(one.g.array)
                call = partial(self._native.mask, y, x, bias, g, rows, columns, one.places, self.simd)
            calls.append((one.y.label, call))

        def run() -> None:
            for label, call in calls:
                self.count(label, call())

        return run

    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        array, fmt, sums = source.array, source.storage, node.attributes["op"] == "sum"
        if sums and fmt is Plain.BINARY64 and node.outputs[0].size == 1 and array.flags.c_contiguous:
            by_definition, call = super()._reduce(node, source, target), (_address(array), array.size)

            def total() -> None:
                found = self._native.sum_exactly(*call)
                if math.isfinite(found):
                    self._write(target, np.asarray(found))
                else:
                    by_definition()

            return total
        over_rows = sums and node.attributes["axes"] == (0,) and array.ndim == 2 and _steps(array)[1] == 1
        if not (
            over_rows and isinstance(fmt, Q) and isinstance(target.storage, Q) and target.array.ndim == 1
        ):
            return super()._reduce(node, source, target)
        rows, columns = array.shape
        y = (_address(target.array), _steps(target.array)[0], target.storage.lowest, target.storage.highest)
        places = fmt.fraction_bits - target.storage.fraction_bits
        sum_rows = partial(
            self._native.sum_rows, _address(array), _steps(array)[0], rows, columns, y, places, self.simd
        )

        def run() -> None:
            self.count(target.label, sum_rows())

        return run


class _Call(NamedTuple):
    """A product's arguments under the rules that its operands are read by.

    Attributes:
        affine: of A and of B; None for as they are.
        arguments: of the kernel; None where it lacks the shift.
    """

    affine: tuple[Affine | None, Affine | None]
    arguments: tuple[Any, ...] | None


def _reading(rule: Affine | None, fmt: Q) -> tuple[bool, float, float, float]:
    if rule is None:
        return _AS_IT_IS
    return (True, rule.factor(fmt), float(rule.lowest), float(rule.highest))


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _steps(array: Array) -> Sequence[int]:
    """Strides in elements; 0 along dimensions of size 1, which have none."""
    return [
        stride // array.itemsize if size > 1 else 0
        for stride, size in zip(array.strides, array.shape, strict=True)
    ]


def _kind(place: Located) -> int:
    return 0 if isinstance(place.storage, Q) else _KINDS[str(place.array.dtype)]
