"""Diagrams of blocks, drawn from their Verilog."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.export.diagram import diagrams
from placerl.primitives.fpga.tools.blocks import BLOCKS


class Register(wiring.Component):
    """A word, one cycle later, if `enable`."""

    enable: In(1)
    given: In(8)
    kept: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.enable):
            m.d.sync += self.kept.eq(self.given)
        return m


class Scale(wiring.Component):
    """A word times three."""

    word: In(8)
    scaled: Out(10)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.scaled.eq(self.word * 3)
        return m


class Chain(wiring.Component):
    """first -> a register of this module and a multiplexer -> second, or with `wide` straight on -> last."""

    source: In(8)
    wide: In(1)
    target: Out(10)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first, m.submodules.second = first, second = Register(), Register()
        m.submodules.last = last = Scale()
        between = Signal(8)
        m.d.sync += between.eq(first.kept)
        m.d.comb += [
            first.given.eq(self.source),
            first.enable.eq(1),
            second.given.eq(between ^ 1),
            second.enable.eq(self.wide),
            last.word.eq(Mux(self.wide, first.kept, second.kept)),
            self.target.eq(last.scaled),
        ]
        return m


class Around(wiring.Component):
    """A `Chain`, and a `Scale` of its result's lowest bits."""

    source: In(8)
    wide: In(1)
    target: Out(10)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.chain, m.submodules.after = chain, after = Chain(), Scale()
        m.d.comb += [
            chain.source.eq(self.source),
            chain.wide.eq(self.wide),
            after.word.eq(chain.target),
            self.target.eq(after.scaled),
        ]
        return m


def drawn(diagram: str) -> set[tuple[str, int, str]]:
    """Return the arrows of a flowchart, with their bits, by what the boxes say."""
    boxes, arrows = {}, set()
    for line in diagram.splitlines()[1:]:
        if "-->" in line:
            source, bits, target = line.split()
            arrows.add((boxes[source], int(bits.removeprefix("-->|").removesuffix("|")), boxes[target]))
        else:
            key, _, said = line.strip().partition("[")
            boxes[key.rstrip("(")] = said.strip('[]()"')
    return arrows


INSIDE = {("first", 8, "last"), ("first", 8, "second"), ("second", 8, "last")}


def test_data_is_followed_through_registers_and_logic_and_single_bits_are_not() -> None:
    ((name, diagram),) = diagrams(verilog.export(Chain()), "top")
    assert name == "top"
    assert drawn(diagram) == {("source", 8, "first"), *INSIDE, ("last", 10, "target")}


def test_a_part_with_several_parts_is_drawn_too() -> None:
    (_, whole), (name, inner) = diagrams(verilog.export(Around()), "top")
    assert drawn(whole) == {("source", 8, "chain"), ("chain", 10, "after"), ("after", 10, "target")}
    assert name == "chain"
    assert drawn(inner) == {("outside", 8, "first"), *INSIDE, ("last", 10, "outside")}


def test_equal_parts_are_one_box_and_parts_that_differ_in_sizes_one_diagram() -> None:
    pipeline = BLOCKS["replay-pipeline"].make(fanout=2, levels=3)
    assert [name for name, _ in diagrams(verilog.export(pipeline), "top")] == ["top", "front_end", "level_0"]
    ((_, core),) = diagrams(verilog.export(BLOCKS["gemm-core"].make(side=2)), "top")
    assert ("array", 138, "2 × accumulator") in drawn(core)
