"""The objective's gradients are those of the whole PPO at its networks' outputs, and of the arithmetic by hand."""

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms
from placerl.primitives.algorithms.ppo_objective import PpoObjective
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.learner.native import native_backend

M = 6


def objective(kind: str, **hyperparameters: object) -> PpoObjective:
    algorithm = algorithms.create(
        "ppo",
        observation_shape=(3,),
        action_size=2,
        action_kind=kind,
        network={"hidden": (4,)},
        hyperparameters=hyperparameters,
        dtype=torch.float64,
    )
    return PpoObjective.of(algorithm, M)


def batch_for(made: PpoObjective, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    batch = {}
    for name, (shape, dtype) in made.columns(M).items():
        values = rng.integers(0, 2, shape) if dtype == torch.int64 else rng.standard_normal(shape)
        batch[name] = torch.as_tensor(values).to(dtype)
    return batch


def test_at_the_old_policy_the_gradient_is_the_score_times_the_advantage() -> None:
    """Ratio 1, so d/dmean of -mean(ratio A) is -A (a - mean) / sigma^2 / M; sigma = 1; the value's is 2 (V - R) / M."""
    made = objective("continuous", normalize_advantages=False, entropy_coefficient=0.0, initial_log_std=0.0)
    batch = batch_for(made, np.random.default_rng(0))
    batch["log_probability"], _ = made.distribution(
        {"log_std": torch.zeros(2, dtype=torch.float64)}, batch["policy_output"], batch["action"]
    )
    state = made.initialise(torch.Generator())
    result = made.gradient_step(state, batch)
    difference = batch["action"] - batch["policy_output"]
    torch.testing.assert_close(result.state["policy_output"], -batch["advantage"][:, None] * difference / M)
    error = batch["value_output"][:, 0] - batch["value_target"]
    torch.testing.assert_close(result.state["value_output"][:, 0], 2 * error / M)
    torch.testing.assert_close(result.td_error, -error)
    score = (difference**2 - 1) * batch["advantage"][:, None]
    torch.testing.assert_close(result.state["log_std"], -score.mean(0))
    assert result.state["policy_log_std"] is state["policy_log_std"]
    assert result.losses["kl"] == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_the_gradients_are_those_of_the_whole_algorithm(kind: str) -> None:
    """By the chain rule: the gradient of the last bias is the sum of those of the outputs."""
    made = objective(kind)
    whole = algorithms.create(
        "ppo",
        observation_shape=(3,),
        action_size=2,
        action_kind=kind,
        network={"hidden": (4,)},
        hyperparameters={"maximum_gradient_norm": None},
        dtype=torch.float64,
    )
    batch = batch_for(made, np.random.default_rng(1))
    observation = torch.as_tensor(np.random.default_rng(2).standard_normal((M, 3)))
    state = whole.initialise(torch.Generator().manual_seed(0))
    given = {name: column for name, column in batch.items() if not name.endswith("_output")}
    outputs = {name: whole.networks[name](getattr(state, name), observation) for name in ("policy", "value")}
    batch |= {f"{name}_output": value for name, value in outputs.items()}
    ours = made.gradient_step(made.initialise(torch.Generator()), batch)
    found = whole.gradient_step(state, given | {"observation": observation})
    for name in ("value", "policy", "kl", "entropy"):
        torch.testing.assert_close(ours.losses[name], found.losses[name])
    for name in ("policy", "value"):
        adam = getattr(found.state, f"{name}_adam")
        last = max(key for key in adam.mean if "bias" in key)
        expected = adam.mean[last] / (1 - 0.9)  # Adam's first mean
        torch.testing.assert_close(ours.state[f"{name}_output"].sum(0), expected)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_a_native_learner_computes_them(kind: str) -> None:
    made = PpoObjective.of(
        algorithms.create("ppo", observation_shape=(3,), action_size=2, action_kind=kind), M
    )
    batch = batch_for(made, np.random.default_rng(3))
    native = GraphLearner(
        made, native_backend.compile_graphs, backend="native", device="cpu", batch_size=M, seed=0
    )
    native.step({name: column.numpy() for name, column in batch.items()})
    expected = made.gradient_step(made.initialise(torch.Generator()), batch).state
    for name, gradient in native.parameters().items():
        np.testing.assert_allclose(gradient, expected[name].numpy(), rtol=1e-4, atol=1e-6)
    drawn = made.drawn(
        {"policy.log_std": np.zeros(2, np.float32)},
        batch["policy_output"].numpy(),
        made.draw_exploration(M, 0, np.random.default_rng(4)),
    )
    assert drawn.shape == ((M, 2) if kind == "continuous" else (M,))
    with pytest.raises(NotImplementedError, match="no network"):
        made.act({}, np.zeros((1, 3)))
