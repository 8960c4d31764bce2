"""Training steps on the simulated accelerator and on its golden model, with data, for several tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import clip_scale
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from tests.primitives.fpga.gemm.float_golden import Floats
from tests.primitives.fpga.ppo_accelerator.golden import ForwardPass, GoldenNetwork
from tests.primitives.fpga.ppo_accelerator.simulation import SimulatedAccelerator


def assert_same_bits(found: Floats, expected: Floats) -> None:
    """Compare float32 numbers bit by bit."""
    np.testing.assert_array_equal(found.view(np.uint32), np.ascontiguousarray(expected).view(np.uint32))


@dataclass
class Trained:
    """A network on the accelerator and its golden model, with the last mini-batch.

    Attributes:
        number: 0 or 1.
        golden: the golden model.
        rate: Adam's step size.
        shared: whether both units train it; then the mini-batch has a half for each.
        inputs: samples of each unit, (n_0, M).
        passes: the golden model's forward pass of each unit.
    """

    number: int
    golden: GoldenNetwork
    rate: float
    shared: bool = False
    inputs: list[Floats] = field(default_factory=list)
    passes: list[ForwardPass] = field(default_factory=list)

    @property
    def units(self) -> tuple[int, ...]:
        """The units that work for it; its own is the first."""
        return (self.number, 1 - self.number) if self.shared else (self.number,)


def random_weights(rng: np.random.Generator, program: NetworkProgram) -> list[Floats]:
    """Return W_1 to W_L with biases."""
    sizes = [(program.sizes[layer], program.sizes[layer - 1] + 1) for layer in program.layers]
    return [rng.standard_normal(size).astype(np.float32) / np.float32(np.sqrt(size[1])) for size in sizes]


def check_step(
    host: SimulatedAccelerator,
    networks: Sequence[Trained],
    rng: np.random.Generator,
    step: int,
    clip: float | None = None,
) -> tuple[dict[int, int], dict[int, int]]:
    """Do one training step of networks at the same time, and compare it with the golden models bit by bit.

    Args:
        clip: the norm that gradients are clipped to.

    Returns:
        The cycles of the forward pass and of the rest, by network.
    """
    numbers, shared = [each.number for each in networks], networks[0].shared
    for each in networks:
        program = each.golden.program
        each.inputs = [
            rng.standard_normal((program.sizes[0], program.batch)).astype(np.float32) for _ in each.units
        ]
        for unit, inputs in zip(each.units, each.inputs, strict=True):
            host.write_inputs(unit, program, inputs)
        each.passes = [each.golden.forward(inputs) for inputs in each.inputs]
    outputs, forward_cycles = host.forward(*numbers, shared=shared)
    parts: dict[int, Floats] = {}
    by_unit = dict(zip((0, 1) if shared else numbers, outputs, strict=True))
    for each in networks:
        program, gradients = each.golden.program, []
        for unit, passed in zip(each.units, each.passes, strict=True):
            assert_same_bits(by_unit[unit], passed.output)
            deltas = rng.standard_normal(passed.output.shape).astype(np.float32) / program.batch
            host.write_deltas(unit, program, deltas)
            gradients.append(each.golden.gradients(passed, deltas))
        scale = None
        if clip is not None:
            parts[each.number] = each.golden.norm_parts(gradients)
            scale = clip_scale(parts[each.number], clip)
        each.golden.update(gradients, *corrections(each.rate, step), scale)
    rates = [each.rate for each in networks]
    cycles = host.train(*numbers, learning_rates=rates, step=step, shared=shared, clip=clip)
    for number, expected in parts.items():
        assert host.norm_parts(number) == expected.tolist()
    for each in networks:
        for found, expected in zip(host.weights(each.number), each.golden.weights, strict=True):
            assert_same_bits(found, expected)
    return forward_cycles, cycles
