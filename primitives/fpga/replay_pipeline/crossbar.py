"""The crossbar between S lanes (inputs for requests) and S banks (sub-trees) of a replay pipeline (MAP IV-C4).

It routes the request of each lane to its bank, where it waits in the lane's queue until the bank takes it. Every bank
has a queue for each lane. So a request waits behind requests for the same bank only, until a queue is full.
"""

from collections.abc import Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cycles.replay import QUEUE_DEPTH
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Operation, PipelineLayout


class LaneRoute(wiring.Component):
    """Finds the bank (sub-tree) to which a request goes, and the request's value in this bank; combinational.

    Ports:
        operation: In(Operation), the request's operation; path_bank: In(bank_bits), the bank that its path names;
            value: In(total_bits), its prefix sum or priority.
        sums_before: In(S x total_bits): entry i is the sum of all priorities in banks 0 to i.
        positive: In(S - 1), which of banks 1, 2, ... have a sum above 0.
        bank: Out(bank_bits), the bank to which the request goes.
        rest: Out(total_bits), for SAMPLE the prefix sum inside the bank, below the bank's sum; for other operations
            the value.
    """

    def __init__(self, layout: BankedLayout) -> None:
        self.layout = layout
        bits = layout.total_bits
        super().__init__(
            {
                "operation": In(Operation),
                "path_bank": In(layout.bank_bits),
                "value": In(bits),
                "sums_before": In(data.ArrayLayout(bits, layout.banks)),
                "positive": In(layout.banks - 1),
                "bank": Out(layout.bank_bits),
                "rest": Out(bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        banks = self.layout.banks
        bits = self.layout.total_bits
        total = self.sums_before[banks - 1]
        # The bank of a prefix sum below the total is the last one with a positive sum whose preceding sum is at most
        # the prefix sum. A prefix sum from the total on counts as the total less 1, which is in the last bank with a
        # positive sum. Both are found at once, and a bank's subtraction is its comparison too: no path has two sums.
        within: list[tuple[Value, Value]] = [(Const(1), Cat(self.value, Const(0, self.layout.bank_bits)))]
        beyond: list[tuple[Value, Value]] = [(Const(1), Const(0, bits + self.layout.bank_bits))]
        for number in range(1, banks):
            before, positive = self.sums_before[number - 1], self.positive[number - 1]
            difference = Signal(bits + 1, name=f"difference_{number}")
            m.d.comb += difference.eq(self.value - before)
            bank = Const(number, self.layout.bank_bits)
            within.append((positive & ~difference[bits], Cat(difference[:bits], bank)))
            beyond.append((positive, Cat(before, bank)))
        inside, outside = _last(within)[1], _last(beyond)[1]
        with m.If(self.operation != Operation.SAMPLE):
            m.d.comb += [self.bank.eq(self.path_bank), self.rest.eq(self.value)]
        with m.Elif(self.value < total):
            m.d.comb += Cat(self.rest, self.bank).eq(inside)
        with m.Elif(total != 0):
            m.d.comb += [self.bank.eq(outside[bits:]), self.rest.eq(total + ~outside[:bits])]
        return m


def _last(choices: Sequence[tuple[Value, Value]]) -> tuple[Value, Value]:
    """Return whether any of the choices, pairs of a mark and a value, is marked, and the last marked one's value."""
    if len(choices) == 1:
        return choices[0]
    half = len(choices) // 2
    (early, early_value), (late, late_value) = _last(choices[:half]), _last(choices[half:])
    return early | late, Mux(late, late_value, early_value)


class BankArbiter(wiring.Component):
    """Selects the request that a bank takes among the requests of S lanes, which take turns; combinational.

    Args:
        layout: the tree and its S banks, of which there are as many as lanes.

    Ports:
        wanted: In(S), the lanes with a request for this bank. turn: In(S), the lanes whose turn is before the others'.
            Of either group the lowest lane comes first.
        offered: In(S x request), the requests of all lanes.
        ready: In(1), the bank takes a request. request: Out, valid: Out(1): the selected request.
        grant: Out(S), the lane whose request is taken in this cycle.
    """

    def __init__(self, layout: BankedLayout) -> None:
        self.layout = layout
        request = layout.bank.request()
        super().__init__(
            {
                "wanted": In(layout.banks),
                "turn": In(layout.banks),
                "offered": In(data.ArrayLayout(request, layout.banks)),
                "ready": In(1),
                "request": Out(request),
                "valid": Out(1),
                "grant": Out(layout.banks),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        count = self.layout.banks
        first, candidates, taken = Signal(count), Signal(count), Signal(count)
        m.d.comb += [
            first.eq(self.wanted & self.turn),
            candidates.eq(Mux(first.any(), first, self.wanted)),
            taken.eq(candidates & (~candidates + 1)),
            self.grant.eq(Mux(self.ready, taken, 0)),
            self.valid.eq(self.wanted.any()),
        ]
        for lane in range(count):
            with m.If(taken[lane]):
                m.d.comb += self.request.eq(self.offered[lane])
        return m


class BankQueues(wiring.Component):
    """The queues in front of a bank, one for each lane, and the arbiter that selects the one to take a request from.

    The bank takes a request in every cycle in which any queue has one; a request can be taken one cycle after it was
    put into its queue. Lanes take turns: after a lane's request comes that of the next lane that has one. So a request
    at the head of its queue waits for at most S - 1 others.

    Args:
        banks: S, of lanes and of banks.
        depth: requests that a queue holds.
        sizes: those of the bank's `PipelineLayout`.

    Ports:
        offered: In(S x request), the requests of all lanes. put: In(S), the lanes whose request is put into its queue.
        room: Out(S), the queues that are not full; the request of another lane must not be put.
        requests: Out(stream of request), what the bank takes; another may be offered until it does.
        waiting: Out(1), whether any queue has a request.
    """

    def __init__(self, *, banks: int, depth: int = QUEUE_DEPTH, **sizes: int) -> None:
        self.layout, self.depth = BankedLayout(banks, PipelineLayout(**sizes)), depth
        request = self.layout.bank.request()
        super().__init__(
            {
                "offered": In(data.ArrayLayout(request, banks)),
                "put": In(banks),
                "room": Out(banks),
                "requests": Out(stream.Signature(request)),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = BankArbiter(self.layout)
        with m.If(arbiter.grant.any()):
            m.d.sync += arbiter.turn.eq(~(arbiter.grant | (arbiter.grant - 1)))  # the lanes behind it
        m.d.comb += [
            arbiter.ready.eq(self.requests.ready),
            self.requests.payload.eq(arbiter.request),
            self.requests.valid.eq(arbiter.valid),
            self.waiting.eq(arbiter.valid),
        ]
        for lane in range(self.layout.banks):
            queue = SyncFIFO(width=len(Value.cast(self.requests.payload)), depth=self.depth)
            m.submodules[f"queue_{lane}"] = queue
            m.d.comb += [
                queue.w_data.eq(self.offered[lane]),
                queue.w_en.eq(self.put[lane]),
                self.room[lane].eq(queue.w_rdy),
                arbiter.wanted[lane].eq(queue.r_rdy),
                Value.cast(arbiter.offered[lane]).eq(queue.r_data),
                queue.r_en.eq(arbiter.grant[lane]),
            ]
        return m
