"""Sizes and number formats of the accelerator: where each layer's weights and activations are stored.

Weights are stored in blocks of P x P: word r of a block has the weights of output r to P inputs. A layer's bias is the
column after its last input, and reads the constant 1. Blocks of a layer follow each other, the inputs' blocks first;
then follow the next layer's, and the critic's after the actor's. What a block has beyond a layer's sizes is 0.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from placerl.primitives.fpga.cycles.networks import FIX_BENCHMARKS, FIX_HIDDEN
from placerl.primitives.fpga.gemm.plan import blocks
from placerl.primitives.quantization.precision import Precision

CORES = 2  # FIX VI-A
CODES = 2  # of 16 bits in a word of an activation memory
SAMPLES = CORES * CODES  # that are trained together with activations of 16 bits; with 32 bits, one a core

# The formats of the software's fixed-point training, of 32 bits.
WEIGHTS, ACTIVATIONS, GRADIENTS = Precision.weights, Precision.activations, Precision.gradients
WORD_BITS = 32
HALF_BITS = 16
SUM_BITS = 64
ONE = 1 << ACTIVATIONS.fraction_bits

# Adam's moments. FIX gives no formats: with 32 bits for both, small gradients would have no second moment.
MEAN_BITS, MEAN_FRACTION = 40, 32
SQUARE_BITS, SQUARE_FRACTION = 56, 48

INPUTS = 0  # the scale of the networks' inputs, before those of the hidden layers
SCALES = 5  # inputs, the actor's two hidden layers, the critic's
LEAST_SHIFT, MOST_SHIFT = 2, 16  # with which 1 and the largest activation fit a code of 16 bits


def group_size(*, halves: bool) -> int:
    """Return the samples that are trained together: one a core, or with 16-bit activations two."""
    return SAMPLES if halves else CORES


def groups_of(batch: int, *, halves: bool) -> int:
    """Return the groups of samples in a batch: of two samples, or with 16-bit activations of four.

    Raises:
        ValueError: the batch is empty, or its last group is not full.
    """
    samples = group_size(halves=halves)
    if batch < 1 or batch % samples:
        raise ValueError(f"batch: found {batch}; allowed: a positive multiple of {samples}")
    return batch // samples


@dataclass(frozen=True)
class LayerPlace:
    """A fully connected layer with the places of its data.

    Attributes:
        inputs, outputs: numbers of neurons.
        base: address of the layer's first block of weights.
        side: P, rows and columns of a block.
        read_line: line of the first inputs in the activation memory.
        write_line: line of the first outputs; None for the network's outputs.
        scale: number of the scale of the inputs' 16-bit codes.
        critic: whether it is a layer of the critic.
    """

    inputs: int
    outputs: int
    base: int
    side: int
    read_line: int
    write_line: int | None
    scale: int
    critic: bool

    @property
    def in_blocks(self) -> int:
        """Number of blocks over the inputs and the bias."""
        return blocks(self.inputs + 1, self.side)

    @property
    def out_blocks(self) -> int:
        """Number of blocks over the outputs."""
        return blocks(self.outputs, self.side)

    @property
    def blocks(self) -> int:
        """Number of blocks of the layer."""
        return self.in_blocks * self.out_blocks


@dataclass(frozen=True)
class FixarShape:
    """Sizes of an accelerator.

    Attributes:
        state, action: numbers of elements of a state and of an action; `action` is at most `side`.
        hidden: numbers of neurons of the two hidden layers, of actor and critic.
        side: P, rows and columns of a core, a power of two.
    """

    state: int
    action: int
    hidden: tuple[int, int] = FIX_HIDDEN
    side: int = 16

    def __post_init__(self) -> None:
        """Raise ValueError, which names the field, for a value out of range."""
        if self.side < 2 or self.side & (self.side - 1):
            raise ValueError(f"side: found {self.side}; allowed: a power of two, 2 or more")
        if not 1 <= self.action <= self.side:
            raise ValueError(f"action: found {self.action}; allowed: 1 to side, which is {self.side}")
        if min(self.state, *self.hidden) < 1:
            raise ValueError(f"state, hidden: found {self.state}, {self.hidden}; allowed: 1 or more")

    @cached_property
    def input_lines(self) -> int:
        """Lines of P words of the state and the action."""
        return blocks(self.state + self.action, self.side)

    @cached_property
    def hidden_lines(self) -> tuple[int, int]:
        """Lines of each hidden layer's neurons."""
        first, second = (blocks(size, self.side) for size in self.hidden)
        return first, second

    @cached_property
    def lines(self) -> int:
        """Lines of a core's activation memory."""
        return self.input_lines + sum(self.hidden_lines)

    @cached_property
    def activation_bytes(self) -> int:
        """Bytes of a core's activation memory, which holds one sample of 32-bit words or two of 16-bit codes."""
        return self.lines * self.side * WORD_BITS // 8

    def _layers(self, critic: bool, base: int) -> tuple[LayerPlace, ...]:
        inputs = self.state + self.action if critic else self.state
        sizes = (inputs, *self.hidden, 1 if critic else self.action)
        first = self.input_lines
        starts = (0, first, first + self.hidden_lines[0], None)
        scales = (INPUTS, *((3, 4) if critic else (1, 2)))
        places = []
        for number, ((ins, outs), (read, write)) in enumerate(
            zip(pairwise(sizes), pairwise(starts), strict=True)
        ):
            assert read is not None
            place = LayerPlace(ins, outs, base, self.side, read, write, scales[number], critic)
            places.append(place)
            base += place.blocks
        return tuple(places)

    @cached_property
    def actor(self) -> tuple[LayerPlace, ...]:
        """The actor's layers, from the inputs on."""
        return self._layers(False, 0)

    @cached_property
    def critic(self) -> tuple[LayerPlace, ...]:
        """The critic's layers, from the inputs on."""
        return self._layers(True, self.actor_blocks)

    @cached_property
    def actor_blocks(self) -> int:
        """Blocks of the actor's weights."""
        return sum(layer.blocks for layer in self.actor)

    @cached_property
    def critic_blocks(self) -> int:
        """Blocks of the critic's weights."""
        return sum(layer.blocks for layer in self.critic)

    @property
    def blocks(self) -> int:
        """Blocks of all weights."""
        return self.actor_blocks + self.critic_blocks

    @cached_property
    def words(self) -> int:
        """Words of P weights, P of which are a block."""
        return self.blocks * self.side

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the weight memory, without the targets."""
        return self.words * self.side * WORD_BITS // 8


def benchmark(name: str, side: int = 16) -> FixarShape:
    """Return the sizes for one of FIX's benchmarks (FIX VI-B).

    Args:
        name: "halfcheetah", "hopper" or "swimmer".
    """
    sizes = {key.lower(): value for key, value in FIX_BENCHMARKS.items()}
    if name not in sizes:
        raise ValueError(f"network: found {name!r}; allowed: {', '.join(sorted(sizes))}")
    state, action = sizes[name]
    return FixarShape(state, action, side=side)
