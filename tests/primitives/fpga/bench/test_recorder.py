import json
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.bench.recorder import record
from placerl.primitives.fpga.bench.stimuli import Stimuli
from placerl.primitives.fpga.host.axi import axi_stream
from tests.primitives.fpga.bench.scaler import Scaler, recorded_values


class Adder(wiring.Component):
    """Adds `offset` to a stream of numbers, with a register in between."""

    def __init__(self) -> None:
        super().__init__(
            {
                "offset": In(8),
                "numbers": In(stream.Signature(8)),
                "s_axis": In(axi_stream(8)),
                "sums": Out(stream.Signature(8)),
                "total": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        taken = Signal()
        m.d.comb += [
            taken.eq(~self.sums.valid | self.sums.ready),
            self.numbers.ready.eq(taken),
            self.s_axis.ready.eq(1),
        ]
        with m.If(taken):
            m.d.sync += [
                self.sums.valid.eq(self.numbers.valid),
                self.sums.payload.eq(self.numbers.payload + self.offset),
            ]
        with m.If(self.s_axis.valid):
            m.d.sync += self.total.eq(self.total + self.s_axis.payload.data)
        return m


def by_cycle(record: dict[str, Any], name: str) -> list[int]:
    """Values of a port in each cycle."""
    return recorded_values(record["inputs"].get(name) or record["outputs"][name]["values"])


def transfers(record: dict[str, Any], payload: str, valid: str, ready: str) -> list[int]:
    ports = [by_cycle(record, name) for name in (payload, valid, ready)]
    return [item for item, is_valid, is_ready in zip(*ports, strict=True) if is_valid and is_ready]


def test_the_record_has_the_transfers_of_the_stimuli_with_stalls() -> None:
    numbers, words = list(range(50)), {"data": [3] * 20, "last": [0] * 20}
    stimuli = Stimuli({"numbers": numbers, "s_axis": words}, {"s_axis": 100}, {"offset": [7]}, cycles=200)
    found = json.loads(record(Adder(), stimuli))
    assert set(found["inputs"]) == {
        *("offset", "numbers__payload", "numbers__valid", "sums__ready"),
        *("s_axis_tdata", "s_axis_tlast", "s_axis_tvalid"),
    }
    assert found["outputs"]["sums__payload"]["valid"] == "sums__valid"
    assert found["outputs"]["total"]["valid"] == ""
    assert transfers(found, "numbers__payload", "numbers__valid", "numbers__ready") == numbers
    assert transfers(found, "sums__payload", "sums__valid", "sums__ready") == [n + 7 for n in numbers]
    assert not any(by_cycle(found, "s_axis_tvalid")[:100])
    assert by_cycle(found, "total")[-1] == 60
    ready, valid = by_cycle(found, "sums__ready"), by_cycle(found, "numbers__valid")
    assert 0 < sum(ready) < 200
    assert 0 in valid[:40]


def test_equal_seeds_give_equal_records() -> None:
    stimuli = Stimuli(cycles=30)
    assert record(Adder(), stimuli, seed=1) == record(Adder(), stimuli, seed=1)
    assert record(Adder(), stimuli, seed=1) != record(Adder(), stimuli, seed=2)


@pytest.mark.parametrize(
    "stimuli", [Stimuli(streams={"sums": [1]}), Stimuli(plain={"numbers": [1]}), Stimuli(starts={"x": 1})]
)
def test_a_stimulus_for_no_input_is_refused(stimuli: Stimuli) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        record(Adder(), stimuli)


def test_a_record_of_no_cycles_has_the_registers_alone() -> None:
    found = json.loads(record(Scaler(), Stimuli(cycles=0)))
    assert found["cycles"] == 0
    assert [register["name"] for register in found["registers"]] == ["control", "status", "events", "factor"]
    assert found["registers"][-1] == {
        "name": "factor",
        "address": 0x10,
        "access": "rw",
        "width": 32,
        "reset": 1,
    }
