"""Cycles of a PPO iteration, by hand and in the best dataflows."""

from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.fpga.cycles import gemm, networks, ppo
from placerl.primitives.fpga.gemm.plan import GemmShape

HOPPER = networks.PPO_NETWORKS["Hopper"]


def test_one_iteration_by_hand() -> None:
    iteration = ppo.PpoIteration(agents=16, steps=3, minibatch=32, epochs=2)
    assert iteration.updates == 4

    def cycles(*shape: int) -> int:
        return gemm.ppo_cycles(GemmShape(*shape), side=16, dataflow="NS")

    forward = cycles(16, 11, 64) + cycles(16, 64, 64) + cycles(16, 64, 3)
    found = ppo.iteration_cycles(HOPPER, iteration, side=16, dataflow="NS")
    assert found.inference == 3 * forward
    update = cycles(32, 11, 64) + cycles(32, 64, 64) + cycles(32, 64, 3)
    update += cycles(32, 3, 64) + cycles(32, 64, 64)
    update += cycles(11, 32, 64) + cycles(64, 32, 64) + cycles(64, 32, 3)
    assert found.training == 4 * update


@given(
    agents=st.integers(1, 64),
    minibatch=st.integers(1, 512),
    side=st.integers(2, 64),
    network=st.sampled_from(sorted(networks.PPO_NETWORKS)),
)
def test_the_best_dataflow_is_never_worse_than_ns(
    agents: int, minibatch: int, side: int, network: str
) -> None:
    layers = networks.PPO_NETWORKS[network]
    iteration = ppo.PpoIteration(agents, 8, minibatch, 2)
    for product_cycles in (gemm.ppo_cycles, gemm.core_cycles, gemm.block_load_cycles):
        gain = ppo.dataflow_gain(layers, iteration, side=side, product_cycles=product_cycles)
        assert min(gain.inference, gain.training, gain.total) >= 0
