"""How many levels keep running sums: measured once for similar trees, and without effect on any result."""

from pathlib import Path

import numpy as np
import pytest

from placerl.primitives import disk_cache, sum_tree
from placerl.primitives.sum_tree import running_sums
from tests.primitives.simd import USABLE

if not USABLE:
    pytest.skip("the native extension is not built", allow_module_level=True)


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fanout", [16, 5])
def test_no_choice_changes_a_result(simd: str, dtype: str, fanout: int) -> None:
    capacity = 5000
    found = []
    for most in (None, 0, *running_sums.CHOICES, 2**40):
        rng = np.random.default_rng(1)
        tree = sum_tree.create(
            capacity, backend="native", fanout=fanout, simd=simd, dtype=dtype, running_sums_max=most
        )
        results: list[object] = []
        for call in range(20):
            indices = rng.integers(0, capacity, 300)
            tree.update(indices, rng.random(300) * rng.integers(0, 2, 300))
            if call % 2 == bool(most):
                tree.settle()
            drawn = tree.sample(200, rng)
            results.append((tree.total, drawn.tolist(), tree.find(tree.total * rng.random(50)).tolist()))
        found.append(results)
    assert all(results == found[0] for results in found)


def test_similar_trees_share_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    running_sums._break_even.cache_clear()
    calls = []

    def fastest(capacity: int, fanout: int, item_bytes: int, simd: str) -> int:
        calls.append((capacity, fanout))
        return 4096

    monkeypatch.setattr(running_sums, "_fastest", fastest)
    assert running_sums.running_sums_max(100, 16) == 256
    assert not calls
    assert running_sums.running_sums_max(1000, 16) == running_sums.running_sums_max(65536, 9) == 4096
    assert running_sums.running_sums_max(10**6, 16) == running_sums.running_sums_max(10**8, 16) == 4096
    assert calls == [(2**16, 16), (2**20, 16)]
    running_sums._break_even.cache_clear()


def test_the_measurement_chooses_one_of_the_choices() -> None:
    assert running_sums._fastest(2000, 16, 4, "portable") in running_sums.CHOICES
    assert running_sums._fastest(2000, 3, 8, "portable") in running_sums.CHOICES
