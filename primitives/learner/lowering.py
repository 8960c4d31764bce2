"""From core ATen operations to the nodes of the step graph: one small rule an operation."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from primitives.learner.graph import (
    COMPARISONS,
    ITEM_BYTES,
    Buffer,
    Instruction,
    Node,
    UnsupportedOperationError,
    View,
    contiguous_strides,
)
from primitives.learner.reference_backend import apply_instruction

Number = float | int | bool


@dataclass(frozen=True)
class Splat:
    """One number in a whole tensor; it becomes a constant of the programs that use it."""

    value: Number
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Value = View | Splat


def dtype_name(dtype: torch.dtype) -> str:
    """The graph's name of a PyTorch dtype.

    Raises:
        UnsupportedOperationError: the graph has no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_BYTES:
        raise UnsupportedOperationError(f"dtype {name}: the step graph has {', '.join(ITEM_BYTES)}")
    return name


class Builder:
    """Appends nodes in single assignment: every buffer is written before it is read, and never again.

    Equal nodes are made once (common-subexpression elimination by hash-consing).
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.nodes: list[Node] = []
        self.source = ""
        self._made: dict[Any, tuple[View, ...]] = {}

    def dtype_of(self, value: Value) -> str:
        """The value's dtype."""
        return value.dtype if isinstance(value, Splat) else self.buffers[value.buffer].dtype

    def add_buffer(self, buffer: Buffer) -> View:
        """A new buffer, as a view of the whole of it."""
        self.buffers.append(buffer)
        return View(len(self.buffers) - 1, buffer.shape, contiguous_strides(buffer.shape))

    def temporary(self, shape: Sequence[int], dtype: str) -> View:
        """A new temporary."""
        return self.add_buffer(Buffer(f"t{len(self.buffers)}", tuple(shape), dtype, "temporary"))

    def constant(self, values: np.ndarray[Any, Any]) -> View:
        """A fixed tensor."""
        flat = tuple(values.ravel().tolist())
        name = f"constant{len(self.buffers)}"
        return self.add_buffer(Buffer(name, values.shape, str(values.dtype), "constant", flat))

    def emit(
        self, kind: str, inputs: Sequence[Value], shape: Sequence[int], dtype: str, **attributes: Any
    ) -> View:
        """A node with one new output of `shape`."""
        views = tuple(self.materialised(value) for value in inputs)
        key = (kind, views, tuple(shape), dtype, tuple(sorted(attributes.items())))
        if key not in self._made:
            output = self.temporary(shape, dtype)
            self.nodes.append(Node(kind, views, (output,), attributes=attributes, source=self.source))
            self._made[key] = (output,)
        return self._made[key][0]

    def materialised(self, value: Value) -> View:
        """The value as a view of a buffer."""
        if isinstance(value, View):
            return value
        return self._elementwise(
            (Instruction("constant", (), value.dtype, value.value),), (), value.shape, value.dtype
        )

    def cast(self, value: Value, dtype: str) -> Value:
        """The value converted to `dtype`."""
        return value if self.dtype_of(value) == dtype else self.apply("copy", [value], dtype)

    def apply(self, op: str, operands: Sequence[Value | Number], dtype: str) -> Value:
        """One scalar operation on operands that broadcast; `dtype` is that of the result."""
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
        """What the operands are converted to first; None leaves them as they are."""
        if op == "copy":
            return None
        if op.startswith("logical"):
            return "bool"
        if op not in COMPARISONS:
            return dtype
        tensors = [o for o in operands if isinstance(o, View | Splat)]
        ranked = [o for o in tensors if len(o.shape) > 0] or tensors
        common = np.result_type(*(self.dtype_of(o) for o in ranked))
        has_float_number = any(isinstance(o, float) for o in operands)
        return "float32" if has_float_number and common.kind in "iub" else str(common)

    def _identity(self, op: str, values: list[Value], shape: tuple[int, ...], dtype: str) -> Value | None:
        """The operand itself where the operation changes nothing (x * 1, x + 0, ...), else None."""
        if op == "copy" and self.dtype_of(values[0]) == dtype:
            return values[0]
        neutral = {"mul": 1, "div": 1, "add": 0, "sub": 0, "pow": 1}.get(op)
        if neutral is None:
            return None
        pairs = [(values[0], values[1])]
        if op in ("mul", "add"):
            pairs.append((values[1], values[0]))
        for kept, other in pairs:
            if isinstance(other, Splat) and other.value == neutral and kept.shape == shape:
                return kept
        return None

    def _elementwise(
        self, program: tuple[Instruction, ...], views: tuple[View, ...], shape: tuple[int, ...], dtype: str
    ) -> View:
        """A node over `shape`, without its dimensions of size 1, in the memory order of its first full operand."""
        kept = [i for i, size in enumerate(shape) if size != 1]
        inner_shape = tuple(shape[i] for i in kept)
        inputs = [view.broadcast(shape).permute(kept) for view in views]
        order = list(range(len(kept)))
        for view in inputs:
            if 0 not in view.strides:
                order = sorted(order, key=lambda i, v=view: -v.strides[i])  # type: ignore[misc]
                break
        inputs = [view.permute(order) for view in inputs]
        ordered_shape = tuple(inner_shape[i] for i in order)
        key = (program, tuple(inputs), ordered_shape)
        if key not in self._made:
            output = self.temporary(ordered_shape, dtype)
            result = len(inputs) + len(program) - 1
            self.nodes.append(
                Node("elementwise", tuple(inputs), (output,), program, (result,), source=self.source)
            )
            self._made[key] = (output,)
        output = self._made[key][0]
        inverse = [order.index(i) for i in range(len(order))]
        plain = output.permute(inverse)
        strides = [1] * len(shape)
        for position, axis in enumerate(kept):
            strides[axis] = plain.strides[position]
        return View(plain.buffer, tuple(shape), tuple(strides), plain.offset)

    def copied_into(self, value: Value, target: View) -> None:
        """A node that copies the value to a part of an unfinished buffer."""
        kept = [i for i, size in enumerate(target.shape) if size != 1]
        destination, dtype = target.permute(kept), self.dtype_of(target)
        inputs = () if isinstance(value, Splat) else (value.permute(kept),)
        program = (
            Instruction("constant", (), dtype, value.value)
            if isinstance(value, Splat)
            else Instruction("copy", (0,), dtype),
        )
        result = (len(inputs) + len(program) - 1,)
        self.nodes.append(Node("elementwise", inputs, (destination,), program, result, source=self.source))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The value in another shape of the same size; -1 stands for what remains."""
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
        """The value broadcast to `shape`; -1 keeps a dimension."""
        missing = len(shape) - len(value.shape)
        sizes = tuple(value.shape[i - missing] if size == -1 else size for i, size in enumerate(shape))
        return Splat(value.value, sizes, value.dtype) if isinstance(value, Splat) else value.broadcast(sizes)

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """The value with its dimensions in another order."""
        order = [i % len(value.shape) for i in order]
        if isinstance(value, Splat):
            return Splat(value.value, tuple(value.shape[i] for i in order), value.dtype)
        return value.permute(order)

    def concatenate(self, values: Sequence[Value], axis: int) -> View:
        """The values side by side along `axis`."""
        values = [value for value in values if value.shape != (0,)]
        axis %= len(values[0].shape)
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        key = ("concatenate", tuple(values), axis)
        if key not in self._made:
            whole = self.temporary(shape, self.dtype_of(values[0]))
            start = 0
            for value in values:
                self.copied_into(value, whole.sliced(axis, start, start + value.shape[axis]))
                start += value.shape[axis]
            self._made[key] = (whole,)
        return self._made[key][0]

    def reduce(self, op: str, value: Value, axes: Iterable[int], keepdim: bool, dtype: str) -> Value:
        """Sum, maximum or minimum over `axes` (none: over all)."""
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
        kept = [i for i, size in enumerate(value.shape) if size != 1]
        squeezed = value.permute(kept)
        positions = tuple(kept.index(i) for i in real_axes)
        inner = tuple(size for i, size in enumerate(squeezed.shape) if i not in positions)
        return self.reshape(self.emit("reduce", [squeezed], inner, dtype, op=op, axes=positions), shape)

    def matmul(self, a: Value, b: Value) -> View:
        """The matrix product, of two or, with a leading batch, three dimensions."""
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


Rule = Callable[..., Any]
_RULES: dict[str, Rule] = {}
_STORAGE_ARGUMENTS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"})


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def supported_operations() -> list[str]:
    """ATen operations that the step graph can express, by name."""
    return sorted(_RULES)


def lower(builder: Builder, name: str, dtype: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Add one ATen operation.

    Args:
        builder: gets the nodes.
        name: the operation without namespace and overload, as `addmm`.
        dtype: of its (first) result.
        args, kwargs: as in the call, with tensors as `Value`.

    Raises:
        UnsupportedOperationError: the graph cannot express it.
    """
    if name not in _RULES:
        raise UnsupportedOperationError("no graph backend has it")
    # The result's dtype is known; where and how PyTorch would store it does not matter here.
    own = {key: value for key, value in kwargs.items() if key not in _STORAGE_ARGUMENTS}
    return _RULES[name](builder, dtype, *args, **own)


