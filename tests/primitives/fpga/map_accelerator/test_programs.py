"""The stream programs of MAP's accelerator against the formulas that they stand for."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.map_accelerator.programs import (
    corrections_program,
    priority_program,
    weight_program,
)
from placerl.primitives.replay.prioritized import importance_weights


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_replay(beta: float) -> None:
    raw = np.random.default_rng(0).integers(1, 1 << 31, 200)
    expected = importance_weights(raw.astype(np.float64), float(raw.sum()), 200, beta)
    smallest = np.full_like(raw, raw.min())
    (found,) = weight_program().golden([raw, smallest, np.full(200, beta, np.float32)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_priorities_are_those_of_the_replay() -> None:
    td = np.random.default_rng(0).normal(size=200).astype(np.float32)
    scalars = [np.full(200, value, np.float32) for value in (0.01, 0.6)]
    (found,) = priority_program().golden([td, *scalars])
    np.testing.assert_allclose(found, (np.abs(td) + 0.01) ** 0.6, rtol=1e-5)


def test_corrections_are_adams_at_every_step() -> None:
    powers = [np.float32(0), np.float32(0)]
    for step in range(1, 300):
        *powers, rate, root = corrections_program().golden([*powers, np.float32(1e-3)])
        np.testing.assert_allclose([rate, root], corrections(1e-3, step), rtol=2e-6)
