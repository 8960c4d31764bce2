"""The cycle model's constants are those of the hardware; `ppo_accelerator/test_accelerator.py` compares the sums."""

from fractions import Fraction

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga.cycles import ppo_accelerator
from primitives.fpga.cycles.ppo import PpoIteration
from primitives.fpga.ppo_accelerator.adam_rows import LATENCY
from primitives.fpga.ppo_accelerator.program import NetworkProgram
from primitives.fpga.ppo_accelerator.unit import flush_cycles


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_waits_are_those_of_the_unit(activation: str) -> None:
    waits = flush_cycles(activation == "relu", LATENCY)
    assert ppo_accelerator.WAITS[activation] == waits


def test_an_update_takes_longer_than_its_rows_at_adam() -> None:
    program = NetworkProgram((11, 64, 64, 3), 64, 8)
    training = ppo_accelerator.run_cycles(program.training(0), program)
    assert (
        training
        > ppo_accelerator.update_rows(program)
        > sum(ppo_accelerator.rows(step, side=8) for step in program.training(0) if step.kind == "UPDATE")
    )


def test_an_iteration_counts_every_forward_pass_update_and_row() -> None:
    """2 agents, 4 steps, mini-batches of 4, 3 epochs: 4 forward passes and 6 updates."""
    networks = [NetworkProgram((3, 4, 2), 1, 2), NetworkProgram((3, 4, 1), 1, 2)]
    found = ppo_accelerator.iteration_cycles(networks, PpoIteration(2, 4, 4, 3), link_bytes_per_cycle=4)
    policy = NetworkProgram((3, 4, 2), 2, 2)
    assert found.inference == 4 * ppo_accelerator.run_cycles(policy.forward, policy)
    # Inferences: 2 blocks of inputs with ones, 1 block of samples: 4 rows and a header; outputs 2 and 1 rows. Updates:
    # twice as many blocks, and the deltas of 1 block row with a header. A row of 8 bytes takes 2 cycles.
    inference_rows, update_rows = 2 * 5 + 2 + 1, 2 * 9 + 4 + 2 + 2 * 5
    assert found.transfers == 2 * (4 * inference_rows + 6 * update_rows)
    fast = ppo_accelerator.iteration_cycles(
        networks, PpoIteration(2, 4, 4, 3), link_bytes_per_cycle=Fraction(100)
    )
    assert fast.transfers == found.transfers // 2
    assert fast.training == found.training
    assert fast.total == fast.inference + fast.training + fast.transfers
