"""A sum tree of S sub-trees, each a pipeline with its own memories, which answer S requests per cycle (MAP IV-C4)."""

from dataclasses import asdict
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.replay_pipeline.crossbar import BankArbiter, LaneRoute
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Form, PipelineLayout, is_write
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline


class _Bank(ReplayPipeline):
    """The pipeline of one bank, made from numbers, so that an export writes the module once (`shared`)."""

    def __init__(self, *, narrow: bool, clears: bool = False, **sizes: int) -> None:
        form = Form.NARROW if narrow else Form.WIDE
        super().__init__(PipelineLayout(**sizes), form, remembers=False, clears=clears)


class BankedPipeline(wiring.Component):
    """A sum tree of S sub-trees, the banks, which takes up to S requests per cycle.

    There are S lanes, which are inputs for requests. A crossbar routes each request to the bank that holds its
    leaf, and the bank answers. The first levels of the tree, the sums of the S sub-trees, are registers that every
    lane reads. Leaf i is leaf i modulo L of bank i / L, with L leaves per bank. INSERT names a bank and fills that
    bank's leaves in turn.

    Order. All lanes are in one phase: reading (SAMPLE, GET) or writing (UPDATE, INSERT). A lane whose next request is
    of the other kind waits; when no request of the current kind is offered, the phase changes. So every read sees all
    writes taken before it and no later one, and the reverse. Requests of one lane to one bank stay in order; writes
    of one leaf by several lanes within a phase may be done in any order. Lanes that offer reads without a gap can
    delay writers indefinitely, and the reverse.

    Args:
        form: how a level reads a node: all children at once (`Form.WIDE`) or one per cycle (`Form.NARROW`).
        clears: whether the banks are cleared after a reset, all at once, as those of `ReplayPipeline`.

    Ports, for each i below S:
        requests_i (in, stream of `BankedLayout.request`): lane i.
        responses_i (out, stream of `BankedLayout.response`): of bank i; the tag identifies the request.
        last_leaf (in, path in a bank): in each bank, after this leaf INSERT starts again at leaf 0.
        total (out, total_bits): the sum of all priorities, two cycles after the banks' own.
    """

    def __init__(self, layout: BankedLayout, form: Form = Form.WIDE, clears: bool = False) -> None:
        self.layout, self.form, self.clears = layout, form, clears
        ports: dict[str, Any] = {}
        for bank in range(layout.banks):
            ports[f"requests_{bank}"] = In(stream.Signature(layout.request()))
            ports[f"responses_{bank}"] = Out(stream.Signature(layout.response()))
        ports |= {"last_leaf": In(layout.bank.path_bits), "total": Out(layout.total_bits)}
        super().__init__(ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        count = layout.banks
        options, banks = {**asdict(layout.bank), "narrow": self.form is Form.NARROW}, []
        if self.clears:
            options["clears"] = True
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

        lanes = [getattr(self, f"requests_{i}") for i in range(count)]
        held = [Signal(layout.request(), name=f"held_{i}") for i in range(count)]
        held_valid = Signal(count)
        held_bank = [Signal(ceil_log2(count), name=f"held_bank_{i}") for i in range(count)]
        granted = Signal(count)
        phase = self._phase(m, lanes, banks, held_valid)

        for number, lane in enumerate(lanes):
            request = lane.payload
            mine = is_write(request.operation) == phase.writing
            m.d.comb += lane.ready.eq(phase.open & mine & (~held_valid[number] | granted[number]))
            m.submodules[f"route_{number}"] = route = LaneRoute(layout)
            m.d.comb += [
                route.operation.eq(request.operation),
                route.path_bank.eq(request.path[layout.bank.path_bits :]),
                route.value.eq(request.value),
                route.positive.eq(Cat(positive)),
                *(route.sums_before[i].eq(sums[i + 1]) for i in range(count)),
            ]
            with m.If(lane.ready):
                m.d.sync += [
                    held_valid[number].eq(lane.valid),
                    held[number].eq(request),
                    held[number].value.eq(route.rest),
                    held_bank[number].eq(route.bank),
                ]
            with m.Elif(granted[number]):
                m.d.sync += held_valid[number].eq(0)

        turn = Signal(ceil_log2(count))
        m.d.sync += turn.eq(Mux(turn == count - 1, 0, turn + 1))
        grants = []
        for number, bank in enumerate(banks):
            m.submodules[f"arbiter_{number}"] = arbiter = BankArbiter(layout)
            held_here = (valid & (to == number) for valid, to in zip(held_valid, held_bank, strict=True))
            m.d.comb += [
                arbiter.wanted.eq(Cat(held_here)),
                arbiter.turn.eq(turn),
                arbiter.ready.eq(bank.requests.ready),
                bank.requests.valid.eq(arbiter.valid),
                bank.requests.payload.eq(arbiter.request),
            ]
            for offered, request in zip(arbiter.offered, held, strict=True):
                m.d.comb += [
                    offered.operation.eq(request.operation),
                    offered.tag.eq(request.tag),
                    offered.path.eq(request.path[: layout.bank.path_bits]),
                    offered.value.eq(request.value),
                ]
            grants.append(arbiter.grant)
        m.d.comb += granted.eq(Cat(Cat(grant[lane] for grant in grants).any() for lane in range(count)))

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

    def _phase(self, m: Module, lanes: list[Any], banks: list[Any], held_valid: Signal) -> Any:
        """Return which kind of request is taken now, and whether any is."""
        writing, settled = Signal(), Signal(2)
        reads = Cat(lane.valid & ~is_write(lane.payload.operation) for lane in lanes).any()
        writes = Cat(lane.valid & is_write(lane.payload.operation) for lane in lanes).any()
        this_kind, other_kind = Mux(writing, writes, reads), Mux(writing, reads, writes)
        quiet = ~held_valid.any() & ~Cat(bank.unsettled for bank in banks).any()
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
