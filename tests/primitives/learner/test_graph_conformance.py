"""Every graph backend against PyTorch in float64: all algorithms, and one that is not ours."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from placerl.primitives import learner
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.backend import load
from placerl.primitives.graph.executable import Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner import trace
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import NativeExecutable
from tests.primitives.device.kinds import device_of
from tests.primitives.learner.graph_cases import (
    CASES,
    make,
    named_leaves,
    random_batch,
    random_state,
    step_function,
)
from tests.primitives.simd import USABLE

BATCH_SIZE = 24
STEPS = 5
# float32 backends: relative to the largest element of a tensor. Losses sum over the batch, gradients over
# batch and layers; their rounding errors stay below some tens of units in the last place.
TOLERANCE = {"float64": 1e-10, "float32": 3e-5}
REASONS = {status.name: status.reason for status in learner.backends() if status.name != "torch"}
VARIANTS = [*REASONS, "host", "native avx2", "native portable", "native 2 threads", "native 3 threads"]
"""`host`: the kernels of every device, in host C++."""


Example = Callable[[int], tuple[Any, Any, Any]]
Expected = list[tuple[tuple[Any, Any, Any], Any]]


@pytest.fixture(params=VARIANTS)
def compile_graphs(request: pytest.FixtureRequest) -> Callable[..., Executable]:
    name, _, simd = request.param.partition(" ")
    if name == "host":
        return partial(DeviceExecutable, device=device_of(name))
    if REASONS[name]:
        pytest.skip(REASONS[name])
    if simd.endswith("threads"):
        return partial(NativeExecutable, threads=int(simd.split()[0]), part_ns=0)
    if simd and simd not in USABLE:
        pytest.skip(f"this processor has no {simd}")
    if simd:
        return partial(NativeExecutable, simd=simd)
    module = load("placerl.primitives.learner", name)
    return module.compile_graphs  # type: ignore[no-any-return]


def assert_close(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    tolerance = TOLERANCE[str(found.dtype)]
    scale = np.abs(expected).max(initial=1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale, err_msg=name)


def as_float64(tree: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, tree
    )


def examples_of(algorithm: Algorithm) -> Example:
    """Random state, batch and draws, by seed."""

    def example(seed: int) -> tuple[Any, Any, Any]:
        generator = torch.Generator().manual_seed(seed)
        return (
            random_state(algorithm, generator),
            random_batch(algorithm, BATCH_SIZE, generator),
            algorithm.draw(BATCH_SIZE, generator),
        )

    return example


def expected_steps(step: Callable[..., Any], example: Example) -> Expected:
    """Arguments of steps, and what PyTorch makes of them in float64."""
    arguments = [example(seed) for seed in range(STEPS)]
    return [(given, step(*map(as_float64, given))) for given in arguments]


def check_steps(executable: Executable, expected: Expected, dtype: torch.dtype) -> None:
    """Compare steps, the state set to PyTorch's before each: first moments of Adam compare gradients."""
    for (state, batch, draws), result in expected:
        inputs = {**named_leaves("batch", batch), **named_leaves("draws", draws)}
        for name, leaf in named_leaves("state", state).items():
            executable.write_state(name, leaf)
        outputs = executable.step("full", inputs)
        new_state, *rest = result
        for name, value in named_leaves("state", new_state).items():
            old = executable.state()[name]
            assert str(old.dtype) == str(dtype).removeprefix("torch.")
            assert_close(name, old, value)
        fields = getattr(result, "_fields", ("state", "output0"))[1:]
        for field, tree in zip(fields, rest, strict=True):
            for name, value in named_leaves(field, tree).items():
                assert_close(name, outputs[name], value)


@cache
def expected_of(name: str, variant: str, dtype: torch.dtype) -> Expected:
    """An algorithm's steps. The formulas in float64 are the same: networks do not depend on the dtype."""
    algorithm = make(name, dtype)
    return expected_steps(step_function(algorithm, variant), examples_of(algorithm))


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_steps_agree_with_pytorch_in_float64(
    compile_graphs: Callable[..., Executable], name: str, variant: str
) -> None:
    executable = compile_graphs({"full": step_graph(make(name, torch.float32), BATCH_SIZE, variant)})
    check_steps(executable, expected_of(name, variant, torch.float32), torch.float32)


@cache
def convolution_steps(stride: tuple[int, int], padding: tuple[int, int]) -> tuple[Graph, Expected]:
    """The graph of a step on images, and its steps."""

    def step(state: dict[str, Tensor], batch: dict[str, Tensor], draws: dict[str, Tensor]) -> Any:
        def loss(weights: dict[str, Tensor]) -> Tensor:
            hidden = torch.relu(
                functional.conv2d(batch["image"], weights["0"], weights["b"], stride=stride, padding=padding)
            )
            return (functional.conv2d(hidden, weights["1"]).flatten(1) ** 2).mean()

        gradients, value = torch.func.grad_and_value(loss)(state)
        return {name: leaf - gradients[name] for name, leaf in state.items()}, value

    def example(seed: int) -> tuple[Any, Any, Any]:
        generator = torch.Generator().manual_seed(seed)
        shapes = {"0": (5, 3, 3, 4), "1": (2, 5, 2, 3), "b": (5,)}
        state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        return state, {"image": torch.randn((4, 3, 9, 11), generator=generator)}, {}

    return trace(step, example(0)), expected_steps(step, example)


