"""Verdicts at a fixed placed clock, so that their tests do not change with each placement of a block."""

import pytest

from primitives.fpga.tools import placed
from primitives.fpga.tools.placed import Placed
from tests.harness.papers.rows import PLACED_MHZ


@pytest.fixture(autouse=True)
def placed_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processing element is the slowest placed block of the papers' designs, and the CartPole agent slower."""
    clocks = {
        "processing-element width=32": PLACED_MHZ,
        "layout-transform": 100.0,
        "replay-pipeline fanout=2": PLACED_MHZ + 1,
        "replay-pipeline fanout=4": PLACED_MHZ,
        "lane-route fanout=2": PLACED_MHZ + 2,
        "bank-arbiter fanout=2": PLACED_MHZ + 3,
        "cartpole-agent": PLACED_MHZ - 1,
    }
    rows = {name: Placed("", 8, mhz, "", {}, {}) for name, mhz in clocks.items()}
    monkeypatch.setattr(placed, "committed", lambda: rows)
