"""Cycles of PPO's accelerator (`fpga.ppo_accelerator`): of each step, and of a network's forward pass and training.

A step computes a product, then moves its rows, one per cycle, then waits until the last one is written. Exact for
one network; `tests/primitives/fpga/ppo_accelerator` compares them with the RTL. When both networks train, their
rows take turns at Adam, which adds at most `update_rows` of the other network.
"""

from collections.abc import Sequence

from placerl.primitives.fpga.cycles import gemm_float32
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import GemmShape
from placerl.primitives.fpga.ppo_accelerator.program import LayerStep, NetworkProgram

STEP_CYCLES = 7
"""Beyond product, rows and wait: fetching and starting the step, the first request, and noticing each end."""
WAITS = {
    "tanh": {"OUTPUT": 1, "ACTIVATE": 47, "DERIVE": 10, "UPDATE": 103},
    "relu": {"OUTPUT": 1, "ACTIVATE": 2, "DERIVE": 3, "UPDATE": 103},
}
"""Cycles from the last row's request until it is written, by activation function and kind of step."""
CLIP_CYCLES = 3
"""Further cycles of an update whose gradients are clipped: their multiplication."""


def occupied_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles from a product's first operand in the array until the array is empty."""
    # The array counts as empty after a column's total, also in NS, where there is none.
    total = FLOAT32.total_cycles if dataflow == "NS" else 0
    return gemm_float32.core_cycles(shape, side=side, dataflow=dataflow) + total + 1


def rows(step: LayerStep, *, side: int) -> int:
    """Return the rows of P words that a step moves."""
    return step.row_blocks * step.column_blocks * side


def step_cycles(step: LayerStep, program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles of a step.

    Args:
        activation: "tanh" or "relu".
    """
    side = program.side
    product = occupied_cycles(step.shape, side=side, dataflow=program.dataflow(step.process))
    wait = WAITS[activation][step.kind] + CLIP_CYCLES * (program.clips and step.kind == "UPDATE")
    return product + rows(step, side=side) + wait + STEP_CYCLES


def run_cycles(steps: Sequence[LayerStep], program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles of consecutive steps of one network.

    Args:
        steps: steps of the program, such as `program.forward`.
        activation: "tanh" or "relu".
    """
    return sum(step_cycles(step, program, activation) for step in steps)


def update_rows(program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles for which a network's updates of one mini-batch hold Adam; as long again if it measures them.

    Args:
        activation: "tanh" or "relu".
    """
    wait = WAITS[activation]["UPDATE"] + CLIP_CYCLES * program.clips + 1
    return sum(rows(step, side=program.side) + wait for step in program.updates(0))
