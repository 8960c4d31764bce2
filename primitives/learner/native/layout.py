"""Rewrite a step graph for the native executor: change the memory order of weights, and fuse operations into products.

Neither change affects the results. Both are made before the buffers get their places in memory.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from placerl.primitives.graph.graph import Graph, Node, View

MayMove = Callable[[tuple[Sequence[View], Sequence[View]]], bool]

# Weights with fewer outputs stay in PyTorch's order: their product runs along the inputs.
TRANSPOSED_COLUMNS_MIN = 5
# Such narrow layers leave most of a vector empty along their units, so their vectors run along the batch.
NARROW_COLUMNS_MAX, NARROW_DEPTH_MAX, NARROW_ROWS_MIN = 12, 32, 16


def with_own_layouts(graphs: Mapping[str, Graph]) -> tuple[dict[str, Graph], frozenset[str]]:
    """Store matrices column by column if products then read and write whole vectors.

    This applies to weights, which PyTorch stores as (out, in) while the forward product needs rows of `out`; and to
    the activations of narrow layers, whose rows are shorter than a vector but whose columns have the length of a
    batch. A buffer changes only together with all buffers that it meets in element-wise groups (moments, target,
    gradient), so that all of them stay contiguous.

    Returns:
        The graphs with the views of the transposed buffers changed, and the names of the transposed state buffers.
    """
    groups = _Groups()
    wanted: set[str] = set()
    for variant, graph in graphs.items():
        names = _names(variant, graph)
        fixed = [i for kind in ("input", "constant") for i, _ in graph.of_kind(kind)]
        fixed += [view.buffer for view in graph.outputs.values()]
        for node in graph.nodes:
            for view in (*node.inputs, *node.outputs):
                if node.kind in ("im2col", "col2im") or _turned(graph, view) is None:
                    fixed.append(view.buffer)
            if node.kind == "elementwise":
                matrices = [view for view in (*node.inputs, *node.outputs) if _is_whole(graph, view)]
                for a, b in pairwise(matrices):
                    groups.join(names[a.buffer], names[b.buffer])
                    if a.strides != b.strides:
                        fixed.append(a.buffer)
            elif node.kind == "matmul" and len(node.outputs[0].shape) == 2:
                (a, b), c = node.inputs, node.outputs[0]
                if graph.buffers[b.buffer].kind == "state" and _reads_columns(b):
                    wanted.add(names[b.buffer])
                narrow = c.shape[1] <= NARROW_COLUMNS_MAX and c.shape[0] >= NARROW_ROWS_MIN
                if narrow and a.shape[1] <= NARROW_DEPTH_MAX:
                    operands = [a, c] if a.shape[1] <= NARROW_COLUMNS_MAX else [c]
                    wanted.update(
                        names[v.buffer] for v in operands if graph.buffers[v.buffer].kind == "temporary"
                    )
        for i in fixed:
            groups.forbid(names[i])
    chosen = groups.allowed(wanted)
    changed = {
        variant: _transposed(graph, {i for i, name in enumerate(_names(variant, graph)) if name in chosen})
        for variant, graph in graphs.items()
    }
    first = next(iter(graphs.values()))
    return changed, frozenset(b.name for _, b in first.of_kind("state") if b.name in chosen)


class _Groups:
    """Groups of buffers that must have the same order (union-find); some of them may not change."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._forbidden: set[str] = set()

    def _root(self, name: str) -> str:
        while (parent := self._parent.get(name, name)) != name:
            name = parent
        return name

    def join(self, a: str, b: str) -> None:
        self._parent[self._root(a)] = self._root(b)

    def forbid(self, name: str) -> None:
        self._forbidden.add(name)

    def allowed(self, wanted: set[str]) -> set[str]:
        """Return all members of the groups of `wanted` that have no forbidden member."""
        blocked = {self._root(name) for name in self._forbidden}
        roots = {self._root(name) for name in wanted} - blocked
        members = {*self._parent, *self._parent.values(), *wanted}
        return {name for name in members if self._root(name) in roots}


