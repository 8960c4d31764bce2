"""The vector unit alone, with a network of three neurons and the constant one, next to the same in floating point."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cartpole_agent.vector_unit import AgentVectorUnit, Task, tasks
from placerl.primitives.fpga.simulation.base import Simulation
from tests.primitives.fpga.interpreter import interpreted

HIDDEN = 4
WORD, WEIGHT = 2.0**14, 2.0**22


def integers(values: np.ndarray, scale: float) -> np.ndarray:
    return np.rint(values * scale).astype(np.int64)


def run(unit: Simulation, task: Task) -> None:
    """Run a task, and as long after it as its results take."""
    unit.write("task", int(task))
    unit.write("start", 1)
    unit.step()
    unit.write("start", 0)
    cycles = len(tasks(1)[task])
    unit.step(cycles - 1)
    assert unit.read("done")
    unit.step()
    assert not unit.read("done")


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (7, HIDDEN))


@pytest.fixture
def unit(weights: np.ndarray) -> Simulation:
    unit = interpreted(AgentVectorUnit(hidden=HIDDEN))
    unit.write("load", 1)
    for row, values in enumerate(weights):
        unit.write("load_row", row)
        unit.write("load_weights", integers(values, WEIGHT))
        unit.step()
    unit.write("load", 0)
    return unit


def forward(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ weights[:4] + weights[4], 0)
    hidden[0] = 1
    return hidden, weights[5:] @ hidden


def test_the_values_of_a_state(unit: Simulation, weights: np.ndarray) -> None:
    for seed in range(3):
        x = np.random.default_rng(seed).uniform(-2, 2, 4)
        unit.write("before", integers(x, WORD))
        run(unit, Task.EVALUATE)
        np.testing.assert_allclose(np.asarray(unit.read("values")) / WORD, forward(x, weights)[1], atol=0.002)


@pytest.mark.parametrize("fell", [0, 1])
@pytest.mark.parametrize("action", [0, 1])
def test_an_update_from_one_transition(unit: Simulation, weights: np.ndarray, action: int, fell: int) -> None:
    x, after = np.random.default_rng(11).uniform(-0.5, 0.5, (2, 4))
    unit.write("before", integers(x, WORD))
    unit.write("after", integers(after, WORD))
    unit.write("action", action)
    unit.write("fell", fell)
    for _ in range(16):  # a batch of one and the same
        run(unit, Task.TRAIN)
    best = np.clip(forward(after, weights)[1].max(), -1, 0)
    wanted = -1 if fell else best * (1 - 2.0**-7)
    hidden, values = forward(x, weights)
    error = np.clip(values[action] - wanted, -1, 1)
    np.testing.assert_allclose(unit.read("error") / WORD, error, atol=0.002)
    run(unit, Task.UPDATE)
    delta = error * weights[5 + action] * (hidden > 0)
    delta[0] = 0
    new = weights - np.concatenate([np.outer([*x, 1], delta), np.zeros((2, HIDDEN))]) * 16 / 512
    new[5 + action] -= error * hidden * 16 / 512
    assert np.abs(new - weights).max() > 0.004
    # All weights show in the values of five states: of one feature each, and of zero.
    for probe in np.eye(5)[:, :4]:
        unit.write("before", integers(probe, WORD))
        run(unit, Task.EVALUATE)
        np.testing.assert_allclose(np.asarray(unit.read("values")) / WORD, forward(probe, new)[1], atol=5e-4)


def test_the_target_network_changes_with_a_copy_alone(unit: Simulation, weights: np.ndarray) -> None:
    x = np.array([0.5, -0.5, 0.25, 1.0])
    unit.write("before", integers(x, WORD))
    unit.write("after", integers(x, WORD))
    errors = []
    for copy in (0, 1, 0):
        run(unit, Task.TRAIN)
        errors.append(int(unit.read("error")))
        unit.write("copy", copy)
        run(unit, Task.UPDATE)
    run(unit, Task.EVALUATE)
    assert len(set(errors)) == 3
