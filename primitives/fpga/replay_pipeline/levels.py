"""One level of a replay pipeline's tree: a memory with its nodes, and the stage that processes requests on them."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from primitives.fpga.export.ram import Ram
from primitives.fpga.replay_pipeline.layout import Form, Operation, PipelineLayout, is_write


class _Level(wiring.Component):
    """What both forms of a level share.

    Args:
        layout: the tree.
        level: number of the level; 0 is the root.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`).
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): in order of arrival.
    """

    def __init__(self, layout: PipelineLayout, level: int) -> None:
        self.layout, self.level = layout, level
        self.child_bits = layout.sum_bits(level + 1)
        super().__init__(
            {
                "steps": In(stream.Signature(layout.step(level))),
                "next_steps": Out(stream.Signature(layout.step(level + 1))),
            }
        )

    @property
    def is_last(self) -> bool:
        """Whether the children are leaves."""
        return self.level == self.layout.levels - 1

    def _digit(self, path: Any) -> Any:
        """Return this level's digit of a path."""
        return path.bit_select(
            (self.layout.levels - 1 - self.level) * self.layout.digit_bits, self.layout.digit_bits
        )

    def _leave(self, step: Any, child: Any, child_sum: Any, rest: Any) -> list[Any]:
        """Return statements that pass `step` on to its child; only the last level uses the child's sum, the
        leaf's priority.
        """
        out = self.next_steps.payload
        sampled = step.response.operation == Operation.SAMPLE
        statements = [
            out.response.eq(step.response),
            out.change.eq(step.change),
            out.rest.eq(rest),
            out.node.eq(step.node * self.layout.fanout + child),
            self._digit(out.response.path).eq(child),
        ]
        if self.is_last:
            statements.append(out.response.value.eq(Mux(sampled, child_sum, step.response.value)))
        return statements


class WideLevel(_Level):
    """A level that reads the K children of a node as one word.

    It takes one request per cycle and has two cycles of latency.

    Args:
        layout: the tree.
        level: number of the level; 0 is the root.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`): requests that enter the level.
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): the same requests, which leave it in order.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        fanout, bits = layout.fanout, self.child_bits
        advance = Signal()
        m.d.comb += [
            advance.eq(self.next_steps.ready | ~self.next_steps.valid),
            self.steps.ready.eq(advance),
        ]

        # Cycle 1: the node is requested.
        m.submodules.nodes = nodes = Ram(width=fanout * bits, depth=fanout**self.level)
        step = Signal(layout.step(self.level))
        step_valid = Signal()
        m.d.comb += [nodes.read_enable.eq(advance), nodes.read_address.eq(self.steps.payload.node)]
        with m.If(advance):
            m.d.sync += [step.eq(self.steps.payload), step_valid.eq(self.steps.valid)]

        # Cycle 2: the node is available; the memory gives the old value of a word written one cycle before.
        written = Signal()
        written_node = Signal.like(step.node)
        written_row = Signal(fanout * bits)
        row = Signal(fanout * bits)
        m.d.comb += row.eq(Mux(written & (written_node == step.node), written_row, nodes.read_data))
        children = [row[bits * child : bits * (child + 1)] for child in range(fanout)]

        chosen, before, chosen_sum = self._select(m, step, children)
        digit = Signal(layout.digit_bits)
        m.d.comb += digit.eq(self._digit(step.response.path))
        new_row = Cat(
            Mux(digit == child, (value + step.change)[:bits], value) for child, value in enumerate(children)
        )
        writes = Signal()
        m.d.comb += [
            writes.eq(step_valid & is_write(step.response.operation)),
            nodes.write_enable.eq(advance & writes),
            nodes.write_address.eq(step.node),
            nodes.write_data.eq(new_row),
        ]
        sampled = step.response.operation == Operation.SAMPLE
        with m.If(advance):
            m.d.sync += [
                self.next_steps.valid.eq(step_valid),
                written.eq(writes),
                written_node.eq(step.node),
                written_row.eq(new_row),
                *self._leave(step, Mux(sampled, chosen, digit), chosen_sum, step.rest - before),
            ]
        return m

    def _select(self, m: Module, step: Any, children: list[Any]) -> tuple[Signal, Signal, Any]:
        """Return the child at the prefix sum `step.rest`, the sum before it and its own sum (MAP Algorithm 1,
        line 11).
        """
        width = self.layout.sum_bits(self.level)
        chosen = Signal(self.layout.digit_bits)
        before = Signal(width)
        chosen_sum = Signal(self.child_bits) if self.is_last else None
        running = [Signal(width, name=f"sum_before_{child}") for child in range(len(children))]
        for child in range(1, len(children)):
            m.d.comb += running[child].eq(running[child - 1] + children[child - 1])
        # The last child whose left border is not beyond the prefix; children of 0 share their border with the
        # next.
        if chosen_sum is not None:
            m.d.comb += chosen_sum.eq(children[0])
        for child in range(1, len(children)):
            with m.If((running[child] <= step.rest) & ~step.response.empty & (children[child] != 0)):
                m.d.comb += [chosen.eq(child), before.eq(running[child])]
                if chosen_sum is not None:
                    m.d.comb += chosen_sum.eq(children[child])
        return chosen, before, chosen_sum


