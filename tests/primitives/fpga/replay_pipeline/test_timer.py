"""The timer against the closed form of one pipeline and the bounds of several.

`tests/primitives/sum_tree/test_fpga_timed.py` compares it with the whole hardware.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.replay_pipeline.timer import ReplayTimer

pytestmark = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)
BANKS, FANOUT = 2, 16
TIMING = replay.level_timing(fanout=FANOUT, narrow=False, samples=False)


@pytest.mark.parametrize("levels", [1, 5])
@pytest.mark.parametrize("count", [1, 10])
def test_one_pipeline_takes_the_cycles_of_the_closed_form(levels: int, count: int) -> None:
    timer, zeros = ReplayTimer(1, levels, FANOUT), np.zeros(count, np.int64)
    for writes in (True, False, False):
        assert timer.cycles(zeros, zeros, writes=writes) == replay.pipeline_cycles(
            count, levels=levels, timing=TIMING
        )
    assert timer.cycles(zeros[:0], zeros[:0], writes=False) == 0


@given(
    st.lists(st.tuples(st.integers(0, BANKS - 1), st.integers(0, BANKS - 1)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_several_take_as_long_as_their_busiest_bank_and_lane_at_least(
    requests: list[tuple[int, int]], levels: int, writes: bool
) -> None:
    banks, lanes = (np.array(column, np.int64) for column in zip(*requests, strict=True))
    timer = ReplayTimer(BANKS, levels, FANOUT)
    timer.cycles(banks[:1], lanes[:1], writes=writes)  # no change of phase afterwards
    found = timer.cycles(banks, lanes, writes=writes)
    fill = replay.fill_cycles(levels=levels, timing=TIMING, banks=BANKS)
    busiest = max(np.bincount(banks).max(), np.bincount(lanes).max())
    assert busiest + fill <= found <= len(requests) + fill
    assert timer.cycles(banks, lanes, writes=not writes) >= busiest + fill + replay.PHASE_CHANGE_CYCLES
