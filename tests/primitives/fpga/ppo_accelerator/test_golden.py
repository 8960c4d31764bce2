"""The accelerator's golden model against this project's PPO: a gradient step of Hopper 64-64."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.gemm.plan import DATAFLOWS
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from tests.primitives.fpga.ppo_accelerator.golden import GoldenNetwork
from tests.primitives.fpga.ppo_accelerator.hopper import NETWORKS, SIZES, HopperStep


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_ppos_within_float32(name: str, dataflow: str) -> None:
    """Weights agree to a hundredth of Adam's step size: in the first step every weight moves by about that size."""
    step = HopperStep.of(32)
    program = NetworkProgram(SIZES[name], 32, 8, (dataflow, dataflow, dataflow))
    network = GoldenNetwork.of(program, step.weights(step.state, name))
    passed = network.forward(step.inputs)
    gradients = network.gradients(passed, step.deltas(name, passed.output))
    network.update([gradients], *corrections(step.rate(name), 1))
    before = step.weights(step.state, name)
    for found, expected, old in zip(network.weights, step.weights(step.new_state, name), before, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.01 * step.rate(name))
        assert np.abs(expected - old).max() > 0.9 * step.rate(name)


def test_two_halves_give_the_gradient_of_the_whole() -> None:
    step = HopperStep.of(32)
    weights = step.weights(step.state, "value")
    whole = GoldenNetwork.of(NetworkProgram(SIZES["value"], 32, 8), weights)
    half = GoldenNetwork.of(NetworkProgram(SIZES["value"], 16, 8), weights)
    passed = whole.forward(step.inputs)
    deltas = step.deltas("value", passed.output)
    together = whole.gradients(passed, deltas)
    parts = [half.gradients(half.forward(step.inputs[:, cut]), deltas[:, cut]) for cut in HALVES]
    for expected, first, second in zip(together, *parts, strict=True):
        np.testing.assert_allclose(first + second, expected, rtol=1e-4, atol=1e-6)


HALVES = (slice(0, 16), slice(16, 32))
