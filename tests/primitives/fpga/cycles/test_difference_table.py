"""Every simulated case of the table is explained to the cycle."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import difference_table
from placerl.primitives.fpga.gemm.plan import GemmShape

SHAPES = (GemmShape(4, 4, 4), GemmShape(5, 3, 1))
CONVOLUTIONS = ((Convolution(1, 5, 5, (2, 2), 2, 1, 2), 3),)


def test_reasons_add_up_to_every_difference() -> None:
    rows = [
        *difference_table.core_differences(SHAPES, side=2),
        *difference_table.layout_differences(SHAPES, side=2),
        *difference_table.array_differences(SHAPES, side=2),
        *difference_table.convolution_differences(CONVOLUTIONS, side=2, windows=8),
    ]
    assert len(rows) == 2 * (6 + 3 + 2) + 3
    assert [row.cells() for row in rows if not row.explained] == []
    assert not any("not explained" in cell for row in rows for cell in row.cells())


def test_what_is_not_explained_is_marked() -> None:
    row = difference_table.CycleDifference("core", "1 x 1 x 1", 10, 12, {"fill": 1})
    assert row.difference_cycles == 2
    assert row.cells() == ("core", "1 x 1 x 1", "10", "12", "+2", "fill +1 **not explained**")
    assert len(row.cells()) == len(difference_table.COLUMNS)