def _names(variant: str, graph: Graph) -> list[str]:
    """Return a unique name for each buffer over all variants; the variants share the state's names."""
    return [b.name if b.kind == "state" else f"{variant}:{i}" for i, b in enumerate(graph.buffers)]


def _turned(graph: Graph, view: View) -> View | None:
    """Return the view of its matrix in column order; None if the buffer is not a matrix, or is reshaped."""
    shape = graph.buffers[view.buffer].shape
    if len(shape) != 2 or 1 in shape:
        return None
    rows, columns = shape
    row, column = divmod(view.offset, columns)
    strides = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1 or stride == 0:
            strides.append(0)
        elif stride == columns and row + size <= rows:
            strides.append(1)
        elif stride == 1 and column + size <= columns:
            strides.append(rows)
        else:
            return None
    return View(view.buffer, view.shape, tuple(strides), column * rows + row)


def _is_whole(graph: Graph, view: View) -> bool:
    """Whether the view covers all of a matrix."""
    return (
        _turned(graph, view) is not None
        and len(view.shape) == 2
        and 0 not in view.strides
        and (view.size == graph.buffers[view.buffer].size)
    )


def _reads_columns(view: View) -> bool:
    """Whether rows of the view are apart in memory, and long enough for that to matter."""
    return view.strides[0] == 1 and view.strides[1] != 1 and view.shape[1] >= TRANSPOSED_COLUMNS_MIN


def _transposed(graph: Graph, chosen: set[int]) -> Graph:
    def moved(view: View) -> View:
        return (_turned(graph, view) or view) if view.buffer in chosen else view

    nodes = tuple(
        replace(n, inputs=tuple(map(moved, n.inputs)), outputs=tuple(map(moved, n.outputs)))
        for n in graph.nodes
    )
    return replace(graph, nodes=nodes)


def with_epilogues(graph: Graph) -> Graph:
    """Fuse operations into the matrix products that they follow: adding a bias, ReLU, and the mask of its derivative.

    This is done if an element-wise node does nothing but these operations to the result of a product. A `matmul` node
    of the returned graph may have more inputs, named in order by its attribute `epilogue`: `bias` (a view of the
    product's shape), `rectify` (no input), `mask` (keep where positive).
    """
    nodes = list(graph.nodes)
    readers: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        for buffer in {view.buffer for view in node.inputs}:
            readers[buffer].append(i)
    output_buffers = {view.buffer for view in graph.outputs.values()}
    gone: set[int] = set()
    for i, node in enumerate(nodes):
        target = node.outputs[0].buffer
        if node.kind != "matmul" or len(node.outputs[0].shape) != 2 or target in output_buffers:
            continue
        if graph.buffers[target].kind != "temporary" or len(readers[target]) != 1:
            continue
        j = readers[target][0]
        if nodes[j].kind != "elementwise" or nodes[j].inputs.count(node.outputs[0].squeezed()) != 1:
            continue
        nodes[i], rest = _taken_along(node, nodes[j], partial(_may_move, nodes, i, j))
        if rest is None:
            gone.add(j)
        else:
            nodes[j] = rest
    return replace(graph, nodes=tuple(node for i, node in enumerate(nodes) if i not in gone))


def _may_move(
    nodes: Sequence[Node], first: int, then: int, views: tuple[Sequence[View], Sequence[View]]
) -> bool:
    """Whether the reads and writes of node `then` may already happen at node `first`."""
    reads, writes = ({view.buffer for view in side} for side in views)
    for node in nodes[first + 1 : then]:
        if any(view.buffer in reads | writes for view in node.outputs):
            return False
        if any(view.buffer in writes for view in node.inputs):
            return False
    return not any(view.buffer in writes for view in nodes[first].inputs)