# ---------------------------------------------------------------------------------------------- element-wise


def _scalar_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, *operands: Value | Number, alpha: Number = 1, **_: Any) -> Value:
        if alpha != 1:
            operands = (operands[0], b.apply("mul", [cast(Value, operands[1]), alpha], dtype))
        return b.apply(op, operands, dtype)

    return rule


_SAME_NAME = (
    *("neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos"),
    *("tanh", "sigmoid", "erf", "floor", "ceil", "round", "logical_not", "add", "sub", "mul", "maximum"),
    *("minimum", "remainder", "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"),
)
for _name in _SAME_NAME:
    _RULES[_name] = _scalar_rule(_name)
_RULES["sgn"] = _RULES["sign"]


@_rule("bitwise_not", "bitwise_and", "bitwise_or")
def _bitwise(b: Builder, dtype: str, *operands: Value) -> Value:
    if dtype != "bool":
        raise UnsupportedOperationError("bit operations are for bool only")
    return b.apply("logical_" + ("not", "and")[len(operands) - 1], operands, dtype)


_RULES["bitwise_or"] = _scalar_rule("logical_or")


@_rule("where")
def _where(b: Builder, dtype: str, condition: Value, a: Value | Number, other: Value | Number) -> Value:
    return b.apply("where", [condition, a, other], dtype)


