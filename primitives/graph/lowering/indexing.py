"""Rules that lower ATen operations on indices, such as `gather` and `scatter_add`, to the step graph."""

from collections.abc import Sequence
from typing import Any

from placerl.primitives.graph.graph import UnsupportedOperationError, View
from placerl.primitives.graph.lowering.builder import Builder, Number, Splat, Value
from placerl.primitives.graph.lowering.rules import rule


def _first(value: Value, sizes: Sequence[int]) -> Value:
    """Return the first elements of a value, `sizes` along its dimensions."""
    if isinstance(value, Splat):
        return Splat(value.value, tuple(sizes), value.dtype)
    for axis, size in enumerate(sizes):
        value = value.sliced(axis, 0, size)
    return value


@rule("gather")
def _gather(b: Builder, dtype: str, x: Value, axis: int, index: Value, sparse_grad: bool = False) -> Value:
    axis %= len(x.shape)
    read = _first(x, (*index.shape[:axis], x.shape[axis], *index.shape[axis + 1 :]))
    return b.emit("gather", [read, index], index.shape, dtype, axis=axis)


@rule("scatter_add")
def _scatter_add(b: Builder, dtype: str, x: Value, axis: int, index: Value, source: Value) -> Value:
    added = _first(source, index.shape)
    return b.emit("scatter_add", [x, index, added], x.shape, dtype, axis=axis % len(x.shape))


@rule("scatter")
def _scatter(
    b: Builder, dtype: str, x: Value, axis: int, index: Value, source: Value | Number, reduce: str = "add"
) -> Value:
    if reduce != "add":
        raise UnsupportedOperationError(f"reduce {reduce!r}")
    axis %= len(x.shape)
    if not (isinstance(x, Splat) and x.value == 0 and index.shape[axis] == 1):
        raise UnsupportedOperationError("only one element a row, into zeros")
    if not isinstance(source, View | Splat):
        source = Splat(source, index.shape, dtype)
    return _scatter_add(b, dtype, x, axis, index, source)


@rule("index_select")
def _index_select(b: Builder, dtype: str, x: Value, axis: int, index: Value) -> Value:
    axis %= len(x.shape)
    return b.emit("take", [x, index], (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), dtype, axis=axis)


@rule("index")
def _index(b: Builder, dtype: str, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1 or len(given[0][1].shape) != 1 or b.dtype_of(given[0][1]) == "bool":
        raise UnsupportedOperationError("indexing by one integer vector only; gather does the rest")
    return _index_select(b, dtype, x, *given[0])


@rule("index_put", "_unsafe_index_put")
def _index_put(
    b: Builder, dtype: str, x: Value, indices: Sequence[Value | None], source: Value, accumulate: bool = False
) -> Value:
    if not accumulate or len(indices) != 1 or indices[0] is None or len(indices[0].shape) != 1:
        raise UnsupportedOperationError("only to accumulate at one integer vector")
    shape = (indices[0].shape[0], *x.shape[1:])
    index = b.reshape(indices[0], (shape[0], *[1] * (len(shape) - 1)))
    return _scatter_add(b, dtype, x, 0, b.expand(index, shape), b.expand(source, shape))


@rule("embedding")
def _embedding(b: Builder, dtype: str, table: Value, index: Value, *_args: Any) -> Value:
    rows = _index_select(b, dtype, table, 0, b.reshape(index, (index.size,)))
    return b.reshape(rows, (*index.shape, table.shape[1]))
