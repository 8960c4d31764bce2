"""One level of a replay pipeline's tree: a memory with its nodes, and the stage that processes requests on them."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.replay_pipeline.layout import Form, Operation, PipelineLayout, is_write
from placerl.primitives.fpga.replay_pipeline.node_memory import READ_CYCLES, NodeMemory
from placerl.primitives.fpga.replay_pipeline.stages import delayed, one_of
from placerl.primitives.fpga.replay_pipeline.stream_register import StreamRegister


class _Level(wiring.Component):
    """What both forms of a level share.

    Args:
        level: number of the level; 0 is the root.
        clears: whether the nodes are cleared after a reset; no request may arrive before that.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`).
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): in order of arrival.
    """

    def __init__(self, layout: PipelineLayout, level: int, clears: bool = False) -> None:
        self.layout, self.level, self.clears = layout, level, clears
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

    def _output(self, m: Module) -> StreamRegister:
        """Return the register from which requests leave the level."""
        output = StreamRegister(self.layout.step(self.level + 1))
        wiring.connect(m, output.out, wiring.flipped(self.next_steps))
        return output

    def _leave(self, out: Any, step: Any, child: Any, child_sum: Any, rest: Any) -> list[Any]:
        """Return statements that make `out` the step at the child to which `step` leads; only the last level uses
        the child's sum, the leaf's priority.
        """
        sampled = step.response.operation == Operation.SAMPLE
        node = step.node * self.layout.fanout + child
        if not self.is_last and not self.layout.is_whole:
            # A write to a leaf that is not in use changes nothing: it adds 0, and does so at a node that there is.
            node = Mux(node < self.layout.nodes(self.level + 1), node, 0)
        statements = [
            out.response.eq(step.response),
            out.change.eq(step.change),
            out.rest.eq(rest),
            out.node.eq(node),
            self._digit(out.response.path).eq(child),
        ]
        if self.is_last:
            statements.append(out.response.value.eq(Mux(sampled, child_sum, step.response.value)))
        return statements


class WideLevel(_Level):
    """A level that reads the K children of a node as one word.

    It takes one request per cycle. Its latency, which grows with log2 K, is in `cycles.replay.level_timing`.

    Args:
        level: number of the level; 0 is the root.
        clears: as of `_Level`.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`): requests that enter the level.
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): the same requests, which leave it in order.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        fanout, bits = layout.fanout, self.child_bits
        m.submodules.output = output = self._output(m)
        advance = output.items.ready
        m.d.comb += self.steps.ready.eq(advance)

        # Two cycles: the node is read.
        m.submodules.nodes = nodes = NodeMemory(
            width=fanout * bits, depth=layout.nodes(self.level), clears=self.clears
        )
        m.d.comb += [nodes.advance.eq(advance), nodes.address.eq(self.steps.payload.node)]
        step = delayed(m, self.steps.payload, READ_CYCLES, advance)
        valid = delayed(m, self.steps.valid, READ_CYCLES, advance)

        # The node is here: its new value is written, and the sums of its children begin.
        children = [nodes.word[bits * child : bits * (child + 1)] for child in range(fanout)]
        digit = Signal(layout.digit_bits)
        m.d.comb += [
            digit.eq(self._digit(step.response.path)),
            nodes.write.eq(valid & is_write(step.response.operation)),
            nodes.write_data.eq(
                Cat(
                    Mux(digit == child, (value + step.change)[:bits], value)
                    for child, value in enumerate(children)
                )
            ),
        ]
        borders, cycles = self._borders(m, children, advance)

        # The prefix's distance from each child's left border, which is negative if the border is beyond the prefix.
        late = delayed(m, step, cycles, advance)
        distances = [late.rest]
        for border in borders:
            distance = Signal(signed(layout.sum_bits(self.level) + 1))
            with m.If(advance):
                m.d.sync += distance.eq(late.rest - border)
            distances.append(distance)
        distances[0] = delayed(m, late.rest, 1, advance)

        # The last child whose left border is not beyond the prefix (MAP Algorithm 1, line 11); children of 0 share
        # their border with the next.
        late = delayed(m, late, 1, advance)
        positive = Signal(fanout)
        m.d.comb += positive.eq(Cat(child != 0 for child in children))
        positive = delayed(m, positive, cycles + 1, advance)
        possible = [
            ~distances[child][-1] & positive[child] & ~late.response.empty for child in range(1, fanout)
        ]
        takes = [
            is_possible & ~Cat(possible[place + 1 :]).any() if place + 1 < len(possible) else is_possible
            for place, is_possible in enumerate(possible)
        ]
        takes.insert(0, ~Cat(possible).any())
        chosen = one_of(takes, [Const(child, layout.digit_bits) for child in range(fanout)])
        rest = one_of(takes, distances)
        child_sum = None
        if self.is_last:
            child_sum = one_of(takes, [delayed(m, child, cycles + 1, advance) for child in children])
        sampled = late.response.operation == Operation.SAMPLE
        m.d.comb += [
            output.items.valid.eq(delayed(m, valid, cycles + 1, advance)),
            *self._leave(
                output.items.payload,
                late,
                Mux(sampled, chosen, self._digit(late.response.path)),
                child_sum,
                rest,
            ),
        ]
        return m

    def _borders(self, m: Module, children: list[Any], advance: Signal) -> tuple[list[Any], int]:
        """Return the sums of the first 1, 2, ..., K - 1 children, and the cycles after which they are there.

        In each cycle a sum is added to a neighbouring one, so that their sizes double.
        """
        width = self.layout.sum_bits(self.level)
        sums, cycles = children[:-1], 0
        while 1 << cycles < len(sums):
            size = 1 << cycles
            wider = []
            for place, value in enumerate(sums):
                total = Signal(width, name=f"sum_{cycles}_{place}")
                before = place // size * size - 1 if place & size else None
                with m.If(advance):
                    m.d.sync += total.eq(value if before is None else value + sums[before])
                wider.append(total)
            sums, cycles = wider, cycles + 1
        return sums, cycles


