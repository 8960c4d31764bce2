"""Cycles of two networks on two units, with load balancing and without."""

from placerl.primitives.fpga.cycles import load_balancing, networks

HOPPER = networks.PPO_NETWORKS["Hopper"]


def test_balancing_helps_the_longer_network_and_never_harms() -> None:
    options = {"minibatch": 512, "side": 16}
    for policy_updates in (0, 3, 10):
        cycles = [
            load_balancing.training_cycles(
                HOPPER, HOPPER, policy_updates=policy_updates, value_updates=10, balanced=balanced, **options
            )
            for balanced in (False, True)
        ]
        assert cycles[1] <= cycles[0]
    assert cycles[1] == cycles[0]  # nothing to balance
    alone, shared = (
        load_balancing.training_cycles(
            HOPPER, HOPPER, policy_updates=0, value_updates=10, balanced=b, **options
        )
        for b in (False, True)
    )
    assert 0.5 < shared / alone < 0.55
