"""Adam's step sizes fall as `annealing_steps` says: in the pure step, and in every learner."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives import algorithms, learner
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.base import ANNEALED
from placerl.primitives.algorithms.updates import AdamState
from tests.primitives.learner.graph_cases import SHAPES, random_batch, random_state

BATCH_SIZE = 8
RATES = (
    "learning_rate",
    "actor_learning_rate",
    "critic_learning_rate",
    "temperature_learning_rate",
    "policy_learning_rate",
    "value_learning_rate",
)


def make(name: str, annealing_steps: int | None) -> Algorithm:
    return algorithms.create(name, **SHAPES[name], hyperparameters={"annealing_steps": annealing_steps})


def begun(algorithm: Algorithm, steps: int) -> Any:
    """A state after a number of steps, in every optimiser of it."""
    state = random_state(algorithm, torch.Generator().manual_seed(1))
    moments = {name: one for name, one in state._asdict().items() if isinstance(one, AdamState)}
    return state._replace(
        **{name: one._replace(step=torch.tensor(float(steps))) for name, one in moments.items()}
    )


def leaves(state: Any) -> list[torch.Tensor]:
    return torch.utils._pytree.tree_leaves(state)


@given(
    name=st.sampled_from(sorted(SHAPES)),
    annealing_steps=st.integers(1, 10**6),
    steps=st.integers(0, 2 * 10**6),
)
def test_a_step_is_that_of_the_step_sizes_that_are_left(name: str, annealing_steps: int, steps: int) -> None:
    annealed = make(name, annealing_steps)
    left = max(ANNEALED, 1 - (1 - ANNEALED) * steps / annealing_steps)
    settings = annealed.hyperparameters
    rates = {rate: left * getattr(settings, rate) for rate in RATES if hasattr(settings, rate)}
    constant = replace(annealed, hyperparameters=replace(settings, annealing_steps=None, **rates))
    generator = torch.Generator().manual_seed(2)
    batch, draws = random_batch(annealed, BATCH_SIZE, generator), annealed.draw(BATCH_SIZE, generator)
    state = begun(annealed, steps)
    for found, expected in zip(
        leaves(annealed.gradient_step(state, batch, draws).state),
        leaves(constant.gradient_step(state, batch, draws).state),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("backend", [status.name for status in learner.backends() if status.available])
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_learner_anneals(name: str, backend: str) -> None:
    algorithm = make(name, 3)
    own = learner.create(algorithm, backend=backend, batch_size=BATCH_SIZE, seed=3)
    plain = learner.create(algorithm, backend="torch", batch_size=BATCH_SIZE, seed=3, mode="eager")
    for step in range(4):
        batch = random_batch(algorithm, BATCH_SIZE, torch.Generator().manual_seed(step))
        columns = {column: value.numpy() for column, value in batch.items() if column != "weight"}
        own.load_state_dict(plain.state_dict())  # rounding differences grow at the kinks of ReLU
        own.step(columns)
        plain.step(columns)
    found = own.state_dict()
    for (
        leaf,
        value,
    ) in plain.state_dict().items():  # the last step moves parameters by 1e-5, unannealed by 1e-3
        if "adam" not in leaf and value.dtype == np.float32:
            np.testing.assert_allclose(found[leaf], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("annealing_steps", [0, -1, 1.5, True, "4"])
def test_a_number_of_steps_that_is_none_is_refused(annealing_steps: object) -> None:
    with pytest.raises(ValueError, match=r"annealing_steps: found .*; allowed: an integer of at least 1"):
        algorithms.create("dqn", **SHAPES["dqn"], hyperparameters={"annealing_steps": annealing_steps})
