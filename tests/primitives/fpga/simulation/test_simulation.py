"""Both simulators: the same values in the same cycles, of ports of every kind."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth import Module, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.simulation import SimulationStalledError, StreamRuleError
from tests.primitives.fpga.interpreter import interpreted

PAYLOAD = data.StructLayout({"tag": 5, "value": signed(40), "row": data.ArrayLayout(signed(9), 7)})


class Adder(wiring.Component):
    """Adds `offset` to each value, one item a cycle, a cycle later; keeps the last sum in a memory."""

    def __init__(self) -> None:
        super().__init__(
            {
                "items": In(stream.Signature(PAYLOAD)),
                "sums": Out(stream.Signature(PAYLOAD)),
                "offset": In(signed(20)),
                "count": Out(unsigned(16)),
                "last": Out(signed(40)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = Ram(width=40, depth=3)
        m.d.comb += [ram.read_enable.eq(1), self.last.eq(ram.read_data)]
        m.d.comb += self.items.ready.eq(self.sums.ready | ~self.sums.valid)
        with m.If(self.items.ready):
            m.d.sync += self.sums.valid.eq(self.items.valid)
            m.d.sync += self.sums.payload.eq(self.items.payload)
            m.d.sync += self.sums.payload.value.eq(self.items.payload.value + self.offset)
        with m.If(self.sums.valid & self.sums.ready):
            m.d.sync += self.count.eq(self.count + 1)
            m.d.comb += [ram.write_enable.eq(1), ram.write_data.eq(self.sums.payload.value)]
        return m


SIMULATORS = pytest.mark.parametrize("simulator", [interpreted, simulation.compiled])


def items(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "tag": rng.integers(0, 32, count),
        "value": rng.integers(-(2**38), 2**38, count),
        "row": rng.integers(-256, 256, (count, 7)),
    }


@SIMULATORS
def test_values_and_cycles(simulator: Any) -> None:
    model = simulator(Adder())
    model.write("offset", -7)
    given_items = items(50)
    run = model.run({"items": given_items}, {"sums": 50})
    assert run.outputs["sums"]["tag"].tolist() == given_items["tag"].tolist()
    assert run.outputs["sums"]["value"].tolist() == (given_items["value"] - 7).tolist()
    assert run.outputs["sums"]["row"].tolist() == given_items["row"].tolist()
    assert run.input_cycles["items"].tolist() == list(range(50))
    assert run.output_cycles["sums"].tolist() == list(range(1, 51))
    assert run.cycles == 51
    assert model.read("count") == 50
    model.step(2)
    assert model.read("last") == given_items["value"][-1] - 7
    again = model.run({"items": items(3)}, {"sums": 3})
    assert (again.cycles, model.read("count")) == (4, 53)


def test_the_simulators_agree_under_gaps_and_back_pressure() -> None:
    gaps = {"items": np.random.default_rng(1).integers(0, 4, 40)}
    ready = {"sums": [True, False, False, True, False]}
    runs = [
        simulator(Adder()).run({"items": items(40)}, {"sums": 40}, gaps=gaps, ready=ready)
        for simulator in (interpreted, simulation.compiled)
    ]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].input_cycles["items"].tolist() == runs[1].input_cycles["items"].tolist()
    assert runs[0].output_cycles["sums"].tolist() == runs[1].output_cycles["sums"].tolist()
    for field in ("tag", "value", "row"):
        assert runs[0].outputs["sums"][field].tolist() == runs[1].outputs["sums"][field].tolist()


@SIMULATORS
def test_a_stalled_design_is_told(simulator: Any) -> None:
    with pytest.raises(SimulationStalledError, match="after 100 cycles"):
        simulator(Adder()).run({"items": items(3)}, {"sums": 4}, limit_cycles=100)


class Impatient(wiring.Component):
    """Offers numbers that do not wait: each is `withdrawn` or becomes another one after two cycles."""

    def __init__(self, withdrawn: bool) -> None:
        self.withdrawn = withdrawn
        super().__init__({"numbers": Out(stream.Signature(8))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        cycle = Signal(8)
        m.d.sync += cycle.eq(cycle + 1)
        m.d.comb += self.numbers.valid.eq(~cycle[1] if self.withdrawn else 1)
        m.d.comb += self.numbers.payload.eq(cycle[1:] & (0 if self.withdrawn else 0xFF))
        return m


@SIMULATORS
@pytest.mark.parametrize("withdrawn", [True, False])
def test_an_item_that_does_not_wait_for_its_consumer_is_found(withdrawn: bool, simulator: Any) -> None:
    always = simulator(Impatient(withdrawn)).run({}, {"numbers": 8})
    assert len(always.outputs["numbers"]) == 8
    word = "withdrawn" if withdrawn else "changed"
    with pytest.raises(StreamRuleError, match=f"numbers: cycle 2: found an item that was {word} before"):
        simulator(Impatient(withdrawn)).run({}, {"numbers": 8}, ready={"numbers": [False]})


@SIMULATORS
def test_an_item_may_follow_another_at_once(simulator: Any) -> None:
    run = simulator(Impatient(False)).run({}, {"numbers": 4}, ready={"numbers": [False, True]})
    assert run.outputs["numbers"].tolist() == [0, 1, 2, 3]


@SIMULATORS
def test_wrong_names_are_refused(simulator: Any) -> None:
    model = simulator(Adder())
    with pytest.raises(ValueError, match="input stream: found 'sums'; allowed: items"):
        model.run({"sums": items(1)}, {})
    with pytest.raises(ValueError, match="port: found 'count'; allowed: offset"):
        model.write("count", 1)
