"""The replay manager in its RTL: it samples, weighs and updates as the golden model of the accelerator."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.host import float_word
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION
from placerl.primitives.fpga.map_accelerator.programs import priority_program, weight_program
from placerl.primitives.fpga.map_accelerator.replay_manager import ReplayManager, layout_of
from placerl.primitives.fpga.map_accelerator.settings import (
    NETWORKS,
    PRIORITY,
    AcceleratorSettings,
    layers_of,
)
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.map_accelerator.accelerator_cases import first_weights, transitions
from tests.primitives.fpga.map_accelerator.golden import GoldenAccelerator

ALPHA, BETA, EPSILON = 0.6, 0.4, 0.01


@pytest.mark.parametrize(("banks", "leaves"), [(1, 0), (4, 0), (1, 7), (2, 5)])
def test_two_batches_are_the_golden_models(banks: int, leaves: int) -> None:
    settings = AcceleratorSettings(
        layers_of(NETWORKS["small"], 1), banks=banks, fanout=2, levels=3, leaves=leaves, seed=3
    )
    rng = np.random.default_rng(banks)
    model = GoldenAccelerator(settings, first_weights(settings, rng))
    manager, manager_layout = interpreted(ReplayManager(settings)), layout_of(settings)
    stored = 12  # more than the capacity of some: the first ones are then replaced
    priorities = rng.integers(1, 1 << 20, stored)
    model.insert(transitions(settings, stored, rng), priorities)
    manager.run({"inserts": priorities}, {})
    manager.step(30)
    for name, value in (("alpha", ALPHA), ("beta", BETA), ("epsilon", EPSILON)):
        manager.write(name, float_word(value))
    for batch in (8, 5):
        manager.write("batch", batch)
        assert manager.read("settled") == 1
        assert manager.read("total") == model.priorities.sum()
        pulse(manager, "draw")
        manager.step(60)
        assert manager.read("drawn") == 1
        pulse(manager, "serve")
        items = manager.run({}, {"items": batch}).outputs["items"]
        leaves = manager_layout.leaf_of(np.asarray(items["path"]))
        np.testing.assert_array_equal(np.sort(leaves), np.sort(model._sample(batch)))
        before = model.priorities[leaves]
        lowest = np.full_like(before, before.min())
        (weights,) = weight_program().golden([before, lowest, np.full(batch, BETA, np.float32)])
        np.testing.assert_array_equal(items["weight"], FRACTION.from_float(weights).raw)

        td_of_leaf = FORMAT.from_float(rng.normal(size=settings.capacity)).raw
        tds = td_of_leaf[leaves]
        assert manager.read("updated") == 0
        manager.run({"tds": tds}, {})
        manager.step(120)
        assert manager.read("updated") == 1
        real = golden.from_fixed(tds.astype(np.int64), FORMAT.fraction_bits)
        scalars = [np.full(batch, value, np.float32) for value in (EPSILON, ALPHA)]
        (new,) = priority_program().golden([real, *scalars])
        model.priorities[leaves] = np.maximum(PRIORITY.from_float(new).raw, 1)


def pulse(manager: simulation.Simulation, name: str) -> None:
    """Set an input for one cycle."""
    manager.write(name, 1)
    manager.step()
    manager.write(name, 0)
