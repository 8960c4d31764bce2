"""Translate a step graph to a flat program that `primitives._native` executes in one call.

It is fast for these reasons: weights are stored in the order in which the forward product reads them; products
add bias, rectify and mask while a tile is in registers; element-wise groups run block by block in the
first-level cache; nothing is allocated, checked or looked up during a step; n steps are one call
(`NativeExecutable.steps`).

With more than one thread, large operations are divided beforehand into one part per thread
(`native/program.hpp`): products by rows or columns, element-wise groups by blocks, reductions and gathers by the
dimensions that they keep, patches by images. Sums over a depth or a batch are not divided, so the results are bit for
bit the same with any number of threads. The other threads spin for some microseconds when they wait for work,
then sleep: between steps they take no time.

All floats are float32. Those too small to be normal (below 1.2e-38) are zero while a step runs, as operands and as
results (`native/subnormals.hpp`). Integers inside element-wise programs are exact up to 2^24, sums of int64 always.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from placerl.primitives import checks
from placerl.primitives.graph.executable import Array, copy_node, require_supported, with_dense_outputs
from placerl.primitives.graph.graph import (
    ALIGNMENT_BYTES,
    ARITY,
    ITEM_BYTES,
    NODE_KINDS,
    Buffer,
    Graph,
    Node,
    View,
    contiguous_strides,
    merged_dimensions,
    number_key,
    plan,
)
from placerl.primitives.learner.finite import result_name
from placerl.primitives.learner.native.blockings import blockings as measured_blockings
from placerl.primitives.learner.native.elementwise import LANES, Group, require_float_arithmetic
from placerl.primitives.learner.native.layout import with_epilogues, with_own_layouts
from placerl.primitives.learner.native.programs import PART_NS, NativePrograms

DTYPES = ("float32", "int32", "int64", "bool", "uint8")
SIMD = ("", "avx512", "avx2", "portable")
PRODUCTS = ("float32", "bfloat16", "amx", "avx512bf16", "emulated")
"""How matrix products are computed: in float32, or with operands rounded to bfloat16 (to nearest, ties to even) and
sums in float32. "bfloat16" selects the first that the processor has of AMX tiles, AVX-512 BF16 and float32
instructions ("emulated"). The three differ in the order of their sums only."""


class NativeExecutable(NativePrograms):
    """Runs step graphs as programs of one C++ executor.

    All data are in one block of memory, the arena, which begins with the state that the variants share.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        *,
        simd: str = "",
        threads: int = 1,
        part_ns: float = PART_NS,
        products: str = "float32",
        blockings: Sequence[int] | None = None,
    ) -> None:
        """Lower the graphs to programs.

        Args:
            simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.
            threads: threads that share the large operations of a step, including the caller's.
            part_ns: least duration of a thread's part of an operation, ns, approximately.
            products: how matrix products are computed, one of `PRODUCTS`.
            blockings: how products in float32 divide their operands into blocks, as `blockings.blockings` returns it;
                by default the fastest way on this processor, measured at first use. It does not change results.

        Raises:
            UnsupportedOperationError: the executor lacks an operation or a dtype; the message names the user's
                line.
            ValueError: the processor lacks the instruction set or the kind of products, or `threads` is out of range.
        """
        from placerl.primitives import _native

        super().__init__(graphs)
        checks.one_of("simd", simd, SIMD)
        checks.one_of("products", products, PRODUCTS)
        checks.whole("threads", threads, 1, _native.learner.MAXIMUM_THREADS)
        for graph in graphs.values():
            require_supported(
                graph, "native", kinds=tuple(NODE_KINDS), operations=tuple(ARITY), dtypes=DTYPES
            )
            require_float_arithmetic(graph)
        laid_out, self._transposed = with_own_layouts(graphs)
        lowered = {variant: with_dense_outputs(with_epilogues(graph)) for variant, graph in laid_out.items()}
        arena_bytes = 0
        lowerings: dict[str, _Lowering] = {}
        for variant, graph in lowered.items():
            lowerings[variant] = _Lowering(graph, arena_bytes, threads)
            arena_bytes = lowerings[variant].end_bytes
        if blockings is None:
            blockings = measured_blockings(simd) if products == "float32" else ()
        self._executor: Any = _native.learner.Executor(
            arena_bytes, simd, threads, part_ns, products, list(blockings)
        )
        self.threads = threads
        self.simd: str = self._executor.simd
        self.products: str = self._executor.products
        self._programs = {}
        first = next(iter(lowerings.values()))
        self._emitted: dict[str, list[Node]] = {}
        for variant, lowering in lowerings.items():
            self._emitted[variant] = [
                node for node in lowering.graph.nodes for _ in range(1 + (node.kind == "scatter_add"))
            ]
            lowering.share_state(first)
            program = self._programs[variant] = self._executor.add_program()
            lowering.emit(self._executor, program)
        self._state = {b.name: self._located(first.offset(i), b) for i, b in first.graph.of_kind("state")}
        self._inputs = [buffer for _, buffer in first.graph.of_kind("input")]
        self._lowerings = lowerings

    def _located(self, offset: int, buffer: Buffer) -> Array:
        strides = contiguous_strides(buffer.shape)
        if buffer.name in self._transposed:
            strides = (1, buffer.shape[0])
        array: Array = self._executor.array(offset, buffer.shape, strides, buffer.dtype)
        return array

    def state(self) -> dict[str, Array]:
        """Return the state's arrays (leaves) by name, as they are stored in the executor's memory."""
        return self._state

    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the learner's state."""
        self._state[name][...] = value

    def input(self, variant: str, name: str) -> Array:
        """Return the array in the executor's memory to which `step` copies an input."""
        graph, at = self._lowerings[variant].graph, self._lowerings[variant].offset
        return self._located(at(graph.buffer_index[name]), graph.buffers[graph.buffer_index[name]])

    def require_finite_state(self) -> None:
        """Let native steps raise FloatingPointError on the step on which a number of the state becomes NaN or infinite.

        Otherwise a step does so only for its TD errors.
        """
        lowering = next(iter(self._lowerings.values()))
        self._executor.name_state(
            [
                (f"state[{buffer.name.removeprefix('state/')!r}]", lowering.offset(i), buffer.size)
                for i, buffer in lowering.graph.of_kind("state")
                if buffer.dtype == "float32"
            ]
        )

    def overflowed(self) -> bool:
        """Return whether one of Adam's second moments has become NaN or infinite since the last call."""
        return bool(self._executor.take_overflowed())

    def profile(self, variant: str, steps: int) -> list[tuple[Node, float]]:
        """Time each operation in a number of steps on the last step's inputs. The steps change the state.

        Args:
            steps: number of steps, at least 1; each time is the minimum over them, because noise only adds.

        Returns:
            Each operation's node, in order, with its time in seconds. An operation with two calls (a scatter and
            the copy before it) has two entries.
        """
        times_s = self._executor.profile(self._programs[variant], steps)
        return list(zip(self._emitted[variant], times_s, strict=True))


