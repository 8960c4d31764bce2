"""The memory floor takes leaves alone, and its tree passes the replay benchmark's own check."""

import runpy

import numpy as np
import pytest

from placerl.harness.cli.bench.tree_rows import WORKER
from placerl.harness.compare import own_memory_floor


@pytest.fixture(scope="module")
def tree():
    made = own_memory_floor.create(1000)
    made.fill(np.arange(1000.0))
    return made


def test_the_worker_accepts_the_tree_beside_the_floor(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WORKER.parent)
    runpy.run_path(str(WORKER))["check"](tree, np.arange(1000.0))


@pytest.mark.parametrize("load", ["load_dependent", "load_independent"])
def test_leaves_alone_are_loaded(tree, load: str) -> None:
    assert getattr(tree, load)(np.array([0, 999])) == 0, "the floor's own tree holds zeros"
    for wrong in (np.array([1000]), np.array([-1]), np.array([0.0]), np.arange(9)[::3], [1]):
        with pytest.raises(ValueError, match="indices: allowed: a contiguous vector of int64, each a leaf"):
            getattr(tree, load)(wrong)
