"""The sum tree whose draws and updates are tensors: NumPy says what it holds, and the host waits for nothing."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="a tensor needs PyTorch")

import torch

from placerl.primitives import device
from placerl.primitives.replay.device.tensor_tree import DTYPES, LeastSumTree, TensorTree, kernel_source
from placerl.primitives.sum_tree.gpu import device_tree
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin
from tests.primitives.device.recording import Counts, RecordingDevice

CAPACITY = 100


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    device_of({"cpu": "host", "cuda": "cuda"}[request.param])
    return request.param


def filled(where: str, **options: Any) -> TensorTree:
    """A tree whose leaf k has the priority k + 1."""
    tree = TensorTree(CAPACITY, where, **options)
    tree[torch.arange(CAPACITY)] = torch.arange(1.0, CAPACITY + 1)
    return tree


def held(tree: TensorTree) -> np.ndarray:
    return tree[torch.arange(len(tree))].cpu().numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_a_gpu(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(device_tree.kernel_source(dtype) + kernel_source(), architecture)
    for kernel in (b"sum_and_least", b"place", b"read_drawn", b"admit"):
        assert b".text." + kernel in cubin


@every_kind_with_barriers
@pytest.mark.parametrize(("capacity", "fanout"), [(1, 2), (16, 16), (70, 2), (5000, 16)])
def test_sums_and_smallest_leaves_of_every_node(kind: str, capacity: int, fanout: int) -> None:
    tree = LeastSumTree(capacity, fanout, np.float32, device_of(kind))
    rng, expected = np.random.default_rng(0), np.zeros(capacity)
    for count in (1, 3, capacity, 40):
        indices = rng.integers(capacity, size=count)
        priorities = rng.random(count).astype(np.float32) * (rng.random(count) < 0.7)
        tree.update(indices, priorities)
        np.put(expected, indices, priorities)
        tree.synchronise()
        nodes = tree.device.usual_stream().download(tree.least, tree.first_leaf, np.float32)
        positive = expected[expected > 0]
        assert nodes[0] == (positive.min() if positive.size else 0)
        assert tree.total == pytest.approx(expected.sum())
        np.testing.assert_array_equal(tree.get(np.arange(capacity)), expected.astype(np.float32))
        lowest = np.pad(expected, (0, -capacity % fanout)).reshape(-1, fanout)
        lowest = np.where(lowest > 0, lowest, np.inf).min(axis=1)
        above_leaves = tree._offsets[-2] if capacity > fanout else 0
        last = nodes[above_leaves : above_leaves + len(lowest)]
        np.testing.assert_array_equal(np.where(last > 0, last, np.inf), lowest.astype(np.float32))


UPDATES = st.lists(
    st.lists(st.tuples(st.integers(-1, 40), st.floats(0, 1e3, width=32)), min_size=1, max_size=60), max_size=6
)


@settings(max_examples=60, deadline=None)
@given(
    updates=UPDATES,
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    dtype=st.sampled_from([*DTYPES]),
    fanout=st.sampled_from([2, 16]),
)
def test_updates_set_powers_and_follow_the_largest(
    updates: list[list[tuple[int, float]]], alpha: float, dtype: torch.dtype, fanout: int
) -> None:
    device_of("host")
    tree, expected, largest, most = TensorTree(41, "cpu", dtype, fanout), np.zeros(41), None, None
    for batch in updates:
        indices, raw = (np.array(column) for column in zip(*batch, strict=True))
        largest = tree.update(
            torch.from_numpy(indices),
            torch.from_numpy(raw),
            alpha=alpha,
            epsilon=1e-3,
            floor=1e-30,
            largest=largest,
        )
        for index, priority in batch:
            if index < 0:
                continue
            expected[index] = (priority + 1e-3) ** alpha
            if most is None or priority > most[0]:
                most = priority, index
        if most is not None:
            assert (float(largest.priority), int(largest.at)) == most
    np.testing.assert_allclose(held(tree), expected, rtol=1e-6)


def test_draws_follow_the_priorities_of_the_first_items(where: str) -> None:
    """A draw of the right frequencies fails once in 10,000 runs: 153 counts, each within 5 standard deviations."""
    for items in (1, 17, 35, CAPACITY):
        tree = filled(where)
        draws, shares = 100_000, np.arange(1.0, items + 1) / np.arange(1.0, items + 1).sum()
        generator = torch.Generator(where).manual_seed(1)
        draw = tree.draw(draws, items, generator)
        indices = draw.indices.cpu().numpy()
        counts = np.bincount(indices, minlength=items)
        assert counts.size == items
        assert (np.abs(counts - draws * shares) <= 5 * np.sqrt(draws * shares * (1 - shares))).all()
        np.testing.assert_array_equal(draw.priorities.cpu(), indices + 1)
        assert float(draw.least) == 1
        tree[torch.arange(3)] = 0.0
        if items > 3:
            draw = tree.draw(1000, items, generator)
            assert float(draw.least) == 4
            assert int(draw.indices.min()) >= 3


def test_the_generators_seed_is_that_of_the_draws(where: str) -> None:
    tree, generator = filled(where), torch.Generator(where)
    first, again, other = (tree.draw(50, CAPACITY, generator.manual_seed(seed)).indices for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.manual_seed(5)
    first = tree.draw(50, CAPACITY).indices
    torch.manual_seed(5)
    assert torch.equal(first, tree.draw(50, CAPACITY).indices)


def test_of_a_repeated_index_the_last_priority_is_kept(where: str) -> None:
    tree = filled(where)
    largest = tree.update(torch.tensor([7, -1, 7, 8, -5]), torch.tensor([9.0, 50.0, 2.0, 3.0, 60.0]))
    assert (float(largest.priority), int(largest.at)) == (9.0, 7)
    expected = np.arange(1.0, CAPACITY + 1)
    expected[7:9] = 2.0, 3.0
    np.testing.assert_array_equal(held(tree), expected)
    same = tree.update(torch.tensor([1, 2]), torch.tensor([4.0]), largest=largest)
    assert (float(same.priority), int(same.at)) == (9.0, 7)
    assert held(tree)[:4].tolist() == [1.0, 4.0, 4.0, 4.0]
    assert tree.update(torch.tensor([], dtype=torch.int64), torch.tensor([4.0]), largest=same) == same


@pytest.mark.parametrize(
    ("index", "priority"), [(1, np.nan), (1, np.inf), (1, -1.0), (1, 1e38), (CAPACITY, 1.0), (2**40, 1.0)]
)
def test_a_wrong_update_changes_nothing_and_is_told_once(where: str, index: int, priority: float) -> None:
    tree = filled(where)
    largest = tree.update(torch.tensor([0]), torch.tensor([5.0]))
    before = held(tree)
    found = tree.update(torch.tensor([3, index, 4]), torch.tensor([9.0, priority, 9.0]), largest=largest)
    assert (float(found.priority), int(found.at)) == (5.0, 0)
    np.testing.assert_array_equal(held(tree), before)
    with pytest.raises(ValueError, match="found a wrong index or priority in an earlier call"):
        tree.raise_if_wrong()
    tree.raise_if_wrong()
    tree.draw(3, CAPACITY)
    tree.update(torch.tensor([3]), torch.tensor([torch.nan]), alpha=0.0)
    if where == "cuda":
        torch.cuda.synchronize()
    for call in (lambda: tree.draw(3, CAPACITY), lambda: pickle.dumps(tree)):
        with pytest.raises(ValueError, match=r"allowed: indices below 100, priorities 0 to 1\.6"):
            call()
        tree.update(torch.tensor([-1, CAPACITY]), torch.tensor([1.0]))
        if where == "cuda":
            torch.cuda.synchronize()
    with pytest.raises(ValueError, match="wrong index"):
        tree.update(torch.tensor([3]), torch.tensor([1.0]))
    np.testing.assert_array_equal(held(tree), before)


def test_a_first_update_that_was_wrong_leaves_no_largest_priority(where: str) -> None:
    tree = TensorTree(CAPACITY, where)
    found = tree.update(torch.tensor([0]), torch.tensor([torch.nan]))
    assert found.priority.isnan()
    assert int(found.at) == -1
    assert not held(tree).any()


def test_copies_are_independent_and_draw_the_same(where: str) -> None:
    tree = filled(where, dtype=torch.float64, fanout=4)
    for copied in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert copied.dtype is torch.float64
        assert copied.device == tree.device
        seeds = torch.Generator(where), torch.Generator(where)
        draws = [each.draw(50, 90, seed) for each, seed in zip((tree, copied), seeds, strict=True)]
        assert all(torch.equal(*pair) for pair in zip(*draws, strict=True))
        copied[3] = 77.0
        assert float(tree[3]) == 4.0
        assert float(copied[torch.tensor([[3]])][0, 0]) == 77.0


def test_the_host_copies_nothing_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RecordingDevice(device_of("host"))
    monkeypatch.setattr(device, "create", lambda kind, number: recording)
    tree = filled("cpu")
    for batch_size in (32, 7, 300):
        recording.counts.reset()
        draw = tree.draw(batch_size, 60)
        tree.update(draw.indices, draw.priorities)
        assert recording.counts == Counts(launches=recording.counts.launches)


@pytest.mark.gpu
def test_on_cuda_the_host_waits_for_nothing_on_any_stream() -> None:
    device_of("cuda")
    tree = filled("cuda")
    tree.draw(64, 60)
    torch.cuda.synchronize()
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        torch.cuda.set_sync_debug_mode("error")
        try:
            with torch.cuda.stream(stream):
                for _ in range(20):
                    draw = tree.draw(64, 60)
                    largest = tree.update(draw.indices, draw.priorities, alpha=1.0)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        assert float(largest.priority) <= 60
        np.testing.assert_array_equal(held(tree), np.arange(1.0, CAPACITY + 1))


def test_what_cannot_be_is_refused() -> None:
    device_of("host")
    with pytest.raises(
        ValueError, match=r"dtype: found torch\.float16; allowed: torch\.float32, torch\.float64"
    ):
        TensorTree(3, "cpu", torch.float16)
    with pytest.raises(ValueError, match="device: found meta; allowed: cuda, cpu"):
        TensorTree(3, "meta")
    for capacity in (0, 2.5):
        with pytest.raises(
            ValueError, match=f"capacity: found {capacity}; allowed: an integer of at least 1"
        ):
            TensorTree(capacity, "cpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fanout: found 1"):
        TensorTree(3, "cpu", fanout=1)
    tree = filled("cpu")
    with pytest.raises(ValueError, match="priorities: found 2; allowed: 1, or as many as indices, 3"):
        tree.update(torch.arange(3), torch.ones(2))
