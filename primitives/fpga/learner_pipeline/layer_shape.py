"""A layer of the learner pipeline: its sizes, its number format, and its lanes. Needs no hardware tools."""

from dataclasses import dataclass

from placerl.primitives.quantization import Q

FORMAT = Q(32, 16)  # of activations, weights and errors
FRACTION = Q(32, 30)  # of discounts and importance weights, numbers from 0 to 1
TD_LOSS_CYCLES = 7
"""Cycles of the loss of DQN and of DDPG's critic, `td_loss.TdLossUnit`, from a sample's values to its errors."""
TANH_CYCLES = 50
"""Cycles in which a policy's last layer takes the tanh of its sums, `policy_units.TanhUnit`."""
POLICY_BACK_CYCLES = 4
"""Cycles in which errors return through this tanh, `policy_units.PolicyBackward`."""
WIDEST_LAYER = 4096
"""Most neurons of a layer."""


@dataclass(frozen=True)
class LayerShape:
    """The sizes of a layer, and the number of lanes in which its units work in parallel.

    Weights are stored in words of `lanes` outputs: word `block * (inputs + 1) + k` holds the weights from input k
    (for k = inputs the biases) to outputs `block * lanes` and following. The update unit goes through each word in
    parts of `updates` weights, because a lane of Adam is many times as large as a multiplier.

    Attributes:
        inputs, outputs: numbers of neurons.
        lanes: multipliers in each of the layer's other units, 1 to `outputs`.
        updates: weights that the update unit takes per cycle: `lanes` divided by a power of two; 0: `lanes`.
    """

    inputs: int
    outputs: int
    lanes: int
    updates: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a size out of range."""
        for name, value, highest in (
            ("inputs", self.inputs, WIDEST_LAYER),
            ("outputs", self.outputs, WIDEST_LAYER),
            ("lanes", self.lanes, self.outputs),
        ):
            if not 1 <= value <= highest:
                raise ValueError(f"{name}: found {value}; allowed: 1 to {highest}")
        if not self.updates:
            object.__setattr__(self, "updates", self.lanes)
        allowed = [
            self.lanes >> bits for bits in range(self.lanes.bit_length()) if self.lanes % (1 << bits) == 0
        ]
        if self.updates not in allowed:
            raise ValueError(f"updates: found {self.updates}; allowed: {', '.join(map(str, allowed))}")

    @property
    def blocks(self) -> int:
        """Number of words that hold the weights of one input."""
        return -(-self.outputs // self.lanes)

    @property
    def words(self) -> int:
        """Number of words that hold all weights and biases."""
        return self.blocks * (self.inputs + 1)

    @property
    def parts(self) -> int:
        """Number of parts of `updates` weights in a word, a power of two."""
        return self.lanes // self.updates

    @property
    def update_words(self) -> int:
        """Number of cycles in which the update unit reads all weights, `updates` in each."""
        return self.words * self.parts

    @property
    def word_bits(self) -> int:
        """Number of bits of a word, which holds one weight per lane."""
        return self.lanes * FORMAT.bits
