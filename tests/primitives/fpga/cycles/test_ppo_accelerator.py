"""The cycle model's constants are those of the hardware; `ppo_accelerator/test_accelerator.py` compares the sums."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import ppo_accelerator
from placerl.primitives.fpga.ppo_accelerator.adam_rows import LATENCY, latency
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.ppo_accelerator.unit import flush_cycles


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_waits_are_those_of_the_unit(activation: str) -> None:
    waits = flush_cycles(activation == "relu", LATENCY)
    assert ppo_accelerator.WAITS[activation] == waits
    assert latency(clips=True) - LATENCY == ppo_accelerator.CLIP_CYCLES


def test_an_update_takes_longer_than_its_rows_at_adam() -> None:
    program = NetworkProgram((11, 64, 64, 3), 64, 8)
    training = ppo_accelerator.run_cycles(program.training(0), program)
    assert (
        training
        > ppo_accelerator.update_rows(program)
        > sum(ppo_accelerator.rows(step, side=8) for step in program.training(0) if step.kind == "UPDATE")
    )
