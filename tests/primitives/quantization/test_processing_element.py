"""The third member of the conformance suite: FIX's processing element, as a model and as RTL."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.quantization.fixed_point import exact_matmul
from placerl.primitives.quantization.reference_backend import ReferenceFixedPointExecutable
from placerl.primitives.quantization.roles import Operand, Role
from tests.primitives.quantization import cases, processing_element
from tests.primitives.quantization.definition import inputs_of, learner, raw_state
from tests.primitives.quantization.processing_element import ProcessingElements

STREAMED = (Operand(Role.ACTIVATION, "x"), Operand(Role.WEIGHT, "x"))


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("signed", [True, False])
def test_its_products_are_the_exact_ones(bits: int, signed: bool) -> None:
    rng = np.random.default_rng(bits)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2 ** min(bits, 31))
    a = rng.integers(low, high, (5, 7)).astype(np.int32)
    b = rng.integers(-(2**31), 2**31, (7, 3)).astype(np.int32)
    elements = ProcessingElements()
    expected = exact_matmul(a, b).astype(object)
    assert (elements(a, b, STREAMED) == expected).all()
    assert (elements(b.T, a.T, STREAMED[::-1]) == expected.T).all()
    assert bool(elements.paired_products) == (bits == 16)


@pytest.mark.parametrize("precision", ["fixed 32", "dynamic"])
def test_a_gradient_step_through_it_is_the_same_to_the_last_bit(precision: str) -> None:
    algorithm, chosen = cases.algorithm("ddpg", hidden=(9, 6)), cases.PRECISIONS[precision]
    definition = learner(algorithm, chosen)
    elements = ProcessingElements()
    graphs = {"full": step_graph(algorithm, cases.BATCH_SIZE, "full")}
    executable = ReferenceFixedPointExecutable(graphs, chosen, multiply=elements)
    for leaf, value in definition.fixed.state().items():
        executable.write_state(leaf, value)
    rng = np.random.default_rng(6)
    for step in range(3):
        if chosen.narrows and step == chosen.delay:
            definition.fixed.quantise()
            executable.quantise()
        inputs = inputs_of(definition, rng)
        definition.fixed.step("full", inputs)
        executable.step("full", inputs)
        for (leaf, one), (_, two) in zip(raw_state(definition.fixed), raw_state(executable), strict=True):
            np.testing.assert_array_equal(two, one, err_msg=f"{leaf}, step {step}")
    assert elements.whole_products > 0
    assert not chosen.narrows or elements.paired_products > 0


@given(st.integers(-(2**15), 2**15 - 1), st.integers(-(2**15), 2**15 - 1))
def test_two_activations_share_a_word(first: int, second: int) -> None:
    word = processing_element.pack(np.array([first]), np.array([second]))
    assert [int(half[0]) for half in processing_element.unpack(word)] == [first, second]


def test_the_hardware_multiplies_as_the_model_does() -> None:
    simulation = pytest.importorskip("amaranth.sim")
    from placerl.primitives.fpga.gemm.processing_element import ConfigurableMultiplier

    rng = np.random.default_rng(3)
    weights = rng.integers(-(2**31), 2**31, 40)
    whole = rng.integers(-(2**31), 2**31, 40)
    first, second = rng.integers(-(2**15), 2**15, (2, 40))
    words = processing_element.pack(first, second)
    multiplier = ConfigurableMultiplier(width=32)

    async def drive(ctx: object) -> None:
        for i, weight in enumerate(weights.tolist()):
            for halves, word in ((0, int(whole[i]) & 0xFFFFFFFF), (1, int(words[i]))):
                ctx.set(multiplier.activation, word)  # type: ignore[attr-defined]
                ctx.set(multiplier.weight, weight)  # type: ignore[attr-defined]
                ctx.set(multiplier.halves, halves)  # type: ignore[attr-defined]
                found = [ctx.get(multiplier.product), ctx.get(multiplier.upper_product)]  # type: ignore[attr-defined]
                expected = (
                    [int(first[i]) * weight, int(second[i]) * weight]
                    if halves
                    else [int(whole[i]) * weight, 0]
                )
                assert found == expected

    simulator = simulation.Simulator(multiplier)
    simulator.add_testbench(drive)
    simulator.run()
