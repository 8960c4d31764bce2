"""The crossbar's route: the bank of a prefix sum, and what is left of it there."""

from bisect import bisect_right
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.sim import Simulator

from placerl.primitives.fpga.replay_pipeline import BankedLayout, Operation, PipelineLayout, crossbar
from placerl.primitives.fpga.replay_pipeline.crossbar import BankArbiter, BankQueues, LaneRoute
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs


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


LANES, DEPTH = 2, 2
SIZES = {"fanout": 2, "levels": 1, "leaf_bits": 1, "tag_bits": 1}
BUGS = [
    None,
    (
        BankQueues,
        "arbiter.ready.eq(self.requests.ready)",
        "arbiter.ready.eq(1)",
    ),  # loses what the bank leaves
    (BankQueues, "queue.r_en.eq(arbiter.grant[lane])", "queue.r_en.eq(0)"),  # gives it again
    (BankQueues, "self.room[lane].eq(queue.w_rdy)", "self.room[lane].eq(1)"),
    (BankArbiter, "candidates & (~candidates + 1)", "candidates"),  # takes from several lanes at once
    (BankArbiter, "Mux(first.any(), first, self.wanted)", "self.wanted"),  # the last lane waits forever
]


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize("bug", BUGS)
def test_proof_that_every_request_reaches_its_bank_once_and_in_turn(
    bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all requests of two lanes and all pauses of the bank: in the order of each lane, and none waits forever."""
    if bug:
        monkeypatch.setattr(crossbar, bug[0].__name__, mutated(*bug))
    proof = Proof(crossbar.BankQueues(banks=LANES, depth=DEPTH, **SIZES))
    queues = proof.block
    proof.drive(queues.requests.ready)
    taken = queues.requests.valid & queues.requests.ready
    for lane in range(LANES):
        offered, put = queues.offered[lane], queues.put[lane]
        proof.m.d.comb += [
            Value.cast(offered).eq(proof.free(len(Value.cast(offered)))),
            offered.tag.eq(lane),
            put.eq(proof.free() & queues.room[lane]),
        ]
        here = taken & (queues.requests.payload.tag == lane)
        waits = proof.in_order(put, offered, here, queues.requests.payload, most=DEPTH)
        proof.asserts(~waits | queues.waiting)
        proof.within(LANES * DEPTH, waits, queues.requests.ready)
    assert proof.holds(cycles=10) is (bug is None)


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("(positive, Cat(before, bank))", "(Const(1), Cat(before, bank))"),
        ("total + ~outside[:bits]", "total - outside[:bits]"),
    ],
)
def test_proof_that_a_sample_goes_to_the_bank_that_holds_its_prefix_sum(bug: Any) -> None:
    """For all sums of three banks and all prefix sums: the value in the bank is below the bank's sum."""
    block = mutated(LaneRoute, *bug) if bug else LaneRoute
    layout = BankedLayout(3, PipelineLayout(**SIZES))
    proof = Proof(block(layout))
    route = proof.block
    sums = [proof.free(layout.bank.total_bits) for _ in range(layout.banks)]
    total = sum(sums[1:], sums[0])
    proof.drive(route.value)
    proof.m.d.comb += [
        route.operation.eq(Operation.SAMPLE),
        route.positive.eq(Cat(value != 0 for value in sums[1:])),
    ]
    before: Any = Const(0, 1)
    for bank, value in enumerate(sums):
        prefix = Mux(route.value < total, route.value, total - 1)
        inside = (total != 0) & (prefix >= before) & (prefix < before + value)
        proof.asserts(~inside | ((route.bank == bank) & (route.rest == prefix - before)))
        before = before + value
        proof.m.d.comb += route.sums_before[bank].eq(before)
    proof.asserts((total != 0) | (route.bank == 0))
    assert proof.holds(cycles=1) is (bug is None)
