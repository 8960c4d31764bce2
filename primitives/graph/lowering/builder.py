"""Build the nodes of a step graph in single assignment: every buffer is written once, before it is read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import numpy as np
import torch

from placerl.primitives.graph.graph import (
    COMPARISONS,
    ITEM_BYTES,
    Buffer,
    Instruction,
    Node,
    UnsupportedOperationError,
    View,
    contiguous_strides,
    number_key,
)
from placerl.primitives.graph.interpreter import apply_instruction

Number = float | int | bool


@dataclass(frozen=True)
class Splat:
    """A tensor filled with one number. It takes no memory: element-wise programs that read it get a constant.

    Attributes:
        value: the number.
        shape, dtype: the tensor's shape and dtype.
    """

    value: Number
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


Value = View | Splat


def dtype_name(dtype: torch.dtype) -> str:
    """Return the graph's name of a PyTorch dtype.

    Raises:
        UnsupportedOperationError: the graph has no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_BYTES:
        raise UnsupportedOperationError(f"dtype {name}: the step graph has {', '.join(ITEM_BYTES)}")
    return name


def _category(dtype: str) -> int:
    """Return 0 for flags, 1 for integers and 2 for floating-point numbers."""
    return 0 if dtype == "bool" else 1 + dtype.startswith("float")


def _number_dtype(number: Number) -> str:
    """Return the dtype that a number among a comparison's operands asks for; flags can be 0 and 1, too."""
    return "float32" if isinstance(number, float) else "bool" if number in (0, 1) else "int64"


