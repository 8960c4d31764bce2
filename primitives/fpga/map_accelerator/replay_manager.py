"""The replay manager: draws a batch from the sum tree, gives importance weights, and updates the priorities."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.convert import FromFixed, ToFixed
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed, registered
from placerl.primitives.fpga.learner_pipeline.layer import Number
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION
from placerl.primitives.fpga.map_accelerator.programs import priority_program, weight_program
from placerl.primitives.fpga.map_accelerator.settings import PRIORITY, PRIORITY_BITS, AcceleratorSettings
from placerl.primitives.fpga.replay_pipeline import (
    BankedLayout,
    BankedPipeline,
    Operation,
    PipelineLayout,
    ReplayPipeline,
)
from placerl.primitives.fpga.replay_pipeline.layout import is_write
from placerl.primitives.fpga.vector.random_generator import WORD_BITS as RANDOM_BITS
from placerl.primitives.fpga.vector.random_generator import Xorshift, seeds
from placerl.primitives.fpga.vector.stream_unit import StreamLane

WEIGHT_LATENCY = weight_program().latency + ToFixed.latency
"""Cycles from a sample's priority to its importance weight."""
PRIORITY_LATENCY = FromFixed.latency + priority_program().latency + ToFixed.latency
"""Cycles from a TD error to the new priority."""


def layout_of(settings: AcceleratorSettings) -> PipelineLayout | BankedLayout:
    """Return the layout of the accelerator's tree."""
    bank = PipelineLayout(settings.fanout, settings.levels, PRIORITY_BITS, tag_bits=1, leaves=settings.leaves)
    return bank if settings.banks == 1 else BankedLayout(settings.banks, bank)


def item(settings: AcceleratorSettings) -> data.StructLayout:
    """Return the layout of a drawn sample: the `path` of its leaf, and its importance `weight` in `FRACTION`."""
    return data.StructLayout({"path": layout_of(settings).path_bits, "weight": signed(FRACTION.bits)})


def row_of(settings: AcceleratorSettings, path: Value) -> Value:
    """Return the row of a leaf's transition, below the capacity: the leaves are counted in the order of their filling.

    The banks take turns, so that the lowest bits are the bank's number.
    """
    in_bank = len(path) - ceil_log2(settings.banks)
    return Cat(path[in_bank:], path[:in_bank])


