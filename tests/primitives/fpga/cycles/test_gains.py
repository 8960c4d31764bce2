"""What PPO's optimisations gain in throughput."""

import pytest

from placerl.primitives.fpga.cycles import gains, networks, ppo

HOPPER = networks.PPO_NETWORKS["Hopper"]


def test_stalls_of_the_plain_layout_by_hand() -> None:
    # BW reads 64 x 64 and 64 x 3 weights, WU the activations of 11, 64 and 64 neurons, transposed.
    elements = 64 * 64 + 64 * 3 + 512 * (11 + 64 + 64)
    assert gains.update_stalls(HOPPER, 512, side=16) == elements / 16
    published = gains.PublishedThroughput(samples_per_s=1000, clock_hz=1e6)
    iteration = ppo.PpoIteration(agents=4, steps=512, minibatch=512, epochs=1)  # 2.048 s as published
    gain = gains.layout_gain(HOPPER, iteration, published, side=16)
    assert gain == pytest.approx(4 * elements / 16 / 1e6 / 2.048)
