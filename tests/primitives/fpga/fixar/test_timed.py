"""The accelerator without its datapath takes the cycles that its program says, as the whole design does."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.fixar.cycles import step_cycles
from placerl.primitives.fpga.fixar.shape import benchmark
from placerl.primitives.fpga.fixar.timed import are_known, lines_read, simulated_cycles
from tests.primitives.fpga.fixar.simulation import stream_of
from tests.primitives.fpga.fixar.step_inputs import TINY, batch

pytestmark = pytest.mark.skipif(
    bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason() or "-"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_steps_take_the_cycles_of_their_program() -> None:
    sizes = [("halfcheetah", 16, size, halves) for size in (2, 64) for halves in (False, True)]
    found = simulated_cycles(sizes)
    shape = benchmark("halfcheetah")
    assert found == [sum(step_cycles(shape, size, halves=halves).values()) for *_, size, halves in sizes]
    assert are_known(sizes)


def test_as_many_lines_are_read_as_the_host_sends() -> None:
    samples = batch(np.random.default_rng(0), TINY, 6)
    for halves in (False, True):
        assert len(stream_of(samples, TINY, halves=halves)) == lines_read(TINY, 6)
