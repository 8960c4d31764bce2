"""The NumPy interpreter of the step graph: slow and simple, the reference that other backends must match."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import Graph, Instruction, Node, View


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def _sigmoid(x: Array) -> Array:
    # Both forms are exact; each is used where its exponential cannot overflow.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


SCALAR_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "copy": np.positive,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "logical_not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "remainder": np.remainder,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "where": np.where,
}
_REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min}
_ARGUMENT_REDUCTIONS: dict[str, Callable[..., Array]] = {"max": np.argmax, "min": np.argmin}


def apply_instruction(instruction: Instruction, arguments: list[Array]) -> Array:
    """Compute one instruction of an element-wise program in NumPy; the arguments broadcast to one shape."""
    if instruction.op == "constant":
        return np.asarray(instruction.value, dtype=instruction.dtype)
    if instruction.op == "copy":
        return arguments[0].astype(instruction.dtype)
    return np.asarray(SCALAR_FUNCTIONS[instruction.op](*arguments)).astype(instruction.dtype, copy=False)


def patches(x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> Array:
    """Return the patches that a convolution's kernel covers: a view (B, OH, OW, C, KH, KW) of the zero-padded x.

    Args:
        x: (B, C, H, W).
        kernel, stride, padding: parameters of the convolution, each (height, width).
    """
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    return windows[:, :, :: stride[0], :: stride[1]].transpose(0, 2, 3, 1, 4, 5)


def _col2im(columns: Array, shape: tuple[int, ...], attributes: Mapping[str, Any]) -> Array:
    (padding_h, padding_w), (stride_h, stride_w) = attributes["padding"], attributes["stride"]
    batch, channels, height, width = shape
    padded = np.zeros((batch, channels, height + 2 * padding_h, width + 2 * padding_w), columns.dtype)
    rows, cols = columns.shape[1] * stride_h, columns.shape[2] * stride_w
    for i in range(columns.shape[4]):
        for j in range(columns.shape[5]):
            padded[:, :, i : i + rows : stride_h, j : j + cols : stride_w] += columns[
                :, :, :, :, i, j
            ].transpose(0, 3, 1, 2)
    return padded[:, :, padding_h : padding_h + height, padding_w : padding_w + width]


def _scatter_add(x: Array, index: Array, source: Array, axis: int) -> Array:
    result = x.copy()
    where: list[Array] = list(np.indices(index.shape, sparse=True))
    where[axis] = index
    np.add.at(result, tuple(where), source)
    return result


def execute_node(node: Node, inputs: list[Array]) -> list[Array]:
    """Compute one node of a step graph in NumPy.

    Returns:
        The arrays that the node writes, in order.
    """
    attributes = node.attributes
    match node.kind:
        case "elementwise":
            registers = list(inputs)
            with np.errstate(all="ignore"):
                for instruction in node.program:
                    arguments = [registers[i] for i in instruction.arguments]
                    registers.append(apply_instruction(instruction, arguments))
            return [registers[i] for i in node.results]
        case "matmul":
            return [np.matmul(*inputs)]
        case "reduce":
            return [_REDUCTIONS[attributes["op"]](inputs[0], axis=attributes["axes"])]
        case "argreduce":
            return [_ARGUMENT_REDUCTIONS[attributes["op"]](inputs[0], axis=attributes["axis"])]
        case "gather":
            return [np.take_along_axis(inputs[0], inputs[1].astype(np.int64), axis=attributes["axis"])]
        case "scatter_add":
            return [_scatter_add(inputs[0], inputs[1], inputs[2], attributes["axis"])]
        case "take":
            return [np.take(inputs[0], inputs[1].astype(np.int64), axis=attributes["axis"])]
        case "im2col":
            return [patches(inputs[0], attributes["kernel"], attributes["stride"], attributes["padding"])]
        case "col2im":
            return [_col2im(inputs[0], node.outputs[0].shape, attributes)]
    raise ValueError(f"kind: found {node.kind!r}, which is no node kind")


class ReferenceExecutable(Executable):
    """Executes each graph node by node. A buffer is one flat array; the variants share the arrays of the state."""

    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        """Allocate the arrays; the state starts at zero."""
        super().__init__(graphs)
        self._state = {name: np.zeros(b.size, b.dtype) for name, b in self.state_buffers.items()}
        self._leaves = {name: self._state[name].reshape(b.shape) for name, b in self.state_buffers.items()}
        self._arrays = {variant: self._allocated(graph) for variant, graph in graphs.items()}

    def _allocated(self, graph: Graph) -> list[Array]:
        return [
            self._state[b.name]
            if b.kind == "state"
            else np.array(b.values, dtype=b.dtype)
            if b.kind == "constant"
            else np.zeros(b.size, b.dtype)
            for b in graph.buffers
        ]

    def _execute(self, node: Node, inputs: list[Array]) -> list[Array]:
        """Return the node's outputs."""
        return execute_node(node, inputs)

    def state(self) -> dict[str, Array]:
        """Return the arrays (leaves) of the learner's state by name.

        They are the same array objects after every step; a step changes their values.
        """
        return self._leaves

    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the learner's state."""
        self._state[name][...] = np.asarray(value).ravel()

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step node by node, and return copies of the graph's outputs by name."""
        graph, arrays = self.graphs[variant], self._arrays[variant]

        def located(view: View) -> Array:
            array = arrays[view.buffer]
            strides = tuple(stride * array.itemsize for stride in view.strides)
            return as_strided(array[view.offset :], view.shape, strides)

        for position, value in self.checked_inputs(variant, inputs):
            arrays[position][...] = value.ravel()
        for node in graph.nodes:
            results = self._execute(node, [located(view) for view in node.inputs])
            for view, result in zip(node.outputs, results, strict=True):
                located(view)[...] = result
        return {name: located(view).copy() for name, view in graph.outputs.items()}
