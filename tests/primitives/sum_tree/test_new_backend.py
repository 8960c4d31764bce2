"""A backend of the sum tree is one file: found by its name, and held to the whole conformance suite."""

import inspect
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from placerl.primitives import backend, sum_tree
from tests.primitives.sum_tree import test_conformance, variants
from tests.primitives.sum_tree.variants import DOUBLE, Variant

TOY = '''"""A flat array whose prefix sums are taken in every call."""

import numpy as np

from placerl.primitives.sum_tree.base import SumTree


def unavailable_reason():
    return ""


def create(capacity, fanout):
    return FlatArray(capacity, fanout, np.float64)


class FlatArray(SumTree):
    backend = "toy"

    def __init__(self, capacity, fanout, dtype):
        super().__init__(capacity, fanout, dtype)
        self._leaves = np.zeros(self.capacity, self.dtype)

    def _total(self):
        return float(self._leaves.cumsum()[-1])

    def _find(self, prefix):
        sums = self._leaves.cumsum()
        last = sums.searchsorted(sums[-1])  # the last leaf that is not 0
        return np.minimum(sums.searchsorted(prefix, side="right"), last)

    def _update(self, indices, priorities):
        self._leaves[indices] = priorities

    def _get(self, indices):
        return self._leaves[indices]
'''
CONTRACT = [
    test
    for name, test in vars(test_conformance).items()
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["variant"]
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which backends of the sum tree are looked for."""
    monkeypatch.setattr(sum_tree, "__path__", [str(tmp_path)])
    monkeypatch.setattr(variants, "AVAILABLE", ["toy"])
    backend._modules.cache_clear()
    yield tmp_path
    sys.modules.pop("placerl.primitives.sum_tree.toy_backend", None)
    backend._modules.cache_clear()


def test_one_file_passes_the_contract(folder: Path) -> None:
    (folder / "toy_backend.py").write_text(TOY)
    assert [status.name for status in sum_tree.backends() if status.available] == ["toy"]
    assert len(CONTRACT) >= 8
    for test in CONTRACT:
        test(Variant("toy", epsilon=DOUBLE))


def test_a_wrong_one_fails_it(folder: Path) -> None:
    (folder / "toy_backend.py").write_text(TOY.replace('side="right"', 'side="left"'))
    with pytest.raises(AssertionError):
        test_conformance.test_an_example_by_hand(Variant("toy", epsilon=DOUBLE))


def test_the_suite_runs_over_a_new_one(folder: Path) -> None:
    (folder / "toy_backend.py").write_text(TOY)
    found = runpy.run_path(variants.__file__)["VARIANTS"]
    (toy,) = (one for one in found if str(one) == "toy")
    assert toy.create(10).backend == "toy"
