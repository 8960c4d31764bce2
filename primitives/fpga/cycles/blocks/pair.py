"""PPO's two compute units, which train a policy and a value network together (`pair.load_balancing`)."""

from collections.abc import Callable, Sequence
from typing import Any

from placerl.primitives.fpga.cycles.networks import mlp
from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.pair.simulation import SimulatedPair


def build(side: int) -> Any:
    """Return the two units."""
    from placerl.primitives.fpga.pair.load_balancing import UnitPair

    return UnitPair(side=side)


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
    """Return the cycles until both networks have done their updates.

    Args:
        sizes: of each training the neurons of the policy's layers and of the value network's, their updates, the
            samples of a mini-batch, and whether the units share the rest of the longer training.
    """
    pair = SimulatedPair(start(), side=parameters[0])
    return [
        pair.training_cycles(
            mlp(*policy),
            mlp(*value),
            policy_updates=policy_updates,
            value_updates=value_updates,
            minibatch=minibatch,
            balanced=balanced,
        )
        for policy, value, policy_updates, value_updates, minibatch, balanced in sizes
    ]


BLOCK = TimedBlock("pair", "placerl.primitives.fpga.pair.load_balancing", build, simulate)