class NarrowLevel(_Level):
    """A level that reads one child per cycle.

    It takes K cycles per sample and one cycle per other request, and two cycles more from the first child to the next
    level. Its memory has a word for every child of a node in use, also for those that are not in use.

    Args:
        level: number of the level; 0 is the root.
        clears: as of `_Level`.

    Ports:
        steps (in, stream of `PipelineLayout.step(level)`): requests that enter the level.
        next_steps (out, stream of `PipelineLayout.step(level + 1)`): the same requests, which leave it in order.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        fanout, bits = layout.fanout, self.child_bits
        m.submodules.output = output = self._output(m)
        m.submodules.sums = sums = NodeMemory(
            width=bits, depth=fanout * layout.nodes(self.level), clears=self.clears
        )
        arrived = self.steps.payload
        arrived_samples, last, advance = Signal(), Signal(), Signal()
        child = Signal(layout.digit_bits)
        arrives: Any = self.steps.valid
        takes_next: Any = advance & last
        if self.clears and fanout * layout.nodes(self.level) > layout.leaves:
            # Requests come as soon as the first stage has cleared the leaves in use, which are fewer words than here.
            arrives, takes_next = arrives & sums.cleared, takes_next & sums.cleared

        # Two cycles, K times for a sample: a child is read.
        m.d.comb += [
            arrived_samples.eq(arrived.response.operation == Operation.SAMPLE),
            last.eq(~arrived_samples | (child == fanout - 1)),
            sums.advance.eq(advance),
            sums.address.eq(
                arrived.node * fanout + Mux(arrived_samples, child, self._digit(arrived.response.path))
            ),
            self.steps.ready.eq(takes_next),
        ]
        with m.If(advance & arrives):
            m.d.sync += child.eq(Mux(last, 0, child + 1))
        step = delayed(m, arrived, READ_CYCLES, advance)
        step_child = delayed(m, child, READ_CYCLES, advance)
        valid = delayed(m, arrives, READ_CYCLES, advance)
        leaves = Signal()
        m.d.comb += [
            leaves.eq(valid & delayed(m, last, READ_CYCLES, advance)),
            advance.eq(~leaves | output.items.ready),
            sums.write.eq(valid & is_write(step.response.operation)),
            sums.write_data.eq(sums.word + step.change),
        ]

        # Registers track the child chosen so far (MAP IV-C4), its sum, the prefix inside it, and what remains of the
        # prefix behind the children so far, which is negative once the prefix lies before.
        value, first = sums.word, Signal()
        remaining = Signal(signed(layout.sum_bits(self.level) + 1))
        remaining_now, rest, rest_now = (Signal.like(remaining) for _ in range(3))
        chosen, chosen_now = Signal.like(child), Signal.like(child)
        chosen_sum, chosen_sum_now = Signal(bits), Signal(bits)
        takes = Signal()
        m.d.comb += [
            first.eq(step_child == 0),
            remaining_now.eq(Mux(first, step.rest, remaining)),
            takes.eq(first | (~remaining[-1] & ~step.response.empty & (value != 0))),
            chosen_now.eq(Mux(takes, step_child, chosen)),
            chosen_sum_now.eq(Mux(takes, value, chosen_sum)),
            rest_now.eq(Mux(takes, remaining_now, rest)),
        ]
        with m.If(advance):
            m.d.sync += [
                remaining.eq(remaining_now - value),
                chosen.eq(chosen_now),
                chosen_sum.eq(chosen_sum_now),
                rest.eq(rest_now),
            ]
        sampled = step.response.operation == Operation.SAMPLE
        m.d.comb += [
            output.items.valid.eq(leaves),
            *self._leave(
                output.items.payload,
                step,
                Mux(sampled, chosen_now, self._digit(step.response.path)),
                chosen_sum_now,
                rest_now,
            ),
        ]
        return m


LEVELS: dict[Form, type[_Level]] = {Form.WIDE: WideLevel, Form.NARROW: NarrowLevel}
