"""PAL's tree passes the replay benchmark's own check with either fanout."""

import runpy

import numpy as np
import pytest

from placerl.harness.cli.bench.tree_rows import WORKER
from placerl.harness.compare import pal_tree


@pytest.mark.parametrize("fanout", [16, 1024])
def test_the_worker_accepts_the_tree(fanout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WORKER.parent)
    monkeypatch.setattr("sys.argv", ["tree_worker.py", "pal_tree.py", str(fanout)])
    priorities = np.arange(3000.0)
    tree = pal_tree.create(3000)
    tree.fill(priorities)
    runpy.run_path(str(WORKER))["check"](tree, priorities)
