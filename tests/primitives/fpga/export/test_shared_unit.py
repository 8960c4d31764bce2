"""A shared unit works as the unit that it wraps, and an export has its module once."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Module
from amaranth.lib import wiring

from placerl.primitives.fpga.export import toolchain, verilog
from placerl.primitives.fpga.export.shared_unit import SharedUnit
from placerl.primitives.fpga.vector.reduce_unit import ReduceUnit
from tests.primitives.fpga.gemm.float_golden import floats
from tests.primitives.fpga.interpreter import interpreted


def largest(lanes: int) -> ReduceUnit:
    return ReduceUnit("max", lanes=lanes)


UNIT = SharedUnit(largest, lanes=1)


class Two(wiring.Component):
    """Two equal units."""

    def __init__(self) -> None:
        signature = UNIT.signature.members
        members = {name: signature[name] for name in ("items", "results")}
        super().__init__({f"{name}_{n}": member for n in range(2) for name, member in members.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number in range(2):
            m.submodules[f"unit_{number}"] = unit = SharedUnit(largest, lanes=1)
            wiring.connect(m, wiring.flipped(getattr(self, f"items_{number}")), unit.items)
            wiring.connect(m, unit.results, wiring.flipped(getattr(self, f"results_{number}")))
        return m


def test_the_wrapped_unit_gives_its_results() -> None:
    numbers = np.array([[1.5], [-2.0], [7.0]], np.float32)
    items = {
        "numbers": numbers.view(np.uint32),
        "count": np.ones(3, np.int64),
        "last": np.array([0, 0, 1]),
        "scale": np.zeros(3, np.int64),
    }
    run = interpreted(UNIT).run({"items": items}, {"results": 1})
    assert floats(run.outputs["results"]) == 7


@pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)
def test_an_export_has_its_module_once() -> None:
    text = verilog.export(Two())
    assert text.count("module largest_lanes1(") == 1
    assert "largest_lanes1 shared (" in text