class _Lowering:
    """Lowers one graph: places its buffers, then emits its operations."""

    def __init__(self, graph: Graph, start_bytes: int, threads: int) -> None:
        self.graph = graph
        placed = plan(graph)
        self._offsets = [start_bytes + offset for offset in placed.offsets_bytes]
        self._end = start_bytes + placed.arena_bytes
        self._constants: dict[tuple[float, float], int] = {}
        self._groups = {
            id(node): Group(graph, node, self) for node in graph.nodes if node.kind == "elementwise"
        }
        self._groups |= {
            id(node): Group(graph, copy_node(node.inputs[0], node.outputs[0], "float32"), self)
            for node in graph.nodes_of("scatter_add")
        }
        for group in self._groups.values():
            for value in group.constants():
                self.constant(value)
        self.scratch_bytes = max((group.scratch_bytes for group in self._groups.values()), default=0)
        self.scratch = self._allocated(threads * self.scratch_bytes)
        # Kernels may read one vector past the end of their data.
        self.end_bytes: int = self._end + ALIGNMENT_BYTES

    def _allocated(self, size_bytes: int) -> int:
        start = self._end
        self._end += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return start

    def share_state(self, first: "_Lowering") -> None:
        """Use the state of another graph's lowering."""
        for i, buffer in self.graph.of_kind("state"):
            self._offsets[i] = first._offsets[first.graph.buffer_index[buffer.name]]

    def offset(self, buffer: int) -> int:
        """Return the offset of the buffer."""
        return self._offsets[buffer]

    def at(self, view: View) -> int:
        """Return the offset of the view's first element."""
        return self._offsets[view.buffer] + view.offset * ITEM_BYTES[self.graph.buffers[view.buffer].dtype]

    def constant(self, value: float) -> int:
        """Return the offset of a whole vector filled with the number."""
        key = number_key(value)
        if key not in self._constants:
            self._constants[key] = self._allocated(ALIGNMENT_BYTES)
        return self._constants[key]

    def strided(self, view: View) -> tuple[int, str, tuple[int, ...]]:
        """Return the view in the executor's form."""
        return self.at(view), self.graph.buffers[view.buffer].dtype, view.strides

    def emit(self, executor: Any, program: int) -> None:
        """Add the graph's operations to a program of the executor, and fill in its constants."""
        for (value, _), place in self._constants.items():
            executor.array(place, (LANES,), (1,), "float32")[...] = value
        for i, buffer in self.graph.of_kind("constant"):
            executor.array(self._offsets[i], (buffer.size,), (1,), buffer.dtype)[...] = buffer.values
        for node in self.graph.nodes:
            getattr(self, f"_{node.kind}")(executor, program, node)
        buffers = self.graph.buffers
        executor.set_transfers(
            program,
            [(self._offsets[i], b.size_bytes, b.dtype) for i, b in self.graph.of_kind("input")],
            [
                (
                    self.at(view),
                    view.size * ITEM_BYTES[buffers[view.buffer].dtype],
                    buffers[view.buffer].dtype,
                )
                for view in self.graph.outputs.values()
            ],
        )
        executor.name_results(program, [result_name(name) for name in self.graph.outputs])

    def _elementwise(self, executor: Any, program: int, node: Node) -> None:
        self._groups[id(node)].emit(executor, program)

    def _matmul(self, executor: Any, program: int, node: Node) -> None:
        a, b, *rest = node.inputs
        c = node.outputs[0]
        steps: Sequence[str] = node.attributes.get("epilogue", ())
        batch = (1, 0, 0, 0)
        if len(c.shape) == 3:
            batch = (c.shape[0], a.strides[0], b.strides[0], c.strides[0])
            a, b, c = (View(v.buffer, v.shape[1:], v.strides[1:], v.offset) for v in (a, b, c))
        named = dict(zip((s for s in steps if s != "rectify"), rest, strict=True))
        rows, columns = c.shape
        column_bias = row_bias = -1
        if bias := named.get("bias"):
            along_rows = rows != 1 and bias.strides[0] != 0
            column_bias, row_bias = (-1, self.at(bias)) if along_rows else (self.at(bias), -1)
        # The executor writes rows: if the columns are dense instead, it computes the transposed product.
        if (columns != 1 and c.strides[1] != 1) or (columns == 1 and rows != 1 and c.strides[0] == 1):
            a, b, c = b.permute((1, 0)), a.permute((1, 0)), c.permute((1, 0))
            column_bias, row_bias = row_bias, column_bias
            batch = (batch[0], batch[2], batch[1], batch[3])
        mask = named.get("mask")
        executor.add_product(
            program,
            (*c.shape, a.shape[1]),
            (self.at(a), *a.strides),
            (self.at(b), *b.strides),
            (self.at(c), c.strides[0]),
            column_bias,
            row_bias,
            "rectify" in steps,
            self.at(mask) if mask else -1,
            batch,
        )

    def _reduce(self, executor: Any, program: int, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        axes = node.attributes["axes"]
        outer = sorted((i for i in range(len(x.shape)) if i not in axes), key=lambda i: -x.strides[i])
        position = {axis: k for k, axis in enumerate(i for i in range(len(x.shape)) if i not in axes)}
        shape, (x_strides, y_strides) = merged_dimensions(
            [x.shape[i] for i in outer],
            [[x.strides[i] for i in outer], [y.strides[position[i]] for i in outer]],
        )
        over = sorted(axes, key=lambda i: -x.strides[i])
        over_shape, (over_strides,) = merged_dimensions(
            [x.shape[i] for i in over], [[x.strides[i] for i in over]]
        )
        reduction = ("sum", "max", "min").index(node.attributes["op"])
        dtype = self.graph.buffers[x.buffer].dtype  # and that of y
        views = [(self.at(x), dtype, x_strides), (self.at(y), dtype, y_strides)]
        executor.add_reduce(program, reduction, *views, shape, over_shape, over_strides)

    def _pick(
        self,
        executor: Any,
        program: int,
        kind: str,
        shape: Sequence[int],
        axis: int,
        limit: int,
        *views: View,
    ) -> None:
        """Add a call that picks elements along an axis; `views` are x, the indices and y."""
        executor.add_pick(program, kind, shape, axis, limit, *(self.strided(view) for view in views))

    def _gather(self, executor: Any, program: int, node: Node) -> None:
        (x, index), y, axis = node.inputs, node.outputs[0], node.attributes["axis"]
        self._pick(executor, program, "gather", y.shape, axis, x.shape[axis], x, index, y)

    def _take(self, executor: Any, program: int, node: Node) -> None:
        (x, index), y, axis = node.inputs, node.outputs[0], node.attributes["axis"]
        self._pick(executor, program, "take", y.shape, axis, x.shape[axis], x, index, y)

    def _scatter_add(self, executor: Any, program: int, node: Node) -> None:
        (_, index, source), y, axis = node.inputs, node.outputs[0], node.attributes["axis"]
        self._groups[id(node)].emit(executor, program)
        self._pick(executor, program, "scatter_add", index.shape, axis, y.shape[axis], source, index, y)

    def _argreduce(self, executor: Any, program: int, node: Node) -> None:
        x, y, axis = node.inputs[0], node.outputs[0], node.attributes["axis"]
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        strides = (*y.strides[:axis], 0, *y.strides[axis:])
        target = View(y.buffer, shape, strides, y.offset)
        self._pick(executor, program, f"arg{node.attributes['op']}", shape, axis, x.shape[axis], x, x, target)

    def _patches(self, executor: Any, program: int, node: Node, image: View, patches: View) -> None:
        batch, out_height, out_width, channels, *kernel = patches.shape
        sizes = (batch, channels, *image.shape[2:], out_height, out_width, *kernel)
        sizes = (*sizes, *node.attributes["stride"], *node.attributes["padding"])
        adjoint = node.kind == "col2im"
        executor.add_patches(program, adjoint, sizes, self.at(image), image.strides, self.at(patches))

    def _im2col(self, executor: Any, program: int, node: Node) -> None:
        self._patches(executor, program, node, node.inputs[0], node.outputs[0])

    def _col2im(self, executor: Any, program: int, node: Node) -> None:
        self._patches(executor, program, node, node.outputs[0], node.inputs[0])
