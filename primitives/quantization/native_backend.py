"""Fixed-point training in C++, to the same bits as NumPy's, by the widest vectors.

A product runs on 16-bit multipliers, its operands in as many digits of 16 bits as they take, or on 32-bit ones,
whichever is cheaper (native/digit_plan.hpp); all of it is exact, so that only the time tells which it was. What the
kernels do not have (products in batches, gathers, sums that 64 bits cannot hold) is done by the definition in NumPy.
"""

import math
import mmap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from primitives.algorithms import checks
from primitives.graph.graph import Graph, Node, View, merged_dimensions, plan
from primitives.quantization import native_epilogues
from primitives.quantization.executable import FixedPointExecutable
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.native_programs import (
    AdamStep,
    AddRectify,
    Mask,
    SlotProgram,
    adam_step,
    in_floats,
    integer_operations,
)
from primitives.quantization.native_steps import NativeStep, Part, joined
from primitives.quantization.places import Located, Product, Step, product_factor
from primitives.quantization.precision import Precision
from primitives.quantization.reference_backend import ReferenceExecutable
from primitives.quantization.roles import Operand, Plain

SIMD = ("", "avx512vnni", "avx512", "avx2", "portable")
# `Kind` in operations.hpp; fixed-point comes first.
_KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "bool": 5, "uint8": 6}
_LARGEST_SHIFT = 62
_AS_IT_IS = (False, 0.0, 0.0, 0.0)
_HUGE_PAGE_BYTES = 1 << 21
_FLOAT = np.dtype(np.float32)


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
        ordered = {variant: native_epilogues.with_followers(graph) for variant, graph in graphs.items()}
        self._followed = {variant: followed for variant, (_, followed) in ordered.items()}
        self._products: list[tuple[Product, Any]] = []
        # By what of the operand is read, and how often what it lies in was written before, in each variant.
        self._sources: dict[Any, Any] = {}
        self._writes: dict[tuple[str, int], int] = defaultdict(int)
        super().__init__({variant: graph for variant, (graph, _) in ordered.items()}, precision)
        self._joined = {variant: joined(steps) for variant, steps in self._steps.items()}
        self._read_operands()

    @property
    def narrow_products(self) -> int:
        """How many matrix products ran on 16-bit multipliers so far."""
        return self._total("narrow_products")

    @property
    def wide_products(self) -> int:
        """On 32-bit ones."""
        return self._total("wide_products")

    @property
    def narrow_multiply_accumulates(self) -> int:
        """The 16-bit ones in them: of two digits and three, six for each of the product."""
        return self._total("narrow_multiply_accumulates")

    @property
    def wide_multiply_accumulates(self) -> int:
        """The 32-bit ones."""
        return self._total("wide_multiply_accumulates")

    def _total(self, name: str) -> int:
        return sum(getattr(native, name) for _, native in self._products)

    def _memory(self, variant: str) -> list[Array]:
        # Temporaries share memory, so that what a product wrote is still in the cache for the next node.
        graph = self.graphs[variant]
        held = [self._dtype(variant, i) for i in range(len(graph.buffers))]
        buffers = tuple(replace(b, dtype=dtype) for b, dtype in zip(graph.buffers, held, strict=True))
        placed = plan(native_epilogues.joined(replace(graph, buffers=buffers), self._followed[variant]))
        block = _zeroed(placed.arena_bytes)
        return [
            block[offset : offset + buffer.size_bytes].view(buffer.dtype)
            for offset, buffer in zip(placed.offsets_bytes, buffers, strict=True)
        ]

    def _runs(self, variant: str) -> Sequence[Step]:
        return self._joined[variant]

    def quantise(self) -> None:
        """See `FixedPointExecutable.quantise`."""
        super().quantise()
        self._read_operands()

    def restart_capture(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """See `CapturedRanges.restart_capture`."""
        super().restart_capture(extremes)
        self._read_operands()

    def _write(self, place: Located, values: Array) -> None:
        fmt, target = place.storage, place.array
        dense = values.flags.c_contiguous and target.flags.c_contiguous and values.size == target.size
        if not (dense and isinstance(fmt, Q) and values.dtype == _FLOAT):
            super()._write(place, values)
            return
        scale, low, high = 2.0**fmt.fraction_bits, float(fmt.lowest), float(fmt.highest)
        saturated = self._native.write_floats(
            target.ctypes.data, values.ctypes.data, values.size, scale, low, high, self.simd
        )
        self.count(place.label, saturated)

    def _planned(self, variant: str, position: int, node: Node) -> Step:
        step = self._planned_alone(variant, position, node)
        for view in node.outputs:
            self._writes[variant, view.buffer] += 1
        return step

    def _planned_alone(self, variant: str, position: int, node: Node) -> Step:
        if position - 1 in self._followed[variant] and self._taken_along(variant, position - 1):
            return NativeStep(self._native, [], self, self.count)
        if node.kind != "matmul" or len(node.outputs[0].shape) != 2:
            return super()._planned(variant, position, node)
        by_definition = super()._planned(variant, position, node)
        (a, b), (c,) = ([self._at(variant, v) for v in side] for side in (node.inputs, node.outputs))
        product = Product(self._roles[variant].operands[position], a, b, c)
        follower = self._taken_along(variant, position) if position in self._followed[variant] else None
        labels = (*(f"{operand.role} codes" for operand in product.operands), c.label)
        sides = [
            self._side(variant, view, place, operand)
            for view, place, operand in zip(node.inputs, (a, b), product.operands, strict=True)
        ]
        target = follower.y if follower else c
        (_, _, c_format) = product.formats()
        native = self._native.Product(
            self.simd, *sides[0], *sides[1], (*_matrix(target.array), True), c_format.lowest, c_format.highest
        )
        if isinstance(follower, AddRectify):
            native.then_rectify(_address(follower.bias.array), follower.places)
        elif follower:
            native.then_mask(_address(follower.x.array))
        self._products.append((product, native))

        def both_by_definition() -> None:
            by_definition()
            if follower:
                after = self.graphs[variant].nodes[position + 1]
                super(NativeExecutable, self)._planned(variant, position + 1, after)()

        return self._step_of(Part(native, labels, both_by_definition, product.operands))

    def _taken_along(self, variant: str, position: int) -> AddRectify | Mask | None:
        """What the product at a position does with its result before it is stored; None where that is too much."""
        product, after = self.graphs[variant].nodes[position : position + 2]
        (c,), inputs, outputs = (
            [self._at(variant, view) for view in side]
            for side in (product.outputs, after.inputs, after.outputs)
        )
        if c.array.ndim != 2 or not c.array.flags.c_contiguous:
            return None
        operations = integer_operations(after, inputs, outputs)
        if operations is None or len(operations) != 1:
            return None
        (one,) = operations
        changed, kept = (one.x, one.bias) if isinstance(one, AddRectify) else (one.g, one.x)
        is_mask_of_sum = isinstance(one, Mask) and one.bias is not None
        if is_mask_of_sum or _address(changed.array) != _address(c.array) or one.y.label != c.label:
            return None
        return one if kept is not None and _address(kept.array) != _address(c.array) else None

    def _side(
        self, variant: str, view: View, place: Located, operand: Operand
    ) -> tuple[Any, tuple[Any, ...]]:
        """A product's operand: its source, shared with products that read the same numbers, and where it lies."""
        matrix = _matrix(place.array)
        address, rows, columns, row, column = matrix
        by_rows = self._native.by_rows((*matrix, True))
        lines = (rows, columns, row, column) if by_rows else (columns, rows, column, row)
        key = (variant, view.buffer, self._writes[variant, view.buffer], address, lines, operand.key)
        fresh = key not in self._sources
        if fresh:
            self._sources[key] = self._native.Source(self.simd, (*matrix, True))
        return self._sources[key], (*matrix, fresh)

    def _read_operands(self) -> None:
        """Tell every product how its operands are read now."""
        for product, native in self._products:
            (a, b), formats = product.operands, product.formats()
            rules = (self.affine.get(a.key), self.affine.get(b.key))
            a_step, b_step = (
                rule.delta if rule else fmt.resolution for rule, fmt in zip(rules, formats[:2], strict=True)
            )
            factor = product_factor(a_step, b_step, formats[2])
            mantissa, exponent = math.frexp(factor)
            scaled, places = mantissa != 0.5, 1 - exponent
            possible = scaled or abs(places) <= _LARGEST_SHIFT
            readings = (
                (True, rule.factor(fmt), float(rule.lowest), float(rule.highest)) if rule else _AS_IT_IS
                for rule, fmt in zip(rules, formats[:2], strict=True)
            )
            native.read(*readings, possible, scaled, places if possible and not scaled else 0, factor)

    def _step_of(self, *parts: Part) -> NativeStep:
        return NativeStep(self._native, parts, self, self.count)

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        operations = integer_operations(node, inputs, outputs)
        if operations is not None:
            return self._step_of(*(self._integer_part(one) for one in operations))
        adam = adam_step(node, inputs, outputs)
        if adam is not None:
            return self._adam(adam)
        if not in_floats(node):
            return super()._elementwise(node, inputs, outputs)
        places = [*inputs, *outputs]
        shape, strides = merged_dimensions(outputs[0].array.shape, [_steps(place.array) for place in places])
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
        return self._step_of(Part(native, tuple(place.label for place in outputs)))

    def _integer_part(self, one: AddRectify | Mask) -> Part:
        y, x, bias = (_address(p.array) if p else 0 for p in (one.y, one.x, one.bias))
        rows, columns = one.y.array.shape
        if isinstance(one, Mask):
            g = _address(one.g.array)
            return Part(self._native.Mask(self.simd, y, x, bias, g, rows, columns, one.places))
        assert isinstance(one.y.storage, Q)
        limit = one.y.storage.highest
        native = self._native.AddRectify(self.simd, y, x, bias, rows, columns, one.places, limit)
        return Part(native, (one.y.label,))

    def _adam(self, one: AdamStep) -> Step:
        weights, gradients = one.parameter.storage, one.gradient.storage
        assert isinstance(weights, Q)
        assert isinstance(gradients, Q)
        places = (
            one.parameter,
            one.target,
            one.gradient,
            one.mean,
            one.square,
            one.rate,
            one.root_correction,
        )
        formats = (
            *(weights.resolution, gradients.resolution, 2.0**weights.fraction_bits),
            *(float(weights.lowest), float(weights.highest)),
        )
        addresses = [_address(place.array) if place else 0 for place in places]
        native = self._native.Adam(self.simd, addresses, one.parameter.array.size, formats, one.constants)
        labels = (one.parameter.label, *((one.target.label,) if one.target else ()))
        return self._step_of(Part(native, labels))

    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        array, fmt, sums = source.array, source.storage, node.attributes["op"] == "sum"
        by_definition = super()._reduce(node, source, target)
        whole = sums and node.outputs[0].size == 1 and array.flags.c_contiguous
        if whole and target.storage is Plain.BINARY64 and not (fmt is Plain.WHOLE or fmt is Plain.BINARY32):
            sides = (_address(target.array), _address(array), array.size)
            if isinstance(fmt, Q):
                return self._step_of(Part(self._native.SumWhole(*sides, fmt.resolution)))
            return self._step_of(Part(self._native.SumExactly(*sides), by_definition=by_definition))
        over_rows = sums and node.attributes["axes"] == (0,) and array.ndim == 2 and _steps(array)[1] == 1
        if not (
            over_rows and isinstance(fmt, Q) and isinstance(target.storage, Q) and target.array.ndim == 1
        ):
            return by_definition
        rows, columns = array.shape
        y = (_address(target.array), _steps(target.array)[0], target.storage.lowest, target.storage.highest)
        places = fmt.fraction_bits - target.storage.fraction_bits
        native = self._native.SumRows(self.simd, _address(array), _steps(array)[0], rows, columns, y, places)
        return self._step_of(Part(native, (target.label,)))


def _zeroed(size_bytes: int) -> Array:
    """Bytes from a page's start, on huge pages where there are enough of them."""
    slack = _HUGE_PAGE_BYTES if size_bytes >= _HUGE_PAGE_BYTES else 0
    block = mmap.mmap(-1, max(1, size_bytes + slack))
    if slack and hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(block, np.uint8)
    start = -_address(whole) % slack if slack else 0
    return whole[start : start + size_bytes]


def _matrix(array: Array) -> tuple[int, ...]:
    """(address, rows, columns, steps of both) of a matrix."""
    rows, columns = array.shape
    return (_address(array), rows, columns, *_steps(array))


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
