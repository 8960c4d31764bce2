"""The units of a policy against their golden models, and these against PyTorch."""

import numpy as np
import pytest
import torch

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape
from placerl.primitives.fpga.learner_pipeline.policy_units import (
    ONE,
    PassesLoss,
    PolicyBackward,
    PolicyForward,
    TimedPolicyBackward,
    TimedPolicyForward,
)
from placerl.primitives.quantization.fixed_point import exact_matmul
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.learner_pipeline import golden as model
from tests.primitives.fpga.learner_pipeline.golden import tanh, tanh_back

SAMPLES, STATES = 6, 3


def raw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return FORMAT.from_float(rng.uniform(-2, 2, shape)).raw


def write(unit: simulation.Simulation, layer: LayerShape, weight: np.ndarray) -> None:
    """Store a layer's weights through the port `write`."""
    unit.write("write__enable", 1)
    for address, word in enumerate(model.words(layer, weight)):
        unit.write("write__address", address)
        unit.write("write__data", sum(int(w) % (1 << 32) << 32 * lane for lane, w in enumerate(word)))
        unit.step()
    unit.write("write__enable", 0)


@pytest.mark.parametrize("ready", [[True], [False, True, False]])
def test_the_action_is_joined_to_its_state(ready: list[bool]) -> None:
    rng = np.random.default_rng(0)
    layer = LayerShape(4, 2, 1)
    weight, inputs, states = raw(rng, 2, 5), raw(rng, SAMPLES, 4), raw(rng, SAMPLES, STATES)
    unit = interpreted(PolicyForward(layer, STATES))
    write(unit, layer, weight)
    run = unit.run({"inputs": inputs, "states": states}, {"outputs": SAMPLES}, ready={"outputs": ready})
    actions = tanh(model.forward([weight], inputs)[-1])
    np.testing.assert_array_equal(run.outputs["outputs"], np.concatenate([states, actions], axis=1))


@pytest.mark.parametrize("ready", [[True], [False, True, False]])
def test_errors_come_back_to_the_actions_sums(ready: list[bool]) -> None:
    rng = np.random.default_rng(1)
    layer = LayerShape(STATES + 2, 4, 1)
    weight, errors = raw(rng, 4, STATES + 3), raw(rng, SAMPLES, 4)
    inputs = np.concatenate([raw(rng, SAMPLES, STATES), tanh(raw(rng, SAMPLES, 2))], axis=1)
    unit = interpreted(PolicyBackward(layer, STATES))
    write(unit, layer, weight)
    run = unit.run({"errors": errors, "inputs": inputs}, {"back": SAMPLES}, ready={"back": ready})
    back = FORMAT.rescale(exact_matmul(errors, weight[:, STATES:-1]), 2 * FORMAT.fraction_bits).raw
    np.testing.assert_array_equal(run.outputs["back"], tanh_back(back, inputs[:, STATES:]))


def test_the_golden_models_are_tanh_and_its_derivative() -> None:
    rng = np.random.default_rng(2)
    values, errors = raw(rng, 100), raw(rng, 100)
    x = torch.from_numpy(FORMAT.to_float(values)).requires_grad_()
    y = torch.tanh(x)
    y.backward(torch.from_numpy(FORMAT.to_float(errors)))
    assert x.grad is not None
    np.testing.assert_allclose(FORMAT.to_float(tanh(values)), y.detach().numpy(), atol=FORMAT.resolution)
    found = FORMAT.to_float(tanh_back(errors, tanh(values)))
    np.testing.assert_allclose(found, x.grad.numpy(), atol=8 * FORMAT.resolution)


def test_the_actors_loss_rises_by_its_value() -> None:
    loss = interpreted(PassesLoss())
    loss.write("acts", 1)
    run = loss.run({"outputs": [[5], [-7]]}, {"errors": 2})
    np.testing.assert_array_equal(run.outputs["errors"], [[-ONE], [-ONE]])


def test_units_without_a_datapath_take_the_same_cycles() -> None:
    layer, back = LayerShape(4, 2, 1), LayerShape(STATES + 2, 4, 1)
    zeros = {"inputs": np.zeros((SAMPLES, 4), int), "states": np.zeros((SAMPLES, STATES), int)}
    whole = interpreted(PolicyForward(layer, STATES)).run(zeros, {"outputs": SAMPLES})
    timed = interpreted(TimedPolicyForward())
    timed.write("cycles", layer.words)
    run = timed.run({"inputs": np.zeros(SAMPLES, int)}, {"outputs": SAMPLES})
    np.testing.assert_array_equal(run.output_cycles["outputs"], whole.output_cycles["outputs"])

    zeros = {"errors": np.zeros((SAMPLES, 4), int), "inputs": np.zeros((SAMPLES, STATES + 2), int)}
    whole = interpreted(PolicyBackward(back, STATES)).run(zeros, {"back": SAMPLES})
    timed = interpreted(TimedPolicyBackward())
    timed.write("cycles", back.blocks * back.inputs)
    run = timed.run({name: np.zeros(SAMPLES, int) for name in zeros}, {"back": SAMPLES})
    np.testing.assert_array_equal(run.output_cycles["back"], whole.output_cycles["back"])
