"""Defines which blocks of this project are compared with which rows of PPO Table 1, by their logic cells."""

from placerl.harness.papers.number import from_cell
from placerl.harness.papers.resources import Counterpart, ResourcesClaim, Share

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


class ResourcesOfTwoArrays(ResourcesClaim):
    key, place, position = "PPO-T1-cells", "5.2, Table 1", 1
    statement = "FPGA resources of two arrays of 16 x 16 for MuJoCo"
    published = tuple(
        from_cell("ppo_table_1", "Hopper and Humanoid", column) for column in ("DSP", "logic", "flip-flop")
    )
    beside = COUNTERPARTS
    decides = "what the two cores alone take of PPO's FPGA, which the paper does not state"
