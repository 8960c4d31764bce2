"""The role of each buffer and product of a step graph in FIX's accelerator: weight, activation or gradient.

The graph does not state roles, so they are derived from its data flow. The first product that reads a weight matrix is
a layer's forward pass, and sums over its inputs; one that sums over its other dimension, the outputs, carries an error
back. A product without a weight that reads an operand of a forward pass is a weight's gradient. Buffers computed from
errors are gradients too.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from placerl.primitives.graph.graph import Graph, Node, View
from placerl.primitives.quantization.fixed_point import Q
from placerl.primitives.quantization.precision import Precision


class Role(StrEnum):
    """The role of an operand of a matrix product: a weight, an activation, or an error that flows back."""

    WEIGHT = "weight"
    ACTIVATION = "activation"
    ERROR = "error"


class Plain(StrEnum):
    """The storage of a buffer that is not in fixed point: floats, or whole numbers (indices, flags, pixels)."""

    BINARY32 = "binary32"
    BINARY64 = "binary64"
    WHOLE = "whole"  # indices, flags, pixels: unchanged


Storage = Q | Plain


@dataclass(frozen=True)
class Operand:
    """An operand of a matrix product.

    Attributes:
        role: role of the operand.
        layer: the weight matrix of its layer, such as `state/actor/0.weight`; "" if unknown. The ranges of operands
            are recorded by role and layer, so that all products of a layer share them.
    """

    role: Role
    layer: str

    @property
    def key(self) -> str:
        """The key under which the operand's range is recorded, such as "weight/actor/0.weight".

        It is "" if the layer is unknown; the operand's range is then not recorded.
        """
        return f"{self.role}/{self.layer.removeprefix('state/')}" if self.layer else ""

    def bits(self, precision: Precision) -> int | None:
        """Return the number of bits to which the operand is quantised after the first `delay` gradient steps.

        Returns:
            None if the operand keeps all bits.
        """
        if not self.layer:
            return None
        return {
            Role.WEIGHT: precision.weight_bits,
            Role.ACTIVATION: precision.activation_bits,
            Role.ERROR: precision.error_bits,
        }[self.role]


@dataclass(frozen=True)
class Roles:
    """The roles of a graph's buffers and products.

    Attributes:
        storage: how the numbers of each buffer are stored.
        labels: for each buffer the kind, such as "weights", under which numbers that do not fit are counted.
        operands: the operands A and B of each matrix product, by the position of the product's node in the graph.
    """

    storage: tuple[Storage, ...]
    labels: tuple[str, ...]
    operands: dict[int, tuple[Operand, Operand]]


def assign(graph: Graph, precision: Precision) -> Roles:
    """Return the role of every buffer and product of a step graph, derived from its data flow.

    The module's docstring gives the rules.

    Of the state, leaves under a key `mean` or `square` are Adam's moments, and all others are weights.

    Scalars (shape `()`: Adam's step count and rates, losses, entropy coefficients) are binary64: there are few,
    and the controller computes them, which in FIX Fig. 2 is the host. Buffers that are only summed to a scalar,
    such as the terms of a loss or of a gradient's norm, are binary64 too.
    """
    operands = _operands(graph)
    gradients = _gradients(graph, operands)
    summed = _summed_to_scalars(graph)

    def storage(position: int) -> tuple[Storage, str]:
        buffer = graph.buffers[position]
        if not buffer.dtype.startswith("float"):
            return Plain.WHOLE, ""
        if buffer.shape == ():
            return Plain.BINARY64, ""
        if buffer.kind == "state":
            if "/square/" in buffer.name:
                return precision.square or Plain.BINARY32, "moments"
            if "/mean/" in buffer.name:
                return precision.mean or Plain.BINARY32, "moments"
            return precision.weights, "weights"
        if position in gradients:
            return precision.gradients, "gradients"
        if position in summed:
            return Plain.BINARY64, ""
        return precision.activations, "inputs" if buffer.kind == "input" else "activations"

    held = [storage(i) for i in range(len(graph.buffers))]
    return Roles(tuple(kind for kind, _ in held), tuple(label for _, label in held), operands)


def _weight_side(graph: Graph, view: View, inner: int, outer: int, step: int) -> tuple[bool, bool]:
    """Return whether a product's operand is a weight matrix, and whether the product sums over its later dimensions.

    These are the inputs of PyTorch's layers; a network of one's own may keep its weights as (inputs, outputs).

    Args:
        inner, outer: size of the view along the product's sum, and in the other dimension.
        step: stride of the view along the sum.
    """
    buffer = graph.buffers[view.buffer]
    is_weight = buffer.kind == "state" and len(buffer.shape) >= 2 and view.size == buffer.size
    if not is_weight:
        return False, False
    rows, columns = buffer.shape[0], prod(buffer.shape[1:])
    if rows == columns:
        return True, step == 1
    return True, (inner, outer) == (columns, rows)


def _operands(graph: Graph) -> dict[int, tuple[Operand, Operand]]:
    operands: dict[int, tuple[Operand, Operand]] = {}
    layer_of: dict[int, str] = {}  # layer of each buffer that forward passes read
    forward: dict[str, bool] = {}  # by layer, whether its forward pass sums over the later dimensions
    unknown = Operand(Role.ACTIVATION, "")
    for position, node in enumerate(graph.nodes):
        if node.kind != "matmul":
            continue
        a, b = node.inputs
        sides = (
            _weight_side(graph, a, a.shape[-1], a.shape[-2], a.strides[-1]),
            _weight_side(graph, b, b.shape[-2], b.shape[-1], b.strides[-2]),
        )
        if not sides[0][0] and not sides[1][0]:
            continue
        which = 1 if sides[1][0] else 0
        weight, other = (b, a) if which else (a, b)
        layer = graph.buffers[weight.buffer].name
        sums_later = sides[which][1]
        role = Role.ACTIVATION if sums_later == forward.setdefault(layer, sums_later) else Role.ERROR
        if role is Role.ACTIVATION:
            layer_of.setdefault(other.buffer, layer)
        pair = (Operand(role, layer), Operand(Role.WEIGHT, layer))
        operands[position] = pair if which else pair[::-1]
    for position, node in enumerate(graph.nodes):
        if node.kind != "matmul" or position in operands:
            continue
        layers = [layer_of.get(view.buffer, "") for view in node.inputs]
        if bool(layers[0]) == bool(layers[1]):
            operands[position] = (unknown, unknown)
            continue
        layer = layers[0] or layers[1]
        pair = (Operand(Role.ERROR, layer), Operand(Role.ACTIVATION, layer))
        operands[position] = pair if layers[1] else pair[::-1]
    return operands


def _gradients(graph: Graph, operands: dict[int, tuple[Operand, Operand]]) -> set[int]:
    """Return the buffers of errors and gradients."""
    marked: set[int] = set()
    for position, pair in operands.items():
        node = graph.nodes[position]
        errors = [view for view, operand in zip(node.inputs, pair, strict=True) if operand.role is Role.ERROR]
        marked.update(view.buffer for view in errors)
        if errors:
            marked.add(node.outputs[0].buffer)
    # A buffer that is moved into an error is an error itself, such as the loss's derivative that DQN scatters.
    for node in reversed(graph.nodes):
        if node.kind in ("scatter_add", "col2im") and node.outputs[0].buffer in marked:
            marked.update((node.inputs[0].buffer, node.inputs[-1].buffer))
    # The state is updated from gradients, but is not a gradient.
    state = {i for i, _ in graph.of_kind("state")}
    temporary = {i for i, _ in graph.of_kind("temporary")}
    for node in graph.nodes:
        for view, sources in _dependencies(node):
            if view.buffer not in state and any(source.buffer in marked for source in sources):
                marked.add(view.buffer)
        # What errors are added to, such as the zeros of a gradient through `gather`, has their format.
        if node.kind == "scatter_add" and node.inputs[2].buffer in marked:
            marked.update({node.inputs[0].buffer} & temporary)
    return marked


def _dependencies(node: Node) -> list[tuple[View, list[View]]]:
    """Return each output with the inputs that it depends on."""
    if node.kind != "elementwise":
        indices = ("gather", "take", "scatter_add")
        data = [node.inputs[0], *node.inputs[2:]] if node.kind in indices else list(node.inputs)
        return [(view, data) for view in node.outputs]
    reads: list[set[int]] = [{i} for i in range(len(node.inputs))]
    for instruction in node.program:
        reads.append(set().union(*(reads[i] for i in instruction.arguments)))
    return [
        (view, [node.inputs[i] for i in reads[result]])
        for view, result in zip(node.outputs, node.results, strict=True)
    ]


def _summed_to_scalars(graph: Graph) -> set[int]:
    """Return temporaries that are read only by sums to one number."""
    output_buffers = {view.buffer for view in graph.outputs.values()}
    summed: set[int] = set()
    others: set[int] = set()
    for node in graph.nodes:
        is_sum = node.kind == "reduce" and graph.buffers[node.outputs[0].buffer].shape == ()
        target = summed if is_sum else others
        target.update(view.buffer for view in node.inputs)
        if node.kind != "elementwise":
            others.update(view.buffer for view in node.outputs)
    temporary = {i for i, _ in graph.of_kind("temporary")}
    return (summed & temporary) - others - output_buffers
