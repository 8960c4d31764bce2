"""The convolutional accelerator against its golden model, bit by bit, and against its closed form, cycle by cycle."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.convolution.layer_shape import folded
from placerl.primitives.fpga.convolution.program import ImageProgram, ImageRun
from placerl.primitives.fpga.cycles import convolutional_accelerator as model
from placerl.primitives.fpga.cycles.networks import cnn
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import clip_scale
from tests.primitives.fpga.convolution.image_golden import GoldenImages, random_step, random_weights
from tests.primitives.fpga.convolution.image_simulation import SimulatedImages, sizes_for
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.ppo_accelerator.training_step import assert_same_bits

RATE = 1e-2
needs_verilator = pytest.mark.skipif(
    bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason()
)


def check_steps(
    host: SimulatedImages, program: ImageProgram, steps: int, activation: str, clip: float | None = None
) -> None:
    """Train on the accelerator and on its golden model, and compare outputs, weights and cycles after each step.

    Args:
        clip: the norm that gradients are clipped to.
    """
    rng = np.random.default_rng(0)
    golden = GoldenImages.of(program, random_weights(rng, program), activation)
    host.load(program, golden.weights)
    options: dict[str, Any] = {"side": program.side, "activation": activation}
    for step in range(1, steps + 1):
        images, deltas = random_step(rng, program)
        passed = golden.forward(images)
        outputs, cycles = host.forward(images)
        assert_same_bits(outputs, passed.output)
        assert cycles == model.run_cycles(program.forward(), **options).total
        gradients, scale, runs = golden.gradients(passed, deltas), None, [program.training()]
        cycles, parts = host.train(deltas, learning_rate=RATE, step=step, clip=clip)
        if clip is not None:
            assert parts == golden.norm_parts([gradients]).tolist()
            scale = clip_scale(parts, clip)
            assert scale < 1
            *found, update = runs[0].products
            runs = [replace(runs[0], products=found), ImageRun(products=[update])]
        golden.update([gradients], *corrections(RATE, step), scale)
        expected = [model.run_cycles(run, clips=clip is not None, **options).total for run in runs]
        assert cycles == sum(expected)
        for found, expected in zip(host.weights(), golden.weights, strict=True):
            assert_same_bits(found[: len(expected)], expected)
            assert not found[len(expected) :].any()


def test_a_network_trains_bit_by_bit_and_in_the_models_cycles() -> None:
    """Convolutions, the second with a stride, in several bands; the last is that of both heads; with clipping."""
    layers = cnn((3, 3), 2, ((2, 1, 1), (2, 1, 2), (2, 2, 1)), ())
    program = ImageProgram(
        layers, 1, 2, window_blocks=12, delta_blocks=4, dataflows=("IS", "WS"), accumulator_depth=32
    )
    assert len(program.training().products) > 2 * len(layers)
    host = SimulatedImages(sizes_for(program, clips=True), start=interpreted)
    check_steps(host, program, 1, "relu", clip=0.1)


@pytest.mark.slow
@needs_verilator
@pytest.mark.timeout(900)
def test_a_larger_network_trains_in_every_dataflow() -> None:
    layers = cnn((6, 6), 3, ((3, 2, 1), (4, 3, 2), (4, 1, 1)), (5, 3))
    options: dict[str, Any] = {"window_blocks": 240, "delta_blocks": 16, "accumulator_depth": 64}
    programs = [
        ImageProgram(layers, 3, 2, dataflows=dataflows, **options)
        for dataflows in (("NS", "NS"), ("WS", "IS"), ("IS", "WS"))
    ]
    for program in programs:
        check_steps(SimulatedImages(sizes_for(*programs, relu=False)), program, 2, "tanh")


@pytest.mark.slow
@needs_verilator
@pytest.mark.timeout(1800)
def test_pongs_layers_train_bit_by_bit() -> None:
    """NatureCNN with both heads (PPO 5.1), the first layer folded, on a 4 x 4 array with a fraction of its channels."""
    first, *rest = cnn((84, 84), 4, ((4, 8, 4), (8, 4, 2), (8, 3, 1)), (16, 7))
    program = ImageProgram(
        (folded(first), *rest), 1, 4, window_blocks=2200, delta_blocks=128, accumulator_depth=512
    )
    check_steps(SimulatedImages(sizes_for(program)), program, 1, "relu")
