"""T_comm by hand: transfers to the host, and products that wait for external memory."""

import pytest

from placerl.primitives.fpga.cycles import networks, ppo
from placerl.primitives.fpga.cycles.communication import UNCOUNTED, Channel, Communication, moved_words

HOPPER, PONG = networks.PPO_NETWORKS["Hopper"], networks.PPO_NETWORKS["Pong"]
ITERATION = ppo.PpoIteration(agents=16, steps=3, minibatch=32, epochs=2)


def test_a_transfer_takes_its_bytes_and_its_overhead() -> None:
    channel = Channel.at_clock(16e9, 1e-6, 250e6)  # 64 bytes a cycle, 250 cycles
    assert channel.transfer_cycles(64) == 251
    assert channel.transfer_cycles(65) == 252
    assert Channel().transfer_cycles(10**9) == 0


def test_the_host_waits_for_its_transfers() -> None:
    """11 numbers there and 3 + 1 back, and for each of 4 mini-batches the gradients of these 4."""
    plain = ppo.iteration_cycles(HOPPER, ITERATION, side=16)
    found = ppo.iteration_cycles(
        HOPPER, ITERATION, side=16, communication=Communication(Channel(4.0, overhead_cycles=100))
    )
    assert found.inference - plain.inference == 3 * (16 * (11 + 4) + 200)
    assert found.training - plain.training == 4 * (32 * (11 + 4 + 4) + 300)


def test_words_of_a_convolution_are_moved_once() -> None:
    """Of Pong's second layer: 32 maps of 20 x 20 in, 64 of 9 x 9 out."""
    inputs, outputs = 2 * 32 * 20 * 20, 2 * 64 * 9 * 9
    assert moved_words(PONG, "FW", 2)[1] == moved_words(PONG, "WU", 2)[1] == inputs + outputs
    assert moved_words(PONG, "BW", 2)[-1] == outputs + 2 * inputs
    for process in ppo.PROCESSES:
        assert len(moved_words(PONG, process, 2)) == len(ppo.shapes(PONG, process, 2))


@pytest.mark.parametrize("bytes_per_cycle", [1e-3, 16.0, 1e9])
def test_a_product_takes_the_longer_of_its_cycles_and_its_words(bytes_per_cycle: float) -> None:
    slow = Communication(memory=Channel(bytes_per_cycle, overhead_cycles=7))
    assert slow.product_cycles(1000, 4000) == 7 + max(1000, -(-16_000 // bytes_per_cycle))
    assert UNCOUNTED.product_cycles(1000, 4000) == 1000


def test_memory_that_bounds_every_product_leaves_nothing_to_choose() -> None:
    """Then all dataflows take as long, and the first is named."""
    bound = Communication(memory=Channel(1e-3))
    chosen = ppo.best_dataflows(PONG, 32, side=32, communication=bound)
    assert set(chosen.values()) == {"NS"}
    words = sum(sum(moved_words(PONG, process, 32)) for process in ppo.PROCESSES)
    found = ppo.iteration_cycles(PONG, ITERATION, side=32, communication=bound).training / ITERATION.updates
    assert found == pytest.approx(4000 * words)
