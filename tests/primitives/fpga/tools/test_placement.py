"""Blocks on an ECP5: the shift registers around them, and what is committed."""

from typing import Any

import pytest

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.tools import placement, resources
from placerl.primitives.fpga.tools.placement import SUBJECTS


def test_every_port_lies_in_a_shift_register() -> None:
    text = placement.harness_verilog([("a", 3, True), ("sum", 5, False), ("b", 1, True)])
    for wanted in (
        r".\a (given[2:0])",
        r".\b (given[3:3])",
        r".\sum (got[4:0])",
        "reg [4:0] given",
        "reg [5:0] held",
        "given <= {given[3:0], serial_in}",
        "assign got[5] = 1'b0",
    ):
        assert wanted in text


def test_a_combinational_block_gets_no_clock() -> None:
    text = placement.harness_verilog([("a", 3, True), ("b", 1, False)], clocked=False)
    assert ".clk" not in text
    assert ".\\b (got[0:0])\n  );" in text


def test_every_placement_is_of_a_subject_and_states_a_clock_and_what_it_takes() -> None:
    known = list(placement.committed())
    assert known == [name for name in SUBJECTS if name in known]
    assert placement.unplaced() == [name for name in SUBJECTS if name not in known]
    for found in placement.committed().values():
        assert 10 < found.clock_mhz < 600
        assert found.speed_grade in placement.SPEED_GRADES
        assert found.used["TRELLIS_FF"] > 0
        assert set(found.tools) == set(placement.PACKAGES)


def test_the_slowest_path_is_named_and_divided() -> None:
    def part(kind: str, delay: float, begin: str, end: str) -> dict[str, Any]:
        return {"type": kind, "delay": delay, "from": {"cell": begin}, "to": {"cell": end}}

    path = [
        part("clk-to-q", 0.5, "block.a.x_TRELLIS_FF_Q", "block.a.x_TRELLIS_FF_Q"),
        part("routing", 1.25, "block.a.x_TRELLIS_FF_Q", "block.sum_LUT4_Z_1"),
        part("logic", 0.25, "block.sum_LUT4_Z_1", "block.sum_LUT4_Z_1"),
        part("routing", 1.0, "block.sum_LUT4_Z_1", "block.y_TRELLIS_FF_Q_3"),
        part("setup", 0.25, "block.y_TRELLIS_FF_Q_3", "block.y_TRELLIS_FF_Q_3"),
    ]
    report = {
        "critical_paths": [
            {"from": "<async>", "to": "posedge clk", "path": []},
            {"from": "posedge clk", "to": "posedge clk", "path": path},
        ]
    }
    assert placement.slowest_path(report) == "a.x to y: 1.0 ns in cells, 2.2 ns in wires"


def test_a_subject_has_the_ports_between_the_shift_registers() -> None:
    for name in ("gemm-core float32=true side=2", "fixar-core", "fixar-scalar-unit", "fixar-adam-lane"):
        ports = placement._ports(SUBJECTS[name].make())
        assert {inwards for _, _, inwards in ports} == {True, False}, name
        assert all(width > 0 for _, width, _ in ports), name


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["processing-element width=32", "layout-transform"])
def test_the_committed_placement_is_that_of_the_block_as_it_is(name: str) -> None:
    if reason := resources.unavailable_reason():
        pytest.skip(reason)
    key = resources.verilog_key(verilog.export(SUBJECTS[name].make()))
    assert placement.committed()[name].verilog == key, "python -m placerl.primitives.fpga.tools.placement"
