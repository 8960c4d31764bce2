"""Trees of tensors: names, order and round trip."""

import pytest
import torch

from placerl.primitives.algorithms import create, tree


def state():
    return create("ddpg", observation_shape=(3,), action_size=1, network={"hidden": [4]}).initialise(
        torch.Generator().manual_seed(0)
    )


def test_flatten_and_unflatten_are_inverse():
    example = state()
    leaves = tree.flatten(example)
    assert {"actor/0.weight", "critic_adam/step", "critic_adam/square/1.bias"} <= leaves.keys()
    again = tree.unflatten(example, leaves)
    assert type(again) is type(example)
    assert type(again.actor_adam) is type(example.actor_adam)
    assert all(a is b for a, b in zip(tree.flatten(again).values(), leaves.values(), strict=True))


def test_map_tensors_touches_every_leaf():
    doubled = tree.flatten(tree.map_tensors(lambda leaf: leaf + 1, state()))
    for name, leaf in tree.flatten(state()).items():
        torch.testing.assert_close(doubled[name], leaf + 1)


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="list"):
        tree.flatten({"a": [torch.zeros(1)]})
