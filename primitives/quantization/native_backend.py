"""Fixed-point training in C++: the same bits as NumPy's, with the widest vectors and any number of threads.

A graph becomes a program of the executor that floats also use (`primitives.learner.native`), with fixed-point
operations. The executor rounds the inputs into their formats and converts the outputs to floats, so that a step
is one call.

A product runs on 16-bit multipliers, with its operands split into as many 16-bit digits as needed, or on 32-bit
multipliers, whichever is cheaper (native/digit_plan.hpp), or with 128-bit sums if 64 bits might not hold them.
All ways are exact, so they differ only in time, and the number of threads changes nothing.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placerl.primitives import checks
from placerl.primitives.graph.graph import (
    ALIGNMENT_BYTES,
    ITEM_BYTES,
    Graph,
    Node,
    UnsupportedOperationError,
    View,
    contiguous_strides,
    plan,
)
from placerl.primitives.interrupts import whole_imports
from placerl.primitives.learner.native.fixed_point import NativeFixedPointLearner
from placerl.primitives.learner.native.programs import PART_NS, NativePrograms
from placerl.primitives.quantization import native_epilogues
from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.native_operations import Operations, Part, address, steps_of
from placerl.primitives.quantization.native_programs import AddRectify, Mask, integer_operations
from placerl.primitives.quantization.places import Located, Product, product_factor
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.roles import Operand, Plain

SIMD = ("", "avx512vnni", "avx512", "avx2", "portable")
_AS_IT_IS = (False, 0.0, 0.0, 0.0)
_FLOAT = np.dtype(np.float32)

learner_kind = NativeFixedPointLearner
"""The class of the learners that this backend creates."""


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    try:
        with whole_imports():
            from placerl.primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def executable(
    graphs: Mapping[str, Graph], precision: Precision, device: str, threads: int = 1
) -> FixedPointExecutable:
    """Return an executable that runs step graphs in C++, on the widest instruction set of this processor.

    Args:
        device: ignored; it is always the CPU.
        threads: threads that share the large operations of a step, including the caller's.
    """
    return NativeFixedPointExecutable(graphs, precision, threads=threads)


class NativeFixedPointExecutable(NativePrograms, FixedPointExecutable):
    """Runs step graphs as fixed-point programs of the native C++ executor."""

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        precision: Precision,
        *,
        simd: str = "",
        threads: int = 1,
        part_ns: float = PART_NS,
    ) -> None:
        """Prepare the graphs as `FixedPointExecutable` does, and create their programs.

        Args:
            simd: one of `SIMD`; empty for the widest one of this processor.
            threads: threads that share the large operations of a step, including the caller's.
            part_ns: least duration of a thread's part of an operation, ns, approximately.

        Raises:
            UnsupportedOperationError: this backend lacks an operation; the message names the user's line.
            ValueError: the processor lacks the instruction set, or `threads` is out of range.
        """
        from placerl.primitives import _native

        checks.one_of("simd", simd, SIMD)
        checks.whole("threads", threads, 1, _native.learner.MAXIMUM_THREADS)
        self._native: Any = _native.quantization
        self._executors: Any = _native.learner.Executor
        self.simd = self._native.simd(simd)
        self.threads, self._part_ns = threads, part_ns
        self._others = Operations(self._native, self.simd)
        ordered = {variant: native_epilogues.with_followers(graph) for variant, graph in graphs.items()}
        self._followed = {variant: followed for variant, (_, followed) in ordered.items()}
        self._products: list[tuple[Product, Any]] = []
        # Keyed by what is read of the operand, and by how often its buffer was written before, in each variant.
        self._sources: dict[Any, Any] = {}
        self._writes: dict[tuple[str, int], int] = defaultdict(int)
        self._programs = {}
        self._staged: dict[str, dict[str, tuple[int, Array]]] = {}
        self._offsets: dict[str, tuple[int, ...]] = {}
        self._labels: dict[str, list[str]] = {}
        self._emitted: dict[str, list[int | None]] = {}
        super().__init__({variant: graph for variant, (graph, _) in ordered.items()}, precision)
        first = next(iter(self.graphs.values()))
        self._inputs = [buffer for _, buffer in first.of_kind("input")]
        self._read_operands()

    @property
    def narrow_products(self) -> int:
        """Number of matrix products that ran on 16-bit multipliers so far."""
        return self._total("narrow_products")

    @property
    def narrow_multiply_accumulates(self) -> int:
        """Number of 16-bit multiply-accumulates so far.

        A wide number is split into 16-bit digits; a product of two digits by three digits counts as six.
        """
        return self._total("narrow_multiply_accumulates")

    @property
    def wide_multiply_accumulates(self) -> int:
        """Number of multiply-accumulates so far on multipliers wider than 16 bits."""
        return self._total("wide_multiply_accumulates")

    def _total(self, name: str) -> int:
        return sum(getattr(native, name) for _, native in self._products)

    def _memory(self) -> dict[str, list[Array]]:
        # Temporaries share memory, so that a product's result is still in the cache for the next node.
        arena_bytes = 0
        staging: dict[str, dict[str, tuple[int, tuple[int, ...], str]]] = {}
        held = {
            variant: [self._dtype(variant, i) for i in range(len(graph.buffers))]
            for variant, graph in self.graphs.items()
        }
        for variant, graph in self.graphs.items():
            buffers = tuple(
                replace(b, dtype=dtype) for b, dtype in zip(graph.buffers, held[variant], strict=True)
            )
            placed = plan(native_epilogues.joined(replace(graph, buffers=buffers), self._followed[variant]))
            self._offsets[variant] = tuple(arena_bytes + offset for offset in placed.offsets_bytes)
            arena_bytes += placed.arena_bytes
            staging[variant] = {}
            for name, shape, dtype in self._converted(variant):
                staging[variant][name] = (arena_bytes, shape, dtype)
                size_bytes = math.prod(shape) * ITEM_BYTES[dtype]
                arena_bytes += -(-max(1, size_bytes) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        # Kernels may read one vector past the end of their data.
        simd = {"avx512vnni": "avx512"}.get(self.simd, self.simd)
        self._executor = self._executors(arena_bytes + ALIGNMENT_BYTES, simd, self.threads, self._part_ns)
        for variant, entries in staging.items():
            self._staged[variant] = {
                name: (offset, self._executor.array(offset, shape, contiguous_strides(shape), dtype))
                for name, (offset, shape, dtype) in entries.items()
            }
        return {
            variant: [
                self._executor.array(offset, (buffer.size,), (1,), dtype)
                for offset, buffer, dtype in zip(
                    self._offsets[variant], graph.buffers, held[variant], strict=True
                )
            ]
            for variant, graph in self.graphs.items()
        }

    def _converted(self, variant: str) -> Iterator[tuple[str, tuple[int, ...], str]]:
        """Yield name, shape and dtype of all outputs, and of the inputs that are converted before they are
        stored.
        """
        graph = self.graphs[variant]
        for i, buffer in graph.of_kind("input"):
            if self._dtype(variant, i) != buffer.dtype:
                yield buffer.name, buffer.shape, buffer.dtype
        for name, view in graph.outputs.items():
            yield f"output {name}", view.shape, graph.buffers[view.buffer].dtype

    def _view(self, array: Any, view: View) -> Array:
        strides = tuple(stride * array.itemsize for stride in view.strides)
        return as_strided(array[view.offset :], view.shape, strides)

    def _numpy(self, array: Any) -> Array:
        """Return the array as a read-only NumPy array."""
        return np.asarray(array)

    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy values into an array of the same dtype."""
        array[...] = values

    def _prepare(self, variant: str) -> None:
        graph = self.graphs[variant]
        program = self._programs[variant] = self._executor.add_program()
        labels = self._labels[variant] = []
        emitted = self._emitted[variant] = []

        def add(parts: Sequence[Part], position: int | None) -> None:
            for part in parts:
                labels.extend(label for label in part.labels if label not in labels)
                numbers = [labels.index(label) for label in part.labels]
                self._executor.add_fixed_point(program, part.operation, numbers)
                emitted.append(position)

        staged = self._staged[variant]
        inputs, outputs = [], []
        for i, buffer in graph.of_kind("input"):
            offset = self._offsets[variant][i]
            if buffer.name in staged:
                offset, array = staged[buffer.name]
                view = View(i, buffer.shape, contiguous_strides(buffer.shape))
                add([self._others.copied(Located(array, Plain.BINARY32, ""), self._at(variant, view))], None)
            inputs.append((offset, buffer.size_bytes, buffer.dtype))
        for position, node in enumerate(graph.nodes):
            add(self._operations(variant, position, node), position)
            for view in node.outputs:
                self._writes[variant, view.buffer] += 1
        for name, view in graph.outputs.items():
            offset, array = staged[f"output {name}"]
            add([self._others.copied(self._at(variant, view), Located(array, Plain.WHOLE, ""))], None)
            outputs.append((offset, array.nbytes, str(array.dtype)))
        self._executor.set_transfers(program, inputs, outputs)

    def input(self, variant: str, name: str) -> Array:
        """Return the array in the executor's memory to which `step` copies an input."""
        if name in self._staged[variant]:
            _, array = self._staged[variant][name]
            return array
        position = self.graphs[variant].buffer_index[name]
        flat: Array = self._buffers[variant][position].array
        return flat.reshape(self.graphs[variant].buffers[position].shape)

    def profile(self, variant: str, steps: int) -> list[tuple[Node, float]]:
        """Time each node (array operation) in a number of gradient steps, which change the learner's state.

        Returns:
            Each node, in order, with its shortest time in seconds; 0 for a node that is fused into the one before it.
        """
        nodes = self.graphs[variant].nodes
        seconds = [0.0] * len(nodes)
        found_s = self._executor.profile(self._programs[variant], steps)
        for position, least_s in zip(self._emitted[variant], found_s, strict=True):
            if position is not None:
                seconds[position] += least_s
        return list(zip(nodes, seconds, strict=True))

    def collect(self) -> None:
        """Fetch the recorded ranges of operands, and the counts of saturated numbers, from the native executor."""
        for variant, program in self._programs.items():
            counts = self._executor.take_counts(program)
            for label, saturated in zip(self._labels[variant], counts, strict=True):
                self.count(label, saturated)
        for product, native in self._products:
            for operand, (low, high) in zip(product.operands, native.widest, strict=True):
                if low <= high and self.captures(operand):
                    self.widen(operand, low, high)
            native.forget_widest()

    def quantise(self) -> None:
        """Begin to quantise the operands of matrix products to n bits; see `FixedPointExecutable.quantise`."""
        super().quantise()
        self._read_operands()

    def use_rules(self, rules: Mapping[str, Affine]) -> None:
        """Let matrix products read their operands quantised by the given rules, and stop recording ranges."""
        super().use_rules(rules)
        self._read_operands()

    def restart_capture(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """Remove all quantisation rules, and record the operands' ranges again, beginning with the given ranges."""
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

    def _operations(self, variant: str, position: int, node: Node) -> list[Part]:
        """Return the operations that run a node, in order."""
        if position - 1 in self._followed[variant] and self._taken_along(variant, position - 1):
            return []
        if node.kind == "matmul":
            return self._matmul(variant, position, node)
        inputs, outputs = ([self._at(variant, v) for v in side] for side in (node.inputs, node.outputs))
        buffers = self.graphs[variant].buffers
        dtypes = [buffers[view.buffer].dtype for view in node.inputs]
        return self._others.of(node, dtypes, inputs, outputs)

    def _matmul(self, variant: str, position: int, node: Node) -> list[Part]:
        (a, b), c = node.inputs, node.outputs[0]
        places = [self._at(variant, view) for view in (a, b, c)]
        if not all(isinstance(place.storage, Q) for place in places):
            where = node.source or "unknown line"
            raise UnsupportedOperationError(f"matmul at {where}: its operands are not fixed-point")
        if len(c.shape) == 2:
            follower = self._taken_along(variant, position) if position in self._followed[variant] else None
            return [self._product(variant, position, (a, b, c), follower)]
        return [
            self._product(variant, position, tuple(_matrix_of(view, i) for view in (a, b, c)), None)
            for i in range(c.shape[0])
        ]

    def _product(
        self, variant: str, position: int, views: tuple[View, ...], follower: AddRectify | Mask | None
    ) -> Part:
        a, b, c = (self._at(variant, view) for view in views)
        product = Product(self._roles[variant].operands[position], a, b, c)
        labels = (*(f"{operand.role} codes" for operand in product.operands), c.label)
        left, right = product.operands
        sides = [self._side(variant, views[0], a, left)]
        # A source is read in one plan of limbs at a time: of x @ x.T each side has its own.
        sides.append(self._side(variant, views[1], b, right, taken=sides[0][0]))
        target = follower.y if follower else c
        (_, _, c_format) = product.formats()
        native = self._native.Product(
            self.simd, *sides[0], *sides[1], (*_matrix(target.array), True), c_format.lowest, c_format.highest
        )
        if isinstance(follower, AddRectify):
            native.then_rectify(address(follower.bias.array), follower.places)
        elif follower:
            native.then_mask(address(follower.x.array))
        self._products.append((product, native))
        return Part(native, labels)

    def _taken_along(self, variant: str, position: int) -> AddRectify | Mask | None:
        """Return what the product at a position does with its result before storing it; None if that is not
        supported.
        """
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
        changed, other = (one.x, one.bias) if isinstance(one, AddRectify) else (one.g, one.x)
        is_mask_of_sum = isinstance(one, Mask) and one.bias is not None
        if is_mask_of_sum or address(changed.array) != address(c.array) or one.y.label != c.label:
            return None
        return one if other is not None and address(other.array) != address(c.array) else None

    def _side(
        self, variant: str, view: View, place: Located, operand: Operand, taken: Any = None
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return a product's operand: its source, shared with products that read the same numbers, and its place.

        Args:
            taken: the source of the product's other operand, which this one does not share.
        """
        matrix = _matrix(place.array)
        address, rows, columns, row, column = matrix
        by_rows = self._native.by_rows((*matrix, True))
        lines = (rows, columns, row, column) if by_rows else (columns, rows, column, row)
        key = (variant, view.buffer, self._writes[variant, view.buffer], address, lines, operand.key)
        fresh = key not in self._sources
        if not fresh and self._sources[key] is taken:
            return self._native.Source(self.simd, (*matrix, True)), (*matrix, True)
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
            readings = (
                (True, rule.factor(fmt), float(rule.lowest), float(rule.highest)) if rule else _AS_IT_IS
                for rule, fmt in zip(rules, formats[:2], strict=True)
            )
            scaled = mantissa != 0.5
            native.read(*readings, scaled, 0 if scaled else 1 - exponent, factor)


def _matrix_of(view: View, number: int) -> View:
    """Return one matrix of a batch."""
    return View(view.buffer, view.shape[1:], view.strides[1:], view.offset + number * view.strides[0])


def _matrix(array: Array) -> tuple[int, ...]:
    """(address, rows, columns, steps of both) of a matrix."""
    rows, columns = array.shape
    return (address(array), rows, columns, *steps_of(array))
