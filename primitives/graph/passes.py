"""Turn traced nodes into the step graph: remove dead code, fuse element-wise nodes, and update the state in place."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from placerl.primitives.graph.graph import (
    COMPARISONS,
    Buffer,
    Graph,
    Instruction,
    Node,
    View,
    contiguous_strides,
)

# Bounds of a fused group, so that its registers stay in the first-level cache.
MAXIMUM_INSTRUCTIONS = 96
MAXIMUM_VIEWS = 24


@dataclass(frozen=True)
class StateUpdate:
    """The new value of one state buffer at the end of the step.

    Attributes:
        state: position of the state buffer.
        new: view of the new value, with the same shape.
    """

    state: int
    new: View


def finish(
    buffers: Sequence[Buffer],
    nodes: Sequence[Node],
    updates: Sequence[StateUpdate],
    outputs: Mapping[str, View],
) -> Graph:
    """Return the step graph made from nodes in which every buffer is written only once.

    Args:
        buffers, nodes: the buffers and nodes that a `Builder` has created.
        updates: the new value of each buffer of the state.
        outputs: results of the step other than the state, by name.
    """
    all_nodes = list(nodes)
    all_buffers = list(buffers)
    claims: dict[int, int] = {}  # temporary -> the state buffer that replaces it
    for update in updates:
        state = all_buffers[update.state]
        whole = View(update.state, state.shape, contiguous_strides(state.shape)).squeezed()
        new = update.new.squeezed()
        if new == whole:
            continue
        if not _can_become(all_buffers, claims, update.new, state, outputs):
            all_buffers.append(Buffer(f"new {state.name}", whole.shape, state.dtype, "temporary"))
            target = replace(whole, buffer=len(all_buffers) - 1)
            all_nodes.append(
                Node("elementwise", (new,), (target,), (Instruction("copy", (0,), state.dtype),), (1,))
            )
            new = target
        claims[new.buffer] = update.state
    live = _live_nodes(all_nodes, {*claims, *(view.buffer for view in outputs.values())})
    fusion = _Fusion(all_buffers, live, claims, {view.buffer for view in outputs.values()})
    fused = fusion.fused_nodes()
    return _compacted(all_buffers, fused, fusion.claims, outputs)


def _can_become(
    buffers: Sequence[Buffer],
    claims: Mapping[int, int],
    new: View,
    state: Buffer,
    outputs: Mapping[str, View],
) -> bool:
    """Whether the state buffer itself can replace the buffer of `new`."""
    own = buffers[new.buffer]
    return (
        own.kind == "temporary"
        and new.buffer not in claims
        and own.dtype == state.dtype
        and own.size == state.size
        and new.offset == 0
        and new.is_contiguous
    )


def _live_nodes(nodes: Sequence[Node], wanted: Iterable[int]) -> list[Node]:
    needed = set(wanted)
    live: list[Node] = []
    for node in reversed(nodes):
        if any(view.buffer in needed for view in node.outputs):
            live.append(node)
            needed.update(view.buffer for view in node.inputs)
    return live[::-1]


class _Fusion:
    """Groups of element-wise nodes that run as one; bit sets of reachability keep them free of cycles."""

    def __init__(
        self, buffers: list[Buffer], nodes: list[Node], claims: dict[int, int], outputs: set[int]
    ) -> None:
        self.buffers = buffers
        self.nodes = nodes
        self.claims = claims
        self.outputs = outputs
        self.members: dict[int, list[int]] = {}
        self.successors: dict[int, set[int]] = {}
        self.below: dict[int, int] = {}  # bit set of the groups that must come after
        self._connect()
        self._place_state()

    def _connect(self) -> None:
        self.writers: dict[int, list[int]] = defaultdict(list)
        self.readers: dict[int, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            self.members[i], self.successors[i] = [i], set()
            for view in node.inputs:
                self.readers[view.buffer].append(i)
                for writer in self.writers[view.buffer]:
                    self.successors[writer].add(i)
            for view in node.outputs:
                self.writers[view.buffer].append(i)
        for i in reversed(range(len(self.nodes))):
            self.below[i] = 0
            for j in self.successors[i]:
                self.below[i] |= self.below[j] | 1 << j

    def _add_edge(self, first: int, then: int) -> None:
        self.successors[first].add(then)
        added = self.below[then] | 1 << then
        for i in self.below:
            if i == first or self.below[i] >> first & 1:
                self.below[i] |= added

    def _place_state(self) -> None:
        """Order the readers of each old state value before its writer, or else write through a copy."""
        for temporary, state in list(self.claims.items()):
            writers, readers = self.writers[temporary], self.readers[state]
            # Readers of a new value that is not yet in place read the temporary.
            if len(writers) == 1 and self._writes_in_place(writers[0], temporary, state):
                writer = writers[0]
                if not any(self.below[writer] >> reader & 1 for reader in readers if reader != writer):
                    for reader in readers:
                        if reader != writer:
                            self._add_edge(reader, writer)
                    continue
            self._copy_last(temporary, state)

    def _writes_in_place(self, writer: int, temporary: int, state: int) -> bool:
        node = self.nodes[writer]
        target = next(view for view in node.outputs if view.buffer == temporary)
        own_reads = [view for view in node.inputs if view.buffer == state]
        return all(node.kind == "elementwise" and replace(v, buffer=temporary) == target for v in own_reads)

    def _copy_last(self, temporary: int, state: int) -> None:
        del self.claims[temporary]
        buffer = self.buffers[temporary]
        flat = View(temporary, (buffer.size,), (1,)).squeezed()
        self.buffers.append(
            replace(self.buffers[state], name=f"new {self.buffers[state].name}", kind="temporary")
        )
        alias = len(self.buffers) - 1
        self.claims[alias] = state
        copy = Instruction("copy", (0,), buffer.dtype)
        self.nodes.append(Node("elementwise", (flat,), (replace(flat, buffer=alias),), (copy,), (1,)))
        i = len(self.nodes) - 1
        self.members[i], self.successors[i], self.below[i] = [i], set(), 0
        self.readers[temporary].append(i)
        self.writers[alias].append(i)
        for earlier in {*self.writers[temporary], *self.readers[state]}:
            self._add_edge(earlier, i)

    def _merge(self, first: int, then: int) -> bool:
        """Merge two groups if that is allowed; `then` continues under the name of `first`."""
        a, b = (first, then) if self.below[first] >> then & 1 else (then, first)
        if any(j != b and self.below[j] >> b & 1 for j in self.successors[a]):
            return False
        members = sorted(self.members[a] + self.members[b])
        if not self._fits(members):
            return False
        self.members[first] = members
        successors = (self.successors[a] | self.successors[b]) - {a, b}
        below = (self.below[a] | self.below[b]) & ~(1 << a | 1 << b)
        gone = then
        for table in (self.members, self.successors, self.below):
            del table[gone]
        self.successors[first], self.below[first] = successors, below
        for i, after in self.successors.items():
            if gone in after:
                after.discard(gone)
                after.add(first)
            if i != first and self.below[i] & (1 << a | 1 << b):
                self.below[i] = (self.below[i] | below | 1 << first) & ~(1 << gone)
        return True

    def _fits(self, members: list[int]) -> bool:
        """Whether the nodes can run block by block as one: all access a buffer written here through the same
        view.
        """
        nodes = [self.nodes[i] for i in members]
        written = {}
        for node in nodes:
            for view in node.outputs:
                written[view.buffer] = view
                if view.buffer in self.claims:
                    written[self.claims[view.buffer]] = replace(view, buffer=self.claims[view.buffer])
        reads = {view for node in nodes for view in node.inputs}
        if any(view.buffer in written and view != written[view.buffer] for view in reads):
            return False
        external = {view for view in reads if view.buffer not in written}
        lasting = [view for view in written.values() if self._is_kept(view.buffer, set(members))]
        instructions = sum(len(node.program) for node in nodes)
        return instructions <= MAXIMUM_INSTRUCTIONS and len(external) + len(lasting) <= MAXIMUM_VIEWS

    def _is_kept(self, buffer: int, members: set[int]) -> bool:
        """Whether a buffer that the members write is needed elsewhere."""
        return (
            buffer in self.claims
            or buffer in self.outputs
            or len(self.writers[buffer]) > 1
            or any(reader not in members for reader in self.readers[buffer])
        )

    def _fuse(self) -> None:
        group_of = {i: i for i in self.members}

        def try_merge(i: int, j: int) -> None:
            a, b = group_of[i], group_of[j]
            shapes_agree = self.nodes[i].outputs[0].shape == self.nodes[j].outputs[0].shape
            if a != b and shapes_agree and self._merge(a, b):
                for member in self.members[a]:
                    group_of[member] = a

        elementwise = [i for i in group_of if self.nodes[i].kind == "elementwise"]
        # A comparison is fused with its reader: its operand is stored in any case, so its result need not be.
        for i in elementwise:
            if self.nodes[i].program[-1].op in COMPARISONS:
                for view in self.nodes[i].outputs:
                    for reader in self.readers[view.buffer]:
                        if self.nodes[reader].kind == "elementwise":
                            try_merge(i, reader)
        for i in elementwise:
            for view in self.nodes[i].inputs:
                for producer in self.writers[view.buffer]:
                    if self.nodes[producer].kind == "elementwise":
                        try_merge(producer, i)
        by_view: dict[View | None, list[int]] = defaultdict(list)
        for i in elementwise:
            for key in self.nodes[i].inputs:
                by_view[key].append(i)
            if self.nodes[i].outputs[0].shape == ():
                by_view[None].append(i)
        for readers in by_view.values():
            for i, j in pairwise(readers):
                try_merge(i, j)

    def fused_nodes(self) -> list[Node]:
        """Return all nodes, with groups fused, in an order that respects every dependency."""
        self._fuse()
        waiting = dict.fromkeys(self.members, 0)
        for after in self.successors.values():
            for i in after:
                waiting[i] += 1
        ready = [(self.members[i][0], i) for i, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        ordered: list[Node] = []
        while ready:
            _, i = heapq.heappop(ready)
            ordered.append(self._fused(self.members[i]))
            for j in self.successors[i]:
                waiting[j] -= 1
                if waiting[j] == 0:
                    heapq.heappush(ready, (self.members[j][0], j))
        assert len(ordered) == len(self.members), "the step graph has a cycle"
        return ordered

    def _fused(self, members: list[int]) -> Node:
        if len(members) == 1 and self.nodes[members[0]].kind != "elementwise":
            return self.nodes[members[0]]
        inside = set(members)
        written = {view.buffer for i in members for view in self.nodes[i].outputs}
        reads = (view for i in members for view in self.nodes[i].inputs if view.buffer not in written)
        inputs = tuple(dict.fromkeys(reads))
        register_of: dict[View, int] = {view: i for i, view in enumerate(inputs)}
        dtype_of = [self.buffers[view.buffer].dtype for view in inputs]
        program: list[Instruction] = []
        computed: dict[Hashable, int] = {}  # register of each instruction's key
        outputs: list[View] = []
        results: list[int] = []
        for i in members:
            node = self.nodes[i]
            registers = [register_of[view] for view in node.inputs]
            for instruction in node.program:
                placed = replace(instruction, arguments=tuple(registers[j] for j in instruction.arguments))
                if placed.op == "copy" and dtype_of[placed.arguments[0]] == placed.dtype:
                    registers.append(placed.arguments[0])
                    continue
                if placed.key not in computed:
                    computed[placed.key] = len(inputs) + len(program)
                    program.append(placed)
                    dtype_of.append(placed.dtype)
                registers.append(computed[placed.key])
            for view, result in zip(node.outputs, node.results, strict=True):
                register_of[view] = registers[result]
                if self._is_kept(view.buffer, inside):
                    outputs.append(view)
                    results.append(registers[result])
        source = self.nodes[members[-1]].source
        return Node("elementwise", inputs, tuple(outputs), tuple(program), tuple(results), source=source)


def _compacted(
    buffers: Sequence[Buffer], nodes: Sequence[Node], claims: Mapping[int, int], outputs: Mapping[str, View]
) -> Graph:
    """Return the graph with claimed temporaries replaced by their state buffers, without unused temporaries."""
    used = {claims.get(v.buffer, v.buffer) for node in nodes for v in (*node.inputs, *node.outputs)}
    used.update(claims.get(view.buffer, view.buffer) for view in outputs.values())
    remaining = [i for i, b in enumerate(buffers) if b.kind in ("state", "input") or i in used]
    position = {old: new for new, old in enumerate(remaining)}

    def moved(view: View) -> View:
        return replace(view, buffer=position[claims.get(view.buffer, view.buffer)])

    names = {"temporary": 0, "constant": 0}
    final: list[Buffer] = []
    for i in remaining:
        buffer = buffers[i]
        if buffer.kind in names:
            number = names[buffer.kind]
            names[buffer.kind] += 1
            buffer = replace(buffer, name=f"{buffer.kind}{number}")
        final.append(buffer)
    return Graph(
        tuple(final),
        tuple(
            replace(node, inputs=tuple(map(moved, node.inputs)), outputs=tuple(map(moved, node.outputs)))
            for node in nodes
        ),
        {name: moved(view) for name, view in outputs.items()},
    )
