"""The whole accelerator next to its golden model: complete training steps, bit by bit."""

from copy import deepcopy

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.fixar.accelerator import Fixar, FixarCommand
from placerl.primitives.fpga.fixar.cycles import act_cycles, step_cycles
from placerl.primitives.fpga.fixar.shape import ACTIVATIONS, ONE, FixarShape, benchmark
from placerl.primitives.fpga.simulation.base import SimulationStalledError
from placerl.primitives.fpga.simulation.compiled_library import Library
from placerl.primitives.fpga.vector.random_generator import GENERATORS, MEAN, seeds
from tests.primitives.fpga.fixar.golden import PARTS, GoldenFixar, RawBatch
from tests.primitives.fpga.fixar.simulation import SimulatedFixar, stream_of, words_of
from tests.primitives.fpga.fixar.step_inputs import TINY, batch, settings
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.resettable import Resettable, reset
from tests.primitives.fpga.vector.golden import xorshift_golden

pytestmark = pytest.mark.skipif(
    bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason() or "-"
)


@pytest.fixture(scope="module")
def tiny() -> Library:
    return simulation.built(Fixar(TINY))


def test_weights_are_loaded_while_nothing_goes_on() -> None:
    model = interpreted(Fixar(TINY, datapath=False))
    word = {part: values[:1] for part, values in words_of(GoldenFixar(TINY)).items()}
    model.run({"load": word}, {}, limit_cycles=50)
    model.run({"commands": np.array([FixarCommand.ACT])}, {})  # it waits for the lines of a state
    with pytest.raises(SimulationStalledError):
        model.run({"load": word}, {}, limit_cycles=50)


def compare(model: SimulatedFixar, golden: GoldenFixar) -> None:
    found, wanted = model.dump(), words_of(golden)
    for part in PARTS:
        np.testing.assert_array_equal(found[part], wanted[part], err_msg=part)


@pytest.mark.timeout(300)
def test_steps_with_32_and_then_16_bit_activations_are_the_golden_models(tiny: Library) -> None:
    rng = np.random.default_rng(1)
    golden = GoldenFixar(TINY)
    golden.initialise(rng)
    model = SimulatedFixar(tiny.start(), TINY)
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
        assert model.simulation.read("cycles") == act_cycles(TINY)
    for network, before in zip(golden.layers, start, strict=True):
        for layer, old in zip(network, before, strict=True):
            assert (layer["weights"] != old).any(1).mean() > 0.5
            assert (layer["targets"] != layer["weights"]).any()
    found = [int(shift) for shift in model.simulation.read("shifts")]
    assert found == [golden.shift(scale) for scale in range(5)]


@pytest.mark.timeout(300)
def test_adam_alongside_the_next_loop_gives_the_golden_models_weights(tiny: Library) -> None:
    rng = np.random.default_rng(7)
    golden = GoldenFixar(TINY)
    golden.initialise(rng)
    model = SimulatedFixar(tiny.start(), TINY)
    model.load(golden)
    # Steps follow each other at once: the actor's update goes on in the next step's first loop.
    for step, overlap in enumerate((True, True, False, True, True, True), 1):
        if step == 4:
            model.quantise()
            golden.halves = True
        golden.overlap = overlap
        model.overlap(overlap)
        samples = batch(rng, TINY, 4)
        errors, cycles = model.train(samples, settings(step, 4))
        np.testing.assert_array_equal(errors, golden.step(samples, settings(step, 4)), err_msg=f"step {step}")
        parts = step_cycles(TINY, 4, halves=golden.halves, overlap=overlap)
        assert cycles == sum(parts.values())
        assert parts["adam"] == 2 or not overlap
    state = rng.integers(-(2**18), 2**18, TINY.state)
    np.testing.assert_array_equal(model.act(state), golden.act(state[None])[0])
    compare(model, golden)
    # New weights are those of both copies.
    golden.initialise(rng)
    golden.older = []
    model.load(golden)
    samples = batch(rng, TINY, 4)
    np.testing.assert_array_equal(
        model.train(samples, settings(7, 4))[0], golden.step(samples, settings(7, 4))
    )
    compare(model, golden)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
def test_numbers_at_the_ends_of_their_formats_are_limited_as_in_the_golden_model(
    seed: int, tiny: Library
) -> None:
    rng = np.random.default_rng(seed)

    def wide(*sizes: int) -> np.ndarray:
        """Return 32-bit numbers of every size, a tenth of them at an end of the format."""
        drawn = rng.integers(-(1 << 31), 1 << 31, sizes) >> rng.integers(0, 31, sizes)
        return np.where(rng.random(sizes) < 0.1, rng.choice([-(1 << 31), (1 << 31) - 1], sizes), drawn)

    golden = GoldenFixar(TINY)
    for network in golden.layers:
        for layer in network:
            layer["weights"], layer["targets"] = wide(*layer["weights"].shape), wide(*layer["weights"].shape)
    model = SimulatedFixar(tiny.start(), TINY)
    model.load(golden)
    for halves in (False, True):
        if halves:
            model.quantise()
            golden.halves = True
        samples = batch(rng, TINY, 4)
        samples.state, samples.next_state, samples.reward = wide(4, 5), wide(4, 5), wide(4)
        errors, _ = model.train(samples, settings(1, 4))
        wanted = golden.step(samples, settings(1, 4))
        np.testing.assert_array_equal(errors, wanted)
        compare(model, golden)
    limits = {-(1 << 31), (1 << 31) - 1}
    assert limits & {
        int(x) for network in golden.layers for layer in network for x in layer["weights"].ravel()
    }


