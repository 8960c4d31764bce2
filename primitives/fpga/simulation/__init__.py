"""Runs a block cycle by cycle: vectors of inputs in, outputs and cycle counts out.

    from primitives.fpga import simulation

    adder = Adder()                               # any wiring.Component with stream ports, not yet elaborated
    model = simulation.compiled(adder)            # Verilator; or simulation.interpreted(adder)
    run = model.run({"operands": {"a": [1, 2], "b": [3, 4]}}, expected={"sums": 2})
    run.outputs["sums"]                           # array([4, 6])
    run.cycles, run.output_cycles["sums"]

A port's values are arrays, or dicts of arrays for structs: see `simulation.ports`. Ports that are no streams are
set and read by `write` and `read`. State stays from one `run` to the next; a new simulation is a reset one.

`interpreted` starts at once and is slow; `compiled` takes seconds to build once, kept in `primitives.disk_cache`.
Both give the same values in the same cycles.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from primitives.fpga.export.toolchain import unavailable_reason
from primitives.fpga.simulation.base import Run, Simulation, SimulationStalledError

if TYPE_CHECKING:
    from primitives.fpga.simulation.compiled_library import Library


def interpreted(design: Any) -> Simulation:
    """`design`, just reset, in Amaranth's own simulator."""
    from primitives.fpga.simulation.interpreter import InterpretedSimulation

    return InterpretedSimulation(design)


def compiled(design: Any) -> Simulation:
    """`design`, just reset, in a library that Verilator built.

    Raises:
        RuntimeError: a tool failed; the message has its output.
    """
    return built(design).start()


def engine(name: str) -> Callable[[Any], Simulation]:
    """`compiled` or `interpreted`, by its name.

    Raises:
        ValueError: it is neither.
    """
    engines = {"compiled": compiled, "interpreted": interpreted}
    if name not in engines:
        raise ValueError(f"engine: found {name!r}; allowed: {', '.join(engines)}")
    return engines[name]


def built(design: Any) -> "Library":
    """`design` built by Verilator: `start()` gives a simulation of it, as often as one is needed.

    Raises:
        RuntimeError: a tool failed; the message has its output.
    """
    from primitives.fpga.simulation.compiled_library import Library

    return Library(design)


__all__ = [
    "Run",
    "Simulation",
    "SimulationStalledError",
    "built",
    "compiled",
    "engine",
    "interpreted",
    "unavailable_reason",
]
