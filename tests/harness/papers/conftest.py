"""Verdicts at a fixed placed clock, so that their tests do not change with each placement of a block."""

from collections.abc import Iterator

import pytest

from placerl.primitives.fpga.tools import placed
from placerl.primitives.fpga.tools.placed import Placed
from tests.harness.papers.rows import PLACED_MHZ


@pytest.fixture(autouse=True, scope="module")
def placed_blocks() -> Iterator[None]:
    """The slowest placed block of every paper's design has one clock, and the CartPole agent is slower."""
    clocks = {
        "processing-element width=32": PLACED_MHZ,
        "layout-transform": 100.0,
        "gemm-core float32=true side=2": PLACED_MHZ,
        "activation-unit": PLACED_MHZ + 1,
        "adam-unit": PLACED_MHZ + 2,
        "fixar-core": PLACED_MHZ,
        "fixar-scalar-unit": PLACED_MHZ + 1,
        "fixar-adam-lane": PLACED_MHZ + 2,
        "replay-pipeline fanout=2": PLACED_MHZ + 1,
        "replay-pipeline fanout=4": PLACED_MHZ,
        "lane-route fanout=2": PLACED_MHZ + 2,
        "bank-queues fanout=2": PLACED_MHZ + 3,
        "cartpole-agent": PLACED_MHZ - 1,
    }
    rows = {name: Placed("", 8, mhz, "", {}, {}) for name, mhz in clocks.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed, "committed", lambda: rows)
        yield
