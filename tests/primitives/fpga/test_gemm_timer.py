import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga import simulation
from primitives.fpga.cycles.gemm import core_cycles
from primitives.fpga.gemm_plan import DATAFLOWS, GemmShape
from primitives.fpga.gemm_simulation import SimulatedGemm
from primitives.fpga.gemm_timer import GemmTimer, command_fields

SIDE = 3
SIZES = st.integers(1, 11)


def timed(shapes: list[GemmShape], dataflow: str) -> list[int]:
    fields = [command_fields(shape, side=SIDE, dataflow=dataflow) for shape in shapes]
    commands = {name: np.array([each[name] for each in fields]) for name in fields[0]}
    run = simulation.interpreted(GemmTimer(side=SIDE)).run({"commands": commands}, {"cycles": len(shapes)})
    return [int(cycles) for cycles in run.outputs["cycles"]]


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_the_timer_counts_the_cycles_of_the_whole_core(dataflow: str) -> None:
    shapes = [GemmShape(1, 1, 1), GemmShape(4, 7, 5), GemmShape(3, 2, 8), GemmShape(9, 3, 1)]
    core = SimulatedGemm(side=SIDE, width=4, accumulator_width=16)
    assert timed(shapes, dataflow) == [core.cycles(shape, dataflow=dataflow) for shape in shapes]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.builds(GemmShape, SIZES, SIZES, SIZES), min_size=1, max_size=4), st.sampled_from(DATAFLOWS)
)
def test_the_timer_agrees_with_the_cores_closed_form(shapes: list[GemmShape], dataflow: str) -> None:
    assert timed(shapes, dataflow) == [core_cycles(shape, side=SIDE, dataflow=dataflow) for shape in shapes]
