"""Fused gradient steps do exactly what their parts do when called one after the other."""

import numpy as np
import pytest

from placerl.primitives import algorithms, learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.storage import transition_fields
from tests.primitives.learner.fused.replay_and_learner import (
    BATCH,
    CAPACITY,
    ITEMS,
    PRECISIONS,
    SHAPES,
    boolean_observations,
    parts,
    spoil,
)


def apart(replay, made, rng, steps):
    for _ in range(steps):
        sample = replay.sample(BATCH, rng)
        outcome = made.step(sample.batch, sample.weights)
        replay.update_priorities(sample.indices, outcome.td_errors)
    return outcome


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("pieces", [[1] * 12, [12], [5, 1, 6]])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_fused_is_unfused_bit_for_bit(name, precision, pieces):
    replay, made, rng = parts(name, precision=precision)
    outcome = apart(replay, made, rng, 12)
    fused_replay, fused_made, fused_rng = parts(name, precision=precision)
    fused = FusedSteps(fused_replay, fused_made)
    for steps in pieces:
        fused.run(steps, fused_rng)
    assert fused.losses == outcome.losses
    for key, value in made.state_dict().items():
        np.testing.assert_array_equal(fused_made.state_dict()[key], value)
    rows = np.arange(ITEMS)
    np.testing.assert_array_equal(fused_replay.priorities(rows), replay.priorities(rows))
    assert fused_made.gradient_steps == made.gradient_steps == 12
    assert fused_replay.samples_drawn == 12
    assert fused_rng.bit_generator.state == rng.bit_generator.state
    if precision != "float32":
        assert fused_made.saturated == made.saturated
        assert fused_made.quantised == made.quantised == (precision == "dynamic")


def test_parts_and_fused_steps_take_turns():
    replay, made, rng = parts("dqn")
    apart(replay, made, rng, 9)
    fused_replay, fused_made, fused_rng = parts("dqn")
    fused = FusedSteps(fused_replay, fused_made)
    fused.run(4, fused_rng)
    apart(fused_replay, fused_made, fused_rng, 2)
    fused.run(3, fused_rng)
    for key, value in made.parameters().items():
        np.testing.assert_array_equal(fused_made.parameters()[key], value)


def test_a_batch_that_is_not_finite_is_refused_and_the_state_is_unchanged():
    replay, made, rng = parts("ddpg")
    replay.storage.columns["reward"][:ITEMS] = np.nan
    fused = FusedSteps(replay, made)
    before = made.parameters()
    with pytest.raises(ValueError, match=r"batch/reward: found NaN"):
        fused.run(3, rng)
    assert made.gradient_steps == 0
    for key, value in before.items():
        np.testing.assert_array_equal(made.parameters()[key], value)


@pytest.mark.parametrize("value", [-1, 2, 2**40])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_action_out_of_range_is_named_and_the_state_is_unchanged(precision, value):
    replay, made, rng = parts("dqn", precision=precision)
    replay.storage.columns["action"][:ITEMS] = value
    before = made.parameters()
    with pytest.raises(ValueError, match=r"batch/action: found an integer out of range; allowed: 0 to 1"):
        FusedSteps(replay, made).run(3, rng)
    assert made.gradient_steps == 0
    for key, value in before.items():
        np.testing.assert_array_equal(made.parameters()[key], value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_td_error_that_is_not_finite_is_refused(alpha, value):
    """Also with alpha = 0, where each priority is 1."""
    replay, made, rng = parts("dqn", alpha=alpha)
    spoil(made, value)
    with pytest.raises(ValueError, match="td_errors: found NaN or infinity"):
        FusedSteps(replay, made).run(3, rng)
    assert made.gradient_steps == 1
    np.testing.assert_array_equal(replay.priorities(np.arange(ITEMS)), 1)


def test_an_algorithm_that_reads_no_weights_is_trained():
    algorithm = algorithms.create("ppo", observation_shape=(5,), action_size=2, network={"hidden": (8,)})
    fields = {
        name: FieldSpec(tuple(shape[1:]), np.float32) for name, (shape, _) in algorithm.columns(BATCH).items()
    }
    both = []
    for _ in range(2):
        replay = ConcurrentReplay(Storage(CAPACITY, fields))
        rng = np.random.default_rng(1)
        replay.insert(
            {name: rng.standard_normal((ITEMS, *f.shape), np.float32) for name, f in fields.items()}
        )
        both.append((replay, learner.create(algorithm, backend="native", batch_size=BATCH)))
    (replay, made), (fused_replay, fused_made) = both
    rng, fused_rng = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(4):
        sample = replay.sample(BATCH, rng)
        replay.update_priorities(sample.indices, made.step(sample.batch).td_errors)
    FusedSteps(fused_replay, fused_made).run(4, fused_rng)
    for key, value in made.state_dict().items():
        np.testing.assert_array_equal(fused_made.state_dict()[key], value)


def test_an_empty_replay_is_refused():
    _, made, rng = parts("dqn")
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))
    fused = FusedSteps(ConcurrentReplay(Storage(CAPACITY, fields)), made)
    with pytest.raises(ValueError, match=EMPTY):
        fused.run(1, rng)
    assert made.gradient_steps == 0


def test_wrong_arguments_are_refused():
    replay, made, rng = parts("dqn")
    for steps in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"steps: found {steps}"):
            FusedSteps(replay, made).run(steps, rng)
    with pytest.raises(TypeError, match="rng"):
        FusedSteps(replay, made).run(1, np.random.RandomState(0))
    on_torch = learner.create(made.algorithm, backend="torch", batch_size=BATCH)
    with pytest.raises(TypeError, match="found backend 'torch'"):
        FusedSteps(replay, on_torch)


def test_a_replay_with_other_columns_is_refused():
    _, made, _ = parts("dqn")
    wide = transition_fields(FieldSpec((5,), np.float32), FieldSpec((), np.int64))
    with pytest.raises(ValueError, match=r"column 'observation' of \(5,\)"):
        FusedSteps(ConcurrentReplay(Storage(CAPACITY, wide)), made)
    without = {name: spec for name, spec in wide.items() if name != "reward"}
    without["observation"] = without["next_observation"] = FieldSpec((4,), np.float32)
    with pytest.raises(ValueError, match="'reward'"):
        FusedSteps(ConcurrentReplay(Storage(CAPACITY, without)), made)


def test_only_terminated_may_be_boolean():
    replay, made, _ = boolean_observations()
    with pytest.raises(ValueError, match=r"column 'observation' of \(4,\) bool; allowed: \(4,\) float32"):
        FusedSteps(replay, made)
