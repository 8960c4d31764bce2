"""Simulates a hardware block cycle by cycle: takes arrays of inputs, and returns outputs and cycle counts.

    from placerl.primitives.fpga import simulation

    adder = Adder()                               # any wiring.Component with stream ports, not yet elaborated
    model = simulation.compiled(adder)            # built by Verilator
    run = model.run({"operands": {"a": [1, 2], "b": [3, 4]}}, expected={"sums": 2})
    run.outputs["sums"]                           # array([4, 6])
    run.cycles, run.output_cycles["sums"]

A port's values are arrays, or dicts of arrays for structs: see `simulation.ports`. Ports that are not streams are
set and read by `write` and `read`. The state is kept from one `run` to the next; a new simulation starts after a
reset.

A build takes seconds, and is kept in `primitives.disk_cache`.
"""

from typing import TYPE_CHECKING, Any

from placerl.primitives.fpga.export.toolchain import unavailable_reason
from placerl.primitives.fpga.simulation.base import (
    SimulatedRun,
    Simulation,
    SimulationStalledError,
    StreamRuleError,
)

if TYPE_CHECKING:
    from placerl.primitives.fpga.simulation.compiled_library import Library


def compiled(design: Any) -> Simulation:
    """Return a simulation of `design`, after a reset, in a library that Verilator built.

    Raises:
        RuntimeError: a tool failed; the message has its output.
    """
    return built(design).start()


def built(design: Any) -> "Library":
    """Build `design` with Verilator and return the library, whose `start()` gives any number of simulations.

    Raises:
        RuntimeError: a tool failed; the message has its output.
    """
    from placerl.primitives.fpga.simulation.compiled_library import Library

    return Library(design)


__all__ = [
    "SimulatedRun",
    "Simulation",
    "SimulationStalledError",
    "StreamRuleError",
    "built",
    "compiled",
    "unavailable_reason",
]
