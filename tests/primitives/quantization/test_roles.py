"""The roles of buffers and products, whichever way a network keeps its weights."""

from collections import Counter
from typing import Any

import pytest
import torch

from placerl.primitives.graph.trace import trace
from placerl.primitives.quantization import roles
from placerl.primitives.quantization.precision import fixed_32
from placerl.primitives.quantization.roles import Operand, Role

BATCH_SIZE = 5


@pytest.mark.parametrize("inputs_first", [False, True])
@pytest.mark.parametrize("sizes", [(4, 6, 3), (4, 4, 4)])
def test_roles_do_not_depend_on_how_weights_are_kept(sizes: tuple[int, int, int], inputs_first: bool) -> None:
    """As (outputs, inputs), as PyTorch's layers do, or as (inputs, outputs)."""
    inputs, hidden, outputs = sizes
    shapes = {"v": (inputs, hidden), "w": (hidden, outputs)}
    state = {name: torch.zeros(shape if inputs_first else shape[::-1]) for name, shape in shapes.items()}
    batch = {"x": torch.zeros(BATCH_SIZE, inputs), "y": torch.zeros(BATCH_SIZE, outputs)}

    def step(state: Any, batch: Any) -> Any:
        def loss(weights: Any) -> torch.Tensor:
            v, w = (weights[name] if inputs_first else weights[name].T for name in "vw")
            return ((torch.relu(batch["x"] @ v) @ w - batch["y"]) ** 2).sum()

        gradients = torch.func.grad(loss)(state)
        return {name: state[name] - 0.1 * gradients[name] for name in "vw"}, gradients

    graph, precision = trace(step, (state, batch)), fixed_32()
    assigned = roles.assign(graph, precision)
    found = Counter(operand for pair in assigned.operands.values() for operand in pair)
    assert found == Counter(
        {
            Operand(Role.ACTIVATION, "state/v"): 2,  # forward, and of the gradient
            Operand(Role.WEIGHT, "state/v"): 1,
            Operand(Role.ERROR, "state/v"): 1,
            Operand(Role.ACTIVATION, "state/w"): 2,
            Operand(Role.WEIGHT, "state/w"): 2,  # forward and back
            Operand(Role.ERROR, "state/w"): 2,
        }
    )
    stored = {buffer.name: kind for buffer, kind in zip(graph.buffers, assigned.storage, strict=True)}
    assert stored["batch/x"] == stored["batch/y"] == precision.activations
    for view in graph.outputs.values():
        assert assigned.storage[view.buffer] == precision.gradients