class ReplayManager(wiring.Component):
    """Holds the sum tree, and runs its part of a gradient step.

    A batch is drawn completely before its first importance weight, which depends on the smallest priority of the
    batch; so all samples leave the tree before the first priority is updated. The paths of the samples are kept (MAP
    IV-D4): an update does not search the tree again.

    After a reset the tree is cleared, a leaf of every bank per cycle; inserts are taken after that.

    Ports:
        batch: In, B, 1 to `largest_batch`; alpha, beta, epsilon: In(32), float32. All are constant during a step.
        inserts: In(stream of PRIORITY_BITS): the priority of a new transition, for the leaf `place`: Out; only between
            steps. Leaves are filled in turn, those of all banks at the same rate.
        draw: In(1), starts to draw B samples. drawn: Out(1), all are there.
        serve: In(1), starts to output the items. items: Out(stream of `item`): the samples in any order.
        tds: In(stream of Number): their TD errors, in the order of the items; always ready.
        updated: Out(1), all priorities of the batch are in the tree. settled: Out(1), no request is in the tree.
        total: Out, the sum of all priorities, when settled.
    """

    def __init__(self, settings: AcceleratorSettings):
        self.settings = settings
        self.layout = layout_of(settings)
        super().__init__(
            {
                "batch": In(range(settings.largest_batch + 1)),
                "alpha": In(WORD_BITS),
                "beta": In(WORD_BITS),
                "epsilon": In(WORD_BITS),
                "inserts": In(stream.Signature(PRIORITY_BITS)),
                "place": Out(self.layout.path_bits),
                "draw": In(1),
                "drawn": Out(1),
                "serve": In(1),
                "items": Out(stream.Signature(item(settings))),
                "tds": In(stream.Signature(Number)),
                "updated": Out(1),
                "settled": Out(1),
                "total": Out(self.layout.total_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings, layout = self.settings, self.layout
        depth, banks = settings.largest_batch, settings.banks
        slot_bits = range(max(2, depth))
        tree: Any
        if isinstance(layout, BankedLayout):
            m.submodules.tree = tree = BankedPipeline(layout, clears=True)
            lanes = [getattr(tree, f"requests_{number}") for number in range(banks)]
            answers = [getattr(tree, f"responses_{number}") for number in range(banks)]
        else:
            m.submodules.tree = tree = ReplayPipeline(layout, remembers=False, clears=True)
            lanes, answers = [tree.requests], [tree.responses]
        m.d.comb += self.total.eq(tree.total)

        # Leaves are filled in turn: the lowest bits of their number are the bank's.
        turn = Signal(layout.path_bits)
        bank_bits = ceil_log2(banks)
        m.d.comb += self.place.eq(Cat(turn[bank_bits:], turn[:bank_bits]))

        # Requests: a lane draws samples; the first one also updates and inserts.
        m.submodules.updates = updates = SyncFIFOBuffered(width=layout.path_bits + PRIORITY_BITS, depth=depth)
        drawing = Signal()
        prefixes = [self._prefixes(m, number, lane.ready & drawing) for number, lane in enumerate(lanes)]
        m.d.comb += drawing.eq(Cat(busy for busy, _, _ in prefixes).any())
        for number, (lane, (_, valid, prefix)) in enumerate(zip(lanes, prefixes, strict=True)):
            operation = Signal(Operation, name=f"operation_{number}")
            path = Signal(layout.path_bits, name=f"request_path_{number}")
            value = Signal(layout.total_bits, name=f"value_{number}")
            fields = {"operation": operation.as_value(), "path": path, "value": value}
            # All bits in one assignment: bits that nothing drives would be Verilog that waits for no variable.
            whole = Cat(
                fields.get(name, Const(0, len(Value.cast(lane.payload[name]))))
                for name, _ in layout.request()
            )
            m.d.comb += [
                Value.cast(lane.payload).eq(whole),
                lane.valid.eq(valid),
                operation.eq(Operation.SAMPLE),
                value.eq(prefix),
            ]
            if number == 0:
                with m.If(~drawing):
                    m.d.comb += [
                        lane.valid.eq(updates.r_rdy | self.inserts.valid),
                        operation.eq(Operation.UPDATE),
                        Cat(path, value).eq(updates.r_data),
                        updates.r_en.eq(lane.ready),
                        self.inserts.ready.eq(lane.ready & ~updates.r_rdy),
                    ]
                    with m.If(~updates.r_rdy):
                        m.d.comb += [path.eq(self.place), value.eq(self.inserts.payload)]
            else:
                m.d.comb += path.eq(0)
        following: Value = turn + 1
        if settings.capacity < 1 << len(turn):
            following = Mux(turn == settings.capacity - 1, 0, following)
        with m.If(self.inserts.valid & self.inserts.ready):
            m.d.sync += turn.eq(following)

        # Responses.
        writes = Cat(a.valid & a.ready & is_write(a.payload.operation) for a in answers)
        taken = Cat(lane.valid & lane.ready for lane in lanes)
        given = Cat(a.valid & a.ready for a in answers)
        outstanding, written = Signal(range(2 * depth + 64 * banks)), Signal(range(depth + banks + 1))
        m.d.sync += [
            outstanding.eq(outstanding + _ones(taken) - _ones(given)),
            written.eq(Mux(self.draw, 0, written + _ones(writes))),
        ]
        m.d.comb += [
            self.updated.eq(written == self.batch),
            self.settled.eq((outstanding == 0) & ~updates.r_rdy & ~drawing),
        ]
        banks_found = [self._found(m, number, answer) for number, answer in enumerate(answers)]
        complete = sum((bank.count for bank in banks_found), Const(0, 1)) == self.batch
        smallest, levels = self._smallest(m, [bank.smallest for bank in banks_found])
        m.d.comb += self.drawn.eq(complete & delayed(m, complete, levels))
        m.submodules.paths = paths = Ram(width=layout.path_bits, depth=depth)
        self._serve(m, banks_found, smallest, paths, slot_bits)
        self._update(m, paths, updates, slot_bits)
        return m

    def _prefixes(self, m: Module, number: int, ready: Value) -> tuple[Value, Value, Value]:
        """Return whether a lane still draws, and a stream's valid and payload: prefix sums."""
        banks = self.settings.banks
        state = seeds(self.settings.seed, banks)[number]
        m.submodules[f"generator_{number}"] = generator = Xorshift(state)
        left = Signal(range(self.settings.largest_batch + 1), name=f"left_{number}")
        has_word, has_prefix = Signal(name=f"has_word_{number}"), Signal(name=f"has_prefix_{number}")
        word = Signal(RANDOM_BITS, name=f"word_{number}")
        prefix = Signal(self.layout.total_bits, name=f"prefix_{number}")
        advance = ~has_prefix | ready
        m.d.comb += generator.enable.eq(advance & (left != 0))
        with m.If(advance):
            m.d.sync += [
                has_word.eq(left != 0),
                word.eq(generator.word),
                has_prefix.eq(has_word),
                prefix.eq((word * self.total) >> RANDOM_BITS),
            ]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
        with m.If(self.draw):
            m.d.sync += left.eq((self.batch + (banks - 1 - number)) >> ceil_log2(banks))
        return (left != 0) | has_word | has_prefix, has_prefix, prefix

    def _found(self, m: Module, number: int, answer: Any) -> "_Found":
        """Keep the samples of a bank, and their smallest priority."""
        depth = self.settings.largest_batch
        slots = Ram(width=self.layout.path_bits + PRIORITY_BITS, depth=depth)
        m.submodules[f"slots_{number}"] = slots
        count = Signal(range(depth + 1), name=f"count_{number}")
        smallest = Signal(PRIORITY_BITS, name=f"smallest_{number}")
        response = answer.payload
        sampled = answer.valid & ~is_write(response.operation)
        m.d.comb += [
            answer.ready.eq(1),
            slots.write_enable.eq(sampled),
            slots.write_address.eq(count),
            slots.write_data.eq(Cat(response.path, response.value)),
        ]
        with m.If(self.draw):
            m.d.sync += [count.eq(0), smallest.eq((1 << PRIORITY_BITS) - 1)]
        with m.Elif(sampled):
            m.d.sync += count.eq(count + 1)
            with m.If(response.value < smallest):
                m.d.sync += smallest.eq(response.value)
        return _Found(slots, count, smallest)

    def _smallest(self, m: Module, numbers: list[Signal]) -> tuple[Value, int]:
        """Return the smallest of some numbers, and after how many cycles."""
        values: list[Value] = list(numbers)
        levels = 0
        while len(values) > 1:
            values = [registered(m, Mux(b < a, b, a)) for a, b in zip(values[::2], values[1::2], strict=True)]
            levels += 1
        return values[0], levels

    def _serve(self, m: Module, found: "list[_Found]", smallest: Value, paths: Ram, slot_bits: Any) -> None:
        """Output all samples with their importance weights, bank after bank, and write down their paths in order."""
        serving, slot, served = Signal(), Signal(range(self.settings.largest_batch + 1)), Signal(slot_bits)
        bank = Signal(range(max(2, len(found))))
        count, row = Signal.like(slot), Signal.like(found[0].slots.read_data)
        last_bank = registered(m, bank, name="last_bank")
        for number, each in enumerate(found):
            with m.If(bank == number):
                m.d.comb += count.eq(each.count)
            with m.If(last_bank == number):
                m.d.comb += row.eq(each.slots.read_data)
        reads = serving & (slot != count)
        with m.If(self.serve):
            m.d.sync += [serving.eq(1), slot.eq(0), bank.eq(0), served.eq(0)]
        with m.Elif(reads):
            m.d.sync += slot.eq(slot + 1)
        with m.Elif(serving):
            m.d.sync += [slot.eq(0), bank.eq(bank + 1), serving.eq(bank != len(found) - 1)]
        for each in found:
            m.d.comb += [each.slots.read_enable.eq(reads), each.slots.read_address.eq(slot)]

        m.submodules.weights = lane = StreamLane(weight_program())
        m.submodules.fraction = fraction = ToFixed(bits=FRACTION.bits, fraction_bits=FRACTION.fraction_bits)
        depth = self.settings.largest_batch
        m.submodules.served = queue = SyncFIFOBuffered(width=item(self.settings).size, depth=depth)
        path = row[: self.layout.path_bits]
        has_row = registered(m, reads)
        with m.If(has_row):
            m.d.sync += served.eq(served + 1)
        m.d.comb += [
            paths.write_enable.eq(has_row),
            paths.write_address.eq(served),
            paths.write_data.eq(path),
            lane.inputs[0].eq(row[self.layout.path_bits :]),
            lane.inputs[1].eq(smallest),
            lane.inputs[2].eq(self.beta),
            fraction.operands[0].eq(lane.results[0]),
            queue.w_en.eq(delayed(m, has_row, WEIGHT_LATENCY)),
            queue.w_data.eq(Cat(delayed(m, path, WEIGHT_LATENCY), fraction.result.value)),
            Value.cast(self.items.payload).eq(queue.r_data),
            self.items.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.items.ready),
        ]

    def _update(self, m: Module, paths: Ram, updates: Any, slot_bits: Any) -> None:
        """Turn TD errors into priorities of their leaves."""
        m.submodules.from_td = from_td = FromFixed(bits=FORMAT.bits, fraction_bits=FORMAT.fraction_bits)
        m.submodules.priorities = lane = StreamLane(priority_program())
        m.submodules.to_priority = to_priority = ToFixed(
            bits=PRIORITY.bits, fraction_bits=PRIORITY.fraction_bits
        )
        asks = delayed(m, self.tds.valid, PRIORITY_LATENCY - 1)
        slot = Signal(slot_bits)
        with m.If(self.draw):
            m.d.sync += slot.eq(0)
        with m.Elif(asks):
            m.d.sync += slot.eq(slot + 1)
        raw = to_priority.result.value
        priority = Mux(raw > 0, raw[:PRIORITY_BITS], Const(1, PRIORITY_BITS))
        m.d.comb += [
            self.tds.ready.eq(1),
            from_td.operands[0].eq(self.tds.payload),
            lane.inputs[0].eq(from_td.result),
            lane.inputs[1].eq(self.epsilon),
            lane.inputs[2].eq(self.alpha),
            to_priority.operands[0].eq(lane.results[0]),
            paths.read_enable.eq(asks),
            paths.read_address.eq(slot),
            updates.w_en.eq(registered(m, asks)),
            updates.w_data.eq(Cat(paths.read_data, priority)),
        ]


@dataclass(frozen=True)
class _Found:
    """The samples of a bank: their memory, their number, and their smallest priority."""

    slots: Ram
    count: Signal
    smallest: Signal


def _ones(bits: Value) -> Value:
    """Return how many bits are 1."""
    total: Value = bits[0]
    for number in range(1, len(bits)):
        total = total + bits[number]
    return total