@_rule("isnan")
def _isnan(b: Builder, dtype: str, x: Value) -> Value:
    return b.apply("ne", [x, x], dtype)


@_rule("rsub")
def _rsub(b: Builder, dtype: str, x: Value, y: Value | Number, alpha: Number = 1) -> Value:
    return b.apply("sub", [y, b.apply("mul", [x, alpha], dtype)], dtype)


@_rule("div")
def _div(b: Builder, dtype: str, x: Value, y: Value | Number, rounding_mode: str | None = None) -> Value:
    quotient = b.apply("div", [x, y], dtype)
    match rounding_mode:
        case None:
            return quotient
        case "floor":
            return b.apply("floor", [quotient], dtype)
    raise UnsupportedOperationError(f"rounding_mode {rounding_mode!r}")


@_rule("pow")
def _pow(b: Builder, dtype: str, x: Value | Number, exponent: Value | Number) -> Value:
    known = exponent.value if isinstance(exponent, Splat) else exponent
    if isinstance(x, View) and isinstance(known, float | int):
        if known == 2:
            return b.apply("mul", [x, x], dtype)
        if known == 0.5:
            return b.apply("sqrt", [x], dtype)
        if known == -1:
            return b.apply("reciprocal", [x], dtype)
    return b.apply("pow", [x, exponent], dtype)


