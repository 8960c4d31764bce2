"""Run each node of the step graph on a unit of the FPGA: golden models give its numbers, simulated RTL its cycles.

| node | unit | words or products |
|---|---|---|
| `matmul` | systolic core between converters to and from block fixed point | one product, or one per batch item |
| `elementwise` | a stream unit generated for the group (activation, loss, Adam, weight update) | elements / lanes |
| `reduce`, `argreduce` | reduction unit | groups x elements of a group / lanes |
| `gather` | stream unit: keeps the number at the selected position; then reduction unit | both, for each position |
| `scatter_add` | stream unit: adds where the position is the index | elements / lanes, for each index |
| `im2col` | layout transformation, band by band in parallel with the products (PPO Fig. 4) | the first band's moves |
| `col2im` | stream unit: adds into the image | elements / lanes |

The last column says how many memory words or products the unit processes; a word holds `lanes` elements. The units
work one after another, in the order of the graph's nodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles import simulated_units
from placerl.primitives.fpga.cycles.simulated_units import GemmUnit
from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.gemm.plan import GemmShape
from placerl.primitives.fpga.vector.block_fixed_point import (
    CONVERSION_LATENCY,
    operand_bits,
    to_block,
    to_float,
)
from placerl.primitives.fpga.vector.reduce_unit import reduce_golden, reduction_latency
from placerl.primitives.graph.executable import Array
from placerl.primitives.graph.graph import Node
from placerl.primitives.graph.interpreter import execute_node
from placerl.primitives.learner.fpga import LANES
from placerl.primitives.learner.fpga.programs import stream_program
from placerl.primitives.quantization.fixed_point import exact_matmul


@dataclass(frozen=True)
class Job:
    """Describes how the FPGA runs one node of the step graph.

    Attributes:
        unit: the unit that runs it: "core", "stream", "reduction" or "layout".
        execute: function that maps the node's inputs to its outputs and the count of numbers that were not finite.
        cycles: function that returns the node's clock cycles, from the table of cycles or a simulation.
    """

    unit: str
    execute: Callable[[list[Array]], tuple[list[Array], int]]
    cycles: Callable[[], int]


def job_of(node: Node, dtypes: Sequence[str], core: GemmUnit, exact: bool) -> Job:
    """Return the job of a node: the unit of the FPGA that runs it, and functions for its numbers and clock cycles.

    Args:
        exact: whether the operands of products go through the core's RTL.
    """
    match node.kind:
        case "matmul":
            return _matmul(node, core, exact)
        case "elementwise":
            return _elementwise(node, dtypes)
        case "reduce" | "argreduce":
            return _reduction(node)
        case "gather":
            return Job("stream", _plain(node), lambda: _gather_cycles(node))
        case "scatter_add":
            return Job("stream", _scatter_add(node), lambda: _scatter_add_cycles(node))
        case "im2col":
            return Job("layout", _plain(node), lambda: core.first_band_cycles(node.outputs[0].shape))
        case "col2im":
            return Job("stream", _col2im(node), lambda: _col2im_cycles(node))
    raise ValueError(f"kind: found {node.kind!r}, which the FPGA has no unit for")


def _words(elements: int) -> int:
    return max(1, -(-elements // LANES))


def _stream_cycles(elements: int, program: StreamProgram) -> int:
    return simulated_units.sequence_cycles(_words(elements), program.latency)


def _plain(node: Node) -> Callable[[list[Array]], tuple[list[Array], int]]:
    """Return the outputs of a node that only moves numbers."""
    return lambda inputs: (execute_node(node, inputs), 0)


def _matmul(node: Node, core: GemmUnit, exact: bool) -> Job:
    *batch, rows, columns = node.outputs[0].shape
    terms = node.inputs[0].shape[-1]
    products, shape, bits = prod(batch), GemmShape(rows, terms, columns), operand_bits(terms)

    def integers(a: Array, b: Array) -> Array:
        if not exact:
            return exact_matmul(a, b)
        left, right = a.reshape(products, rows, terms), b.reshape(products, terms, columns)
        sums = [core.multiply(x, y) for x, y in zip(left, right, strict=True)]
        return np.stack(sums).reshape(node.outputs[0].shape)

    def execute(inputs: list[Array]) -> tuple[list[Array], int]:
        a, b = (to_block(values, bits) for values in inputs)
        result = to_float(integers(a.raw, b.raw), a.exponent + b.exponent)
        return [result], a.not_finite + b.not_finite

    return Job("core", execute, lambda: products * (core.cycles(shape) + CONVERSION_LATENCY))


def _elementwise(node: Node, dtypes: Sequence[str]) -> Job:
    program = stream_program(node, dtypes)
    elements = prod(node.outputs[0].shape)

    def execute(inputs: list[Array]) -> tuple[list[Array], int]:
        return program.golden(inputs), 0

    return Job("stream", execute, lambda: _stream_cycles(elements, program))


def _reduction(node: Node) -> Job:
    shape, operation = node.inputs[0].shape, node.attributes["op"]
    if node.kind == "argreduce":
        axes, operation = (node.attributes["axis"] % len(shape),), f"arg{operation}"
    else:
        axes = tuple(axis % len(shape) for axis in node.attributes["axes"])
    outer = [axis for axis in range(len(shape)) if axis not in axes]
    groups, size = prod(shape[axis] for axis in outer), prod(shape[axis] for axis in axes)

    def execute(inputs: list[Array]) -> tuple[list[Array], int]:
        values = inputs[0].transpose(*outer, *axes).reshape(groups, size)
        finite = np.isfinite(values)
        not_finite = int(values.size - np.count_nonzero(finite))
        if not_finite:
            values = np.where(finite, values, np.float32(0))
        return [reduce_golden(operation, values).reshape(node.outputs[0].shape)], not_finite

    def cycles() -> int:
        return simulated_units.sequence_cycles(groups * _words(size), reduction_latency(operation, LANES))

    return Job("reduction", execute, cycles)


def _kept_at_index() -> StreamProgram:
    """Return the program that takes a number, its position and the selected one: the number if they agree, else
    the lowest number.
    """
    builder = ProgramBuilder(3)
    lowest = builder.constant(float(np.finfo(np.float32).min))
    return builder.finished([builder.apply("where", builder.apply("eq", 1, 2), 0, lowest)])


def _gather_cycles(node: Node) -> int:
    axis, shape = node.attributes["axis"], node.inputs[0].shape
    wanted = node.inputs[1].shape[axis]
    groups = prod(node.inputs[1].shape) // max(1, wanted)
    keep = _stream_cycles(groups * shape[axis], _kept_at_index())
    find = simulated_units.sequence_cycles(groups * _words(shape[axis]), reduction_latency("max", LANES))
    return wanted * (keep + find)


def _added_at_index() -> StreamProgram:
    """Return the program that takes a number, its position, an index and an addend: their sum if the position is
    the index.
    """
    builder = ProgramBuilder(4)
    addend = builder.apply("where", builder.apply("eq", 1, 2), 3, builder.constant(0))
    return builder.finished([builder.apply("add", 0, addend)])


def _scatter_add(node: Node) -> Callable[[list[Array]], tuple[list[Array], int]]:
    axis, program = node.attributes["axis"], _added_at_index()

    def execute(inputs: list[Array]) -> tuple[list[Array], int]:
        values, index, addends = inputs
        positions = np.arange(values.shape[axis], dtype=np.float32)
        positions = positions.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
        # Outside the index's shape along other axes nothing is added.
        region = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(index.shape))
        result = values.copy()
        for number in range(index.shape[axis]):
            place: list[Any] = [slice(None)] * values.ndim
            place[axis] = slice(number, number + 1)
            chosen, addend = index[tuple(place)].astype(np.float32), addends[tuple(place)]
            shape = result[region].shape
            operands = (result[region], *(np.broadcast_to(x, shape) for x in (positions, chosen, addend)))
            result[region] = program.golden(operands)[0]
        return [result], 0

    return execute


def _scatter_add_cycles(node: Node) -> int:
    elements, indices = prod(node.inputs[0].shape), node.inputs[1].shape[node.attributes["axis"]]
    return indices * _stream_cycles(elements, _added_at_index())


def _sum_of_two() -> StreamProgram:
    builder = ProgramBuilder(2)
    return builder.finished([builder.apply("add", 0, 1)])


def _col2im(node: Node) -> Callable[[list[Array]], tuple[list[Array], int]]:
    (pad_h, pad_w), (stride_h, stride_w) = node.attributes["padding"], node.attributes["stride"]
    batch, channels, height, width = node.outputs[0].shape
    program = _sum_of_two()

    def execute(inputs: list[Array]) -> tuple[list[Array], int]:
        columns = inputs[0]
        image = np.zeros((batch, channels, height + 2 * pad_h, width + 2 * pad_w), np.float32)
        rows, cols = columns.shape[1] * stride_h, columns.shape[2] * stride_w
        for i in range(columns.shape[4]):
            for j in range(columns.shape[5]):
                window = image[:, :, i : i + rows : stride_h, j : j + cols : stride_w]
                window[...] = program.golden([window, columns[:, :, :, :, i, j].transpose(0, 3, 1, 2)])[0]
        return [image[:, :, pad_h : pad_h + height, pad_w : pad_w + width]], 0

    return execute


def _col2im_cycles(node: Node) -> int:
    batch, rows, columns, channels, kernel_h, kernel_w = node.inputs[0].shape
    window = batch * rows * columns * channels
    return kernel_h * kernel_w * _stream_cycles(window, _sum_of_two())