def _taken_along(product: Node, group: Node, may_move: MayMove) -> tuple[Node, Node | None]:
    """The product with as much of the group as it can take, and what is left of the group, if anything."""
    own = product.outputs[0].squeezed()
    register = group.inputs.index(own)
    program = group.program
    views: list[View] = []
    steps: list[str] = []

    def users(number: int) -> list[int]:
        return [i for i, instruction in enumerate(program) if number in instruction.arguments]

    bias = users(register)
    if len(bias) == 1 and register not in group.results and program[bias[0]].op == "add":
        a, b = program[bias[0]].arguments
        other = b if a == register else a
        if (
            other < len(group.inputs)
            and other != register
            and _is_bias(group.inputs[other], product.outputs[0])
        ):
            if not may_move(([group.inputs[other]], [])):
                return product, group
            views.append(_unsqueezed(group.inputs[other], product.outputs[0]))
            steps.append("bias")
            group = _without(group, bias[0], register)
            program = group.program
            register = group.inputs.index(own)
    if len(group.outputs) == 1 and may_move((group.inputs, group.outputs)):
        last = _last_step(group, register)
        output = _unsqueezed(group.outputs[0], product.outputs[0])
        writable = output is not None and 1 in (output.strides[0], output.strides[1])
        if last is not None and writable and output is not None:
            if last == "mask":
                other_view = next(view for view in group.inputs if view != own)
                if other_view.strides == group.outputs[0].strides:
                    mask = _unsqueezed(other_view, product.outputs[0])
                    return _with(product, [*views, mask], [*steps, last], output), None
            else:
                return _with(product, views, [*steps, *([last] if last else [])], output), None
    return (_with(product, views, steps, product.outputs[0]) if steps else product), group


def _with(product: Node, views: Sequence[View | None], steps: Sequence[str], output: View) -> Node:
    inputs = (*product.inputs, *(view for view in views if view is not None))
    return replace(product, inputs=inputs, outputs=(output,), attributes={"epilogue": tuple(steps)})


def _is_bias(view: View, product: View) -> bool:
    """Whether the view of the squeezed product's shape is one number for each column, or for each row."""
    bias = _unsqueezed(view, product)
    of_columns = bias.strides[0] == 0 and (bias.strides[1] == 1 or product.shape[1] == 1)
    return of_columns or bias.strides == (1, 0)


def _unsqueezed(view: View, like: View) -> View:
    """The view with the dimensions of size 1 that `like` has."""
    strides, position = [], 0
    for size in like.shape:
        strides.append(0 if size == 1 else view.strides[position])
        position += size != 1
    return View(view.buffer, like.shape, tuple(strides), view.offset)


def _last_step(group: Node, register: int) -> str | None:
    """What a group of one output does to the register: `rectify`, `mask`, nothing (empty), or more (None)."""
    ops = [instruction.op for instruction in group.program]
    first = len(group.inputs)
    if not ops and group.results == (register,):
        return ""
    if ops == ["constant", "maximum"] and group.program[0].value == 0:
        return "rectify" if set(group.program[1].arguments) == {register, first} else None
    if ops == ["constant", "le", "where"] and group.program[0].value == 0 and len(group.inputs) == 2:
        other = 1 - register
        matches = group.program[1].arguments == (other, first) and group.program[2].arguments == (
            first + 1,
            first,
            register,
        )
        return "mask" if matches else None
    return None


def _without(group: Node, instruction: int, register: int) -> Node:
    """The group with one instruction replaced by the register, and inputs that nothing reads dropped."""
    count = len(group.inputs)
    removed = count + instruction
    program = [i for k, i in enumerate(group.program) if k != instruction]

    def shifted(number: int) -> int:
        return register if number == removed else number - (number > removed)

    program = [replace(i, arguments=tuple(map(shifted, i.arguments))) for i in program]
    results = tuple(map(shifted, group.results))
    used = {number for i in program for number in i.arguments} | set(results)
    keep = [i for i in range(count) if i in used]
    place = {old: new for new, old in enumerate(keep)}
    dropped = count - len(keep)

    def compacted(number: int) -> int:
        return place[number] if number < count else number - dropped

    final = tuple(replace(i, arguments=tuple(map(compacted, i.arguments))) for i in program)
    return replace(
        group,
        inputs=tuple(group.inputs[i] for i in keep),
        program=final,
        results=tuple(map(compacted, results)),
    )