@_rule("relu")
def _relu(b: Builder, dtype: str, x: Value) -> Value:
    return b.apply("maximum", [x, 0], dtype)


@_rule("leaky_relu")
def _leaky_relu(b: Builder, dtype: str, x: Value, slope: float = 0.01) -> Value:
    positive = b.apply("gt", [x, 0], "bool")
    return b.apply("where", [positive, x, b.apply("mul", [x, slope], dtype)], dtype)


@_rule("elu")
def _elu(
    b: Builder, dtype: str, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Value:
    negative = b.apply(
        "mul", [b.apply("expm1", [b.apply("mul", [x, input_scale], dtype)], dtype), alpha], dtype
    )
    chosen = b.apply("where", [b.apply("gt", [x, 0], "bool"), x, negative], dtype)
    return b.apply("mul", [chosen, scale], dtype)


@_rule("gelu")
def _gelu(b: Builder, dtype: str, x: Value, approximate: str = "none") -> Value:
    if approximate != "none":
        raise UnsupportedOperationError(f"approximate {approximate!r}")
    half = b.apply("mul", [x, 0.5], dtype)
    tail = b.apply("erf", [b.apply("mul", [x, math.sqrt(0.5)], dtype)], dtype)
    return b.apply("mul", [half, b.apply("add", [tail, 1.0], dtype)], dtype)


@_rule("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(
    b: Builder, dtype: str, x: Value, min: Value | Number | None = None, max: Value | Number | None = None
) -> Value:
    for op, bound in (("maximum", min), ("minimum", max)):
        x = x if bound is None else b.apply(op, [x, bound], dtype)
    return x


_RULES["clamp_max"] = _scalar_rule("minimum")


@_rule("_to_copy", "clone", "detach", "alias", "lift_fresh_copy", "lift_fresh", "convert_element_type")
def _convert(b: Builder, dtype: str, x: Value, *_args: Any, **_kwargs: Any) -> Value:
    return b.cast(x, dtype)


# --------------------------------------------------------------------------------------------------- creation


@_rule("full")
def _full(b: Builder, dtype: str, shape: Sequence[int], value: Number, **_: Any) -> Splat:
    return Splat(value, tuple(shape), dtype)


@_rule("full_like")
def _full_like(b: Builder, dtype: str, x: Value, value: Number, **_: Any) -> Splat:
    return Splat(value, x.shape, dtype)


@_rule("scalar_tensor")
def _scalar_tensor(b: Builder, dtype: str, value: Number, **_: Any) -> Splat:
    return Splat(value, (), dtype)


def _fill_rules(name: str, value: Number) -> None:
    _RULES[name] = lambda b, dtype, shape, **_: Splat(value, tuple(shape), dtype)
    _RULES[name + "_like"] = lambda b, dtype, x, **_: Splat(value, x.shape, dtype)
    _RULES["new_" + name] = lambda b, dtype, x, shape, **_: Splat(value, tuple(shape), dtype)


for _name, _fill in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _fill_rules(_name, _fill)
_RULES["empty_permuted"] = lambda b, dtype, shape, _order, **_: Splat(0, tuple(shape), dtype)
_RULES["new_full"] = lambda b, dtype, x, shape, value, **_: Splat(value, tuple(shape), dtype)


@_rule("arange")
def _arange(b: Builder, dtype: str, *bounds: Number, **_: Any) -> View:
    return b.constant(np.arange(*bounds, dtype=dtype))


# ------------------------------------------------------------------------------------------------------ views


@_rule("view", "reshape", "_unsafe_view")
def _reshape(b: Builder, dtype: str, x: Value, shape: Sequence[int]) -> Value:
    return b.reshape(x, shape)


@_rule("permute")
def _permute(b: Builder, dtype: str, x: Value, order: Sequence[int]) -> Value:
    return b.permute(x, order)


@_rule("t")
def _t(b: Builder, dtype: str, x: Value) -> Value:
    return b.permute(x, tuple(reversed(range(len(x.shape)))))


@_rule("transpose")
def _transpose(b: Builder, dtype: str, x: Value, i: int, j: int) -> Value:
    order = list(range(len(x.shape)))
    order[i], order[j] = order[j], order[i]
    return b.permute(x, order)


@_rule("expand")
def _expand(b: Builder, dtype: str, x: Value, shape: Sequence[int], **_: Any) -> Value:
    return b.expand(x, shape)


@_rule("unsqueeze")
def _unsqueeze(b: Builder, dtype: str, x: Value, axis: int) -> Value:
    axis %= len(x.shape) + 1
    return b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@_rule("squeeze")
def _squeeze(b: Builder, dtype: str, x: Value, axes: int | Sequence[int] | None = None) -> Value:
    chosen = range(len(x.shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    dropped = {axis % max(1, len(x.shape)) for axis in chosen}
    return b.reshape(x, [size for i, size in enumerate(x.shape) if i not in dropped or size != 1])


def _sliced(value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    if isinstance(value, View):
        return value.sliced(axis, start, stop, step)
    size = max(0, -(-(stop - start) // step))
    return Splat(value.value, (*value.shape[:axis], size, *value.shape[axis + 1 :]), value.dtype)


def _bounds(size: int, start: int | None, stop: int | None) -> tuple[int, int]:
    first, last, _ = slice(start, stop).indices(size)
    return first, max(first, last)


@_rule("slice")
def _slice(
    b: Builder, dtype: str, x: Value, axis: int = 0, start: int | None = None, stop: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    axis %= len(x.shape)
    return _sliced(x, axis, *_bounds(x.shape[axis], start, stop), step)


@_rule("select")
def _select(b: Builder, dtype: str, x: Value, axis: int, index: int) -> Value:
    axis, index = axis % len(x.shape), index % x.shape[axis]
    return b.reshape(_sliced(x, axis, index, index + 1), x.shape[:axis] + x.shape[axis + 1 :])


@_rule("split_with_sizes", "split")
def _split(b: Builder, dtype: str, x: Value, sizes: int | Sequence[int], axis: int = 0) -> list[Value]:
    axis %= len(x.shape)
    if isinstance(sizes, int):
        whole, rest = divmod(x.shape[axis], sizes)
        sizes = [sizes] * whole + [rest] * (rest > 0)
    stops = np.cumsum(sizes).tolist()
    return [_sliced(x, axis, stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


@_rule("unbind")
def _unbind(b: Builder, dtype: str, x: Value, axis: int = 0) -> list[Value]:
    return [_select(b, dtype, x, axis, i) for i in range(x.shape[axis])]


@_rule("cat")
def _cat(b: Builder, dtype: str, values: Sequence[Value], axis: int = 0) -> View:
    return b.concatenate([b.cast(value, dtype) for value in values], axis)


@_rule("slice_scatter")
def _slice_scatter(
    b: Builder, dtype: str, x: Value, source: Value, axis: int = 0, start: int | None = None,
    stop: int | None = None, step: int = 1,
) -> Value:  # fmt: skip
    if step != 1:
        raise UnsupportedOperationError(f"step {step}; the graph has step 1 only")
    axis %= len(x.shape)
    first, last = _bounds(x.shape[axis], start, stop)
    pieces = [_sliced(x, axis, 0, first), source, _sliced(x, axis, last, x.shape[axis])]
    return b.concatenate([piece for piece in pieces if piece.shape[axis]], axis)


@_rule("select_scatter")
def _select_scatter(b: Builder, dtype: str, x: Value, source: Value, axis: int, index: int) -> Value:
    axis, index = axis % len(x.shape), index % x.shape[axis]
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _slice_scatter(b, dtype, x, b.reshape(source, shape), axis, index, index + 1)


@_rule("constant_pad_nd")
def _pad(b: Builder, dtype: str, x: Value, padding: Sequence[int], value: Number = 0) -> Value:
    for i in range(len(padding) // 2):
        axis = len(x.shape) - 1 - i
        before, after = padding[2 * i : 2 * i + 2]
        if before < 0 or after < 0:
            size = x.shape[axis]
            x = _sliced(x, axis, max(0, -before), size - max(0, -after))
        sizes = [(*x.shape[:axis], max(0, n), *x.shape[axis + 1 :]) for n in (before, after)]
        pieces = [Splat(value, sizes[0], dtype), x, Splat(value, sizes[1], dtype)]
        x = b.concatenate([piece for piece in pieces if piece.shape[axis]], axis)
    return x


# ------------------------------------------------------------------------------------------------- reductions


def _axes(axes: int | Sequence[int] | None) -> Sequence[int]:
    return () if axes is None else (axes,) if isinstance(axes, int) else axes


@_rule("sum")
def _sum(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, keepdim: bool = False, **_: Any
) -> Value:
    return b.reduce("sum", x, _axes(axes), keepdim, dtype)


@_rule("mean")
def _mean(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, keepdim: bool = False, **_: Any
) -> Value:
    total = b.reduce("sum", x, _axes(axes), keepdim, dtype)
    return b.apply("div", [total, x.size // max(1, total.size)], dtype)


@_rule("var")
def _var(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, correction: Number | None = 1,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    deviation = b.apply("sub", [x, _mean(b, dtype, x, axes, True)], dtype)
    total = b.reduce("sum", b.apply("mul", [deviation, deviation], dtype), _axes(axes), keepdim, dtype)
    count = x.size // max(1, total.size) - (1 if correction is None else correction)
    return b.apply("div", [total, count], dtype)


@_rule("var_mean")
def _var_mean(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, correction: Number | None = 1,
    keepdim: bool = False,
) -> list[Value]:  # fmt: skip
    return [_var(b, dtype, x, axes, correction, keepdim), _mean(b, dtype, x, axes, keepdim)]


@_rule("linalg_vector_norm")
def _vector_norm(
    b: Builder, dtype: str, x: Value, order: Number = 2, axes: Sequence[int] | None = None,
    keepdim: bool = False, **_: Any,
) -> Value:  # fmt: skip
    if order != 2:
        raise UnsupportedOperationError(f"norm of order {order}; the graph has order 2 only")
    total = b.reduce("sum", b.apply("mul", [x, x], dtype), _axes(axes), keepdim, dtype)
    return b.apply("sqrt", [total], dtype)


def _extreme_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axes: Any = None, keepdim: bool = False) -> Any:
        return b.reduce(op, x, _axes(axes), keepdim, dtype)

    return rule


_RULES["amax"], _RULES["amin"] = _extreme_rule("max"), _extreme_rule("min")


def _any_all_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axes: Any = None, keepdim: bool = False) -> Value:
        reduced = b.reduce(op, b.cast(b.cast(x, "bool"), "float32"), _axes(axes), keepdim, "float32")
        return b.apply("ne", [reduced, 0.0], "bool")

    return rule


_RULES["any"], _RULES["all"] = _any_all_rule("max"), _any_all_rule("min")


def _argument_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axis: int | None = None, keepdim: bool = False) -> Value:
        if axis is None:
            x, axis = b.reshape(x, (x.size,)), 0
        axis %= len(x.shape)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        found = b.emit("argreduce", [x], shape, "int64", op=op, axis=axis)
        return b.reshape(found, (*shape[:axis], *([1] * keepdim), *shape[axis:]))

    return rule


_RULES["argmax"], _RULES["argmin"] = _argument_rule("max"), _argument_rule("min")


def _extreme_with_position_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axis: int | None = None, keepdim: bool = False) -> Any:
        if axis is None:
            return b.reduce(op, x, (), False, dtype)
        position = _RULES["arg" + op](b, "int64", x, axis, keepdim)
        return [b.reduce(op, x, (axis,), keepdim, dtype), position]

    return rule


_RULES["max"], _RULES["min"] = _extreme_with_position_rule("max"), _extreme_with_position_rule("min")


@_rule("_log_softmax")
def _log_softmax(b: Builder, dtype: str, x: Value, axis: int, _half: bool = False) -> Value:
    shifted = b.apply("sub", [x, b.reduce("max", x, (axis,), True, dtype)], dtype)
    total = b.reduce("sum", b.apply("exp", [shifted], dtype), (axis,), True, dtype)
    return b.apply("sub", [shifted, b.apply("log", [total], dtype)], dtype)


@_rule("_softmax")
def _softmax(b: Builder, dtype: str, x: Value, axis: int, _half: bool = False) -> Value:
    shifted = b.apply("sub", [x, b.reduce("max", x, (axis,), True, dtype)], dtype)
    exponential = b.apply("exp", [shifted], dtype)
    return b.apply("div", [exponential, b.reduce("sum", exponential, (axis,), True, dtype)], dtype)


# ------------------------------------------------------------------------------------------ gathers, scatters


@_rule("gather")
def _gather(b: Builder, dtype: str, x: Value, axis: int, index: Value, **_: Any) -> Value:
    return b.emit("gather", [x, index], index.shape, dtype, axis=axis % len(x.shape))


@_rule("scatter_add")
def _scatter_add(b: Builder, dtype: str, x: Value, axis: int, index: Value, source: Value) -> Value:
    return b.emit("scatter_add", [x, index, source], x.shape, dtype, axis=axis % len(x.shape))


@_rule("scatter")
def _scatter(
    b: Builder, dtype: str, x: Value, axis: int, index: Value, source: Value | Number, **_: Any
) -> Value:
    axis %= len(x.shape)
    if not (isinstance(x, Splat) and x.value == 0 and index.shape[axis] == 1):
        raise UnsupportedOperationError("only one element a row, into zeros")
    if not isinstance(source, View | Splat):
        source = Splat(source, index.shape, dtype)
    return _scatter_add(b, dtype, x, axis, index, source)


@_rule("index_select")
def _index_select(b: Builder, dtype: str, x: Value, axis: int, index: Value) -> Value:
    axis %= len(x.shape)
    return b.emit("take", [x, index], (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), dtype, axis=axis)


@_rule("index")
def _index(b: Builder, dtype: str, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1 or len(given[0][1].shape) != 1 or b.dtype_of(given[0][1]) == "bool":
        raise UnsupportedOperationError("indexing by one integer vector only; gather does the rest")
    return _index_select(b, dtype, x, *given[0])


@_rule("index_put", "_unsafe_index_put")
def _index_put(
    b: Builder, dtype: str, x: Value, indices: Sequence[Value | None], source: Value, accumulate: bool = False
) -> Value:
    if not accumulate or len(indices) != 1 or indices[0] is None or len(indices[0].shape) != 1:
        raise UnsupportedOperationError("only to accumulate at one integer vector")
    shape = (indices[0].shape[0], *x.shape[1:])
    index = b.reshape(indices[0], (shape[0], *[1] * (len(shape) - 1)))
    return _scatter_add(b, dtype, x, 0, b.expand(index, shape), b.expand(source, shape))


@_rule("embedding")
def _embedding(b: Builder, dtype: str, table: Value, index: Value, *_args: Any) -> Value:
    rows = _index_select(b, dtype, table, 0, b.reshape(index, (index.size,)))
    return b.reshape(rows, (*index.shape, table.shape[1]))


# -------------------------------------------------------------------------------- matrix products, convolution


@_rule("mm", "bmm")
def _mm(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    return b.matmul(x, y)


@_rule("addmm", "baddbmm")
def _addmm(
    b: Builder, dtype: str, z: Value, x: Value, y: Value, beta: Number = 1, alpha: Number = 1
) -> Value:
    product = b.apply("mul", [b.matmul(x, y), alpha], dtype)
    return b.apply("add", [product, b.apply("mul", [z, beta], dtype)], dtype)


@dataclass(frozen=True)
class _Convolution:
    """The shapes of a plain two-dimensional convolution."""

    kernel: tuple[int, int]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    @staticmethod
    def of(
        weight: Value, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
        transposed: bool, groups: int,
    ) -> "_Convolution":  # fmt: skip
        if len(weight.shape) != 4 or transposed or groups != 1 or set(dilation) != {1}:
            raise UnsupportedOperationError("only two-dimensional convolutions without groups and dilation")
        return _Convolution((weight.shape[2], weight.shape[3]), tuple(stride), tuple(padding))

    def columns(self, b: Builder, x: Value) -> View:
        """The patches of x (B, C, H, W) as a matrix (B OH OW, C KH KW)."""
        batch, channels, *size = x.shape
        out = [(size[i] + 2 * self.padding[i] - self.kernel[i]) // self.stride[i] + 1 for i in range(2)]
        patches = b.emit(
            "im2col", [x], (batch, *out, channels, *self.kernel), b.dtype_of(x), kernel=self.kernel,
            stride=self.stride, padding=self.padding,
        )  # fmt: skip
        return cast(View, patches.reshaped((batch * out[0] * out[1], channels * math.prod(self.kernel))))


def _flat_weight(b: Builder, weight: Value) -> Value:
    return b.reshape(weight, (weight.shape[0], weight.size // weight.shape[0]))


@_rule("convolution")
def _convolution(
    b: Builder, dtype: str, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, _output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    shapes = _Convolution.of(weight, stride, padding, dilation, transposed, groups)
    columns = shapes.columns(b, x)
    product: Value = b.matmul(columns, b.permute(_flat_weight(b, weight), (1, 0)))
    if bias is not None:
        product = b.apply("add", [product, bias], dtype)
    height = (x.shape[2] + 2 * shapes.padding[0] - shapes.kernel[0]) // shapes.stride[0] + 1
    image = b.reshape(product, (x.shape[0], height, -1, weight.shape[0]))
    return b.permute(image, (0, 3, 1, 2))


@_rule("convolution_backward")
def _convolution_backward(
    b: Builder, dtype: str, gradient: Value, x: Value, weight: Value, _bias_sizes: Any, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, _output_padding: Any, groups: int,
    wanted: Sequence[bool],
) -> list[Value | None]:  # fmt: skip
    shapes = _Convolution.of(weight, stride, padding, dilation, transposed, groups)
    channels_last = b.permute(gradient, (0, 2, 3, 1))
    rows = b.reshape(channels_last, (-1, weight.shape[0]))
    results: list[Value | None] = [None, None, None]
    if wanted[0]:
        patches = b.matmul(rows, _flat_weight(b, weight))
        shape = (*channels_last.shape[:3], *weight.shape[1:])
        results[0] = b.emit(
            "col2im", [b.reshape(patches, shape)], x.shape, dtype, kernel=shapes.kernel,
            stride=shapes.stride, padding=shapes.padding,
        )  # fmt: skip
    if wanted[1]:
        product = b.matmul(b.permute(rows, (1, 0)), shapes.columns(b, x))
        results[1] = b.reshape(product, weight.shape)
    if wanted[2]:
        results[2] = b.reduce("sum", rows, (0,), False, dtype)
    return results
