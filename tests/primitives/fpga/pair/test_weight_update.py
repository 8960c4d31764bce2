"""The adder array of two compute units against its golden model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.pair.weight_update import WeightUpdate
from tests.primitives.fpga import restarted
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.pair.golden import update_golden

SIDE, BITS = 3, 8


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=5, deadline=None)
@given(count=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_rows_of_weights(shared: bool, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, gradients = rng.integers(-128, 128, (2, count, 2, SIDE))
    model = restarted.interpreted(WeightUpdate, side=SIDE, width=BITS)
    model.write("shared", int(shared))
    rows = {"weights": weights, "gradients": gradients}
    run = model.run({"rows": rows}, {"updated": count})
    for found, w, g in zip(run.outputs["updated"], weights.tolist(), gradients.tolist(), strict=True):
        assert found.tolist() == [list(row) for row in update_golden(shared, w, g, BITS)]
    assert (np.diff(run.output_cycles["updated"]) == 1).all()
    assert run.output_cycles["updated"][0] == run.input_cycles["rows"][0] + 1


def test_two_units_with_half_a_batch_each_update_as_one_with_all() -> None:
    """Data through both units and the adders: the halves' gradients added up are the gradient of the whole batch."""
    unit = SimulatedUnit(side=SIDE, width=16, operand_blocks=4, result_blocks=4, start=interpreted)
    rng = np.random.default_rng(0)
    inputs, errors, weights = (rng.integers(-3, 4, (n, SIDE)) for n in (8, 8, SIDE))
    halves = [
        unit.multiply(inputs[half].T, errors[half], transposed_a=True).product
        for half in (slice(0, 4), slice(4, 8))
    ]
    other = rng.integers(-3, 4, (SIDE, SIDE))
    model = interpreted(WeightUpdate(side=SIDE, width=16))
    model.write("shared", 1)
    rows = {"weights": np.stack([weights, other], axis=1), "gradients": np.stack(halves, axis=1)}
    updated = model.run({"rows": rows}, {"updated": SIDE}).outputs["updated"]
    np.testing.assert_array_equal(updated[:, 0], weights + inputs.T @ errors)
    np.testing.assert_array_equal(updated[:, 1], other)
