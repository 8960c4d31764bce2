"""Pong's passes at PPO's size: as many cycles as Equation 6, and what each of the accelerator's parts adds."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import pong


def test_passes_take_equation_6_and_what_it_leaves_out() -> None:
    by_case = {(one.name, one.batch, one.memory): one for one in pong.passes()}
    assert len(by_case) == len(pong.PROCESSES) * len(pong.BATCHES) * len(pong.MEMORIES)
    for name in pong.PROCESSES:
        for batch in pong.BATCHES:
            quick, fast, slow, slowest = (by_case[name, batch, memory].cycles for memory in pong.MEMORIES)
            assert quick.waited > 0 == quick.memory
            assert quick.total == fast.total < slow.total < slowest.total
            assert by_case[name, batch, "on the chip"].stated < quick.total
    for name in pong.PROCESSES:  # of a whole mini-batch the parts that Equation 6 leaves out are small
        one = by_case[name, max(pong.BATCHES), "on the chip"]
        assert one.cycles.total < 1.25 * one.stated
