"""The step graph: one gradient step as a small static graph that every graph backend executes.

A `Graph` is a list of buffers and an ordered list of nodes. Everything is static: shapes, dtypes, the order of
execution, and (through `plan`) the place of every buffer in one arena, so that a backend allocates nothing while
it runs. A backend executes `graph.nodes` in order; there is no control flow.

Buffers (`Buffer.kind`):

| kind | holds | life |
|---|---|---|
| `state` | a leaf of the learner's state (a weight, a moment, a target) | across steps; **updated in place** |
| `input` | a leaf of the batch or of the random draws | written by the caller before each step |
| `constant` | a fixed tensor, its values in `Buffer.values` | across steps |
| `temporary` | anything else | from its first write to its last read |

In-place state: a node that writes to a `state` buffer replaces the old value; the order of the nodes puts every
reader of the old value before it, and every reader of the new value after it.

Nodes read and write `View`s: a buffer with a shape, strides and an offset in elements. Transposes, slices,
broadcasts (stride 0) and reshapes are views and cost nothing. Node kinds (`Node.kind`; A, B, C ... are the views in
`Node.inputs` and `Node.outputs`, in order):

| kind | inputs -> outputs | attributes | meaning |
|---|---|---|---|
| `elementwise` | any -> any, all of one shape | | `Node.program` for every element, see `Instruction` |
| `matmul` | A (M, K), B (K, N) -> C (M, N) | | C = A B; or with one leading batch dimension on all three |
| `reduce` | X -> Y | `op` in sum, max, min; `axes` | Y has X's shape without `axes` |
| `argreduce` | X -> Y integer | `op` in max, min; `axis` | position of the first extreme along `axis` |
| `gather` | X, I -> Y | `axis` | Y[i, j, ..] = X[i, I[i, j, ..], ..]; I's and Y's shape is X's but along `axis` |
| `scatter_add` | X, I, S -> Y | `axis` | Y = X; Y[i, I[i, j, ..], ..] += S[i, j, ..] (`torch.scatter_add`) |
| `take` | X, I -> Y | `axis` | Y[.., i, ..] = X[.., I[i], ..]; I has one dimension |
| `im2col` | X (B, C, H, W) -> Y (B, OH, OW, C, KH, KW) | `kernel`, `stride`, `padding` | patches, zero outside X |
| `col2im` | X (B, OH, OW, C, KH, KW) -> Y (B, C, H, W) | `kernel`, `stride`, `padding` | `im2col`'s adjoint |
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import copysign, prod
from typing import Any

ALIGNMENT_BYTES = 64

ITEM_BYTES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1, "uint8": 1}

# Scalar operations of element-wise programs, by arity. Comparisons and logic give bool; `copy` converts to the
# instruction's dtype; `where(c, a, b)` is a where c, else b; `maximum` and `minimum` pass NaN on.
ARITY = {
    "constant": 0,
    **dict.fromkeys(
        (
            *("copy", "neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal"),
            *("sin", "cos", "tanh", "sigmoid", "erf", "floor", "ceil", "round", "logical_not"),
        ),
        1,
    ),
    **dict.fromkeys(
        (
            *("add", "sub", "mul", "div", "pow", "maximum", "minimum", "remainder"),
            *("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"),
        ),
        2,
    ),
    "where": 3,
}
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
NODE_KINDS = frozenset(
    {
        *("elementwise", "matmul", "reduce", "argreduce", "gather", "scatter_add"),
        *("take", "im2col", "col2im"),
    }
)


class UnsupportedOperationError(NotImplementedError):
    """Raised for an operation that no backend, or the chosen one, can execute; the message names its source line."""


@dataclass(frozen=True)
class Buffer:
    """The storage of one tensor.

    Attributes:
        name: unique name; for state and inputs the path in the caller's pytree, such as `state/actor/0.weight`.
        shape: sizes of the dimensions; the elements are row-major, without gaps.
        dtype: one of `ITEM_BYTES`.
        kind: `state`, `input`, `constant` or `temporary`.
        values: a constant's elements, flat; empty otherwise.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    values: tuple[float | int | bool, ...] = ()

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The size of the elements in bytes, without padding."""
        return self.size * ITEM_BYTES[self.dtype]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return row-major strides of `shape`, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def merged_dimensions(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring dimensions of an index space where the strides of every view allow it.

    Args:
        strides: for each view its stride along each dimension.

    Returns:
        The sizes of the merged dimensions, without those of size 1, and for each view its strides along them.
    """
    sizes: list[int] = []
    results: list[list[int]] = [[] for _ in strides]
    for i, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(r[-1] == size * s[i] for r, s in zip(results, strides, strict=True)):
            sizes[-1] *= size
            for r, s in zip(results, strides, strict=True):
                r[-1] = s[i]
        else:
            sizes.append(size)
            for r, s in zip(results, strides, strict=True):
                r.append(s[i])
    return sizes, results


