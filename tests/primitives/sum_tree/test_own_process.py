"""Trees in a forked process: they give what they would have given, or refuse by name, and never hang."""

import os

import numpy as np
import pytest

from placerl.primitives import sum_tree
from tests.forked import outcomes
from tests.primitives.sum_tree.variants import Variant, every_variant

ITEMS = 4096  # enough for threads to take part
SIMULATED = 64  # in hardware that is simulated, where each takes long
FREE = {"reference", "native", "fpga"}
"""Backends that have no threads, no locks and no device, unless they are asked for threads."""


def items(variant: Variant) -> int:
    return SIMULATED if variant.backend == "fpga" else ITEMS


def filled(variant: Variant) -> sum_tree.SumTree:
    count = items(variant)
    tree = variant.create(count)
    tree.update(np.arange(count), np.ones(count))
    tree.sample(count, np.random.default_rng(0))
    return tree


@every_variant
def test_a_forked_tree_works_or_refuses_by_name(variant: Variant) -> None:
    tree, count = filled(variant), items(variant)
    expected = filled(variant).sample(count, np.random.default_rng(1)).tolist()

    def sampled_the_same() -> None:
        assert tree.sample(count, np.random.default_rng(1)).tolist() == expected

    found = outcomes(
        [
            lambda: tree.total,
            lambda: tree.find([1.0]),
            sampled_the_same,
            lambda: tree.update(np.arange(count), np.ones(count)),
            lambda: tree.get([0]),
            tree.synchronise,
            tree.settle,
        ]
    )
    if variant.backend in FREE and "threads" not in variant.options:
        assert found == ["passed"] * 7
    else:
        refusal = f"RuntimeError: this {type(tree).__name__} belongs to process {os.getpid()}, found "
        assert len(found) == 7
        assert all(one.startswith(refusal) for one in found), found
    sampled_the_same()


@pytest.mark.gpu
def test_calls_on_a_device_are_refused_too() -> None:
    tree = filled(Variant("cuda"))
    calls = [
        lambda: tree.sample_on_device(None, None),
        lambda: tree.update_on_device(None, None),
        tree.raise_if_wrong,
    ]
    assert all("belongs to process" in one for one in outcomes(calls))
