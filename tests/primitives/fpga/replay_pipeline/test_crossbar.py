"""The crossbar's route: the bank of a prefix sum, and what is left of it there."""

from bisect import bisect_right
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.sim import Simulator

from placerl.primitives.fpga.replay_pipeline import BankedLayout, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.crossbar import LaneRoute


@pytest.mark.parametrize("banks", [2, 3, 4])
def test_a_prefix_sum_goes_to_its_bank_and_one_beyond_the_total_to_the_last(banks: int) -> None:
    route = LaneRoute(BankedLayout(banks, PipelineLayout(2, 2, leaf_bits=4, tag_bits=1)))
    rng = np.random.default_rng(banks)

    async def drive(ctx: Any) -> None:
        ctx.set(route.operation, Operation.SAMPLE)
        for sums in rng.integers(0, 4, (60, banks)) * rng.integers(0, 2, (60, banks)):
            before = np.cumsum(sums).tolist()  # up to each bank, with its own
            for bank, total in enumerate(before):
                ctx.set(route.sums_before[bank], total)
            ctx.set(route.positive, sum(1 << bank for bank, s in enumerate(sums[1:]) if s))
            for value in range(before[-1] + 3):
                ctx.set(route.value, value)
                prefix = min(value, max(before[-1] - 1, 0))
                bank = bisect_right(before, prefix) if before[-1] else 0
                wanted = bank, prefix - (before[bank - 1] if bank else 0)
                assert (ctx.get(route.bank), ctx.get(route.rest)) == wanted, (sums, value)
        ctx.set(route.operation, Operation.UPDATE)
        ctx.set(route.path_bank, banks - 1)
        assert (ctx.get(route.bank), ctx.get(route.rest)) == (banks - 1, value)

    simulator = Simulator(route)
    simulator.add_testbench(drive)
    simulator.run()