@dataclass(frozen=True)
class View:
    """A strided window on a buffer.

    Attributes:
        buffer: position of the buffer in `Graph.buffers`.
        shape: sizes of the dimensions.
        strides: distance between neighbours along each dimension, in elements.
        offset: position of the first element in the buffer, in elements.
    """

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are row-major without gaps (dimensions of size 1 may have any stride)."""
        expected = contiguous_strides(self.shape)
        return all(
            size == 1 or stride == want
            for size, stride, want in zip(self.shape, self.strides, expected, strict=True)
        )

    def permute(self, order: Sequence[int]) -> "View":
        """Return the view with its dimensions in another order."""
        shape, strides = tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order)
        return replace(self, shape=shape, strides=strides)

    def squeezed(self) -> "View":
        """Return the view without its dimensions of size 1."""
        axes = [i for i, size in enumerate(self.shape) if size != 1]
        return self.permute(axes)

    def broadcast(self, shape: Sequence[int]) -> "View":
        """Expand the view to `shape` by NumPy's rule: repeated dimensions get stride 0.

        Raises:
            ValueError: the shapes do not broadcast.
        """
        missing = len(shape) - len(self.shape)
        own_shape, own_strides = (1,) * missing + self.shape, (0,) * missing + self.strides
        for have, want in zip(own_shape, shape, strict=True):
            if have not in (1, want):
                raise ValueError(f"shape: {self.shape} does not broadcast to {tuple(shape)}")
        strides = tuple(
            0 if have == 1 and want != 1 else stride
            for have, want, stride in zip(own_shape, shape, own_strides, strict=True)
        )
        return replace(self, shape=tuple(shape), strides=strides)

    def sliced(self, axis: int, start: int, stop: int, step: int = 1) -> "View":
        """Return the view of the elements start, start + step, ... below stop along `axis`."""
        size = max(0, -(-(stop - start) // step))
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        strides = (*self.strides[:axis], self.strides[axis] * step, *self.strides[axis + 1 :])
        return View(self.buffer, shape, strides, self.offset + start * self.strides[axis])

    def reshaped(self, shape: Sequence[int]) -> "View | None":
        """Return the view with another shape of the same size, or None if this shape needs a copy."""
        shape = tuple(shape)
        # Groups of dimensions without gaps: (elements, innermost stride), outermost first.
        runs: list[list[int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if runs and runs[-1][1] == size * stride:
                runs[-1] = [runs[-1][0] * size, stride]
            else:
                runs.append([size, stride])
        strides = [1] * len(shape)
        remaining, step = runs.pop() if runs else (1, 1)
        for i in reversed(range(len(shape))):
            if shape[i] == 1:
                continue
            if remaining == 1 and runs:
                remaining, step = runs.pop()
            if remaining % shape[i]:
                return None
            strides[i] = step
            step *= shape[i]
            remaining //= shape[i]
        return View(self.buffer, shape, tuple(strides), self.offset)


def number_key(number: float) -> tuple[float, float]:
    """Return a key for a number by which 0.0 and -0.0, which are equal, are told apart."""
    return number, copysign(1.0, number)


@dataclass(frozen=True)
class Instruction:
    """One scalar operation of an element-wise program.

    Registers are numbered: 0 .. n-1 are the node's n inputs, n + i is the result of instruction i.

    Attributes:
        op: a key of `ARITY`.
        arguments: numbers of the registers read.
        dtype: dtype of the result.
        value: the constant's value; None for every other operation.
    """

    op: str
    arguments: tuple[int, ...]
    dtype: str
    value: float | int | bool | None = None

    @property
    def number(self) -> float:
        """The constant's value as a float; 0 for every other operation."""
        return 0.0 if self.value is None else float(self.value)

    @property
    def key(self) -> Hashable:
        """A key for what the instruction computes: unlike `==`, it tells the constants 0.0 and -0.0 apart."""
        return self, number_key(self.number)


