"""The cycles of the convolutional accelerator with tensors in external memory; those on the chip are the RTL's."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.program import ImageProgram
from placerl.primitives.fpga.cycles.communication import Channel
from placerl.primitives.fpga.cycles.convolutional_accelerator import product_cycles, run_cycles
from placerl.primitives.fpga.cycles.networks import cnn, mlp


def test_a_layer_waits_for_its_first_band_and_its_memory() -> None:
    """Two layers of one band each: 4 lines of windows, 2 of ones, a product; in memory of half a line a cycle."""
    program = ImageProgram(mlp(3, 3, 3), 2, 2, window_blocks=64, delta_blocks=16)
    run = program.forward()
    takes = [product_cycles(step, 2, "relu") for step in run.products]
    # Each transformation takes 4 cycles more than its lines; the run begins 2 cycles before its first step.
    transforms = (4 + 4) + (2 + 4)
    found = run_cycles(run, side=2)
    assert found.total == 2 + transforms - 1 + takes[0] - 1 + transforms - 1 + takes[1] - 1
    assert found.memory == 0
    # 4 lines of 8 bytes at 4 a cycle take 8 cycles, twice; the first product writes 4 lines.
    slow = run_cycles(run, side=2, memory=Channel(4.0))
    assert slow.memory == 3 * (8 - 4)
    assert slow.total == found.total + slow.memory


@pytest.mark.parametrize("overhead", [0, 50])
def test_bands_hide_memory_behind_products(overhead: int) -> None:
    layers = cnn((9, 9), 4, ((4, 2, 1), (8, 2, 1)), (4,))
    run = ImageProgram(layers, 2, 4, window_blocks=240, delta_blocks=32).training()
    alone = run_cycles(run, side=4)
    found = run_cycles(run, side=4, memory=Channel(32.0, overhead))
    assert (found.memory == 0) == (overhead == 0) == (found.total == alone.total)
    assert found.total < alone.total + found.memory or not overhead
