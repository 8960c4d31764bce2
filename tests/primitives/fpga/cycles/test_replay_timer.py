"""The software that counts how long a replay's requests wait, against recorded batches, closed forms and the hardware.

`tests/primitives/sum_tree/test_fpga_timed.py` compares whole trees.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.cycles.blocks.replay import FANOUT, LEVELS, drawn_batches
from placerl.primitives.fpga.cycles.replay_timer import ReplayTimer
from placerl.primitives.fpga.cycles.table import committed, parsed
from placerl.primitives.fpga.export import toolchain

TIMING = replay.level_timing(fanout=FANOUT, narrow=False, samples=False)
RECORDED = {design: found for design, found in committed().results.items() if parsed(design)[0] == "replay"}


@pytest.mark.parametrize("design", RECORDED)
def test_every_recorded_batch_takes_the_cycles_of_the_simulation(design: str) -> None:
    (banks,) = parsed(design)[1]
    assert RECORDED[design]
    for size, cycles in RECORDED[design].items():
        count, batches, seed = map(int, size.strip("[]").split(","))
        timer = ReplayTimer(banks, LEVELS, FANOUT)
        drawn = drawn_batches(banks, count, batches, seed)
        assert [timer.cycles(to, lanes, writes=writes) for to, lanes, writes in drawn] == cycles


def test_recorded_are_batches_for_every_number_of_sub_trees_that_an_exploration_chooses() -> None:
    assert sorted(parsed(design)[1] for design in RECORDED) == [[1 << bits] for bits in range(6)]
    for cycles in (cycles for found in RECORDED.values() for cycles in found.values()):
        assert len(cycles) == 24


@pytest.mark.parametrize("levels", [1, 5])
@pytest.mark.parametrize("count", [1, 10])
def test_one_pipeline_takes_the_cycles_of_the_closed_form(levels: int, count: int) -> None:
    timer, zeros = ReplayTimer(1, levels, FANOUT), np.zeros(count, np.int64)
    for writes in (True, False, False):
        assert timer.cycles(zeros, zeros, writes=writes) == replay.pipeline_cycles(
            count, levels=levels, timing=TIMING
        )
    assert timer.cycles(zeros[:0], zeros[:0], writes=False) == 0


Requests = list[tuple[int, int]]


def requests(banks: int) -> st.SearchStrategy[Requests]:
    place = st.integers(0, banks - 1)
    return st.lists(st.tuples(place, place), min_size=1, max_size=40)


@given(requests(2), st.integers(1, 6), st.booleans())
@settings(deadline=None, max_examples=50)
def test_several_take_as_long_as_their_busiest_bank_and_lane_at_least(
    drawn: Requests, levels: int, writes: bool
) -> None:
    banks, lanes = (np.array(column, np.int64) for column in zip(*drawn, strict=True))
    timer = ReplayTimer(2, levels, FANOUT)
    timer.cycles(banks[:1], lanes[:1], writes=writes)  # no change of phase afterwards
    found = timer.cycles(banks, lanes, writes=writes)
    fill = replay.fill_cycles(levels=levels, timing=TIMING, banks=2)
    busiest = max(np.bincount(banks).max(), np.bincount(lanes).max())
    assert busiest + fill <= found <= len(drawn) + fill
    assert timer.cycles(banks, lanes, writes=not writes) >= busiest + fill + replay.PHASE_CHANGE_CYCLES


@pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)
@pytest.mark.parametrize("banks", [2, 3, 8])
def test_any_requests_in_any_order_take_the_cycles_of_the_hardware(banks: int) -> None:
    from placerl.primitives.fpga.replay_pipeline.timer import SimulatedReplayTimer

    @given(st.lists(st.tuples(requests(banks), st.booleans()), min_size=1, max_size=6), st.integers(1, 4))
    @settings(deadline=None, max_examples=40)
    def agree(batches: list[tuple[Requests, bool]], levels: int) -> None:
        timers = [kind(banks, levels, FANOUT) for kind in (ReplayTimer, SimulatedReplayTimer)]
        for drawn, writes in batches:
            to, lanes = (np.array(column, np.int64) for column in zip(*drawn, strict=True))
            software, hardware = (timer.cycles(to, lanes, writes=writes) for timer in timers)
            assert software == hardware

    agree()


def test_drawn_batches_are_the_same_for_a_seed_and_come_in_three_kinds() -> None:
    first, again, other = (list(drawn_batches(8, 64, 6, seed)) for seed in (0, 0, 1))
    for (to, lanes, writes), (same_to, same_lanes, same_writes) in zip(first, again, strict=True):
        assert (to.tolist(), lanes.tolist(), writes) == (same_to.tolist(), same_lanes.tolist(), same_writes)
    assert any(a[0].tolist() != b[0].tolist() for a, b in zip(first, other, strict=True))
    for number, (to, lanes, writes) in enumerate(first):
        assert (np.sort(to) == to).all() == (number % 3 == 0)
        assert to.max() < (2 if number % 3 == 2 else 8)
        assert writes or (lanes == np.arange(64) % 8).all()
