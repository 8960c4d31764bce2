"""Checks whether the rows of PPO Table 1 agree with each other, and with the logic cells of this project's blocks."""

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers.base import Finding, among_themselves
from harness.papers.number import Number, from_cell
from harness.papers.resources import Counterpart, Share

COUNTERPARTS = (
    Counterpart(
        "ppo_table_1",
        "Hopper and Humanoid",
        {"luts": "logic", "flip_flops": "flip-flop", "dsps": "DSP"},
        (Share("gemm-core side=16 float32=true", 2), Share("adam-unit", 16)),
        "two cores of 16 x 16 elements in float32, with 2 DSPs for a multiplier and the adder in logic; with "
        "their control and accumulators, and Adam for 16 weights a cycle; without the memories of operands, the "
        "activation functions, the layout transformation and the host's interface",
        unknown="PPO's row is of its whole accelerator, with buffers and load balancing (PPO 5.2), and the paper does "
        "not say what the two cores take of it",
    ),
)


def table_1(_: pd.DataFrame) -> Finding:
    """Check PPO Table 1: the BRAM shares of the table's rows imply the same total number of BRAMs of the device."""
    ours = []
    for row, column in (("Humanoid", "BRAM, M=512"), ("Hopper", "BRAM, M=512"), ("Pong", "BRAM")):
        share = from_cell("ppo_table_1", row, column.replace("BRAM", "BRAM share"))
        total = 100 * from_cell("ppo_table_1", row, column).value / share.value
        name = f"{row}: BRAMs of the whole device"
        ours.append(Number(name, total, "count", Provenance.PUBLISHED, "used / share"))
    agree = max(n.value for n in ours) < 1.1 * min(n.value for n in ours)
    explanation = (
        "MuJoCo's rows are shares of one number of blocks, Pong's of more than twice as many: the rows count in "
        "different units."
    )
    could_be = "A unit that the table does not state could explain it: blocks of 18 Kbit, or UltraRAM counted as well."
    needs = "FPGA resources from synthesis"
    return among_themselves(agree, tuple(ours), needs=needs, apart=explanation, could_be=could_be)
