"""The whole accelerator next to its golden model: complete training steps, bit by bit."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from primitives.fpga import simulation
from primitives.fpga.fixar.accelerator import Fixar
from primitives.fpga.fixar.adam import corrections
from primitives.fpga.fixar.cycles import step_cycles
from primitives.fpga.fixar.golden import PARTS, GoldenFixar, RawBatch, UpdateSettings
from primitives.fpga.fixar.shape import FixarShape, benchmark
from primitives.fpga.fixar.simulation import SimulatedFixar, words_of

pytestmark = pytest.mark.skipif(
    bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason() or "-"
)

# Layers with one, two and three blocks across, with biases inside a block and in one of their own.
TINY = FixarShape(state=5, action=2, hidden=(8, 6), side=4)


def batch(rng: np.random.Generator, shape: FixarShape, size: int) -> RawBatch:
    def numbers(*sizes: int, scale: float = 1.0) -> np.ndarray:
        return np.round(rng.normal(0, scale, sizes) * 2**16).astype(np.int64)

    return RawBatch(
        state=numbers(size, shape.state, scale=2),
        action=np.clip(numbers(size, shape.action), -(2**16), 2**16),
        reward=numbers(size),
        next_state=numbers(size, shape.state, scale=2),
        discount=np.round(0.99 * 2**30 * (rng.random(size) > 0.2)).astype(np.int64),
        weight=np.round(rng.uniform(0.5, 1, size) * 2 / size * 2**30).astype(np.int64),
    )


def settings(step: int, size: int) -> UpdateSettings:
    critic_rate, epsilon = corrections(1e-3, step)
    actor_rate, _ = corrections(1e-4, step)
    return UpdateSettings(critic_rate, actor_rate, epsilon, 328, -round(2**24 / size))


def compare(model: SimulatedFixar, golden: GoldenFixar) -> None:
    found, wanted = model.dump(), words_of(golden)
    for part in PARTS:
        np.testing.assert_array_equal(found[part], wanted[part], err_msg=part)


@pytest.mark.timeout(300)
def test_steps_with_32_and_then_16_bit_activations_are_the_golden_models() -> None:
    rng = np.random.default_rng(1)
    golden = GoldenFixar(TINY)
    golden.initialise(rng)
    model = SimulatedFixar(simulation.compiled(Fixar(TINY)), TINY)
    model.load(golden)
    compare(model, golden)
    start = [[layer["weights"].copy() for layer in network] for network in golden.layers]
    for step in range(1, 7):
        if step == 4:
            model.quantise()
            golden.halves = True
        samples = batch(rng, TINY, 4)
        errors, cycles = model.train(samples, settings(step, 4))
        np.testing.assert_array_equal(errors, golden.step(samples, settings(step, 4)), err_msg=f"step {step}")
        compare(model, golden)
        assert cycles == sum(step_cycles(TINY, 4, halves=golden.halves).values())
        state = rng.integers(-(2**18), 2**18, TINY.state)
        np.testing.assert_array_equal(model.act(state), golden.act(state[None])[0])
    for network, before in zip(golden.layers, start, strict=True):
        for layer, old in zip(network, before, strict=True):
            assert (layer["weights"] != old).any(1).mean() > 0.5
            assert (layer["targets"] != layer["weights"]).any()
    found = [int(shift) for shift in model.simulation.read("shifts")]
    assert found == [golden.shift(scale) for scale in range(5)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_halfcheetah_takes_a_step_in_each_mode_with_data() -> None:
    shape = benchmark("halfcheetah")
    rng = np.random.default_rng(0)
    golden = GoldenFixar(shape)
    golden.initialise(rng)
    model = SimulatedFixar(simulation.compiled(Fixar(shape)), shape)
    model.load(golden)
    for step in (1, 2):
        if step == 2:
            model.quantise()
            golden.halves = True
        samples = batch(rng, shape, 2)
        errors, cycles = model.train(samples, settings(step, 2))
        np.testing.assert_array_equal(errors, golden.step(samples, settings(step, 2)))
        assert cycles == sum(step_cycles(shape, 2, halves=golden.halves).values())
        compare(model, golden)
