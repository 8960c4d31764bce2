"""A cocotb bench for an exported hardware block: replays recorded inputs, and compares every output in every cycle.

Where the block has registers, a second test reads and writes them. A large design may have this test alone.

It needs cocotb 2.0 and, next to it, `cocotb_status.py` and `MODULE_vectors.json`, where `MODULE` is the rest of this
file's name; for a block with registers also cocotbext-axi. The vectors were recorded from Amaranth's simulator, which
runs the block's source and not this Verilog. Memories must be 0 at first.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer
from cocotb_status import noted

PERIOD_NS, QUARTER_NS = 8, 2
MODULE = Path(__file__).stem.removeprefix("test_")
VECTORS = json.loads(Path(__file__).with_name(f"{MODULE}_vectors.json").read_text())
OKAY, SLVERR = 0, 2


@cocotb.test(skip=not VECTORS["cycles"])
@noted
async def outputs_are_the_recorded_ones(dut: Any) -> None:
    """Replay the record."""
    inputs = {getattr(dut, name): values(text) for name, text in VECTORS["inputs"].items()}
    outputs = {name: values(output["values"]) for name, output in VECTORS["outputs"].items()}
    clock, reset = getattr(dut, "clk", None), getattr(dut, "rst", None)  # blocks without registers have none
    for port in inputs:
        port.value = 0
    if reset is not None:
        reset.value = 1
        for _ in range(3):
            await Timer(QUARTER_NS, "ns")
            await rise_and_fall(clock)
        reset.value = 0
    compared = 0
    for cycle in range(VECTORS["cycles"]):
        for port, by_cycle in inputs.items():
            port.value = by_cycle[cycle]
        await Timer(QUARTER_NS, "ns")
        for name, by_cycle in outputs.items():
            valid = VECTORS["outputs"][name]["valid"]
            if valid and not outputs[valid][cycle]:
                continue
            found = str(getattr(dut, name).value)
            expected = format(by_cycle[cycle], f"0{len(found)}b")
            assert found == expected, f"cycle {cycle}: {name}: found {found}; expected {expected}"
            compared += 1
        await rise_and_fall(clock)
    assert compared, "the record has no output to compare"
    dut._log.info("%d values compared in %d cycles", compared, VECTORS["cycles"])


@cocotb.test(skip=not VECTORS["registers"])
@noted
async def registers_answer_as_the_map_says(dut: Any) -> None:
    """Read and write the registers through AXI4-Lite, without starting anything."""
    from cocotbext.axi import AxiLiteBus, AxiLiteMaster

    for name in VECTORS["inputs"]:
        getattr(dut, name).value = 0
    Clock(dut.clk, PERIOD_NS, "ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    registers = VECTORS["registers"]
    for register in registers:
        address, access = register["address"], register["access"]
        read = await host.read(address, 4)
        assert read.resp == OKAY, register
        if access == "rw":
            assert int.from_bytes(read.data, "little") == register["reset"], register
            mask = (1 << register["width"]) - 1
            for pattern in (0x5A5AA5A5 & mask, 0xA5A55A5A & mask, register["reset"]):
                written = await host.write(address, pattern.to_bytes(4, "little"))
                assert written.resp == OKAY, register
                read = await host.read(address, 4)
                assert int.from_bytes(read.data, "little") == pattern, register
        if access == "ro":
            assert (await host.write(address, bytes(4))).resp == SLVERR, register
    used = {register["address"] for register in registers}
    free = next(address for address in count(0, 4) if address not in used)
    if free < 1 << len(dut.s_axil_araddr):
        assert (await host.read(free, 4)).resp == SLVERR


async def rise_and_fall(clock: Any) -> None:
    """Go from a quarter before the rising edge of a clock to its falling edge; wait the same time without a clock."""
    for level in (1, 0):
        await Timer(QUARTER_NS * (2 - level), "ns")
        if clock is not None:
            clock.value = level


def values(text: str) -> list[int]:
    """Return the value of a port in each cycle, from its compact text."""
    numbers: list[int] = []
    for word in text.split():
        numbers.append(numbers[-1] if word == "." else int(word, 16))
    return numbers
