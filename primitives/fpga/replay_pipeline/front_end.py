"""The first stage of a replay pipeline: finds a request's leaf, exchanges its priority, and keeps the total."""

from typing import Any

import numpy as np
from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.replay_pipeline.layout import Operation, PipelineLayout, is_write
from placerl.primitives.fpga.replay_pipeline.node_memory import READ_CYCLES, NodeMemory
from placerl.primitives.fpga.replay_pipeline.stages import delayed
from placerl.primitives.fpga.replay_pipeline.stream_register import StreamRegister


class FrontEnd(wiring.Component):
    """The first stage of a replay pipeline, which takes one request per cycle, with six cycles of latency.

    It keeps a copy of all leaves in use, in which it reads a leaf's old priority and writes the new one. So it knows by
    how much the priority changes, and each level of the tree adds this change to its sums as the request moves down.
    (This stage and the last level read different leaves in the same cycle. The copy costs no more than one memory
    with two read ports, which would also consist of two memories.) A leaf that is not in use reads as 0, and does not
    change.

    Path memoisation (MAP IV-D4, PRL 4.1.1): through the ports `sampled_...` the path of a finished sample is written
    into a buffer, at the sample's tag; an UPDATE with `remembered` reads its path from the buffer.

    Ports:
        requests (in, stream of `PipelineLayout.request`), steps (out, stream of `PipelineLayout.step(0)`).
        sampled_valid (in, 1), sampled_tag (in, tag_bits), sampled_path (in, path): a finished sample.
        last_leaf (in, path): after this leaf, or the last one in use, INSERT starts again at leaf 0.
        total (out, total_bits): the sum of all priorities, including every request that has left this stage.
        unsettled (out, 1): a request that is in this stage will change the total.

    Args:
        remembers: whether there is a buffer for the paths of samples.
        clears: whether the leaves are cleared after a reset; no request is taken before that.
    """

    def __init__(self, layout: PipelineLayout, remembers: bool = True, clears: bool = False) -> None:
        self.layout, self.remembers, self.clears = layout, remembers, clears
        super().__init__(
            {
                "requests": In(stream.Signature(layout.request())),
                "steps": Out(stream.Signature(layout.step(0))),
                "sampled_valid": In(1),
                "sampled_tag": In(layout.tag_bits),
                "sampled_path": In(layout.path_bits),
                "last_leaf": In(layout.path_bits),
                "total": Out(layout.total_bits),
                "unsettled": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layout = self.layout
        m.submodules.output = output = StreamRegister(layout.step(0))
        wiring.connect(m, output.out, wiring.flipped(self.steps))
        advance = output.items.ready
        m.submodules.leaves = leaves = NodeMemory(
            width=layout.leaf_bits, depth=layout.leaves, clears=self.clears
        )
        offered: Any = self.requests.valid
        if self.clears:
            offered = offered & leaves.cleared
            m.d.comb += self.requests.ready.eq(advance & leaves.cleared)
        else:
            m.d.comb += self.requests.ready.eq(advance)

        # Cycle 1: the request's own path, that of the next leaf in turn, or the remembered one.
        next_path = Signal(layout.path_bits)
        found = Signal(layout.request())
        found_valid = Signal()
        with m.If(advance):
            m.d.sync += [found.eq(self.requests.payload), found_valid.eq(offered)]
            with m.If(self.requests.payload.operation == Operation.INSERT):
                m.d.sync += found.path.eq(next_path)
                with m.If(offered):
                    m.d.sync += next_path.eq(Mux(self._ends(next_path), 0, self._successor(next_path)))

        # Cycles 2 and 3: the leaf's priority is read.
        asked, writes = Signal(layout.request()), Signal()
        m.d.comb += [asked.eq(found), writes.eq(found_valid & is_write(found.operation))]
        if self.remembers:
            remembered_path = self._path_memory(m, advance)
            with m.If(found.remembered & (found.operation == Operation.UPDATE)):
                m.d.comb += asked.path.eq(remembered_path)
        leaf = self._leaf(asked.path)
        m.d.comb += [leaves.advance.eq(advance), leaves.address.eq(leaf)]
        if not layout.is_whole:
            in_use = Signal()
            m.d.comb += in_use.eq(leaf < layout.leaves)
            writes, in_use = writes & in_use, delayed(m, in_use, READ_CYCLES, advance)
        reading = delayed(m, writes, 1, advance)
        valid, writing = (delayed(m, mark, READ_CYCLES, advance) for mark in (found_valid, writes))
        asked = delayed(m, asked, READ_CYCLES, advance)

        # Cycle 4: the priority is here, and the new one is written. A leaf that is not in use has and keeps 0.
        priority, old = asked.value[: layout.leaf_bits], leaves.word
        if not layout.is_whole:
            priority, old = Mux(in_use, priority, 0), Mux(in_use, old, 0)
        change = Signal(signed(layout.leaf_bits + 1))
        m.d.comb += [leaves.write.eq(writing), leaves.write_data.eq(priority)]
        with m.If(advance):
            m.d.sync += change.eq(priority - old)
        before = delayed(m, old, 1, advance)
        valid, adding, asked = (delayed(m, value, 1, advance) for value in (valid, writing, asked))

        # Cycle 5: the total changes; it includes all requests before this one.
        within, last_prefix, empty = Signal(), Signal(layout.total_bits), Signal()
        with m.If(advance):
            m.d.sync += [
                within.eq(asked.value < self.total),
                last_prefix.eq(self.total - 1),
                empty.eq(self.total == 0),
            ]
            with m.If(adding):
                m.d.sync += self.total.eq(self.total + change)
        m.d.comb += self.unsettled.eq(writes | reading | writing | adding)

        # Cycle 6: beyond the total the last positive leaf is taken: no level below gets a prefix beyond its sum.
        valid, asked, change, before = (
            delayed(m, value, 1, advance) for value in (valid, asked, change, before)
        )
        step, samples = output.items.payload, asked.operation == Operation.SAMPLE
        m.d.comb += [
            output.items.valid.eq(valid),
            step.change.eq(change),
            step.rest.eq(Mux(within, asked.value, last_prefix)),
            step.response.operation.eq(asked.operation),
            step.response.tag.eq(asked.tag),
            step.response.path.eq(Mux(samples, 0, asked.path)),
            step.response.value.eq(Mux(samples, 0, before)),
            step.response.empty.eq(samples & empty),
        ]
        return m

    def _path_memory(self, m: Module, advance: Signal) -> Signal:
        """Return the path of the last sample with the tag of the request offered one cycle ago."""
        m.submodules.paths = paths = Ram(width=self.layout.path_bits, depth=1 << self.layout.tag_bits)
        m.d.comb += [
            paths.read_enable.eq(advance),
            paths.read_address.eq(self.requests.payload.tag),
            paths.write_enable.eq(self.sampled_valid),
            paths.write_address.eq(self.sampled_tag),
            paths.write_data.eq(self.sampled_path),
        ]
        return paths.read_data

    def _digits(self, path: Any) -> list[Any]:
        """Return the digits of a path, the root's first."""
        bits = self.layout.digit_bits
        return [path[bits * level : bits * (level + 1)] for level in reversed(range(self.layout.levels))]

    def _leaf(self, path: Any) -> Any:
        """Return the leaf's number: the path itself if K is a power of two."""
        if self.layout.fanout == 1 << self.layout.digit_bits:
            return path
        leaf: Any = 0
        for digit in self._digits(path):
            leaf = leaf * self.layout.fanout + digit
        return leaf

    def _ends(self, path: Any) -> Any:
        """Return whether INSERT starts again at leaf 0 after the leaf at `path`."""
        ends = path == self.last_leaf
        if not self.layout.is_whole:  # otherwise the path that follows the last leaf's is 0
            ends = ends | (path == int(self.layout.path_of(np.array([self.layout.leaves - 1]))[0]))
        return ends

    def _successor(self, path: Any) -> Any:
        """Return the path of the next leaf: one more, with carry at K."""
        digits = []
        carry: Any = 1
        for digit in reversed(self._digits(path)):
            full = carry & (digit == self.layout.fanout - 1)
            digits.append(Mux(full, 0, digit + carry)[: self.layout.digit_bits])
            carry = full
        return Cat(*digits)
