"""Values of ports as the simulators take them."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth import signed, unsigned
from amaranth.lib import data
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives.fpga.simulation.ports import pack, unpack


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_packing_is_undone_by_unpacking(data_source: st.DataObject) -> None:
    widths = data_source.draw(st.lists(st.tuples(st.integers(1, 64), st.booleans()), min_size=1, max_size=6))
    shape = data.StructLayout(
        {f"f{i}": signed(width) if sign else unsigned(width) for i, (width, sign) in enumerate(widths)}
    )
    values: dict[str, Any] = {}
    for i, (width, sign) in enumerate(widths):
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if sign else (0, 2**width - 1)
        numbers = data_source.draw(st.lists(st.integers(low, high), min_size=3, max_size=3))
        values[f"f{i}"] = np.array(numbers, np.int64 if sign or width < 64 else np.uint64)
    found = unpack(shape, pack(shape, values))
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in values.items()}
