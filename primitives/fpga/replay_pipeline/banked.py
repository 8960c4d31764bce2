"""A sum tree of S sub-trees, each a pipeline with its own memories, which answer S requests per cycle (MAP IV-C4)."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.replay_pipeline.crossbar import BankQueues, LaneRoute
from placerl.primitives.fpga.replay_pipeline.layout import (
    BankedLayout,
    Form,
    Operation,
    PipelineLayout,
    is_write,
)
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline


class _Bank(ReplayPipeline):
    """The pipeline of one bank, made from numbers, so that an export writes the module once (`shared`)."""

    def __init__(self, *, narrow: bool, remembers: bool = False, clears: bool = False, **sizes: int) -> None:
        form = Form.NARROW if narrow else Form.WIDE
        super().__init__(PipelineLayout(**sizes), form, remembers=remembers, clears=clears)


class BankedPipeline(wiring.Component):
    """A sum tree of S sub-trees, the banks, which takes up to S requests per cycle.

    There are S lanes, which are inputs for requests. A crossbar routes each request to the bank that holds its leaf,
    where it waits in the lane's queue, and the bank answers. The first levels of the tree, the sums of the S sub-trees,
    are registers that every lane reads. Leaf i is leaf i modulo L of bank i / L, with L leaves in use per bank. INSERT
    names a bank and fills that bank's leaves in turn.

    Order. All lanes are in one phase: reading (SAMPLE, GET) or writing (UPDATE, INSERT). A lane whose next request is
    of the other kind waits; when no request of the current kind is offered, the phase changes. So every read sees all
    writes taken before it and no later one, and the reverse. Requests of one lane to one bank stay in order; writes
    of one leaf by several lanes within a phase may be done in any order. Lanes that offer reads without a gap can
    delay writers indefinitely, and the reverse.

    Path memoisation (MAP IV-D4): a lane keeps the bank of the last sample with each tag, and the bank its path there.
    So an UPDATE with `remembered` names no leaf. It comes on the lane of its sample, once that has been answered;
    samples whose paths are needed at the same time have different tags, also on different lanes.

    Args:
        form: how a level reads a node: all children at once (`Form.WIDE`) or one per cycle (`Form.NARROW`).
        remembers: whether the paths of samples are kept.
        clears: whether the banks are cleared after a reset, all at once, as those of `ReplayPipeline`.

    Ports, for each i below S:
        requests_i (in, stream of `BankedLayout.request`): lane i.
        responses_i (out, stream of `BankedLayout.response`): of bank i; the tag identifies the request.
        last_leaf (in, path in a bank): in each bank, after this leaf, or the last one in use, INSERT starts again at
            leaf 0.
        total (out, total_bits): the sum of all priorities, two cycles after the banks' own.
    """

    def __init__(
        self,
        layout: BankedLayout,
        form: Form = Form.WIDE,
        remembers: bool = False,
        clears: bool = False,
    ) -> None:
        self.layout, self.form, self.remembers, self.clears = layout, form, remembers, clears
        self._request = layout.request(remembers=remembers)
        ports: dict[str, Any] = {}
        for bank in range(layout.banks):
            ports[f"requests_{bank}"] = In(stream.Signature(self._request))
            ports[f"responses_{bank}"] = Out(stream.Signature(layout.response()))
        ports |= {"last_leaf": In(layout.bank.path_bits), "total": Out(layout.total_bits)}
        super().__init__(ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        count = layout.banks
        options, banks = {**layout.bank.sizes, "narrow": self.form is Form.NARROW}, []
        options |= {name: True for name in ("remembers", "clears") if getattr(self, name)}
        for number in range(count):
            bank, m.submodules[f"bank_{number}"] = shared(platform, _Bank, **options)
            m.d.comb += bank.last_leaf.eq(self.last_leaf)
            banks.append(bank)

        # The top of the tree: the sum of the banks before each one, one cycle after the banks' sums.
        sums = [Signal(layout.total_bits, name=f"sum_before_{i}") for i in range(count + 1)]
        total_before: Any = Const(0)
        for number, bank in enumerate(banks):
            total_before = (total_before + bank.total)[: layout.total_bits]
            m.d.sync += sums[number + 1].eq(total_before)
        positive = [Signal(name=f"positive_{i}") for i in range(1, count)]
        m.d.sync += [mark.eq(bank.total != 0) for mark, bank in zip(positive, banks[1:], strict=True)]
        m.d.comb += self.total.eq(sums[count])

        queues = []
        for number, bank in enumerate(banks):
            queue, m.submodules[f"queues_{number}"] = shared(
                platform, BankQueues, banks=count, **layout.bank.sizes
            )
            wiring.connect(m, queue.requests, bank.requests)
            queues.append(queue)

        lanes = [getattr(self, f"requests_{i}") for i in range(count)]
        held_valid = Signal(count)
        waiting = held_valid.any() | Cat(queue.waiting for queue in queues).any()
        phase = self._phase(m, lanes, banks, waiting)
        for number, lane in enumerate(lanes):
            request = lane.payload
            m.submodules[f"route_{number}"] = route = LaneRoute(layout)
            m.d.comb += [
                route.operation.eq(request.operation),
                route.path_bank.eq(request.path[layout.bank.path_bits :]),
                route.value.eq(request.value),
                route.positive.eq(Cat(positive)),
                *(route.sums_before[i].eq(sums[i + 1]) for i in range(count)),
            ]
            # The request with its bank; it leaves for its queue there as soon as that has room.
            held = Signal(self._request, name=f"held_{number}")
            held_bank = Signal(ceil_log2(count), name=f"held_bank_{number}")
            to = (
                self._sent_to(m, number, held_valid[number], held, held_bank) if self.remembers else held_bank
            )
            put = Cat(held_valid[number] & (to == bank) for bank in range(count))
            leaves = (put & Cat(queue.room[number] for queue in queues)).any()
            mine = is_write(request.operation) == phase.writing
            m.d.comb += lane.ready.eq(phase.open & mine & (~held_valid[number] | leaves))
            with m.If(lane.ready):
                m.d.sync += [
                    held_valid[number].eq(lane.valid),
                    held.eq(request),
                    held.value.eq(route.rest),
                    held_bank.eq(route.bank),
                ]
            with m.Elif(leaves):
                m.d.sync += held_valid[number].eq(0)
            for bank, queue in enumerate(queues):
                offered = queue.offered[number]
                m.d.comb += [
                    queue.put[number].eq(put[bank] & queue.room[number]),
                    offered.operation.eq(held.operation),
                    offered.tag.eq(held.tag),
                    offered.path.eq(held.path[: layout.bank.path_bits]),
                    offered.value.eq(held.value),
                ]
                if self.remembers:
                    m.d.comb += offered.remembered.eq(held.remembered)

        for number, bank in enumerate(banks):
            out = getattr(self, f"responses_{number}")
            found = bank.responses.payload
            m.d.comb += [
                out.valid.eq(bank.responses.valid),
                bank.responses.ready.eq(out.ready),
                *(out.payload[name].eq(found[name]) for name in ("operation", "tag", "value", "empty")),
                out.payload.path.eq(Cat(found.path, Const(number, layout.bank_bits))),
            ]
        return m

    def _sent_to(self, m: Module, number: int, valid: Value, held: Any, found: Signal) -> Value:
        """Return the bank of the request that a lane holds: as `found`, or that of the last sample with its tag."""
        lane = getattr(self, f"requests_{number}")
        sampled = Ram(width=self.layout.bank_bits, depth=1 << self.layout.tag_bits)
        m.submodules[f"sampled_{number}"] = sampled
        m.d.comb += [
            sampled.read_enable.eq(lane.ready),
            sampled.read_address.eq(lane.payload.tag),
            sampled.write_enable.eq(valid & (held.operation == Operation.SAMPLE)),
            sampled.write_address.eq(held.tag),
            sampled.write_data.eq(found),
        ]
        return Mux(held.remembered & (held.operation == Operation.UPDATE), sampled.read_data, found)

    def _phase(self, m: Module, lanes: list[Any], banks: list[Any], waiting: Value) -> Any:
        """Return which kind of request is taken now, and whether any is."""
        writing, settled = Signal(), Signal(2)
        reads = Cat(lane.valid & ~is_write(lane.payload.operation) for lane in lanes).any()
        writes = Cat(lane.valid & is_write(lane.payload.operation) for lane in lanes).any()
        this_kind, other_kind = Mux(writing, writes, reads), Mux(writing, reads, writes)
        quiet = ~waiting & ~Cat(bank.unsettled for bank in banks).any()
        # The sums that lanes read are one cycle behind the banks' sums.
        m.d.sync += settled.eq(Cat(quiet, settled[0] & quiet))
        is_open = Signal()
        m.d.comb += is_open.eq(this_kind | ~other_kind)
        with m.If(~is_open & quiet & settled.all()):
            m.d.sync += writing.eq(~writing)
        return _Phase(writing, is_open)


class _Phase:
    """Signals: the kind of request that is taken (`writing`), and whether any is (`open`)."""

    def __init__(self, writing: Signal, is_open: Signal) -> None:
        self.writing, self.open = writing, is_open
