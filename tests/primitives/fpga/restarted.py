"""Simulations in Amaranth's simulator that examples share: to make one takes longer than most of what is run in it."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

from placerl.primitives.fpga.simulation.base import Simulation
from tests.primitives.fpga.interpreter import InterpretedSimulation


@lru_cache(maxsize=64)
def _simulation(
    block: Callable[..., Any], arguments: tuple[Hashable, ...], options: Any
) -> InterpretedSimulation:
    return InterpretedSimulation(block(*arguments, **dict(options)))


def interpreted(block: Callable[..., Any], *arguments: Hashable, **options: Hashable) -> Simulation:
    """Return a simulation of a block as it is when it is made: every signal and every memory has its first value.

    It ends the simulation that an earlier call with the same arguments returned.

    Args:
        block: class of the block.
        arguments, options: what the block is made with.
    """
    model = _simulation(block, arguments, tuple(sorted(options.items())))
    model._simulator.reset()
    model.step(0)
    return model
