"""The update unit with a target network against its golden program."""

import numpy as np
import pytest
import torch

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.algorithms.updates import PURE, AdamState
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.learner_pipeline.update_unit import (
    UpdateUnit,
    adam_latency,
    corrections,
    target_latency,
    target_program,
)
from tests.primitives.fpga.interpreter import interpreted


@pytest.mark.parametrize("copy", [0, 1])
def test_the_target_program_is_adam_and_polyak(copy: int) -> None:
    rng = np.random.default_rng(0)
    summed, weight, mean, square, target = rng.uniform(-1, 1, (5, 50)).astype(np.float32)
    square = np.abs(square)
    rate, root = corrections(1e-2, 3)
    tau, batch_size = 0.25, 8
    scalars = [np.float32(value) for value in (rate, root, 1 / batch_size, tau)]
    found = target_program().golden([summed, weight, mean, square, target, *scalars, np.asarray(bool(copy))])
    before = {"w": torch.from_numpy(weight)}
    moments = AdamState(torch.tensor(2.0), {"w": torch.from_numpy(mean)}, {"w": torch.from_numpy(square)})
    new, adam = PURE.adam(before, {"w": torch.from_numpy(summed / batch_size)}, moments, 1e-2)
    moved = PURE.polyak({"w": torch.from_numpy(target)}, new, 1.0 if copy else tau)
    for ours, theirs in zip(found, (new, adam.mean, adam.square, moved), strict=True):
        np.testing.assert_allclose(ours, theirs["w"].numpy(), rtol=1e-5, atol=1e-6)


def test_the_unit_reads_back_what_was_loaded() -> None:
    layer = LayerShape(2, 1, 1)
    unit = interpreted(UpdateUnit(layer, pipelines=1, batch_size=None))
    words = np.arange(1, 1 + layer.words, dtype=np.float32).reshape(layer.words, 1).view(np.uint32)
    unit.run({"load": {"address": np.arange(layer.words), "weights": words}}, {})
    unit.write("read", 1)
    for target in (0, 1):
        unit.write("read_target", target)
        for address in range(layer.words):
            unit.write("read_address", address)
            unit.step(2)
            np.testing.assert_array_equal(unit.read("read_data"), words[address])


def test_the_target_network_takes_its_time_after_adam() -> None:
    assert target_latency() == adam_latency(8) + 10  # subtract, multiply, add: 3 cycles each; select: 1
