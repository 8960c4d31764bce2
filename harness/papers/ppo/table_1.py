"""Defines which blocks of this project are compared with which rows of PPO Table 1, by their logic cells."""

from placerl.harness.papers.resources import Counterpart, Share

COUNTERPARTS = (
    Counterpart(
        "ppo_table_1",
        "Hopper and Humanoid",
        {"luts": "logic", "flip_flops": "flip-flop", "dsps": "DSP"},
        (Share("gemm-core side=16 float32=true", 2), Share("adam-unit", 16)),
        "two cores of 16 x 16 elements in float32, with 2 DSPs for a multiplier and the adder in logic; with "
        "their control and accumulators, and Adam for 16 weights a cycle; without the memories of operands, the "
        "activation functions, the layout transformation and the host's interface; PPO's row is of its whole "
        "accelerator, with buffers and load balancing (PPO 5.2), and the paper does not say what the cores take of it",
    ),
)
