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
from dataclasses import dataclass, replace
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
    merged_dimensions,
    plan,
)
from placerl.primitives.interrupts import whole_imports
from placerl.primitives.learner.native.fixed_point import NativeFixedPointLearner
from placerl.primitives.learner.native.programs import PART_NS, NativePrograms
from placerl.primitives.quantization import native_epilogues
from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.native_programs import (
    AdamStep,
    AddRectify,
    Mask,
    SlotProgram,
    adam_step,
    in_binary64,
    integer_operations,
)
from placerl.primitives.quantization.places import Located, Product, product_factor
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.roles import Operand, Plain, Storage

SIMD = ("", "avx512vnni", "avx512", "avx2", "portable")
# `Kind` in native/numbers.hpp; the first is fixed point.
_KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "bool": 5, "uint8": 6}
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


@dataclass(frozen=True)
class _Part:
    """An operation of the extension.

    Attributes:
        operation: operation of the extension.
        labels: the label of each of its counts of saturated numbers.
    """

    operation: Any
    labels: tuple[str, ...] = ()


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
        self._op_codes = {name: i for i, name in enumerate(self._native.OPERATIONS.split())}
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

        def add(parts: Sequence[_Part], position: int | None) -> None:
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
                add([self._copied(Located(array, Plain.BINARY32, ""), self._at(variant, view))], None)
            inputs.append((offset, buffer.size_bytes, buffer.dtype))
        for position, node in enumerate(graph.nodes):
            add(self._operations(variant, position, node), position)
            for view in node.outputs:
                self._writes[variant, view.buffer] += 1
        for name, view in graph.outputs.items():
            offset, array = staged[f"output {name}"]
            add([self._copied(self._at(variant, view), Located(array, Plain.WHOLE, ""))], None)
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

    def _operations(self, variant: str, position: int, node: Node) -> list[_Part]:
        """Return the operations that run a node, in order."""
        if position - 1 in self._followed[variant] and self._taken_along(variant, position - 1):
            return []
        inputs, outputs = ([self._at(variant, v) for v in side] for side in (node.inputs, node.outputs))
        match node.kind:
            case "elementwise":
                return self._elementwise(variant, node, inputs, outputs)
            case "matmul":
                return self._matmul(variant, position, node)
            case "reduce":
                return [self._reduce(node, inputs[0], outputs[0])]
            case "argreduce":
                return [self._argument_reduce(node, inputs[0], outputs[0])]
            case "gather" | "take":
                return [self._gather(node, *inputs, *outputs)]
            case "scatter_add":
                return [self._scatter_add(node, *inputs, *outputs)]
            case "im2col" | "col2im":
                return [self._patches(node, inputs[0], outputs[0])]
        raise _refused(node, node.kind)

    def _matmul(self, variant: str, position: int, node: Node) -> list[_Part]:
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
    ) -> _Part:
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
            native.then_rectify(_address(follower.bias.array), follower.places)
        elif follower:
            native.then_mask(_address(follower.x.array))
        self._products.append((product, native))
        return _Part(native, labels)

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
        if is_mask_of_sum or _address(changed.array) != _address(c.array) or one.y.label != c.label:
            return None
        return one if other is not None and _address(other.array) != _address(c.array) else None

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

    def _elementwise(
        self, variant: str, node: Node, inputs: list[Located], outputs: list[Located]
    ) -> list[_Part]:
        operations = integer_operations(node, inputs, outputs)
        if operations is not None:
            return [self._integer_part(one) for one in operations]
        adam = adam_step(node, inputs, outputs)
        if adam is not None:
            return [self._adam(adam)]
        buffers = self.graphs[variant].buffers
        in_floats = in_binary64(node, [buffers[view.buffer].dtype for view in node.inputs])
        return [self._slots(in_floats, inputs, outputs)]

    def _copied(self, source: Located, target: Located) -> _Part:
        """Return the operation that copies one array to another, rounded into its format."""
        return self._slots(Node("elementwise", (), (), results=(0,)), [source], [target])

    def _slots(self, node: Node, inputs: list[Located], outputs: list[Located]) -> _Part:
        """Return the operation that runs a program on slots of binary64."""
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
        return _Part(native, tuple(place.label for place in outputs))

    def _integer_part(self, one: AddRectify | Mask) -> _Part:
        y, x, bias = (_address(p.array) if p else 0 for p in (one.y, one.x, one.bias))
        rows, columns = one.y.array.shape
        if isinstance(one, Mask):
            g = _address(one.g.array)
            return _Part(self._native.Mask(self.simd, y, x, bias, g, rows, columns, one.places))
        assert isinstance(one.y.storage, Q)
        limit = one.y.storage.highest
        native = self._native.AddRectify(self.simd, y, x, bias, rows, columns, one.places, limit)
        return _Part(native, (one.y.label,))

    def _adam(self, one: AdamStep) -> _Part:
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
        return _Part(native, labels)

    def _reduce(self, node: Node, source: Located, target: Located) -> _Part:
        array, fmt, sums = source.array, source.storage, node.attributes["op"] == "sum"
        if sums and target.array.size == 1 and array.flags.c_contiguous and target.storage is Plain.BINARY64:
            sides = (_address(target.array), _address(array), array.size)
            if isinstance(fmt, Q):
                return _Part(self._native.SumWhole(*sides, fmt.resolution))
            if fmt is Plain.BINARY64:
                return _Part(self._native.SumExactly(*sides))
        over_rows = sums and node.attributes["axes"] == (0,) and array.ndim == 2 and _steps(array)[1] == 1
        if over_rows and isinstance(fmt, Q) and isinstance(target.storage, Q) and target.array.ndim == 1:
            rows, columns = array.shape
            y = (
                _address(target.array),
                _steps(target.array)[0],
                target.storage.lowest,
                target.storage.highest,
            )
            places = fmt.fraction_bits - target.storage.fraction_bits
            native = self._native.SumRows(
                self.simd, _address(array), _steps(array)[0], rows, columns, y, places
            )
            return _Part(native, (target.label,))
        axes, steps = node.attributes["axes"], _steps(array)
        outer = [i for i in range(array.ndim) if i not in axes]
        if sums and fmt in (Plain.BINARY32, Plain.BINARY64) and target.array.size != 1:
            raise _refused(node, "sums of floats to more than one number")
        native = self._native.Reduce(
            ("sum", "max", "min").index(node.attributes["op"]),
            [array.shape[i] for i in outer],
            (_address(array), _kind(source), [steps[i] for i in outer]),
            _numbers(target),
            [array.shape[i] for i in axes],
            [steps[i] for i in axes],
            _conversion(node, fmt, target),
        )
        return _Part(native, (target.label,))

    def _argument_reduce(self, node: Node, source: Located, target: Located) -> _Part:
        if target.storage is not Plain.WHOLE:
            raise _refused(node, f"positions as {target.storage}")
        axis, steps, sizes = node.attributes["axis"], _steps(source.array), source.array.shape
        outer = [i for i in range(source.array.ndim) if i != axis]
        native = self._native.ArgumentReduce(
            node.attributes["op"] == "max",
            [sizes[i] for i in outer],
            (_address(source.array), _kind(source), [steps[i] for i in outer]),
            sizes[axis],
            steps[axis],
            _numbers(target),
        )
        return _Part(native, (target.label,))

    def _gather(self, node: Node, source: Located, index: Located, target: Located) -> _Part:
        axis, steps = node.attributes["axis"], list(_steps(source.array))
        axis_step, steps[axis] = steps[axis], 0
        index_steps = list(_steps(index.array))
        if node.kind == "take":  # one index for all elements along the axis
            index_steps = [index_steps[0] if i == axis else 0 for i in range(len(steps))]
        native = self._native.Gather(
            list(target.array.shape),
            (_address(source.array), _kind(source), steps),
            axis_step,
            source.array.shape[axis],
            (_address(index.array), _kind(index), index_steps),
            _numbers(target),
            _conversion(node, source.storage, target),
        )
        return _Part(native, (target.label,))

    def _scatter_add(
        self, node: Node, start: Located, index: Located, source: Located, target: Located
    ) -> _Part:
        if not (isinstance(start.storage, Q) and isinstance(source.storage, Q)):
            raise _refused(node, f"scatter_add of {source.storage} to {start.storage}")
        axis, shape = node.attributes["axis"], start.array.shape
        steps = list(contiguous_strides(shape))
        axis_step, steps[axis] = steps[axis], 0
        native = self._native.ScatterAdd(
            list(shape),
            _numbers(start),
            _numbers(target),
            list(index.array.shape),
            _numbers(source),
            _numbers(index),
            steps,
            axis_step,
            shape[axis],
            _conversion(node, start.storage, target),
        )
        return _Part(native, (target.label,))

    def _patches(self, node: Node, source: Located, target: Located) -> _Part:
        adjoint = node.kind == "col2im"
        image, patches = (target, source) if adjoint else (source, target)
        if not isinstance(source.storage, Q) or not (adjoint or target.array.flags.c_contiguous):
            raise _refused(node, f"{node.kind} of {source.storage}")
        batch, out_height, out_width, channels, *kernel = patches.array.shape
        sizes = [batch, channels, *image.array.shape[2:], out_height, out_width, *kernel]
        sizes += [*node.attributes["stride"], *node.attributes["padding"]]
        operation = self._native.Overlaps if adjoint else self._native.Patches
        as_stored = _conversion(node, source.storage, target)
        return _Part(operation(sizes, _numbers(source), _numbers(target), as_stored), (target.label,))


