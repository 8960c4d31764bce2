"""The cycles of a training step; `test_accelerator` compares them with the hardware's."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import fixar_dataflows
from placerl.primitives.fpga.cycles.blocks import fixar as block
from placerl.primitives.fpga.fixar.accelerator import Fixar
from placerl.primitives.fpga.fixar.cycles import forward_cycles, step_cycles
from placerl.primitives.fpga.fixar.shape import FixarShape, benchmark
from tests.primitives.fpga.fixar.golden import samples_per_s
from tests.primitives.fpga.interpreter import interpreted


def test_products_take_the_cycles_of_the_reading_but_for_biases_and_unused_errors() -> None:
    shape = benchmark("halfcheetah")
    reading = fixar_dataflows.ddpg_cycles(fixar_dataflows.DATAFLOWS[3], 17, 6, 64)
    groups = 64 // 2
    # The cores share the samples, where the reading divides the inputs: 300 take 19 blocks, not 2 x 10.
    forward = -5 * 1
    # The second layer's biases take a column of blocks, which the reading has only in forward passes.
    gradients = 2 * 19
    # The critic's inputs that are states have no errors.
    errors = -25
    assert step_cycles(shape, 64, halves=False)["products"] == reading + groups * (
        forward + gradients + errors
    )


def test_16_bits_take_half_the_forward_products() -> None:
    shape = benchmark("hopper")
    wide, narrow = (step_cycles(shape, 64, halves=halves) for halves in (False, True))
    forward = [forward_cycles(shape, 64, halves=halves) for halves in (False, True)]
    assert forward[0] == 2 * forward[1]
    assert wide["products"] - forward[0] == narrow["products"] - forward[1]
    assert wide["adam"] == narrow["adam"]
    assert samples_per_s(shape, 64, 1e6, halves=True) == 64e6 / sum(narrow.values())


def test_a_loop_that_is_shorter_than_an_update_waits_for_it() -> None:
    shape = FixarShape(5, 2, (64, 64), side=8)
    model = interpreted(Fixar(shape, datapath=False))
    for batch, waits in ((2, True), (4, False)):
        parts = step_cycles(shape, batch, halves=False, overlap=True)
        assert (parts["adam"] > 2) == waits
        found = block.simulated_step(model, shape, batch, halves=False, overlap=True)
        assert found == sum(parts.values())


@pytest.mark.parametrize("batch", [0, 3])
def test_a_wrong_batch_is_named(batch: int) -> None:
    with pytest.raises(ValueError, match=f"^batch: found {batch}; allowed: a positive multiple of 4"):
        step_cycles(FixarShape(3, 1, (4, 4), side=4), batch, halves=True)
