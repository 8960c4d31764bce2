"""A user's step gives the same training whether a learner replaces the state or overwrites it."""

import numpy as np
import pytest
import torch

from placerl.primitives import learner
from placerl.primitives.algorithms.custom import CustomAlgorithm

BATCH_SIZE = 3


def lagged(state, batch):
    """The old q is kept as it is."""
    return {"q": state["q"] + batch["reward"].sum(), "previous": state["q"]}


def swapped(state, batch):
    return {"q": state["previous"] + 1, "previous": state["q"]}


def exchanged(state, batch):
    return {"q": state["previous"], "previous": state["q"]}


def rolled(state, batch):
    """A view of a leaf, with an offset, and a leaf that does not change."""
    return {"q": state["q"].flip(0), "previous": state["q"][:1].expand(2)}


def unchanged(state, batch):
    return {"q": state["q"] * 2, "previous": state["previous"]}


def in_another_order(state, batch):
    return {"previous": state["q"] - 1, "q": state["q"] + 1}


STEPS = [lagged, swapped, exchanged, rolled, unchanged, in_another_order]


def algorithm_of(new_state):
    def step(state, batch):
        new = new_state(state, batch)
        return new, {"td_error": batch["reward"] + state["q"].sum(), "old": state["q"][0], "new": new["q"][1]}

    algorithm = CustomAlgorithm(
        observation_shape=(4,),
        action_size=2,
        action_kind="continuous",
        state={"q": torch.tensor([1.0, 2.0]), "previous": torch.tensor([5.0, 7.0])},
        step=step,
        policy=lambda state, observation: observation[:, :2] * state["q"],
    )
    algorithm.check()
    return algorithm


def batch_of(algorithm, seed):
    rng = np.random.default_rng(seed)
    columns = {name: shape for name, (shape, _) in algorithm.columns(BATCH_SIZE).items() if name != "weight"}
    batch = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in columns.items()}
    return batch | {"terminated": rng.random(BATCH_SIZE) < 0.5}


@pytest.mark.parametrize("new_state", STEPS)
def test_a_learner_that_updates_in_place_trains_as_one_that_replaces_the_state(new_state):
    algorithm = algorithm_of(new_state)
    tuned, eager = (
        learner.create(algorithm, batch_size=BATCH_SIZE, mode=mode) for mode in ("tuned", "eager")
    )
    for seed in range(4):
        batch = batch_of(algorithm, seed)
        found, expected = tuned.step(batch), eager.step(batch)
        np.testing.assert_array_equal(found.td_errors, expected.td_errors)
        assert found.losses == expected.losses
        for name, value in eager.state_dict().items():
            np.testing.assert_array_equal(tuned.state_dict()[name], value, err_msg=name)


def test_a_learner_that_updates_in_place_clones_only_what_shares_memory(monkeypatch):
    cloned = []
    clone = torch.Tensor.clone
    algorithm = algorithm_of(lagged)
    tuned = learner.create(algorithm, batch_size=BATCH_SIZE, mode="tuned")
    batch = batch_of(algorithm, 0)
    monkeypatch.setattr(torch.Tensor, "clone", lambda leaf: cloned.append(leaf) or clone(leaf))
    tuned.step(batch)
    assert [tuple(leaf.shape) for leaf in cloned] == [(2,), ()]  # "previous" and the output "old"
