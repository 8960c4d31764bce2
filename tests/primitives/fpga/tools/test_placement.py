"""Blocks on an ECP5: the shift registers around them, and what is committed."""

import pytest

from primitives.fpga.export import verilog
from primitives.fpga.tools import placement, resources
from primitives.fpga.tools.placement import SUBJECTS


def test_every_port_lies_in_a_shift_register() -> None:
    text = placement.harness_verilog([("a", 3, True), ("sum", 5, False), ("b", 1, True)])
    for wanted in (
        ".a(given[2:0])",
        ".b(given[3:3])",
        ".sum(got[4:0])",
        "reg [4:0] given",
        "reg [5:0] held",
        "given <= {given[3:0], serial_in}",
        "assign got[5] = 1'b0",
    ):
        assert wanted in text


def test_every_subject_is_committed_with_a_clock_and_what_it_takes() -> None:
    assert list(placement.committed()) == list(SUBJECTS), "python -m primitives.fpga.tools.placement"
    for found in placement.committed().values():
        assert 10 < found.clock_mhz < 600
        assert found.used["TRELLIS_FF"] > 0
        assert set(found.tools) == set(placement.PACKAGES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["processing-element width=32", "layout-transform"])
def test_the_committed_placement_is_that_of_the_block_as_it_is(name: str) -> None:
    if reason := resources.unavailable_reason():
        pytest.skip(reason)
    key = resources.verilog_key(verilog.export(SUBJECTS[name].make()))
    assert placement.committed()[name].verilog == key, "python -m primitives.fpga.tools.placement"
