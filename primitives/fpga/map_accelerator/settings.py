"""The sizes of MAP's accelerator, and the layouts of its transitions. Needs no hardware tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.quantization import Q

PRIORITY = Q(32, 16)
"""Format of priorities (`PRIORITY_BITS` without the sign, at least 1)."""
PRIORITY_BITS = 31
NETWORKS = {
    "cartpole": (4, 8, 8, 2),
    "cartpole-ddpg": (5, 8, 8, 1),
    "hopper-ddpg": (14, 256, 256, 1),
    "small": (2, 3, 2),
    "small-ddpg": (3, 2, 1),
}
"""Neurons of the layers of Q networks and critics by name, from the inputs to the values."""
ACTORS = {"cartpole-ddpg": (4, 8, 8, 1), "hopper-ddpg": (11, 256, 256, 3), "small-ddpg": (2, 2, 1)}
"""Neurons of the layers of DDPG's actors, by the same names."""


def layers_of(sizes: Sequence[int], lanes: int) -> tuple[LayerShape, ...]:
    """Return a network's layers, of which each unit has at most `lanes` multipliers.

    Args:
        sizes: neurons of the network's layers, beginning with its inputs.
        lanes: multipliers of a unit; a layer with fewer outputs has as many as outputs.
    """
    return tuple(LayerShape(inputs, outputs, min(lanes, outputs)) for inputs, outputs in pairwise(sizes))


@dataclass(frozen=True)
class AcceleratorSettings:
    """The sizes of MAP's accelerator, for DQN or, with an actor, for DDPG.

    Attributes:
        layers: layers of the Q network; the last has an output per action. For DDPG those of the critic, which takes a
            state and an action.
        pipelines: DP, number of learner pipelines, a power of two.
        largest_batch: most transitions of a batch.
        banks: S, number of sub-trees, a power of two.
        fanout: K, children of a node, a power of two.
        levels: levels of a bank's tree, which has room for K^levels leaves.
        leaves: leaves of a bank's tree that are in use, 1 to K^levels, or 0 for all: the replay holds S times as many
            transitions, and each memory of the tree has as many words as they need.
        double: double DQN.
        seed: of the random numbers.
        actor: layers of DDPG's actor; empty for DQN.
    """

    layers: tuple[LayerShape, ...]
    pipelines: int = 1
    largest_batch: int = 32
    banks: int = 1
    fanout: int = 4
    levels: int = 3
    leaves: int = 0
    double: bool = False
    seed: int = 0
    actor: tuple[LayerShape, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a size out of range."""
        for before, after in (*pairwise(self.layers), *pairwise(self.actor)):
            if before.outputs != after.inputs:
                raise ValueError(
                    f"layers: found {before.outputs} outputs before {after.inputs} inputs; allowed: as many"
                )
        for name, value, powers in (
            ("layers", len(self.layers), False),
            ("pipelines", self.pipelines, True),
            ("largest_batch", self.largest_batch, False),
            ("banks", self.banks, True),
            ("fanout", self.fanout, True),
            ("levels", self.levels, False),
        ):
            if value < 1 or (powers and value & (value - 1)):
                raise ValueError(
                    f"{name}: found {value}; allowed: {'a power of two' if powers else '1 or more'}"
                )
        if not 0 <= self.leaves <= self.fanout**self.levels:
            allowed = f"1 to {self.fanout**self.levels}, or 0 for all"
            raise ValueError(f"leaves: found {self.leaves}; allowed: {allowed}")
        if self.actor and self.double:
            raise ValueError("double: found True; allowed with an actor: False")
        if self.actor and self.layers[-1].outputs != 1:
            raise ValueError(f"layers: found {self.layers[-1].outputs} outputs; allowed with an actor: 1")
        if self.actor and self.pair != self.layers[0].inputs:
            raise ValueError(
                f"actor: found {self.pair} numbers of a state and an action; allowed: the critic's inputs, "
                f"{self.layers[0].inputs}"
            )
        if self.largest_batch % self.pipelines:
            raise ValueError(
                f"largest_batch: found {self.largest_batch}; allowed: a multiple of pipelines, {self.pipelines}"
            )

    @property
    def networks(self) -> tuple[LayerShape, ...]:
        """The layers of all trained networks, in the order of the host's stream of weights: actor, then critic."""
        return (*self.actor, *self.layers)

    @property
    def states(self) -> int:
        """Numbers of a state."""
        return (self.actor or self.layers)[0].inputs

    @property
    def actions(self) -> int:
        """Number of actions, or for DDPG of the numbers of an action."""
        return (self.actor or self.layers)[-1].outputs

    @property
    def pair(self) -> int:
        """Numbers of a state and an action of DDPG."""
        return self.states + self.actions

    @property
    def capacity(self) -> int:
        """Number of transitions that the replay holds."""
        return int(self.banks * (self.leaves or self.fanout**self.levels))

    @property
    def transition_words(self) -> int:
        """Words of 32 bits of a transition: state, next state, action, reward, whether it terminated."""
        return 2 * self.states + 2 + (self.actions if self.actor else 1)

    @property
    def weight_words(self) -> int:
        """Words of 32 bits that hold all weights, in the order of the weight memories."""
        return sum(layer.words * layer.lanes for layer in self.networks)