class NarrowLevel(_Level):
    """A level that reads one child per cycle.

    It takes K cycles per sample and one cycle per other request, and has one cycle of latency.

    Args:
        layout: the tree.
        level: number of the level; 0 is the root.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`): requests that enter the level.
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): the same requests, which leave it in order.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        fanout, bits = layout.fanout, self.child_bits
        arrived = self.steps.payload
        arrived_samples = Signal()
        child = Signal(layout.digit_bits)
        address = Signal(ceil_log2(fanout ** (self.level + 1)))
        last = Signal()
        advance = Signal()
        m.submodules.sums = sums = Ram(width=bits, depth=fanout ** (self.level + 1))

        # Cycle 1, K times for a sample: a child is requested.
        m.d.comb += [
            arrived_samples.eq(arrived.response.operation == Operation.SAMPLE),
            last.eq(~arrived_samples | (child == fanout - 1)),
            address.eq(
                arrived.node * fanout + Mux(arrived_samples, child, self._digit(arrived.response.path))
            ),
            sums.read_enable.eq(advance),
            sums.read_address.eq(address),
            self.steps.ready.eq(advance & last),
        ]
        step = Signal(layout.step(self.level))
        step_valid, step_last = Signal(), Signal()
        step_child = Signal.like(child)
        step_address = Signal.like(address)
        with m.If(advance):
            m.d.sync += [
                step.eq(arrived),
                step_valid.eq(self.steps.valid),
                step_last.eq(last),
                step_child.eq(child),
                step_address.eq(address),
            ]
            with m.If(self.steps.valid):
                m.d.sync += child.eq(Mux(last, 0, child + 1))

        # Cycle 2: the child is available; the memory gives the old value of a word written one cycle before.
        written = Signal()
        written_address = Signal.like(address)
        written_sum = Signal(bits)
        value = Signal(bits)
        new_sum = Signal(bits)
        writes = Signal()
        m.d.comb += [
            value.eq(Mux(written & (written_address == step_address), written_sum, sums.read_data)),
            new_sum.eq(value + step.change),
            writes.eq(step_valid & is_write(step.response.operation)),
            sums.write_enable.eq(advance & writes),
            sums.write_address.eq(step_address),
            sums.write_data.eq(new_sum),
        ]

        # The sum of the children so far, and the child chosen so far (MAP IV-C4: a register tracks it).
        width = layout.sum_bits(self.level)
        running, before, chosen_sum = Signal(width), Signal(width), Signal(bits)
        chosen = Signal.like(child)
        first = step_child == 0
        running_now, before_now, chosen_sum_now = Signal(width), Signal(width), Signal(bits)
        chosen_now = Signal.like(child)
        takes = first | ((running_now <= step.rest) & ~step.response.empty & (value != 0))
        m.d.comb += [
            running_now.eq(Mux(first, 0, running)),
            chosen_now.eq(Mux(takes, step_child, chosen)),
            before_now.eq(Mux(takes, running_now, before)),
            chosen_sum_now.eq(Mux(takes, value, chosen_sum)),
        ]
        leaves = Signal()
        sampled = step.response.operation == Operation.SAMPLE
        m.d.comb += [
            leaves.eq(step_valid & step_last),
            advance.eq(~leaves | self.next_steps.ready | ~self.next_steps.valid),
        ]
        with m.If(self.next_steps.ready):
            m.d.sync += self.next_steps.valid.eq(0)
        with m.If(advance):
            m.d.sync += [
                written.eq(writes),
                written_address.eq(step_address),
                written_sum.eq(new_sum),
                running.eq(running_now + value),
                chosen.eq(chosen_now),
                before.eq(before_now),
                chosen_sum.eq(chosen_sum_now),
            ]
            with m.If(leaves):
                child_now = Mux(sampled, chosen_now, self._digit(step.response.path))
                m.d.sync += [
                    self.next_steps.valid.eq(1),
                    *self._leave(step, child_now, chosen_sum_now, step.rest - before_now),
                ]
        return m


LEVELS: dict[Form, type[_Level]] = {Form.WIDE: WideLevel, Form.NARROW: NarrowLevel}
