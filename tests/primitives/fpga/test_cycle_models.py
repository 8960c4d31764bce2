"""The papers' cycle formulas and what follows from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primitives.fpga.cycles import balance, fixar, gains, gemm, networks, ppo
from primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

HOPPER = networks.PPO_NETWORKS["Hopper"]
sizes = st.integers(1, 600)


def test_equation_5_by_hand() -> None:
    shape = GemmShape(a=20, b=30, c=40)
    assert [gemm.ppo_cycles(shape, side=16, dataflow=d) for d in DATAFLOWS] == [
        2 * 3 * 30 + 31,
        2 * 2 * 40 + 31,
        2 * 3 * 20 + 31,
    ]


@given(a=sizes, b=sizes, c=sizes, side=st.integers(2, 40))
def test_the_core_is_its_formula_plus_its_terms(a: int, b: int, c: int, side: int) -> None:
    shape = GemmShape(a, b, c)
    for dataflow in DATAFLOWS:
        formula = gemm.ppo_cycles(shape, side=side, dataflow=dataflow)
        for block_load in (False, True):
            options = {"side": side, "dataflow": dataflow, "block_load": block_load}
            terms = gemm.difference_terms(shape, **options)
            assert gemm.core_cycles(shape, **options) == formula + sum(terms.values())
        assert gemm.block_load_cycles(shape, side=side, dataflow=dataflow) == formula - 1
    # Never faster than the array can multiply.
    best = gemm.core_cycles(shape, side=side, dataflow=gemm.best_dataflow(shape, side=side))
    assert gemm.utilisation(shape, best, side=side) <= 1


def test_layers_are_the_products_of_equation_6() -> None:
    convolution = networks.PPO_NETWORKS["Pong"][1]
    assert convolution == networks.Layer(32, 64, (4, 4), (20, 20), (9, 9))
    assert convolution.forward(2) == GemmShape(2 * 81, 16 * 32, 64)
    assert convolution.backward(2) == GemmShape(2 * 400, 16 * 64, 32)
    assert convolution.weight_gradient(2) == GemmShape(16 * 32, 2 * 81, 64)
    weights = sum(layer.weights for layer in networks.PPO_NETWORKS["Pong"])
    assert weights * 32 / 1e6 == pytest.approx(54, abs=1)  # PPO 3.1: 54 Mbit


def test_one_iteration_by_hand() -> None:
    iteration = ppo.Iteration(agents=16, steps=3, minibatch=32, epochs=2)
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
    iteration = ppo.Iteration(agents, 8, minibatch, 2)
    for product_cycles in (gemm.ppo_cycles, gemm.core_cycles, gemm.block_load_cycles):
        gain = ppo.dataflow_gain(layers, iteration, side=side, product_cycles=product_cycles)
        assert min(gain.inference, gain.training, gain.total) >= 0


def test_balancing_helps_the_longer_network_and_never_harms() -> None:
    options = {"minibatch": 512, "side": 16}
    for policy_updates in (0, 3, 10):
        cycles = [
            balance.training_cycles(
                HOPPER, HOPPER, policy_updates=policy_updates, value_updates=10, balanced=balanced, **options
            )
            for balanced in (False, True)
        ]
        assert cycles[1] <= cycles[0]
    assert cycles[1] == cycles[0]  # nothing to balance
    alone, shared = (
        balance.training_cycles(HOPPER, HOPPER, policy_updates=0, value_updates=10, balanced=b, **options)
        for b in (False, True)
    )
    assert 0.5 < shared / alone < 0.55


def test_stalls_of_the_plain_layout_by_hand() -> None:
    # BW reads 64 x 64 and 64 x 3 weights, WU the activations of 11, 64 and 64 neurons, transposed.
    elements = 64 * 64 + 64 * 3 + 512 * (11 + 64 + 64)
    assert gains.update_stalls(HOPPER, 512, side=16) == elements / 16
    published = gains.Throughput(samples_per_s=1000, clock_hz=1e6)
    iteration = ppo.Iteration(agents=4, steps=512, minibatch=512, epochs=1)  # 2.048 s as published
    gain = gains.layout_gain(HOPPER, iteration, published, side=16)
    assert gain == pytest.approx(4 * elements / 16 / 1e6 / 2.048)


def test_fixar_is_as_fast_at_every_batch_size_and_twice_with_half_words() -> None:
    rates = [fixar.ddpg_samples_per_s(17, 6, batch) for batch in (64, 128, 256, 512)]
    assert max(rates) == min(rates)
    halved = fixar.ddpg_samples_per_s(17, 6, 512, fixar.ArrayModel(halves=True))
    assert halved == pytest.approx(2 * rates[0])
