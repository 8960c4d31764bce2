import inspect
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from placerl.primitives.graph.graph import Graph, UnsupportedOperationError
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner import trace
from tests.primitives.learner.graph_cases import make, named_leaves, random_batch, random_state, step_function

X, Y = (
    torch.linspace(-2, 3, 24, dtype=torch.float64).reshape(4, 6),
    torch.linspace(1, 2, 6, dtype=torch.float64),
)
INDEX = torch.tensor([[0, 5, 5], [1, 1, 2], [3, 0, 4], [2, 2, 2]])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 7 * 6, dtype=torch.float64).reshape(2, 3, 7, 6)
KERNEL = torch.linspace(-1, 1, 4 * 3 * 3 * 2, dtype=torch.float64).reshape(4, 3, 3, 2)

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "arithmetic": lambda x, y: (x + y) * x - y / 3 + 2 * x**2 - x.abs().sqrt() + 1 / y + y**1.5 - (1 - x),
    "transcendental": lambda x, y: x.exp() + y.log() + x.sin() * x.cos() + torch.log1p(y) + torch.expm1(x),
    "squashing": lambda x, y: torch.tanh(x) + torch.sigmoid(x) + functional.softplus(x) + torch.erf(x),
    "activations": lambda x, y: functional.elu(x) + functional.gelu(x) + functional.silu(x)
    + functional.leaky_relu(x) + functional.relu6(x) + functional.logsigmoid(x) + functional.mish(x),
    "rounding": lambda x, y: x.floor() + x.ceil() + x.round() + x.sign() + torch.remainder(x, 0.7),
    "comparison": lambda x, y: torch.where((x > y) | (x <= -1) & ~(x == 0), x, y),
    "comparison of kinds": lambda x, y: ((x * 3).long() > torch.tensor(0.5)).to(x.dtype)
    + ((x * 3).long() < y.mean()).to(x.dtype) + ((x > 0) < 2).to(x.dtype) + ((x * 3).long() >= y).to(x.dtype),
    "limits": lambda x, y: x.clamp(-1, 1) + torch.maximum(x, y) + torch.minimum(x, y) + x.clamp(min=0),
    "bounded": lambda x, y: functional.hardtanh(x, -1, 1) + functional.hardtanh(x, -0.5, 1.5) + functional.hardtanh(x),
    "whole quotients": lambda x, y: ((x * 3).long() // 2).to(x.dtype) + ((x * 3).long() // -4).to(x.dtype),
    "sums of flags": lambda x, y: ((x > 0) + (x > 1)).to(x.dtype),
    "conversion": lambda x, y: (x > 0).to(x.dtype) + (x > 1).long().to(x.dtype),
    "sums": lambda x, y: x.sum() + x.mean(0) + x.sum(1, keepdim=True).mean() + x.var(0) + x.std(),
    "extremes": lambda x, y: x.amax(0) + x.max(1).values.sum() + x.amin() + x.min(),
    "positions": lambda x, y: (x.argmax(1), (-x).argmax(), x.max(0).indices, x.argmin(1, keepdim=True)),
    "logits": lambda x, y: torch.log_softmax(x, 1) + torch.softmax(x, 1) + torch.logsumexp(x, 1, keepdim=True),
    "products": lambda x, y: (x @ x.T, x @ y, y @ y, torch.einsum("ij,kj->ik", x, x)),
    "batched products": lambda x, y: torch.bmm(x.reshape(2, 2, 6), x.reshape(2, 6, 2)),
    "transposed": lambda x, y: x.T + x.T.contiguous() * 2 + x.reshape(6, 4),
    "pieces": lambda x, y: (x[:, 1:4], x[2], x[:, -1], torch.chunk(x, 2, 1)[1], x[1:, None]),
    "joined": lambda x, y: (torch.cat([x, y.expand(2, 6)], 0), torch.stack([x, x + 1], 1), functional.pad(x, (1, 2))),
    "gathered": lambda x, y: (x.gather(1, INDEX), x.index_select(0, INDEX[:, 0] % 4), y[INDEX[:, 1]]),
    "gathered from a part": lambda x, y: (x.gather(1, INDEX[1:3]), x.gather(0, INDEX[:, :2] % 4)),
    "scattered": lambda x, y: torch.zeros_like(x).scatter_add(1, INDEX, x[:, :3] + 1),
    "scattered to a part": lambda x, y: torch.zeros_like(x).scatter_add(1, INDEX[1:3], x[:, :3] + 1),
    "one hot": lambda x, y: functional.one_hot(INDEX[:, 1], 6).to(x.dtype) * x,
    "losses": lambda x, y: functional.huber_loss(x, y.expand_as(x)) + functional.mse_loss(x, y.expand_as(x)),
    "normalised": lambda x, y: functional.layer_norm(x, (6,)) + functional.normalize(x, dim=1),
    "convolution": lambda x, y: functional.conv2d(IMAGE * x[0, 0], KERNEL, y[:4], stride=(2, 1), padding=(1, 0)),
    "constants": lambda x, y: x * torch.arange(6) + torch.tensor([1.0, 2, 3, 4, 5, 6]) + torch.ones(6),
}  # fmt: skip


def executed(graph: Graph, **inputs: Tensor) -> list[np.ndarray]:
    arrays = {name: value.numpy() for name, value in inputs.items()}
    return list(ReferenceExecutable({"full": graph}).step("full", arrays).values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_functions_give_what_pytorch_gives(name: str) -> None:
    def step(state: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, object]:
        return state, FUNCTIONS[name](x, y)

    expected = FUNCTIONS[name](X, Y)
    results = executed(trace(step, (torch.zeros(()), X, Y)), x=X, y=Y)
    for found, wanted in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-12)


