"""A register file against its golden model, with random stalls of every channel, and with reads during writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Cat, Const, Mux, Signal

from placerl.primitives.fpga.host import COMMON, Field, HostAccess, Register, RegisterFile, RegisterMap
from placerl.primitives.fpga.host.register_map import AxiResponse
from placerl.primitives.fpga.replay_pipeline.stages import delayed
from tests.primitives.fpga import restarted
from tests.primitives.fpga.host.golden import GoldenRegisters
from tests.primitives.fpga.proof import Proof, mutated, needs_proofs

REGISTERS = RegisterMap(
    "unit",
    "A unit.",
    (
        *COMMON,
        Register("size", 0x10, "rw", 20, 5),
        Register("rate", 0x14, "rw", 32, 0x30002, fields=(Field("low", 0, 8), Field("high", 16, 4))),
        Register("cycles", 0x1C, "ro"),
        Register("errors", 0x20, "w1c", 9, 0x100),
    ),
)
ADDRESSES = st.integers(0, (1 << REGISTERS.address_bits) - 1)
WORDS = st.one_of(st.integers(0, 0xFFFFFFFF), st.sampled_from([0, 1, 0xFFFFFFFF]))
GAP = st.integers(0, 3)
READY = st.lists(st.booleans(), min_size=1, max_size=4).filter(any)

writes = st.tuples(st.just("write"), ADDRESSES, WORDS, st.integers(0, 15), GAP, GAP, READY)
reads = st.tuples(st.just("read"), ADDRESSES, GAP, READY)
drives = st.tuples(st.just("drive"), st.sampled_from(["status", "cycles"]), WORDS)
events = st.tuples(st.just("events"), st.sampled_from(["events", "errors"]), WORDS)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(writes, reads, drives, events), max_size=25))
def test_accesses_are_the_golden_models(actions: list[Any]) -> None:
    model, golden = restarted.interpreted(RegisterFile, REGISTERS), GoldenRegisters(REGISTERS)
    host = HostAccess(model, REGISTERS, "bus")
    for kind, *rest in actions:
        if kind == "write":
            address, data, strobe, gap_aw, gap_w, ready = rest
            stalls = {"gaps": {"bus__aw": [gap_aw], "bus__w": [gap_w]}, "ready": {"bus__b": ready}}
            assert host.write_address(address, data, strobe, **stalls) == golden.write(address, data, strobe)
        elif kind == "read":
            address, gap, ready = rest
            stalls = {"gaps": {"bus__ar": [gap]}, "ready": {"bus__r": ready}}
            assert host.read_address(address, **stalls) == golden.read(address)
        else:
            name, value = rest
            value &= (1 << REGISTERS[name].width) - 1
            model.write(name, value)
            if kind == "drive":
                golden.inputs[name] = value
            else:
                model.step()
                model.write(name, 0)
                golden.raise_events(name, value)
        for name, value in golden.outputs.items():
            port = f"{name}_flags" if REGISTERS[name].access == "w1c" else name
            assert model.read(port) == value


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size": 1 << 20}, "register size: found 1048576; allowed: 0 to 0xfffff"),
        ({"size": 7, "rate": -1}, "register rate: found -1; allowed: 0 to 0xffffffff"),
        ({"size": 7, "control": 2}, "register control: found 2; allowed: 0 to 0x1"),
    ],
)
def test_a_value_that_a_register_would_cut_off_is_refused(values: dict[str, int], words: str) -> None:
    host = HostAccess(restarted.interpreted(RegisterFile, REGISTERS), REGISTERS, "bus")
    with pytest.raises(ValueError, match=words):
        host.write(**values)
    assert host.read("size") == 5, "as after a reset: nothing was written"
    host.write(size=(1 << 20) - 1)
    assert host.read("size") == (1 << 20) - 1


def test_a_pulse_lasts_one_cycle() -> None:
    model = restarted.interpreted(RegisterFile, REGISTERS)
    write = {"bus__aw": {"address": [0]}, "bus__w": {"data": [1], "strobe": [15]}}
    model.run(write, {})
    seen = []
    for _ in range(4):
        model.step()
        seen.append(int(model.read("control")))
    assert sum(seen) == 1


@pytest.mark.parametrize("event", [0, 1])
def test_an_event_in_the_cycle_of_its_clearing_stays(event: int) -> None:
    model = restarted.interpreted(RegisterFile, REGISTERS)
    model.write("events", 1)
    model.step()
    model.write("events", 0)
    model.run({"bus__aw": {"address": [8]}, "bus__w": {"data": [1], "strobe": [15]}}, {})
    assert model.read("events_flags") == 1  # this is the cycle of the write
    model.write("events", event)
    model.step()
    model.write("events", 0)
    assert model.read("events_flags") == event
    model.step(3)
    assert model.read("events_flags") == event


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(GAP, GAP), min_size=1, max_size=12),
    st.lists(GAP, min_size=1, max_size=12),
    READY,
    READY,
)
def test_a_read_sees_a_write_that_is_over_and_none_that_has_not_begun(
    write_gaps: list[tuple[int, int]], read_gaps: list[int], b_ready: list[bool], r_ready: list[bool]
) -> None:
    model = restarted.interpreted(RegisterFile, REGISTERS)
    count, reads = len(write_gaps), len(read_gaps)
    run = model.run(
        {
            "bus__aw": {"address": [0x10] * count},
            "bus__w": {"data": [6 + number for number in range(count)], "strobe": [15] * count},
            "bus__ar": {"address": [0x10] * reads},
        },
        {"bus__b": count, "bus__r": reads},
        gaps={
            "bus__aw": [gap for gap, _ in write_gaps],
            "bus__w": [gap for _, gap in write_gaps],
            "bus__ar": read_gaps,
        },
        ready={"bus__b": b_ready, "bus__r": r_ready},
    )
    assert not run.outputs["bus__b"]["response"].any()
    for number, value in enumerate(run.outputs["bus__r"]["data"]):
        asked, answered = run.input_cycles["bus__ar"][number], run.output_cycles["bus__r"][number]
        over = (run.output_cycles["bus__b"] < asked).sum()
        begun = ((run.input_cycles["bus__aw"] < answered) & (run.input_cycles["bus__w"] < answered)).sum()
        assert 5 + over <= value <= 5 + begun


SMALL = RegisterMap("unit", "A unit.", (Register("size", 0, "rw", 12, 5), Register("cycles", 8, "ro", 3)))


@pytest.mark.slow
@needs_proofs
@pytest.mark.parametrize(
    "bug",
    [
        None,
        ("has_address & has_data & (~b.valid | b.ready)", "has_address & has_data"),  # a response is lost
        ("w.ready.eq(~has_data)", "w.ready.eq(1)"),  # data are lost
        ("has_data.eq(0),", ""),  # and used twice
        ("ar.ready.eq(~r.valid)", "ar.ready.eq(1)"),
        ("value & ~mask | selected", "selected"),
        ("m.d.sync += r.valid.eq(0)", "pass"),  # an answer is given again
    ],
)
def test_proof_that_every_access_is_answered_once(bug: Any) -> None:
    """For all accesses and stalls: in order and with the right word, a write after its address and its data."""
    proof = Proof((mutated(RegisterFile, *bug) if bug else RegisterFile)(SMALL))
    block, m = proof.block, proof.m
    aw, w, b, ar, r = (getattr(block.bus, name) for name in ("aw", "w", "b", "ar", "r"))
    proof.drive(
        aw.valid, aw.payload, w.valid, w.payload, b.ready, ar.valid, ar.payload, r.ready, block.cycles
    )
    wrote, gave, answered, read, told = (channel.valid & channel.ready for channel in (aw, w, b, ar, r))
    word = ar.payload.address >> 2
    data = Mux(word == 0, block.size, Mux(word == 2, block.cycles, 0))
    failure = Mux((word == 0) | (word == 2), AxiResponse.OKAY, AxiResponse.SLVERR)
    waits = proof.in_order(
        read, Cat(data[:12], failure), told, Cat(r.payload.data[:12], r.payload.response), most=1
    )
    proof.within(1, waits, r.ready)
    word = aw.payload.address >> 2
    failure = Mux(word == 0, AxiResponse.OKAY, AxiResponse.SLVERR)  # the other one is only read
    has_address = proof.in_order(wrote, failure, answered, b.payload.response, most=2)
    has_data = proof.in_order(gave, Const(0, 1), answered, Const(0, 1), most=2)
    proof.within(3, has_address & has_data, b.ready)
    proof.stays(b)
    proof.stays(r)

    # The register changes with a response alone, and then only the bytes that were written.
    address, payload, before = Signal.like(word), Signal.like(w.payload), Signal.like(block.size)
    responds = ~delayed(m, b.valid & ~b.ready, 1, Const(1)) & b.valid
    m.d.sync += before.eq(block.size)
    with m.If(wrote):
        m.d.sync += address.eq(word)
    with m.If(gave):
        m.d.sync += payload.eq(w.payload)
    low, high = (payload.strobe[byte].replicate(width) for byte, width in enumerate((8, 4)))
    mask = Mux(delayed(m, address, 1, Const(1)) == 0, Cat(low, high), 0)
    merged = before & ~mask | payload.data[:12] & mask
    started = delayed(m, Const(1), 1, Const(1))
    proof.asserts(~started | (block.size == Mux(responds, merged, before)))
    assert proof.holds(cycles=10) is (bug is None)
