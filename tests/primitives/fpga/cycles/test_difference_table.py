"""Every case of the table is explained to the cycle, and is what a simulation gives."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import difference_table
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.gemm.plan import GemmShape
from tests.primitives.fpga.cycles import differences

SHAPES = (GemmShape(4, 4, 4), GemmShape(5, 3, 1))
CONVOLUTIONS = ((Convolution(1, 5, 5, (2, 2), 2, 1, 2), 3),)
BEHIND = "change the table with: python -m tests.primitives.fpga.cycles.differences"


def test_reasons_add_up_to_every_difference() -> None:
    simulated = [
        *differences.core_differences(SHAPES, side=2),
        *differences.layout_differences(SHAPES, side=2),
        *differences.float32_layout_differences(SHAPES, side=2),
        *differences.convolution_differences(CONVOLUTIONS, side=2, windows=8),
    ]
    assert len(simulated) == 2 * (6 + 3 + 3) + 3
    rows = [*simulated, *difference_table.committed()]
    assert [row.cells() for row in rows if not row.explained] == []
    assert not any("not explained" in cell for row in rows for cell in row.cells())


def test_small_rows_are_those_of_a_simulation() -> None:
    shape, convolution = differences.SHAPES[2], differences.CONVOLUTIONS[1]
    simulated = [
        *differences.core_differences([shape]),
        *differences.layout_differences([shape]),
        *differences.float32_layout_differences([shape]),
        *differences.convolution_differences([convolution]),
    ]
    assert [row for row in simulated if row not in difference_table.committed()] == [], BEHIND


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)  # builds dozens of simulations with the C++ compiler
@pytest.mark.skipif(bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason())
def test_every_row_is_that_of_a_simulation() -> None:
    assert [*differences.small_cases(), *differences.large_cases()] == difference_table.committed(), BEHIND


def test_what_is_not_explained_is_marked() -> None:
    row = difference_table.CycleDifference("core", "1 x 1 x 1", 10, 12, {"fill": 1})
    assert row.difference_cycles == 2
    assert row.cells() == ("core", "1 x 1 x 1", "10", "12", "+2", "fill +1 **not explained**")
    assert len(row.cells()) == len(difference_table.COLUMNS)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
@pytest.mark.skipif(bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason())
def test_every_batch_on_the_replay_pipeline_is_explained() -> None:
    rows = list(differences.replay_differences([(4, 16, 1)], [5]))
    found = [
        (row.block, row.formula_cycles, row.simulated_cycles, row.reasons["fill and drain"]) for row in rows
    ]
    assert found == [
        ("replay pipeline, wide, sample", 5, 23, 18),
        ("replay pipeline, wide, update", 5, 23, 18),
        ("replay pipeline, narrow, sample", 20, 35, 15),
        ("replay pipeline, narrow, update", 5, 17, 12),
    ]
    assert all(row.explained and row.case == "B = 5, K = 4, depth 2, S = 1" for row in rows)