class Builder:
    """Appends nodes in single assignment: every buffer is written before it is read, and never again.

    Equal nodes are created once (common-subexpression elimination by hash-consing).
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.nodes: list[Node] = []
        self.source = ""
        self._output_of: dict[Any, tuple[View, ...]] = {}

    def dtype_of(self, value: Value) -> str:
        """Return the dtype of a value (a view of a buffer, or a `Splat`), such as "float32"."""
        return value.dtype if isinstance(value, Splat) else self.buffers[value.buffer].dtype

    def add_buffer(self, buffer: Buffer) -> View:
        """Add a buffer (the storage of one tensor), and return a view of all of it."""
        self.buffers.append(buffer)
        return View(len(self.buffers) - 1, buffer.shape, contiguous_strides(buffer.shape))

    def temporary(self, shape: Sequence[int], dtype: str) -> View:
        """Add a temporary buffer, and return a view of all of it."""
        return self.add_buffer(Buffer(f"t{len(self.buffers)}", tuple(shape), dtype, "temporary"))

    def constant(self, values: np.ndarray[Any, Any]) -> View:
        """Add a buffer with constant values, and return a view of all of it."""
        flat = tuple(values.ravel().tolist())
        name = f"constant{len(self.buffers)}"
        return self.add_buffer(Buffer(name, values.shape, str(values.dtype), "constant", flat))

    def emit(
        self, kind: str, inputs: Sequence[Value], shape: Sequence[int], dtype: str, **attributes: Any
    ) -> View:
        """Add a node (operation) with one new output, unless an equal node exists, and return a view of the output.

        Args:
            kind: one of `NODE_KINDS`, except "elementwise".
            **attributes: parameters of the operation, such as `axis` of "gather" (listed in `primitives.graph.graph`).
        """
        views = tuple(self.materialised(value) for value in inputs)
        key = (kind, views, tuple(shape), dtype, tuple(sorted(attributes.items())))
        if key not in self._output_of:
            output = self.temporary(shape, dtype)
            self.nodes.append(Node(kind, views, (output,), attributes=attributes, source=self.source))
            self._output_of[key] = (output,)
        return self._output_of[key][0]

    def materialised(self, value: Value) -> View:
        """Return a value as a view of a buffer.

        For a `Splat`, a tensor filled with one number, a node is added that fills the buffer.
        """
        if isinstance(value, View):
            return value
        return self._elementwise(
            (Instruction("constant", (), value.dtype, value.value),), (), value.shape, value.dtype
        )

    def cast(self, value: Value, dtype: str) -> Value:
        """Convert a value (a view of a buffer, or a `Splat`) to a dtype, such as "float32"."""
        return value if self.dtype_of(value) == dtype else self.apply("copy", [value], dtype)

    def apply(self, op: str, operands: Sequence[Value | Number], dtype: str) -> Value:
        """Apply one scalar operation to every element of the operands, which broadcast to one shape.

        Operations on constants are computed at once. Operations that change nothing, such as x * 1, return
        the operand.
        """
        shape = np.broadcast_shapes(*(o.shape for o in operands if isinstance(o, View | Splat)))
        operand_dtype = self._operand_dtype(op, operands, dtype)
        values: list[Value] = []
        for i, operand in enumerate(operands):
            wanted = "bool" if op == "where" and i == 0 else operand_dtype
            value = operand if isinstance(operand, View | Splat) else Splat(operand, (), wanted or "float32")
            values.append(value if wanted is None else self.cast(value, wanted))
        if all(isinstance(value, Splat) for value in values):
            splats = [np.asarray(v.value, v.dtype) for v in values if isinstance(v, Splat)]
            folded = apply_instruction(Instruction(op, tuple(range(len(values))), dtype), splats)
            return Splat(folded.item(), shape, dtype)
        if (same := self._identity(op, values, shape, dtype)) is not None:
            return same
        views = [value for value in values if isinstance(value, View)]
        program: list[Instruction] = []
        registers: list[int] = []
        position = 0
        for value in values:
            if isinstance(value, View):
                registers.append(position)
                position += 1
            else:
                registers.append(len(views) + len(program))
                program.append(Instruction("constant", (), value.dtype, value.value))
        program.append(Instruction(op, tuple(registers), dtype))
        return self._elementwise(tuple(program), tuple(views), shape, dtype)

    def _operand_dtype(self, op: str, operands: Sequence[Value | Number], dtype: str) -> str | None:
        """Return the dtype to which operands are converted first; None if they are not converted."""
        if op == "copy":
            return None
        if op.startswith("logical"):
            return "bool"
        if op not in COMPARISONS:
            return dtype
        # As PyTorch promotes: tensors without dimensions and numbers count where they are of a higher category.
        tensors = [o for o in operands if isinstance(o, View | Splat)]
        groups = (
            [self.dtype_of(o) for o in tensors if o.shape],
            [self.dtype_of(o) for o in tensors if not o.shape],
            [_number_dtype(o) for o in operands if not isinstance(o, View | Splat)],
        )
        common = "bool"
        for dtypes in groups:
            found = reduce(torch.promote_types, (getattr(torch, name) for name in dtypes), torch.bool)
            if _category(dtype_name(found)) > _category(common):
                common = dtype_name(found)
        return common

    def _identity(self, op: str, values: list[Value], shape: tuple[int, ...], dtype: str) -> Value | None:
        """Return the operand itself if the operation changes nothing (x * 1, x + 0, ...), else None."""
        if op == "copy" and self.dtype_of(values[0]) == dtype:
            return values[0]
        neutral = {"mul": 1, "div": 1, "add": 0, "sub": 0, "pow": 1}.get(op)
        if neutral is None:
            return None
        pairs = [(values[0], values[1])]
        if op in ("mul", "add"):
            pairs.append((values[1], values[0]))
        for operand, other in pairs:
            if isinstance(other, Splat) and other.value == neutral and operand.shape == shape:
                return operand
        return None

    def _elementwise(
        self, program: tuple[Instruction, ...], views: tuple[View, ...], shape: tuple[int, ...], dtype: str
    ) -> View:
        """Add a node over `shape`, without its dimensions of size 1, in the memory order of its first full
        operand.
        """
        axes = [i for i, size in enumerate(shape) if size != 1]
        inner_shape = tuple(shape[i] for i in axes)
        inputs = [view.broadcast(shape).permute(axes) for view in views]
        order = list(range(len(axes)))
        for view in inputs:
            if 0 not in view.strides:
                order = sorted(order, key=lambda i, v=view: -v.strides[i])  # type: ignore[misc]
                break
        inputs = [view.permute(order) for view in inputs]
        ordered_shape = tuple(inner_shape[i] for i in order)
        key = (tuple(instruction.key for instruction in program), tuple(inputs), ordered_shape)
        if key not in self._output_of:
            output = self.temporary(ordered_shape, dtype)
            result = len(inputs) + len(program) - 1
            self.nodes.append(
                Node("elementwise", tuple(inputs), (output,), program, (result,), source=self.source)
            )
            self._output_of[key] = (output,)
        output = self._output_of[key][0]
        inverse = [order.index(i) for i in range(len(order))]
        plain = output.permute(inverse)
        strides = [1] * len(shape)
        for position, axis in enumerate(axes):
            strides[axis] = plain.strides[position]
        return View(plain.buffer, tuple(shape), tuple(strides), plain.offset)

    def copied_into(self, value: Value, target: View) -> None:
        """Add a node that copies the value into `target`, a view of a buffer that nothing reads yet."""
        axes = [i for i, size in enumerate(target.shape) if size != 1]
        destination, dtype = target.permute(axes), self.dtype_of(target)
        inputs = () if isinstance(value, Splat) else (value.permute(axes),)
        program = (
            Instruction("constant", (), dtype, value.value)
            if isinstance(value, Splat)
            else Instruction("copy", (0,), dtype),
        )
        result = (len(inputs) + len(program) - 1,)
        self.nodes.append(Node("elementwise", inputs, (destination,), program, result, source=self.source))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the value in another shape of the same size; -1 stands for the remaining size."""
        sizes = list(shape)
        if -1 in sizes:
            known = math.prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = value.size // known if known else 0
        if isinstance(value, Splat):
            return Splat(value.value, tuple(sizes), value.dtype)
        if (view := value.reshaped(sizes)) is not None:
            return view
        packed = self.temporary(value.shape, self.dtype_of(value))
        self.copied_into(value, packed)
        return cast(View, packed.reshaped(sizes))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast the value to `shape`; -1 keeps a dimension."""
        missing = len(shape) - len(value.shape)
        sizes = tuple(value.shape[i - missing] if size == -1 else size for i, size in enumerate(shape))
        return Splat(value.value, sizes, value.dtype) if isinstance(value, Splat) else value.broadcast(sizes)

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """Return the value with its dimensions in another order."""
        order = [i % len(value.shape) for i in order]
        if isinstance(value, Splat):
            return Splat(value.value, tuple(value.shape[i] for i in order), value.dtype)
        return value.permute(order)

    def concatenate(self, values: Sequence[Value], axis: int) -> View:
        """Concatenate the values along `axis`."""
        values = [value for value in values if value.shape != (0,)]
        axis %= len(values[0].shape)
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        signs = tuple(number_key(value.value) for value in values if isinstance(value, Splat))
        key = ("concatenate", tuple(values), signs, axis)
        if key not in self._output_of:
            whole = self.temporary(shape, self.dtype_of(values[0]))
            start = 0
            for value in values:
                self.copied_into(value, whole.sliced(axis, start, start + value.shape[axis]))
                start += value.shape[axis]
            self._output_of[key] = (whole,)
        return self._output_of[key][0]

    def reduce(self, op: str, value: Value, axes: Iterable[int], keepdim: bool, dtype: str) -> Value:
        """Return the sum, maximum or minimum of a value over some dimensions.

        Args:
            op: "sum", "max" or "min".
            axes: the dimensions; empty for all.
            keepdim: whether the reduced dimensions stay, with size 1.
        """
        axes = sorted({axis % max(1, len(value.shape)) for axis in axes}) or list(range(len(value.shape)))
        shape = tuple(
            1 if i in axes else size for i, size in enumerate(value.shape) if keepdim or i not in axes
        )
        value = self.cast(value, dtype)
        if isinstance(value, Splat):
            count = math.prod(value.shape[i] for i in axes) if op == "sum" else 1
            return Splat(value.value * count, shape, dtype)
        real_axes = [i for i in axes if value.shape[i] != 1]
        if not real_axes:
            return self.reshape(value, shape)
        kept_axes = [i for i, size in enumerate(value.shape) if size != 1]
        squeezed = value.permute(kept_axes)
        positions = tuple(kept_axes.index(i) for i in real_axes)
        inner = tuple(size for i, size in enumerate(squeezed.shape) if i not in positions)
        return self.reshape(self.emit("reduce", [squeezed], inner, dtype, op=op, axes=positions), shape)

    def matmul(self, a: Value, b: Value) -> View:
        """Return the product of two matrices, (M, K) and (K, N), or of batches of them, (B, M, K) and (B, K, N)."""
        operands = []
        for value in (self.materialised(a), self.materialised(b)):
            strides = [s for s, size in zip(value.strides[-2:], value.shape[-2:], strict=True) if size != 1]
            if 0 in strides or (strides and 1 not in strides):
                packed = self.temporary(value.shape, self.dtype_of(value))
                self.copied_into(value, packed)
                value = packed
            operands.append(value)
        shape = (*operands[0].shape[:-1], operands[1].shape[-1])
        return self.emit("matmul", operands, shape, self.dtype_of(operands[0]))
