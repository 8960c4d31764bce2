"""MAP's accelerator after a reset within a run: the next run is as the first, bit by bit, and as the golden model's."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga import simulation
from primitives.fpga.map_accelerator.accelerator import MapAccelerator
from primitives.fpga.map_accelerator.golden import GoldenAccelerator, StepHyperparameters
from primitives.fpga.map_accelerator.settings import NETWORKS, AcceleratorSettings, layers_of
from primitives.fpga.map_accelerator.simulation import AcceleratorHost
from tests.primitives.fpga.map_accelerator.accelerator_cases import first_weights, transitions
from tests.primitives.fpga.resettable import Resettable, reset

HYPER = StepHyperparameters(learning_rate=1e-2, tau=0.1, epsilon=0.01)
BATCH, STORED = 8, 12


@pytest.mark.parametrize("banks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_run_after_a_reset_is_as_the_first(banks: int) -> None:
    settings = AcceleratorSettings(
        layers_of(NETWORKS["small"], 1), largest_batch=8, levels=2, banks=banks, pipelines=banks
    )
    rng = np.random.default_rng(banks)
    weights, stored = first_weights(settings, rng), transitions(settings, STORED, rng)
    priorities = rng.integers(1, 1 << 18, STORED)
    model = GoldenAccelerator(settings, weights)
    model.insert(stored, priorities)
    for _ in range(2):
        model.step(BATCH, HYPER)
    host = AcceleratorHost(simulation.interpreted(Resettable(MapAccelerator(settings))), settings)
    for _ in range(2):
        host.load(weights)
        host.insert(stored, priorities)
        host.simulation.step(20)
        host.configure(BATCH, HYPER)
        host.run(2)
        for found, layer in zip(host.weights(), model.layers, strict=True):
            np.testing.assert_array_equal(found.view(np.uint32), layer.weight.view(np.uint32))
        # The reset comes within a step, when gradients of some samples are added and the tree has requests.
        host.registers.write(steps=2, control=1)
        host.simulation.step(150)
        assert host.registers.read("status") == 1
        reset(host.simulation)
        assert host.registers.read("stored") == host.registers.read("status") == 0
