"""What the native sum tree does when threads share it, and while one waits for a Generator's lock."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from primitives import sum_tree

if not any(status.name == "native" and status.available for status in sum_tree.backends()):
    pytest.skip("the native extension is not built", allow_module_level=True)


@pytest.fixture
def tree() -> sum_tree.SumTree:
    tree = sum_tree.create(64, backend="native")
    tree.update(np.arange(64), np.ones(64))
    return tree


def sampled_late(
    tree: sum_tree.SumTree, rng: np.random.Generator, meanwhile: Callable[[], object], batch_size: int = 8
) -> Future:
    """A sample by another thread, which waits for the lock of `rng` while `meanwhile` runs."""
    with ThreadPoolExecutor(1) as pool:
        with rng.bit_generator.lock:
            sample = pool.submit(tree.sample, batch_size, rng)
            threading.Event().wait(0.05)
            assert not sample.done()
            meanwhile()
        return sample


def test_a_waiting_sample_draws_from_its_own_generator(tree: sum_tree.SumTree) -> None:
    rng, other = np.random.default_rng(1), np.random.default_rng(2)
    late = sampled_late(tree, rng, lambda: tree.sample(8, other))
    assert late.result().tolist() == tree.sample(8, np.random.default_rng(1)).tolist()
    assert rng.bit_generator.lock.acquire(blocking=False)  # the other thread left it free
    expected = np.random.default_rng(2)
    tree.sample(8, expected)
    assert other.random() == expected.random()


@pytest.mark.parametrize("batch_size", [8, np.int64(8)], ids=["at once", "after the checks"])
def test_a_sample_that_waited_is_refused_when_no_priority_is_left(
    tree: sum_tree.SumTree, batch_size: int
) -> None:
    rng = np.random.default_rng(1)
    late = sampled_late(tree, rng, lambda: tree.update(np.arange(64), np.zeros(64)), batch_size)
    with pytest.raises(ValueError, match="total: found 0"):
        late.result()
