"""The timer of the compute unit against the unit itself, and against the closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.cycles.gemm import core_cycles
from placerl.primitives.fpga.cycles.layout import plain_stalls, standing_stalls
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, command_fields
from placerl.primitives.fpga.gemm.timer import GemmTimer
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted

SIDE = 3
SIZES = st.integers(1, 11)
KINDS = ({}, {"block_load": True}, {"layout": "plain"}, {"block_load": True, "layout": "plain"})


def timed(
    shapes: list[GemmShape], dataflow: str, transposed_a: bool = False, **kind: object
) -> list[tuple[int, int]]:
    """(cycles, stalls) of each."""
    fields = [command_fields(shape, side=SIDE, dataflow=dataflow) for shape in shapes]
    gemm = {name: np.array([each[name] for each in fields]) for name in fields[0]}
    commands = {"gemm": gemm, "transposed_a": np.full(len(shapes), int(transposed_a))}
    timer = restarted.interpreted(GemmTimer, side=SIDE, **kind)
    found = timer.run({"commands": commands}, {"finished": len(shapes)}).outputs["finished"]
    return list(zip(found["cycles"].tolist(), found["stalls"].tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_timer_counts_the_cycles_of_the_whole_unit(kind: dict[str, object]) -> None:
    shapes = [GemmShape(1, 1, 1), GemmShape(4, 7, 5), GemmShape(9, 3, 1)]
    unit = SimulatedUnit(
        side=SIDE,
        width=4,
        accumulator_width=16,
        accumulator_depth=16,
        operand_blocks=16,
        result_blocks=16,
        start=interpreted,
        **kind,
    )
    for dataflow in DATAFLOWS:
        for transposed in (False, True):
            found = timed(shapes, dataflow, transposed, **kind)
            for shape, (cycles, stalls) in zip(shapes, found, strict=True):
                a, b = np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)
                outcome = unit.multiply(a, b, dataflow=dataflow, transposed_a=transposed)
                assert (cycles, stalls) == (outcome.cycles, outcome.stalls)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.builds(GemmShape, SIZES, SIZES, SIZES), min_size=1, max_size=4),
    st.sampled_from(DATAFLOWS),
    st.sampled_from(KINDS),
)
def test_the_timer_agrees_with_the_closed_forms(
    shapes: list[GemmShape], dataflow: str, kind: dict[str, object]
) -> None:
    """Of products whose A is read across the plain layout: along its columns."""
    options = {"side": SIDE, "dataflow": dataflow}
    block_load = bool(kind.get("block_load"))
    stalled = standing_stalls if block_load else plain_stalls
    for shape, (cycles, stalls) in zip(
        shapes, timed(shapes, dataflow, dataflow == "IS", **kind), strict=True
    ):
        assert stalls == (stalled(shape, **options) if "layout" in kind else 0)
        assert cycles == core_cycles(shape, block_load=block_load, **options) + stalls


def test_what_the_timer_refuses() -> None:
    with pytest.raises(ValueError, match="layout: found 'tiled'; allowed: blocked, plain"):
        GemmTimer(side=2, layout="tiled")