@pytest.mark.timeout(300)
def test_an_action_with_noise_is_that_of_the_generators(tiny: Library) -> None:
    rng = np.random.default_rng(4)
    golden = GoldenFixar(TINY)
    golden.initialise(rng)
    model = SimulatedFixar(tiny.start(), TINY)
    model.load(golden)
    draws = 20
    words = np.array([xorshift_golden(state, 2 * draws) for state in seeds(0, GENERATORS)])
    noise = ((words & 0xFFFF).sum(0) + (words >> 16).sum(0) - MEAN).reshape(draws, 2)
    limited = 0
    for number, deviation in enumerate(rng.integers(0, 1 << 17, draws)):
        state = rng.integers(-(2**18), 2**18, TINY.state)
        wanted = golden.act(state[None])[0] + ((deviation * noise[number] + (1 << 15)) >> 16)
        limited += int((np.abs(wanted) > 2**16).sum())
        np.testing.assert_array_equal(
            model.act(state, int(deviation)), np.clip(wanted, -(2**16), 2**16), err_msg=str(number)
        )
    assert 0 < limited < 2 * draws


def test_a_batch_that_does_not_fill_its_groups_is_refused(tiny: Library) -> None:
    model = SimulatedFixar(tiny.start(), TINY)
    model.quantise()
    with pytest.raises(ValueError, match=r"^batch: found 3; allowed: a positive multiple of 4"):
        model.train(batch(np.random.default_rng(0), TINY, 3), settings(1, 3))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_step_after_a_reset_within_a_step_is_as_the_first() -> None:
    shape = FixarShape(state=3, action=1, hidden=(3, 3), side=4)
    rng = np.random.default_rng(6)
    golden = GoldenFixar(shape)
    golden.initialise(rng)
    samples = batch(rng, shape, 4)
    model = SimulatedFixar(interpreted(Resettable(Fixar(shape))), shape)
    for _ in range(2):
        model.load(golden)
        stepped = deepcopy(golden)
        errors, _ = model.train(samples, settings(1, 4))
        np.testing.assert_array_equal(errors, stepped.step(samples, settings(1, 4)))
        compare(model, stepped)
        # The reset comes when the first group's gradients have been added, and before Adam. A sample has four lines.
        lines = stream_of(samples, shape, halves=False)[:8]
        model.simulation.run({"commands": np.array([FixarCommand.TRAIN]), "samples": lines}, {"errors": 2})
        assert model.simulation.read("busy")
        reset(model.simulation)
        assert not model.simulation.read("busy")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)  # most of it builds the simulation
def test_halfcheetah_trains_on_the_accelerator_with_the_golden_models_bits() -> None:
    """The accelerator's actions move HalfCheetah, and the transitions train it, at the published sizes."""
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("mujoco")
    shape, size, steps = benchmark("halfcheetah"), 8, 4
    golden, rng = GoldenFixar(shape), np.random.default_rng(0)
    golden.initialise(rng)
    model = SimulatedFixar(simulation.compiled(Fixar(shape)), shape)
    model.load(golden)
    environment = gymnasium.make("HalfCheetah-v5")
    state, _ = environment.reset(seed=0)
    actions, transitions = [], []
    for step in range(1, steps + 1):
        if step == steps // 2 + 1:
            model.quantise()
            golden.halves = True
        for _ in range(size):
            raw = ACTIVATIONS.from_float(state).raw.astype(np.int64)
            action = model.act(raw)
            np.testing.assert_array_equal(action, golden.act(raw[None])[0])
            actions.append(action)
            state, reward, *_ = environment.step(action / ONE)
            outcome = ACTIVATIONS.from_float(np.array([reward, *state])).raw.astype(np.int64)
            transitions.append(np.concatenate([raw, action, outcome]))
        drawn = np.array(transitions)[rng.choice(len(transitions), size, replace=False)]
        before, action, reward, after = np.split(drawn, np.cumsum([shape.state, shape.action, 1]), axis=1)
        discount, weight = np.full(size, round(0.99 * 2**30)), np.full(size, round(2 / size * 2**30))
        samples = RawBatch(before, action, reward[:, 0], after, discount, weight)
        errors, cycles = model.train(samples, settings(step, size))
        np.testing.assert_array_equal(errors, golden.step(samples, settings(step, size)))
        assert cycles == sum(step_cycles(shape, size, halves=golden.halves).values())
        compare(model, golden)
    assert len(np.unique(actions, axis=0)) == len(actions), "the environment and the training change them"
