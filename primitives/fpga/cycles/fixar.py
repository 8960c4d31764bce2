"""Cycles of FIXAR's adaptive array, and of one DDPG update on it (FIX V, VI-C, Fig. 10).

FIX states no formula; these follow from its dataflow, and hold for the RTL here to the cycle (`layer_cycles`).
Weights come from a memory of P words a cycle: a block takes P cycles, in inference N P, as each core has its own.

What an update costs beside the products of its layers is left out: the paper gives no cycles for Adam, activations
and control. So the throughput here is an upper bound of the published one, never a fit to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from primitives.fpga.cycles.networks import FIX_HIDDEN, Layer, mlp
from primitives.fpga.devices import catalogue
from primitives.fpga.gemm.plan import blocks


def pass_cycles(words: int, *, cores: int, side: int, inference: bool) -> int:
    """Cycles of one pass that streams `words` while the next blocks come in."""
    return max(words, side * (cores if inference else 1))


def layer_words(vectors: int, *, cores: int, inference: bool, halves: bool) -> int:
    """Words that each core takes in a pass for so many vectors."""
    own = vectors if inference else blocks(vectors, cores)
    return blocks(own, 2) if halves else own


def layer_passes(outputs: int, inputs: int, *, cores: int, side: int, inference: bool) -> int:
    """Passes of one layer: its inputs are split over the cores in inference."""
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
    """Cycles of a layer alone, from the first row of weights to the last sum.

    First blocks, passes, and the way to the sums: a register behind the products, one for each level of adders down
    the columns, one behind the sum over the cores.
    """
    words = layer_words(vectors, cores=cores, inference=inference, halves=halves)
    passes = layer_passes(outputs, inputs, cores=cores, side=side, inference=inference)
    first_blocks = side * (cores if inference else 1)
    step = pass_cycles(words, cores=cores, side=side, inference=inference)
    return first_blocks + (passes - 1) * step + words + 1 + (side - 1).bit_length()


@dataclass(frozen=True)
class ArrayModel:
    """A FIXAR accelerator: N cores of P x P elements at `clock_hz`, whether activations are of half the width."""

    cores: int = 2
    side: int = 16
    clock_hz: float = catalogue.device("u50").clock_hz
    halves: bool = False


FIXAR = ArrayModel()


def _stream_cycles(outputs: int, inputs: int, vectors: int, inference: bool, array: ArrayModel) -> int:
    """Cycles of a layer among others: its first blocks came in and its sums leave beside its neighbours' passes."""
    words = layer_words(vectors, cores=array.cores, inference=inference, halves=array.halves)
    step = pass_cycles(words, cores=array.cores, side=array.side, inference=inference)
    return step * layer_passes(outputs, inputs, cores=array.cores, side=array.side, inference=inference)


def forward_cycles(layers: Sequence[Layer], batch: int, array: ArrayModel) -> int:
    return sum(_stream_cycles(layer.outputs, layer.inputs, batch, True, array) for layer in layers)


def backward_cycles(
    layers: Sequence[Layer], batch: int, array: ArrayModel, *, to_inputs: bool = False
) -> int:
    """Of errors from the outputs back to the first hidden layer, or to the inputs."""
    reached = layers if to_inputs else layers[1:]
    return sum(_stream_cycles(layer.inputs, layer.outputs, batch, False, array) for layer in reached)


def gradient_cycles(layers: Sequence[Layer], batch: int, array: ArrayModel) -> int:
    """Of the weights' gradients: every vector of a core's share meets every block of P x P weights once."""
    words = layer_words(batch, cores=array.cores, inference=False, halves=array.halves)
    return (
        sum(blocks(layer.outputs, array.side) * blocks(layer.inputs, array.side) for layer in layers) * words
    )


@dataclass(frozen=True)
class Product:
    """A product of the array: (outputs, inputs) of a matrix by (inputs, vectors).

    Attributes:
        inference: a layer split over the cores; otherwise its vectors are.
    """

    outputs: int
    inputs: int
    vectors: int
    inference: bool


def ddpg_products(state: int, action: int, batch: int) -> list[Product]:
    """The products of one DDPG update, in turn: each needs the one before, and runs alone on the array.

    The gradient of a layer's weights is errors by activations: the batch is what is added over.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)

    def forward(layers: Sequence[Layer]) -> list[Product]:
        return [Product(layer.outputs, layer.inputs, batch, True) for layer in layers]

    def backward(layers: Sequence[Layer]) -> list[Product]:
        return [Product(layer.inputs, layer.outputs, batch, False) for layer in layers]

    def gradient(layers: Sequence[Layer]) -> list[Product]:
        return [Product(layer.outputs, batch, layer.inputs, False) for layer in layers]

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
    """Weights and biases that an update of actor and critic changes."""
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    return sum(layer.weights + layer.outputs for layer in (*actor, *critic))


def ddpg_cycles(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> int:
    """Cycles of the products of one DDPG update: target actor and critic, critic, actor through critic; FIX III, VI-B.

    Forward passes are split over the cores by layer, backward passes and gradients by batch.
    """
    actor, critic = mlp(state, *FIX_HIDDEN, action), mlp(state + action, *FIX_HIDDEN, 1)
    forward = 2 * forward_cycles(actor, batch, array) + 3 * forward_cycles(critic, batch, array)
    update_critic = backward_cycles(critic, batch, array) + gradient_cycles(critic, batch, array)
    through_critic = backward_cycles(critic, batch, array, to_inputs=True)
    update_actor = backward_cycles(actor, batch, array) + gradient_cycles(actor, batch, array)
    return forward + update_critic + through_critic + update_actor


def ddpg_samples_per_s(state: int, action: int, batch: int, array: ArrayModel = FIXAR) -> float:
    """Samples of the batch a second (FIX calls it inferences a second, IPS), products alone."""
    return batch * array.clock_hz / ddpg_cycles(state, action, batch, array)


def block_utilisation(layers: Sequence[Layer], side: int) -> float:
    """The share of elements that hold a weight when layers are cut into blocks of side x side, 0 to 1."""
    used = sum(layer.inputs * layer.outputs for layer in layers)
    return used / sum(
        side * side * blocks(layer.inputs, side) * blocks(layer.outputs, side) for layer in layers
    )
