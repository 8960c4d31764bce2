"""Cycles of FIXAR's adaptive array, and of one DDPG update on it (FIX V, VI-C, Fig. 10).

FIX has no formula; these follow from its dataflow and equal the RTL's cycles (`layer_cycles`). The weight memory
gives P words per cycle: loading a block takes P cycles, or N P in inference, where each core has its own block.

The costs of an update beyond the products of its layers are left out: the paper gives no cycles for Adam,
activations and control. So the throughput here is an upper bound of the published one and was not fitted to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from primitives.fpga.cycles.networks import FIX_HIDDEN, GemmLayer, mlp
from primitives.fpga.devices import catalogue
from primitives.fpga.gemm.plan import blocks


def pass_cycles(words: int, *, cores: int, side: int, inference: bool) -> int:
    """Return the cycles of one pass that streams `words` while the next blocks are loaded."""
    return max(words, side * (cores if inference else 1))


def layer_words(vectors: int, *, cores: int, inference: bool, halves: bool) -> int:
    """Return the words that each core takes in a pass for `vectors` vectors."""
    own = vectors if inference else blocks(vectors, cores)
    return blocks(own, 2) if halves else own


def layer_passes(outputs: int, inputs: int, *, cores: int, side: int, inference: bool) -> int:
    """Return the number of passes of one layer: one for each P x P block of weights that a core loads.

    In inference the cores divide the layer's inputs, so that each loads fewer blocks. `side` is P.
    """
    return blocks(outputs, side) * blocks(blocks(inputs, cores) if inference else inputs, side)


def layer_cycles(
    outputs: int,
    inputs: int,
    vectors: int,
    *,
    cores: int,
    side: int,
    inference: bool,
    halves: bool = False,
) -> int:
    """Return the cycles of one layer that runs alone, from loading the first row of weights to the last sum.

    They have three parts: loading the first P x P blocks of weights, streaming the vectors through all blocks, and
    the latency of the sums (a register after the products, one per level of adders in the columns, and one after
    the sum over the cores).

    Args:
        outputs, inputs: the layer's numbers of outputs and of inputs.
        vectors: number of input vectors, such as the batch size.
        cores: N.
        side: P, rows and columns of a core.
        inference: whether the cores divide the layer's inputs; otherwise they divide the vectors.
        halves: whether a word carries two activations of half the width.
    """
    words = layer_words(vectors, cores=cores, inference=inference, halves=halves)
    passes = layer_passes(outputs, inputs, cores=cores, side=side, inference=inference)
    first_blocks = side * (cores if inference else 1)
    step = pass_cycles(words, cores=cores, side=side, inference=inference)
    return first_blocks + (passes - 1) * step + words + 1 + (side - 1).bit_length()


@dataclass(frozen=True)
class ArrayModel:
    """A FIXAR accelerator: N cores of P x P elements at `clock_hz`, optionally with activations of half the
    width.
    """

    cores: int = 2
    side: int = 16
    clock_hz: float = catalogue.device("u50").clock_hz
    halves: bool = False


FIXAR = ArrayModel()


def _stream_cycles(outputs: int, inputs: int, vectors: int, inference: bool, array: ArrayModel) -> int:
    """Return the cycles of a layer within a sequence: loading its first blocks and draining its sums overlap with
    others.
    """
    words = layer_words(vectors, cores=array.cores, inference=inference, halves=array.halves)
    step = pass_cycles(words, cores=array.cores, side=array.side, inference=inference)
    return step * layer_passes(outputs, inputs, cores=array.cores, side=array.side, inference=inference)


def forward_cycles(layers: Sequence[GemmLayer], batch: int, array: ArrayModel) -> int:
    return sum(_stream_cycles(layer.outputs, layer.inputs, batch, True, array) for layer in layers)


def backward_cycles(
    layers: Sequence[GemmLayer], batch: int, array: ArrayModel, *, to_inputs: bool = False
) -> int:
    """Return the cycles of errors from the outputs back to the first hidden layer, or to the inputs."""
    reached = layers if to_inputs else layers[1:]
    return sum(_stream_cycles(layer.inputs, layer.outputs, batch, False, array) for layer in reached)


def gradient_cycles(layers: Sequence[GemmLayer], batch: int, array: ArrayModel) -> int:
    """Return the cycles of the weights' gradients: every vector of a core's share meets every P x P block once."""
    words = layer_words(batch, cores=array.cores, inference=False, halves=array.halves)
    return (
        sum(blocks(layer.outputs, array.side) * blocks(layer.inputs, array.side) for layer in layers) * words
    )


@dataclass(frozen=True)
class LayerProduct:
    """A product on the array: (outputs, inputs) of a matrix by (inputs, vectors).

    Attributes:
        inference: whether the cores share the layer; otherwise they share its vectors.
    """

    outputs: int
    inputs: int
    vectors: int
    inference: bool


def ddpg_products(state: int, action: int, batch: int) -> list[LayerProduct]:
    """Return the products of one DDPG update, in order: each needs the one before, and runs alone on the array.

    The gradient of a layer's weights is errors by activations, summed over the batch.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)

    def forward(layers: Sequence[GemmLayer]) -> list[LayerProduct]:
        return [LayerProduct(layer.outputs, layer.inputs, batch, True) for layer in layers]

    def backward(layers: Sequence[GemmLayer]) -> list[LayerProduct]:
        return [LayerProduct(layer.inputs, layer.outputs, batch, False) for layer in layers]

    def gradient(layers: Sequence[GemmLayer]) -> list[LayerProduct]:
        return [LayerProduct(layer.outputs, batch, layer.inputs, False) for layer in layers]

    update_critic = [*forward(critic), *backward(critic[1:]), *gradient(critic)]
    update_actor = [
        *forward(actor),
        *forward(critic),
        *backward(critic),
        *backward(actor[1:]),
        *gradient(actor),
    ]
    return [*forward(actor), *forward(critic), *update_critic, *update_actor]


def ddpg_weights(state: int, action: int) -> int:
    """Return the number of weights and biases that an update of actor and critic changes."""
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    return sum(layer.weights + layer.outputs for layer in (*actor, *critic))


def ddpg_cycles(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> int:
    """Return the cycles of one DDPG update's products: target actor and critic, critic, actor through critic (FIX
    III, VI-B).

    In forward passes the cores share each layer; in backward passes and gradients they share the batch.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    forward = 2 * forward_cycles(actor, batch, array) + 3 * forward_cycles(critic, batch, array)
    update_critic = backward_cycles(critic, batch, array) + gradient_cycles(critic, batch, array)
    through_critic = backward_cycles(critic, batch, array, to_inputs=True)
    update_actor = backward_cycles(actor, batch, array) + gradient_cycles(actor, batch, array)
    return forward + update_critic + through_critic + update_actor


def ddpg_samples_per_s(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> float:
    """Return the samples of the batch per second (FIX: inferences per second, IPS), counting only products."""
    return batch * array.clock_hz / ddpg_cycles(state, action, batch, array)


def block_utilisation(layers: Sequence[GemmLayer], side: int) -> float:
    """Return the share of elements that hold a weight when layers are divided into blocks of side x side, 0 to 1."""
    used = sum(layer.inputs * layer.outputs for layer in layers)
    return used / sum(
        side * side * blocks(layer.inputs, side) * blocks(layer.outputs, side) for layer in layers
    )