@dataclass(frozen=True)
class Node:
    """One operation of the step graph; the table in the module's docstring explains each kind.

    Attributes:
        kind: the operation, such as `matmul` or `elementwise`.
        inputs, outputs: the views (strided windows on buffers) that the node reads and writes.
        program: instructions of an `elementwise` node, in order.
        results: for an `elementwise` node, the register stored to each output.
        attributes: further parameters of the operation, such as `axes` of `reduce`: strings, integers and tuples
            of integers.
        source: the user's source line, as `file.py:12`; for a fused group, the line of its last operation.
    """

    kind: str
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    program: tuple[Instruction, ...] = ()
    results: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True)
class Graph:
    """One gradient step as a graph: buffers, and nodes that read and write them.

    Attributes:
        buffers: all buffers; `View.buffer` is a position in this list.
        nodes: all nodes (operations), in order of execution.
        outputs: the views of the step's results other than the new state, by name, such as `losses/critic`.
    """

    buffers: tuple[Buffer, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, View]

    def of_kind(self, kind: str) -> Iterator[tuple[int, Buffer]]:
        """Yield (position, buffer) for each buffer of one kind, in order.

        Args:
            kind: "state", "input", "constant" or "temporary".
        """
        return ((i, buffer) for i, buffer in enumerate(self.buffers) if buffer.kind == kind)

    @cached_property
    def buffer_index(self) -> dict[str, int]:
        """The position of each buffer in `buffers`, by the buffer's name."""
        return {buffer.name: i for i, buffer in enumerate(self.buffers)}

    def multiply_accumulates(self) -> int:
        """Return the number of multiply-accumulate operations in all matrix products of one step."""
        return sum(prod(node.outputs[0].shape) * node.inputs[0].shape[-1] for node in self.nodes_of("matmul"))

    def nodes_of(self, kind: str) -> Iterator[Node]:
        """Yield the nodes of one kind, in order."""
        return (node for node in self.nodes if node.kind == kind)


@dataclass(frozen=True)
class Plan:
    """The position of each buffer in one arena, a block of memory that holds all of them.

    Attributes:
        offsets_bytes: for each buffer its first byte in the arena, a multiple of `ALIGNMENT_BYTES`.
        arena_bytes: size of the arena.
    """

    offsets_bytes: tuple[int, ...]
    arena_bytes: int


def plan(graph: Graph, item_bytes: Mapping[str, int] = ITEM_BYTES) -> Plan:
    """Place every buffer in one arena; temporaries whose lifetimes do not overlap share memory.

    State, inputs, constants and outputs come first, in the order of `graph.buffers`, and never share memory.
    Temporaries follow. Each gets the lowest free position during its lifetime (first fit, in the order of their
    first write).

    Args:
        item_bytes: bytes of an element by dtype; a backend may store a dtype in another size.
    """

    def padded_bytes(buffer: Buffer) -> int:
        return -(-max(1, buffer.size * item_bytes[buffer.dtype]) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    last_use: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        for view in (*node.inputs, *node.outputs):
            last_use[view.buffer] = position
    output_buffers = {view.buffer for view in graph.outputs.values()}
    offsets = [0] * len(graph.buffers)
    base = 0
    for i, buffer in enumerate(graph.buffers):
        if buffer.kind != "temporary" or i in output_buffers:
            offsets[i] = base
            base += padded_bytes(buffer)

    arena = base
    live: list[tuple[int, int, int]] = []  # (start, stop, last use), by start
    placed: set[int] = set()
    for position, node in enumerate(graph.nodes):
        live = [entry for entry in live if entry[2] >= position]
        for view in node.outputs:
            i = view.buffer
            if graph.buffers[i].kind != "temporary" or i in output_buffers or i in placed:
                continue
            need = padded_bytes(graph.buffers[i])
            start = base
            for other_start, other_stop, _ in live:
                if start + need <= other_start:
                    break
                start = max(start, other_stop)
            offsets[i] = start
            live = sorted([*live, (start, start + need, last_use[i])])
            arena = max(arena, start + need)
            placed.add(i)
    return Plan(tuple(offsets), arena)
