"""What the native sum tree does when threads share it, and while one waits for a Generator's lock."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.primitives import sum_tree
from tests.limits import LIMIT_S

if not any(status.name == "native" and status.available for status in sum_tree.backends()):
    pytest.skip("the native extension is not built", allow_module_level=True)


@pytest.fixture
def tree() -> sum_tree.SumTree:
    tree = sum_tree.create(64, backend="native")
    tree.update(np.arange(64), np.ones(64))
    return tree


def saying(bits: np.random.PCG64, locks: threading.Event) -> np.random.Generator:
    """A generator that sets an event when a native call is about to lock it."""

    class Saying(np.random.Generator):
        @property
        def bit_generator(self) -> Any:
            def acquire() -> bool:
                locks.set()
                return bits.lock.acquire()

            return SimpleNamespace(
                capsule=bits.capsule, lock=SimpleNamespace(acquire=acquire, release=bits.lock.release)
            )

    return Saying(bits)


def sampled_late(
    tree: sum_tree.SumTree, bits: np.random.PCG64, meanwhile: Callable[[], object], batch_size: int = 8
) -> Future:
    """A sample by another thread, which waits for the lock of `bits` while `meanwhile` runs."""
    locks = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with bits.lock:
            sample = pool.submit(tree.sample, batch_size, saying(bits, locks))
            assert locks.wait(LIMIT_S)
            meanwhile()
            assert not sample.done()
        return sample


def test_a_waiting_sample_draws_from_its_own_generator(tree: sum_tree.SumTree) -> None:
    bits, other = np.random.PCG64(1), np.random.default_rng(2)
    late = sampled_late(tree, bits, lambda: tree.sample(8, other))
    assert late.result().tolist() == tree.sample(8, np.random.default_rng(1)).tolist()
    assert bits.lock.acquire(blocking=False)  # the other thread left it free
    expected = np.random.default_rng(2)
    tree.sample(8, expected)
    assert other.random() == expected.random()


@pytest.mark.parametrize("batch_size", [8, np.int64(8)], ids=["at once", "after the checks"])
def test_a_sample_that_waited_is_refused_when_no_priority_is_left(
    tree: sum_tree.SumTree, batch_size: int
) -> None:
    late = sampled_late(
        tree, np.random.PCG64(1), lambda: tree.update(np.arange(64), np.zeros(64)), batch_size
    )
    with pytest.raises(ValueError, match="total: found 0"):
        late.result()


@pytest.mark.slow
def test_no_sum_drifts_over_a_billion_updates() -> None:
    """Sums are made from their values, not patched: they end as in a tree that was given the priorities at once."""
    capacity, batch_size, batches = 2**20, 2**14, 256
    rng = np.random.default_rng(0)
    indices = rng.integers(capacity, size=(batches, batch_size))
    priorities = (10.0 ** rng.uniform(-10, 10, (batches, batch_size))).astype(np.float32)
    tree = sum_tree.create(capacity)
    for call in range(10**9 // batch_size + 1):
        tree.update(indices[call % batches], priorities[call // batches % batches])
    fresh = sum_tree.create(capacity)
    fresh.update(np.arange(capacity), tree.get(np.arange(capacity)))
    assert tree.total == fresh.total
    prefix = rng.random(10_000) * tree.total
    assert tree.find(prefix).tolist() == fresh.find(prefix).tolist()
