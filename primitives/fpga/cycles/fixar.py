"""Cycles of FIXAR's adaptive array, and of one DDPG update on it (FIX V, VI-C, Fig. 10).

The array has N cores of P x P elements. FIX has no formula for it; the formulas here follow from its dataflow and
equal the cycles of this project's hardware (`layer_cycles`). The weight memory gives P words per cycle: loading a
block takes P cycles, or N P in inference, where each core has its own block.

The costs of an update beyond the products of its layers are left out: the paper gives no cycles for Adam, activations
and control. So the throughput here is an upper bound of the published one and was not fitted to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.cycles.networks import FIX_HIDDEN, GemmLayer, mlp
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.gemm.plan import blocks


def pass_cycles(words: int, *, cores: int, side: int, inference: bool) -> int:
    """Return the cycles of one pass, in which cores use one block of weights each and load the next.

    Args:
        words: words that stream through each core in the pass.
        cores: N, number of cores.
        side: P, rows and columns of a core.
        inference: whether each core loads a block of its own, which takes N P cycles in all; otherwise all cores load
            the same block, in P cycles.
    """
    return max(words, side * (cores if inference else 1))


def layer_words(vectors: int, *, cores: int, inference: bool, halves: bool) -> int:
    """Return the number of words that stream through each core in a pass, which is the use of one block of weights.

    Args:
        vectors: number of input vectors, such as the batch size.
        cores: N, number of cores.
        inference: whether every core takes all vectors; otherwise the cores divide them.
        halves: whether a word carries two activations of half the width.
    """
    own = vectors if inference else blocks(vectors, cores)
    return blocks(own, 2) if halves else own


def layer_passes(outputs: int, inputs: int, *, cores: int, side: int, inference: bool) -> int:
    """Return the number of passes of one layer: one for each P x P block of weights that a core loads.

    In inference the cores divide the layer's inputs, so that each loads fewer blocks.

    Args:
        outputs, inputs: the layer's numbers of outputs and of inputs.
        cores: N, number of cores.
        side: P, rows and columns of a core.
        inference: whether the cores divide the layer's inputs; otherwise they divide the vectors.
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
        cores: N, number of cores.
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
    """A FIXAR accelerator, of which the cycles and the throughput are computed.

    Attributes:
        cores: N, number of cores.
        side: P, rows and columns of a core.
        clock_hz: clock frequency in Hz.
        halves: whether activations have half the width, so that a word carries two.
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
    """Return the cycles of the products that carry the errors back through a network's layers.

    Args:
        layers: from the inputs on.
        array: the accelerator.
        to_inputs: whether the errors go back to the network's inputs; otherwise to the first hidden layer.
    """
    reached = layers if to_inputs else layers[1:]
    return sum(_stream_cycles(layer.inputs, layer.outputs, batch, False, array) for layer in reached)


def gradient_cycles(layers: Sequence[GemmLayer], batch: int, array: ArrayModel) -> int:
    """Return the cycles of the products that give the gradients of a network's weights.

    The cores divide the batch, and each streams its vectors once for every P x P block of every layer.

    Args:
        layers: the layers of the network, from the inputs on.
        array: the accelerator.
    """
    words = layer_words(batch, cores=array.cores, inference=False, halves=array.halves)
    return (
        sum(blocks(layer.outputs, array.side) * blocks(layer.inputs, array.side) for layer in layers) * words
    )


@dataclass(frozen=True)
class LayerProduct:
    """A matrix product on the array: a matrix (outputs, inputs) times vectors (inputs, vectors).

    Attributes:
        outputs, inputs: sizes of the matrix.
        vectors: number of vectors.
        inference: whether the cores share the layer; otherwise they share its vectors.
    """

    outputs: int
    inputs: int
    vectors: int
    inference: bool


def ddpg_products(state: int, action: int, batch: int) -> list[LayerProduct]:
    """Return the matrix products of one DDPG update, in the order in which they run, one at a time.

    The gradient of a layer's weights is errors times activations, summed over the batch.

    Args:
        state, action: numbers of elements of a state and of an action.
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
    """Return the number of weights and biases that a DDPG update changes in FIX's actor and critic.

    Args:
        state, action: numbers of elements of a state and of an action.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    return sum(layer.weights + layer.outputs for layer in (*actor, *critic))


def ddpg_cycles(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> int:
    """Return the cycles of the matrix products of one DDPG update (FIX III, VI-B).

    These are the target actor and critic, the update of the critic, and the update of the actor through the critic.
    In forward passes the cores share each layer; in backward passes and gradients they share the batch.

    Args:
        state, action: numbers of elements of a state and of an action.
        array: the accelerator.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    forward = 2 * forward_cycles(actor, batch, array) + 3 * forward_cycles(critic, batch, array)
    update_critic = backward_cycles(critic, batch, array) + gradient_cycles(critic, batch, array)
    through_critic = backward_cycles(critic, batch, array, to_inputs=True)
    update_actor = backward_cycles(actor, batch, array) + gradient_cycles(actor, batch, array)
    return forward + update_critic + through_critic + update_actor


def ddpg_samples_per_s(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> float:
    """Return the samples per second of DDPG updates (FIX: inferences per second, IPS).

    Only the time of the matrix products counts (`ddpg_cycles`).

    Args:
        state, action: numbers of elements of a state and of an action.
        batch: number of samples of an update.
        array: the accelerator.
    """
    return batch * array.clock_hz / ddpg_cycles(state, action, batch, array)


def block_utilisation(layers: Sequence[GemmLayer], side: int) -> float:
    """Return the share of an array's elements that hold a weight, 0 to 1, over all blocks of the layers.

    A layer is divided into blocks of side x side, which its edges may leave partly empty.
    """
    used = sum(layer.inputs * layer.outputs for layer in layers)
    return used / sum(
        side * side * blocks(layer.inputs, side) * blocks(layer.outputs, side) for layer in layers
    )