@pytest.mark.parametrize(("stride", "padding"), [((2, 1), (0, 0)), ((1, 2), (1, 2))])
def test_convolutions_agree_with_pytorch(
    compile_graphs: Callable[..., Executable], stride: tuple[int, int], padding: tuple[int, int]
) -> None:
    graph, expected = convolution_steps(stride, padding)
    check_steps(compile_graphs({"full": graph}), expected, torch.float32)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_interpreter_agrees_to_float64_precision(name: str, variant: str) -> None:
    executable = ReferenceExecutable({"full": step_graph(make(name, torch.float64), BATCH_SIZE, variant)})
    check_steps(executable, expected_of(name, variant, torch.float64), torch.float64)


@pytest.mark.parametrize("backend", ["reference", "native", "host"])
def test_zeros_of_either_sign_are_two_constants(backend: str) -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        zero = torch.zeros(1)
        return state, (
            torch.where(x > 0, 0.0, -0.0),
            x * 0.0,
            x * -0.0,
            torch.cat([zero, -zero]),
            torch.cat([-zero, zero]),
        )

    x = torch.tensor([1.0, -1.0])
    compiled: dict[str, Callable[..., Executable]] = {
        "reference": ReferenceExecutable,
        "native": NativeExecutable,
        "host": lambda graphs: DeviceExecutable(graphs, device_of("host")),
    }
    executable = compiled[backend]({"full": trace(step, (torch.zeros(()), x))})
    results = executable.step("full", {"x": x.numpy()}).values()
    for found, wanted in zip(results, step(torch.zeros(()), x)[1], strict=True):
        np.testing.assert_array_equal(found, 0)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted.numpy()))


# Implicit Q-learning (Kostrikov et al. 2021): an algorithm that PlaceRL does not have, in plain PyTorch.


def forward(layers: dict[str, Tensor], x: Tensor) -> Tensor:
    hidden = functional.silu(functional.layer_norm(x @ layers["w0"].T + layers["b0"], (12,)))
    return hidden @ layers["w1"].T + layers["b1"]


def sgd_momentum(
    loss: Callable[..., Tensor], state: dict[str, Any], name: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    gradients, value = torch.func.grad_and_value(loss)(state[name])
    momentum = {key: 0.9 * state[f"{name}_momentum"][key] + g for key, g in gradients.items()}
    return {key: p - 0.01 * momentum[key] for key, p in state[name].items()}, momentum, value


def implicit_q_learning(state: dict[str, Any], batch: dict[str, Tensor], draws: dict[str, Tensor]) -> Any:
    observation_action = torch.cat([batch["observation"], batch["action"]], 1)
    target_q = forward(state["target_q"], observation_action).squeeze(1)

    def value_loss(layers: dict[str, Tensor]) -> Tensor:
        advantage = target_q - forward(layers, batch["observation"]).squeeze(1)
        return (torch.where(advantage > 0, 0.7, 0.3) * advantage**2).mean()

    def q_loss(layers: dict[str, Tensor]) -> Tensor:
        next_value = forward(state["value"], batch["next_observation"]).squeeze(1)
        target = batch["reward"] + 0.99 * (1 - batch["terminated"]) * next_value
        return functional.huber_loss(forward(layers, observation_action).squeeze(1), target.detach())

    def policy_loss(layers: dict[str, Tensor]) -> Tensor:
        advantage = target_q - forward(state["value"], batch["observation"]).squeeze(1)
        weight = torch.exp(3 * advantage).clamp(max=100).detach()
        mean = torch.tanh(forward(layers, batch["observation"]))
        return (weight * ((mean - batch["action"]) ** 2).sum(1)).mean()

    new, losses = {}, {}
    for name, loss in (("value", value_loss), ("q", q_loss), ("policy", policy_loss)):
        new[name], new[f"{name}_momentum"], losses[name] = sgd_momentum(loss, state, name)
    new["target_q"] = {key: 0.99 * t + 0.01 * new["q"][key] for key, t in state["target_q"].items()}
    return {key: new[key] for key in state}, losses


@cache
def implicit_q_steps() -> tuple[Graph, Expected]:
    """Its graph, and its steps."""

    def layers(generator: torch.Generator, inputs: int, outputs: int) -> dict[str, Tensor]:
        shapes = {"w0": (12, inputs), "b0": (12,), "w1": (outputs, 12), "b1": (outputs,)}
        return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}

    def example(seed: int) -> tuple[Any, Any, Any]:
        generator = torch.Generator().manual_seed(seed)
        sizes = {"value": (4, 1), "q": (6, 1), "policy": (4, 2)}
        state: dict[str, Any] = {}
        for name, size in sizes.items():
            state[name], state[f"{name}_momentum"] = layers(generator, *size), layers(generator, *size)
        state["target_q"] = layers(generator, 6, 1)
        batch = {
            name: torch.randn((BATCH_SIZE, *shape), generator=generator)
            for name, shape in (
                ("observation", (4,)),
                ("next_observation", (4,)),
                ("action", (2,)),
                ("reward", ()),
            )
        }
        return state, {**batch, "terminated": (batch["reward"] > 0.5).float()}, {}

    return trace(implicit_q_learning, example(0)), expected_steps(implicit_q_learning, example)


def test_an_algorithm_that_is_not_ours_runs_on_every_backend(
    compile_graphs: Callable[..., Executable],
) -> None:
    graph, expected = implicit_q_steps()
    check_steps(compile_graphs({"full": graph}), expected, torch.float32)
