"""A cocotb bench for the exported CartPole agent: compares what it reports of every step with its golden model.

It needs cocotb 2.0 and, next to it, `cocotb_status.py` and `cartpole_agent_vectors.json`, which has the golden model's
reports. The agent fills its replay in the first 255 steps and trains in every step from then on, which takes Icarus
Verilog minutes: there only the first steps are compared, unless `CARTPOLE_STEPS` says how many.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, with_timeout
from cocotb_status import noted

VECTORS = json.loads(Path(__file__).with_name("cartpole_agent_vectors.json").read_text())
PERIOD_NS = 8
LONGEST_STEP_NS = 2000 * PERIOD_NS
STEPS_ON_ICARUS = 20


@cocotb.test()
@noted
async def reports_are_the_golden_models(dut: Any) -> None:
    """Take a report after each step, some of them late, and compare it."""
    few = STEPS_ON_ICARUS if "Icarus" in cocotb.SIM_NAME else len(VECTORS["reports"])
    steps = int(os.environ.get("CARTPOLE_STEPS", few))
    dut.reports__ready.value = 0
    dut.rst.value = 1
    Clock(dut.clk, PERIOD_NS, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    stalls = random.Random(0)
    for step, expected in enumerate(VECTORS["reports"][:steps]):
        if not int(dut.reports__valid.value):
            await with_timeout(RisingEdge(dut.reports__valid), LONGEST_STEP_NS, "ns")
        for _ in range(stalls.randrange(3)):
            await FallingEdge(dut.clk)
        await FallingEdge(dut.clk)
        assert int(dut.reports__valid.value), f"step {step}: the report was withdrawn"
        found = dut.reports__payload.value.to_unsigned()
        assert found == int(expected, 16), f"step {step}: found {found:x}; expected {expected}"
        dut.reports__ready.value = 1
        await FallingEdge(dut.clk)
        dut.reports__ready.value = 0
        await ReadOnly()
        await FallingEdge(dut.clk)
    for port, by_step in VECTORS["counters"].items():
        found = getattr(dut, port).value.to_unsigned()
        assert found == by_step[steps - 1], f"{port}: found {found}; expected {by_step[steps - 1]}"
    dut._log.info("%d steps compared, %d episodes", steps, VECTORS["counters"]["episodes"][steps - 1])
