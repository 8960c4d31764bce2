"""Rules that lower ATen views, and operations that join and split tensors, to the step graph."""

from collections.abc import Sequence

import numpy as np

from placerl.primitives.graph.graph import UnsupportedOperationError, View
from placerl.primitives.graph.lowering.builder import Builder, Number, Splat, Value
from placerl.primitives.graph.lowering.rules import rule


@rule("view", "reshape", "_unsafe_view")
def _reshape(b: Builder, dtype: str, x: Value, shape: Sequence[int]) -> Value:
    return b.reshape(x, shape)


@rule("permute")
def _permute(b: Builder, dtype: str, x: Value, order: Sequence[int]) -> Value:
    return b.permute(x, order)


@rule("t")
def _t(b: Builder, dtype: str, x: Value) -> Value:
    return b.permute(x, tuple(reversed(range(len(x.shape)))))


@rule("transpose")
def _transpose(b: Builder, dtype: str, x: Value, i: int, j: int) -> Value:
    order = list(range(len(x.shape)))
    order[i], order[j] = order[j], order[i]
    return b.permute(x, order)


@rule("expand")
def _expand(b: Builder, dtype: str, x: Value, shape: Sequence[int], implicit: bool = False) -> Value:
    return b.expand(x, shape)


@rule("unsqueeze")
def _unsqueeze(b: Builder, dtype: str, x: Value, axis: int) -> Value:
    axis %= len(x.shape) + 1
    return b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@rule("squeeze")
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


@rule("slice")
def _slice(
    b: Builder, dtype: str, x: Value, axis: int = 0, start: int | None = None, stop: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    axis %= len(x.shape)
    return _sliced(x, axis, *_bounds(x.shape[axis], start, stop), step)


@rule("select")
def _select(b: Builder, dtype: str, x: Value, axis: int, index: int) -> Value:
    axis, index = axis % len(x.shape), index % x.shape[axis]
    return b.reshape(_sliced(x, axis, index, index + 1), x.shape[:axis] + x.shape[axis + 1 :])


@rule("split_with_sizes", "split")
def _split(b: Builder, dtype: str, x: Value, sizes: int | Sequence[int], axis: int = 0) -> list[Value]:
    axis %= len(x.shape)
    if isinstance(sizes, int):
        whole, rest = divmod(x.shape[axis], sizes)
        sizes = [sizes] * whole + [rest] * (rest > 0)
    stops = np.cumsum(sizes).tolist()
    return [_sliced(x, axis, stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


@rule("unbind")
def _unbind(b: Builder, dtype: str, x: Value, axis: int = 0) -> list[Value]:
    return [_select(b, dtype, x, axis, i) for i in range(x.shape[axis])]


@rule("cat")
def _cat(b: Builder, dtype: str, values: Sequence[Value], axis: int = 0) -> View:
    return b.concatenate([b.cast(value, dtype) for value in values], axis)


@rule("slice_scatter")
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


@rule("select_scatter")
def _select_scatter(b: Builder, dtype: str, x: Value, source: Value, axis: int, index: int) -> Value:
    axis, index = axis % len(x.shape), index % x.shape[axis]
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _slice_scatter(b, dtype, x, b.reshape(source, shape), axis, index, index + 1)


@rule("constant_pad_nd")
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
