"""Prepare element-wise nodes for the native executor.

A node is computed block by block, so that its intermediate results (registers) stay in the first-level cache. Inputs
and outputs are used in place where possible.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from placerl.primitives.algorithms.updates import is_second_moment
from placerl.primitives.graph.graph import (
    Graph,
    Instruction,
    Node,
    UnsupportedOperationError,
    View,
    contiguous_strides,
    merged_dimensions,
)

LANES = 16  # floats that kernels may read and write at once, whatever the instruction set
BLOCK = 512  # elements of a block
_INDICES = {"gather": 1, "scatter_add": 1, "take": 1}
"""By kind of node, which of its inputs are indices."""
_ALLOWED = "backend 'native' computes in float32, and sums of int64"


class Places(Protocol):
    """Positions in the executor's arena, the block of memory that holds everything, in bytes.

    Attributes:
        scratch: start of the first thread's registers; those of the other threads follow.
        scratch_bytes: bytes per thread, a multiple of a vector.
    """

    scratch: int
    scratch_bytes: int

    def at(self, view: View) -> int:
        """Return the position of a view's first element in the executor's arena, in bytes."""
        ...

    def constant(self, value: float) -> int:
        """Return the position, in bytes, of a vector (`LANES` elements) that is filled with a number."""
        ...


def require_float_arithmetic(graph: Graph) -> None:
    """Check that a graph computes in float32; integers may only be converted, compared, summed and used as indices.

    Raises:
        UnsupportedOperationError: the message names the operation and the user's line.
    """
    for node in graph.nodes_of("elementwise"):
        dtypes = [graph.buffers[view.buffer].dtype for view in node.inputs]
        for instruction in node.program:
            dtypes.append(instruction.dtype)
            from_float = any(dtypes[i] == "float32" for i in instruction.arguments)
            is_conversion = instruction.op in ("constant", "copy") and not from_float
            if instruction.dtype not in ("float32", "bool") and not is_conversion:
                raise UnsupportedOperationError(
                    f"{instruction.op} to {instruction.dtype} at {node.source or 'unknown line'}: {_ALLOWED}"
                )
    for node in graph.nodes:
        if node.kind == "elementwise":
            continue
        data = [view for i, view in enumerate(node.inputs) if _INDICES.get(node.kind) != i]
        data += [] if node.kind == "argreduce" else node.outputs  # which are positions
        is_sum = node.kind == "reduce" and node.attributes["op"] == "sum"
        for dtype in (graph.buffers[view.buffer].dtype for view in data):
            if dtype != "float32" and not (is_sum and dtype == "int64"):
                raise UnsupportedOperationError(
                    f"{node.kind} of {dtype} at {node.source or 'unknown line'}: {_ALLOWED}"
                )


def with_flags(node: Node) -> Node:
    """Return the element-wise node whose conversions to bool give 0 or 1, as registers hold flags as floats."""
    return replace(
        node,
        program=tuple(
            replace(instruction, op="logical_or", arguments=instruction.arguments * 2)
            if instruction.op == "copy" and instruction.dtype == "bool"
            else instruction
            for instruction in node.program
        ),
    )


def with_own_results(node: Node) -> Node:
    """Return the element-wise node with a separate instruction for each of its results.

    A result that is an input, a constant, or the same register as an earlier result is copied.
    """
    inputs, program, results = len(node.inputs), list(node.program), []
    for number in node.results:
        if number < inputs or program[number - inputs].op == "constant" or number in results:
            dtype = program[number - inputs].dtype if number >= inputs else "float32"
            program.append(Instruction("copy", (number,), dtype))
            number = inputs + len(program) - 1
        results.append(number)
    return replace(node, program=tuple(program), results=tuple(results))


def with_fused_multiply_adds(node: Node) -> Node:
    """Return the element-wise node with each product that only one sum reads fused into this sum (a * b + c).

    The registers keep their numbers: a fused product becomes a `nothing`, which no instruction reads.
    """
    inputs = len(node.inputs)
    uses: dict[int, int] = defaultdict(int)
    for number in [*node.results, *(n for i in node.program for n in i.arguments)]:
        uses[number] += 1
    fused = list(node.program)
    for k, instruction in enumerate(node.program):
        if instruction.op not in ("add", "sub") or not instruction.dtype.startswith("float"):
            continue
        # a - b c can be fused; b c - a cannot.
        for position in (1, 0) if instruction.op == "add" else (1,):
            product = instruction.arguments[position] - inputs
            if product < 0 or fused[product].op != "mul" or uses[instruction.arguments[position]] != 1:
                continue
            op = "multiply_add" if instruction.op == "add" else "multiply_subtract"
            other = instruction.arguments[1 - position]
            fused[k] = replace(instruction, op=op, arguments=(*fused[product].arguments, other))
            fused[product] = replace(fused[product], op="nothing", arguments=())
            break
    return replace(node, program=tuple(fused))


class Group:
    """An element-wise node of the step graph, prepared for the native executor.

    Args:
        node: the node, of kind `elementwise`.
        places: positions of views, constants and registers in the executor's memory.
    """

    def __init__(self, graph: Graph, node: Node, places: Places) -> None:
        self._graph = graph
        self._places = places
        self._node = node = with_fused_multiply_adds(with_own_results(with_flags(node)))
        self._views = [*node.inputs, *node.outputs]
        shape = node.outputs[0].shape
        # In the memory order of the outputs, so that dimensions can be merged.
        order = sorted(range(len(shape)), key=lambda i: -max(v.strides[i] for v in node.outputs))
        ordered = [[view.strides[i] for i in order] for view in self._views]
        self.shape, self._strides = merged_dimensions([shape[i] for i in order], ordered)
        self._count = int(np.prod(self.shape, dtype=np.int64))
        self._block = self._block_size()
        self._direct: dict[int, int] = {}  # register -> position of the view whose memory it uses
        self._slot: dict[int, int] = {}  # register -> block of the scratch memory
        self._assign()
        self.scratch_bytes = 4 * self._block * (1 + max(self._slot.values(), default=-1))

    def _block_size(self) -> int:
        """Return the elements of a block: a multiple of the vector, and of the last dimension if that is short."""
        if self._count <= BLOCK:
            return -(-self._count // LANES) * LANES
        inner = int(np.lcm(self.shape[-1], LANES))
        return BLOCK // inner * inner if inner <= BLOCK else BLOCK

    def _is_direct(self, position: int) -> bool:
        """Whether instructions can use a view's own memory: dense floats, with room up to the next vector."""
        view = self._views[position]
        buffer = self._graph.buffers[view.buffer]
        dense = self._strides[position] == list(contiguous_strides(self.shape)) and buffer.dtype == "float32"
        # What follows the last element of an output may be overwritten only if it is padding.
        is_input = position < len(self._node.inputs)
        ends = view.offset + self._count == buffer.size and view.offset % LANES == 0
        return dense and (is_input or self._count % LANES == 0 or ends)

    def _is_number(self, register: int) -> bool:
        """Whether a register holds one number for all elements, which is already in memory."""
        inputs = len(self._node.inputs)
        if register >= inputs:
            return self._node.program[register - inputs].op == "constant"
        dtype = self._graph.buffers[self._views[register].buffer].dtype
        return dtype == "float32" and not any(self._strides[register])

    def _assign(self) -> None:
        """Give every register a place: a view's own memory, or a block of the scratch memory."""
        node, inputs = self._node, len(self._node.inputs)
        last_use = {number: k for k, i in enumerate(node.program) for number in i.arguments}
        last_use |= dict.fromkeys(node.results, len(node.program))
        free: list[int] = []

        def take(register: int) -> None:
            self._slot[register] = free.pop() if free else 1 + max(self._slot.values(), default=-1)

        for i in range(inputs):
            if self._is_direct(i) or self._is_number(i):
                self._direct[i] = i
            else:
                take(i)
        target_of = {number: inputs + position for position, number in enumerate(node.results)}
        # A result may be written to its destination directly only if no later instruction reads the old value
        # there.
        read_until = {node.inputs[i].buffer: last_use.get(i, -1) for i in range(inputs) if i in self._direct}
        for k, instruction in enumerate(node.program):
            register = inputs + k
            if instruction.op in ("nothing", "constant"):
                continue
            if register in target_of and self._is_direct(target_of[register]):
                buffer = self._views[target_of[register]].buffer
                if read_until.get(buffer, -1) <= k:
                    self._direct[register] = target_of[register]
            for argument in set(instruction.arguments):
                reloaded = argument >= inputs or not self._loads_once(argument)
                if argument in self._slot and last_use[argument] == k and reloaded:
                    free.append(self._slot[argument])
            if register not in self._direct:
                take(register)

    def _loads_once(self, position: int) -> bool:
        """Whether an input is the same in every block, because only dimensions inside a block have strides."""
        if self._count <= self._block:
            return True
        inside = 1
        for size, stride in zip(reversed(self.shape), reversed(self._strides[position]), strict=True):
            if self._block % (inside * size) == 0:
                inside *= size
            elif stride != 0:
                return False
        return True

    def _place(self, register: int) -> tuple[int, int]:
        """Return (offset of the first block, step from block to block per element) of a register."""
        inputs = len(self._node.inputs)
        if register in self._direct:
            return self._places.at(self._views[self._direct[register]]), int(not self._is_number(register))
        if self._is_number(register):
            return self._places.constant(self._node.program[register - inputs].number), 0
        return self._places.scratch + 4 * self._block * self._slot[register], 0

    def emit(self, executor: Any, program: int) -> None:
        """Add the node to a program of the executor."""
        from placerl.primitives import _native

        numbers = {name: i for i, name in enumerate(_native.learner.OP_NAMES.split())}
        inputs = len(self._node.inputs)

        def transfer(position: int, register: int, once: bool) -> tuple[Any, int, bool]:
            view = self._views[position]
            dtype = self._graph.buffers[view.buffer].dtype
            return (self._places.at(view), dtype, self._strides[position]), self._place(register)[0], once

        instructions = []
        for k, instruction in enumerate(self._node.program):
            if instruction.op in ("nothing", "constant"):
                continue
            # In a group with one element every argument is a whole vector in memory.
            scalars = sum(self._is_number(n) << i for i, n in enumerate(instruction.arguments) if self.shape)
            target, *sources = [self._place(n) for n in (inputs + k, *instruction.arguments)]
            if len(sources) > 1 and scalars == (1 << len(sources)) - 1:
                instructions.append((numbers["copy"], 1, [target, sources[0]]))
                scalars, sources[0] = scalars - 1, target
            instructions.append((numbers[instruction.op], scalars, [target, *sources]))
        loads = [transfer(i, i, self._loads_once(i)) for i in range(inputs) if i in self._slot]
        stores = [
            transfer(inputs + position, register, False)
            for position, register in enumerate(self._node.results)
            if register in self._slot
        ]
        registers = (self._places.scratch, self._places.scratch_bytes)
        buffers = [self._graph.buffers[view.buffer] for view in self._node.outputs]
        searched = [
            self._place(register)
            for register, buffer in zip(self._node.results, buffers, strict=True)
            if buffer.kind == "state" and buffer.dtype == "float32" and is_second_moment(buffer.name)
        ]
        executor.add_elementwise(
            program, self.shape, self._block, loads, instructions, stores, registers, searched
        )

    def constants(self) -> list[float]:
        """Return the constants that the node needs in memory."""
        return [i.number for i in self._node.program if i.op == "constant"]
