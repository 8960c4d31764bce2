"""MAP's Algorithms 1 and 2 as printed, next to the reference: what each correction changes."""

import numpy as np
import pytest

from placerl.harness.papers.map import printed_tree
from placerl.harness.papers.map.printed_tree import Fixes, PrintedSumTree
from placerl.primitives import sum_tree
from placerl.primitives.device import Device
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree, kernel_source
from tests.primitives.device.kinds import KINDS, device_of
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin

CAPACITY, FANOUT = 37, 4


@pytest.fixture(params=KINDS)
def device(request: pytest.FixtureRequest) -> Device:
    return device_of(request.param)


def test_devices_are_those_of_this_machine() -> None:
    for name in printed_tree.device_names():
        assert printed_tree.device(name).kind == name


def filled(device: Device, fixes: Fixes) -> tuple[PrintedSumTree, np.ndarray]:
    before = np.arange(1.0, CAPACITY + 1)
    tree = PrintedSumTree(CAPACITY, FANOUT, device, fixes)
    tree.fill(before)
    return tree, before


def reference(priorities: np.ndarray) -> list[np.ndarray]:
    """The sums of every level, the root's first."""
    levels = [priorities]
    while len(levels[0]) > 1:
        padded = np.pad(levels[0], (0, -len(levels[0]) % FANOUT))
        levels.insert(0, padded.reshape(-1, FANOUT).sum(1))
    return levels


def equal(tree: PrintedSumTree, expected: list[np.ndarray]) -> list[bool]:
    """Whether each level is as expected, the root first."""
    return [np.array_equal(one, other) for one, other in zip(tree.levels(), expected, strict=True)]


def test_a_fill_is_what_the_reference_holds(device: Device) -> None:
    tree, before = filled(device, Fixes.NONE)
    assert all(equal(tree, reference(before)))


@pytest.mark.parametrize(
    ("fixes", "leaf", "total_change"),
    [
        (Fixes.NONE, 2 * 6 - 2, 0),  # 6 becomes 6 + (6 - 2) instead of 2
        (Fixes.SIGN, 2, 0),
        (Fixes.ROOT, 2 * 6 - 2, 4),
        (Fixes.SIGN | Fixes.ROOT, 2, -4),
        (Fixes.ALL, 2, -4),
    ],
    ids=str,
)
def test_one_update_of_one_leaf(device: Device, fixes: Fixes, leaf: float, total_change: float) -> None:
    tree, before = filled(device, fixes)
    tree.update([5], [2.0])
    assert tree.get([5]) == leaf
    assert tree.total == before.sum() + total_change
    after = before.copy()
    after[5] = 2
    right = equal(tree, reference(after))
    assert right == [bool(fixes & Fixes.SIGN and fixes & Fixes.ROOT)] + 3 * [bool(fixes & Fixes.SIGN)]


def test_as_printed_an_empty_tree_cannot_be_filled(device: Device) -> None:
    tree = PrintedSumTree(CAPACITY, FANOUT, device)
    tree.update(np.arange(CAPACITY), np.arange(1.0, CAPACITY + 1))
    assert (tree.get(np.arange(CAPACITY)) == -np.arange(1.0, CAPACITY + 1)).all()
    with pytest.raises(ValueError, match="total: found 0"):
        tree.sample(1, np.random.default_rng(0))


def test_corrected_it_answers_as_the_reference(device: Device) -> None:
    tree, before = filled(device, Fixes.ALL)
    expected = sum_tree.create(CAPACITY, backend="reference", fanout=FANOUT)
    expected.update(np.arange(CAPACITY), before)
    rng = np.random.default_rng(0)
    for _ in range(20):
        indices, priorities = rng.permutation(CAPACITY)[:9], rng.integers(0, 8, 9)
        tree.update(indices, priorities)
        expected.update(indices, priorities)
        assert tree.total == expected.total
        prefix = rng.integers(0, int(tree.total), 50) + 0.5
        assert tree.find(prefix).tolist() == expected.find(prefix).tolist()


def test_repeated_indices_keep_one_of_their_priorities_where_the_leaf_is_exchanged(
    device: Device,
) -> None:
    tree, _ = filled(device, Fixes.ALL)
    tree.update(np.repeat([3, 20], 32), np.tile(np.arange(1.0, 33), 2))
    kept = tree.get(np.arange(CAPACITY))
    assert set(kept[[3, 20]]) <= set(range(1, 33))
    assert all(equal(tree, reference(kept.astype(np.float64))))


def test_a_rounded_total_leads_algorithm_1_to_a_leaf_of_priority_0(device: Device) -> None:
    """The float32 total exceeds the sum: four children of 0.75 units in the last place are each rounded up to one."""
    unit = float(np.finfo(np.float32).eps)
    priorities = np.array([1, *(4 * [0.75 * unit]), 0])
    tree = PrintedSumTree(6, 8, device)
    tree.fill(priorities)
    assert tree.total == 1 + 4 * unit
    prefix = [1 + 3 * unit]  # as much as the priorities sum to
    assert tree.find(prefix).tolist() == [5]
    assert priorities[5] == 0
    right = DeviceSumTree(6, 8, np.float32, device)
    right.update(np.arange(6), priorities)
    assert right.find(prefix).tolist() == [4]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_for_cuda_without_a_gpu(architecture: str) -> None:
    cubin = compile_cubin(kernel_source("float32") + printed_tree.kernel_source(), architecture)
    assert b".text.printed_find" in cubin
    assert b".text.printed_update" in cubin
