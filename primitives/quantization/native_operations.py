"""Operations of the native executor in fixed point: what runs each kind of node, but for matrix products."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placerl.primitives.graph.graph import (
    Node,
    UnsupportedOperationError,
    contiguous_strides,
    merged_dimensions,
)
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
from placerl.primitives.quantization.places import Located
from placerl.primitives.quantization.roles import Plain, Storage

# `Kind` in native/numbers.hpp; the first is fixed point.
_KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "bool": 5, "uint8": 6}


@dataclass(frozen=True)
class Part:
    """An operation of the extension.

    Attributes:
        operation: operation of the extension.
        labels: the label of each of its counts of saturated numbers.
    """

    operation: Any
    labels: tuple[str, ...] = ()


class Operations:
    """Creates the extension's operations on arrays in the executor's memory.

    Args:
        native: the module of the extension.
        simd: the instruction set, one that this processor has.
    """

    def __init__(self, native: Any, simd: str) -> None:
        self._native, self._simd = native, simd
        self._op_codes = {name: i for i, name in enumerate(native.OPERATIONS.split())}

    def of(
        self, node: Node, dtypes: Sequence[str], inputs: list[Located], outputs: list[Located]
    ) -> list[Part]:
        """Return the operations that run a node, in order.

        Args:
            dtypes: of the inputs in the graph, which are floats where fixed point is stored.

        Raises:
            UnsupportedOperationError: there is none; the message names the user's line.
        """
        match node.kind:
            case "elementwise":
                return self._elementwise(node, dtypes, inputs, outputs)
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

    def copied(self, source: Located, target: Located) -> Part:
        """Return the operation that copies one array to another, rounded into its format."""
        return self._slots(Node("elementwise", (), (), results=(0,)), [source], [target])

    def _elementwise(
        self, node: Node, dtypes: Sequence[str], inputs: list[Located], outputs: list[Located]
    ) -> list[Part]:
        operations = integer_operations(node, inputs, outputs)
        if operations is not None:
            return [self._integer_part(one) for one in operations]
        adam = adam_step(node, inputs, outputs)
        if adam is not None:
            return [self._adam(adam)]
        return [self._slots(in_binary64(node, dtypes), inputs, outputs)]

    def _slots(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Part:
        """Return the operation that runs a program on slots of binary64."""
        places = [*inputs, *outputs]
        shape, strides = merged_dimensions(
            outputs[0].array.shape, [steps_of(place.array) for place in places]
        )
        if not shape:
            shape, strides = [1], [[0]] * len(places)
        program = SlotProgram(node, len(inputs), self._op_codes)
        native = self._native.Elementwise(self._simd, shape, program.slots)
        for slot, value in program.constants:
            native.add_constant(slot, value)
        for i, place in enumerate(inputs):
            step = place.storage.resolution if isinstance(place.storage, Q) else 1.0
            native.add_input(address(place.array), _kind(place), step, strides[i], program.slot_of[i])
        for instruction in program.instructions:
            native.add_instruction(*instruction)
        for i, place in enumerate(outputs):
            fmt = place.storage
            limits = (float(fmt.lowest), float(fmt.highest)) if isinstance(fmt, Q) else (0.0, 0.0)
            scale = 2.0**fmt.fraction_bits if isinstance(fmt, Q) else 1.0
            slot = program.slot_of[node.results[i]]
            native.add_output(
                address(place.array), _kind(place), scale, *limits, strides[len(inputs) + i], slot
            )
        return Part(native, tuple(place.label for place in outputs))

    def _integer_part(self, one: AddRectify | Mask) -> Part:
        y, x, bias = (address(p.array) if p else 0 for p in (one.y, one.x, one.bias))
        rows, columns = one.y.array.shape
        if isinstance(one, Mask):
            g = address(one.g.array)
            return Part(self._native.Mask(self._simd, y, x, bias, g, rows, columns, one.places))
        assert isinstance(one.y.storage, Q)
        limit = one.y.storage.highest
        native = self._native.AddRectify(self._simd, y, x, bias, rows, columns, one.places, limit)
        return Part(native, (one.y.label,))

    def _adam(self, one: AdamStep) -> Part:
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
        addresses = [address(place.array) if place else 0 for place in places]
        native = self._native.Adam(self._simd, addresses, one.parameter.array.size, formats, one.constants)
        labels = (one.parameter.label, *((one.target.label,) if one.target else ()))
        return Part(native, labels)

    def _reduce(self, node: Node, source: Located, target: Located) -> Part:
        array, fmt, sums = source.array, source.storage, node.attributes["op"] == "sum"
        if sums and target.array.size == 1 and array.flags.c_contiguous and target.storage is Plain.BINARY64:
            sides = (address(target.array), address(array), array.size)
            if isinstance(fmt, Q):
                return Part(self._native.SumWhole(*sides, fmt.resolution))
            if fmt is Plain.BINARY64:
                return Part(self._native.SumExactly(*sides))
        over_rows = sums and node.attributes["axes"] == (0,) and array.ndim == 2 and steps_of(array)[1] == 1
        if over_rows and isinstance(fmt, Q) and isinstance(target.storage, Q) and target.array.ndim == 1:
            rows, columns = array.shape
            y = (
                address(target.array),
                steps_of(target.array)[0],
                target.storage.lowest,
                target.storage.highest,
            )
            places = fmt.fraction_bits - target.storage.fraction_bits
            native = self._native.SumRows(
                self._simd, address(array), steps_of(array)[0], rows, columns, y, places
            )
            return Part(native, (target.label,))
        axes, steps = node.attributes["axes"], steps_of(array)
        outer = [i for i in range(array.ndim) if i not in axes]
        if sums and fmt in (Plain.BINARY32, Plain.BINARY64) and target.array.size != 1:
            raise _refused(node, "sums of floats to more than one number")
        native = self._native.Reduce(
            ("sum", "max", "min").index(node.attributes["op"]),
            [array.shape[i] for i in outer],
            (address(array), _kind(source), [steps[i] for i in outer]),
            _numbers(target),
            [array.shape[i] for i in axes],
            [steps[i] for i in axes],
            _conversion(node, fmt, target),
        )
        return Part(native, (target.label,))

    def _argument_reduce(self, node: Node, source: Located, target: Located) -> Part:
        if target.storage is not Plain.WHOLE:
            raise _refused(node, f"positions as {target.storage}")
        axis, steps, sizes = node.attributes["axis"], steps_of(source.array), source.array.shape
        outer = [i for i in range(source.array.ndim) if i != axis]
        native = self._native.ArgumentReduce(
            node.attributes["op"] == "max",
            [sizes[i] for i in outer],
            (address(source.array), _kind(source), [steps[i] for i in outer]),
            sizes[axis],
            steps[axis],
            _numbers(target),
        )
        return Part(native, (target.label,))

    def _gather(self, node: Node, source: Located, index: Located, target: Located) -> Part:
        axis, steps = node.attributes["axis"], list(steps_of(source.array))
        axis_step, steps[axis] = steps[axis], 0
        index_steps = list(steps_of(index.array))
        if node.kind == "take":  # one index for all elements along the axis
            index_steps = [index_steps[0] if i == axis else 0 for i in range(len(steps))]
        native = self._native.Gather(
            list(target.array.shape),
            (address(source.array), _kind(source), steps),
            axis_step,
            source.array.shape[axis],
            (address(index.array), _kind(index), index_steps),
            _numbers(target),
            _conversion(node, source.storage, target),
        )
        return Part(native, (target.label,))

    def _scatter_add(
        self, node: Node, start: Located, index: Located, source: Located, target: Located
    ) -> Part:
        if not isinstance(start.storage, Q) or source.storage != start.storage:
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
        return Part(native, (target.label,))

    def _patches(self, node: Node, source: Located, target: Located) -> Part:
        adjoint = node.kind == "col2im"
        image, patches = (target, source) if adjoint else (source, target)
        if not isinstance(source.storage, Q) or not (adjoint or target.array.flags.c_contiguous):
            raise _refused(node, f"{node.kind} of {source.storage}")
        batch, out_height, out_width, channels, *kernel = patches.array.shape
        sizes = [batch, channels, *image.array.shape[2:], out_height, out_width, *kernel]
        sizes += [*node.attributes["stride"], *node.attributes["padding"]]
        operation = self._native.Overlaps if adjoint else self._native.Patches
        as_stored = _conversion(node, source.storage, target)
        return Part(operation(sizes, _numbers(source), _numbers(target), as_stored), (target.label,))


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
    return address(place.array), _kind(place), list(steps_of(place.array))


def address(array: Array) -> int:
    """Return where an array begins in memory."""
    first: int = array.__array_interface__["data"][0]
    return first


def steps_of(array: Array) -> Sequence[int]:
    """Return strides in elements; 0 along dimensions of size 1."""
    return [
        stride // array.itemsize if size > 1 else 0
        for stride, size in zip(array.strides, array.shape, strict=True)
    ]


def _kind(place: Located) -> int:
    return 0 if isinstance(place.storage, Q) else _KINDS[str(place.array.dtype)]