DIFFERENTIABLE = sorted(
    set(FUNCTIONS)
    - {"positions", "constants", "one hot", "comparison of kinds", "whole quotients", "sums of flags"}
    - {"scattered to a part"}  # PyTorch differentiates only where every number of the source is added
)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_traced_gradients_are_those_of_pytorch(name: str) -> None:
    def total(x: Tensor, y: Tensor) -> Tensor:
        result = FUNCTIONS[name](x, y)
        parts = result if isinstance(result, tuple) else (result,)
        return torch.stack([(part * torch.cos(part)).sum() for part in parts]).sum()

    def step(state: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return state, torch.func.grad(total, argnums=(0, 1))(x, y)

    expected = torch.func.grad(total, argnums=(0, 1))(X, Y)
    results = executed(trace(step, (torch.zeros(()), X, Y)), x=X, y=Y)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-10, atol=1e-10)


def test_a_variance_of_too_few_numbers_is_infinite_or_nan_as_in_pytorch() -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return state, (x.var(0, correction=4), x.var(0, correction=7), x[:1].var(0), x.std(1, correction=9))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says so
        expected = step(torch.zeros(()), X)[1]
        results = executed(trace(step, (torch.zeros(()), X)), x=X)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, wanted.numpy())


def test_state_is_updated_in_place_whatever_reads_it() -> None:
    def step(state: dict[str, Tensor], x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        a, b, c, d = (state[name] for name in "abcd")
        # a and b change places, c is read transposed by what replaces it, d is read after it is replaced.
        new_d = d + 1
        return {"a": b, "b": a, "c": c.T * 2, "d": new_d}, (d + a[0] + c.sum()) * new_d + x

    state = {name: torch.arange(4.0).reshape(2, 2) + i for i, name in enumerate("abcd")}
    executable = ReferenceExecutable({"full": trace(step, (state, torch.zeros(2)))})
    for _ in range(3):
        for name, leaf in state.items():
            executable.write_state(f"state/{name}", leaf.numpy())
        outputs = executable.step("full", {"x": np.zeros(2, np.float32)})
        state, expected = step(state, torch.zeros(2))
        for name, leaf in state.items():
            np.testing.assert_array_equal(executable.state()[f"state/{name}"], leaf.numpy())
        np.testing.assert_array_equal(outputs["output0"], expected.numpy())


def test_a_ddpg_step_is_small_and_counts_its_products() -> None:
    algorithm = make("ddpg", torch.float32)
    generator = torch.Generator().manual_seed(0)
    example = (random_state(algorithm, generator), random_batch(algorithm, 32, generator), {})
    graph = trace(step_function(algorithm, "full"), example)
    kinds = [node.kind for node in graph.nodes]
    # 15 forward (5 networks of 3 layers), 13 backward: no gradient for the networks' inputs but the action.
    assert kinds.count("matmul") == 28
    assert kinds.count("elementwise") <= 36
    assert {b.kind for b in graph.buffers} <= {"state", "input", "temporary"}
    assert set(graph.outputs) == {"losses/critic", "losses/actor", "td_error"}
    leaves = named_leaves("state", example[0])
    assert [buffer.name for _, buffer in graph.of_kind("state")] == list(leaves)


def line_of(function: Callable[..., object], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + offset}"


def test_an_unsupported_operation_is_an_error_that_names_it_and_the_line() -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return state, torch.cumsum(x, 0)

    with pytest.raises(UnsupportedOperationError) as caught:
        trace(step, (torch.zeros(()), X))
    assert str(caught.value) == f"aten.cumsum.default at {line_of(step, 'cumsum(x')}: no graph backend has it"


def test_arguments_and_numbers_that_a_rule_does_not_know_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"aten\.round\.decimals .*decimals"):
        trace(lambda state, x: (state, torch.round(x, decimals=1)), (torch.zeros(()), X))
    with pytest.raises(UnsupportedOperationError, match="bit operations are for bool only"):
        trace(lambda state, x: (state, x.long() | x.long()), (torch.zeros(()), X))
    with pytest.raises(UnsupportedOperationError, match="reduce 'multiply'"):
        trace(
            lambda state, x: (state, torch.zeros_like(x).scatter(1, INDEX[:, :1], x, reduce="multiply")),
            (torch.zeros(()), X),
        )


def test_the_line_is_that_of_the_backward_pass_where_the_operation_arises_there() -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return state, torch.func.grad(lambda y: functional.max_pool1d(y, 2).sum())(x)

    with pytest.raises(UnsupportedOperationError, match=r"test_trace.py:\d+"):
        trace(step, (torch.zeros(()), X))


def test_random_numbers_must_come_in_as_inputs() -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return state, x + torch.randn(6)

    with pytest.raises(UnsupportedOperationError, match=r"aten\.randn"):
        trace(step, (torch.zeros(()), X))


def test_control_flow_on_data_is_an_error_that_names_the_line() -> None:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return state, x if x.sum() > 0 else -x

    with pytest.raises(UnsupportedOperationError) as caught:
        trace(step, (torch.zeros(()), X))
    assert line_of(step, "if x.sum") in str(caught.value)
    assert "depend on data" in str(caught.value)


def test_a_step_must_return_a_state_of_the_same_shapes() -> None:
    def step(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        return {"w": state["w"][:2]}, state["w"]

    with pytest.raises(ValueError, match=r"state/w: the step returned \(2,\) torch.float32; allowed: \(3,\)"):
        trace(step, ({"w": torch.zeros(3)},))