def _refused(node: Node, what: str) -> UnsupportedOperationError:
    where = node.source or "unknown line"
    return UnsupportedOperationError(f"{node.kind} at {where}: backend 'native' has no {what} in fixed point")


def _conversion(node: Node, source: Storage, target: Located) -> tuple[Any, ...]:
    """Return how numbers of one kind are stored as another: `Conversion` in native/numbers.hpp."""
    to = target.storage
    if to is Plain.WHOLE and source is not Plain.WHOLE:
        raise _refused(node, f"{source} as whole numbers")
    fixed = isinstance(source, Q)
    places = source.fraction_bits - to.fraction_bits if isinstance(source, Q) and isinstance(to, Q) else 0
    step = source.resolution if isinstance(source, Q) else 1.0
    if not isinstance(to, Q):
        return fixed, False, places, step, 1.0, 0, 0
    return fixed, source == to, places, step, 2.0**to.fraction_bits, to.lowest, to.highest


def _numbers(place: Located) -> tuple[int, int, list[int]]:
    """Return a place in the extension's form: `Numbers` in native/numbers.hpp."""
    return _address(place.array), _kind(place), list(_steps(place.array))


def _matrix_of(view: View, number: int) -> View:
    """Return one matrix of a batch."""
    return View(view.buffer, view.shape[1:], view.strides[1:], view.offset + number * view.strides[0])


def _matrix(array: Array) -> tuple[int, ...]:
    """(address, rows, columns, steps of both) of a matrix."""
    rows, columns = array.shape
    return (_address(array), rows, columns, *_steps(array))


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _steps(array: Array) -> Sequence[int]:
    """Return strides in elements; 0 along dimensions of size 1."""
    return [
        stride // array.itemsize if size > 1 else 0
        for stride, size in zip(array.strides, array.shape, strict=True)
    ]


def _kind(place: Located) -> int:
    return 0 if isinstance(place.storage, Q) else _KINDS[str(place.array.dtype)]
