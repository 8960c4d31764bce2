"""Readings of FIX's dataflow: how many vectors pass a block of weights before the next block is loaded (FIX III, V-B).

FIX states the size of its activation memory, its rate, the utilisation of its elements, and that its weight memory
is 16 modules of 512 bits. It does not say how these go together: `DATAFLOWS` are the ways that its text allows. Each
has a formula for the cycles of a DDPG update's matrix products. What activations, control and Adam take is left out,
so that the rates are upper bounds. `primitives.fpga.fixar` is an accelerator with the fourth one, in hardware.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.cycles.networks import FIX_HIDDEN, GemmLayer, mlp
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.gemm.plan import blocks

CORES, SIDE = 2, 16  # FIX III, VI-A
ELEMENTS = CORES * SIDE * SIDE
WORD_BYTES = 4


@dataclass(frozen=True)
class FixarDataflow:
    """A reading of FIX's dataflow.

    Attributes:
        name: the reading in words.
        vectors: number of vectors that pass a block of weights before the next is loaded; None: the whole batch.
        weights_per_cycle: weights that the memory gives, and gradients that it adds up, per cycle.
        halves: whether activations have 16 bits, so that a word carries two of them and an element multiplies both.
    """

    name: str
    vectors: int | None
    weights_per_cycle: int
    halves: bool = False


DATAFLOWS = (
    FixarDataflow("a batch for each block, 16 weights a cycle", None, 16),
    FixarDataflow("one vector, 16 weights a cycle", 1, 16),
    FixarDataflow("one vector, 256 weights a cycle", 1, 256),
    FixarDataflow("two vectors, 256 weights a cycle", 2, 256),
    FixarDataflow("two vectors of 16 bits, 256 weights a cycle", 2, 256, halves=True),
)


def layer_words(vectors: int, *, cores: int, inference: bool, halves: bool) -> int:
    """Return the number of words that stream through each core in a pass, which is the use of one block of weights.

    Args:
        vectors: number of input vectors, such as the batch size.
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
        inference: whether the cores divide the layer's inputs; otherwise they divide the vectors.
    """
    return blocks(outputs, side) * blocks(blocks(inputs, cores) if inference else inputs, side)


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


def ddpg_cycles(flow: FixarDataflow, state: int, action: int, batch: int) -> int:
    """Return the cycles of the matrix products of one DDPG update.

    A pass, the use of one block of weights by every core, takes as long as its words stream or as the next blocks
    load, whichever is longer. In forward passes the cores divide a layer and load a block each; otherwise they
    divide the vectors and share a block, whose gradients take the memory as long as its weights.
    """
    together = min(flow.vectors or batch, batch)
    total = 0
    for product in ddpg_products(state, action, batch):
        # Of a gradient's product the samples are the inputs, and stream as vectors do elsewhere.
        gradient = product.vectors != batch
        inputs = product.vectors if gradient else product.inputs
        passes = layer_passes(product.outputs, inputs, cores=CORES, side=SIDE, inference=product.inference)
        words = layer_words(together, cores=CORES, inference=product.inference, halves=flow.halves)
        loading = blocks(SIDE * SIDE * (CORES if product.inference else 1), flow.weights_per_cycle)
        total += blocks(batch, together) * passes * max(words, loading)
    return total


def samples_per_s(flow: FixarDataflow, state: int, action: int, batch: int) -> float:
    """Return the samples per second of DDPG updates at FIX's clock frequency; only matrix products take time."""
    return batch * catalogue.device("u50").clock_hz / ddpg_cycles(flow, state, action, batch)


def multiply_adds_per_element(flow: FixarDataflow, state: int, action: int, batch: int) -> float:
    """Return the multiply-adds of an update per element and cycle: at most 1, or 2 with activations of 16 bits."""
    done = sum(p.outputs * p.inputs * p.vectors for p in ddpg_products(state, action, batch))
    return done / (ELEMENTS * ddpg_cycles(flow, state, action, batch))


def activation_bytes(flow: FixarDataflow, state: int, batch: int) -> int:
    """Return the bytes that hold what goes into the actor's layers, in lines of 16 words, for the vectors in work.

    Args:
        state: number of elements of a state.
    """
    lines = sum(blocks(size, SIDE) for size in (state, *FIX_HIDDEN))
    together = min(flow.vectors or batch, batch)
    return WORD_BYTES * SIDE * lines * (blocks(together, 2) if flow.halves else together)
