"""States of real training: what learners continue from when they are timed."""

import json
from math import inf

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Target
from placerl.harness.mapping.problem import problem_of
from placerl.harness.pieces.learners import TrainedStart, check_step, created
from placerl.harness.profile.cases import trained
from placerl.harness.profile.cases.learners import learner_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.workloads import Workload

NATIVE = Target("native")


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the profile's training may end at its limit of time, before its steps."""
    monkeypatch.setattr(trained, "LIMIT_S", inf)


@pytest.fixture(scope="module")
def small() -> Workload:
    item = workloads.override(workloads.load("cartpole-dqn"), "training.learning_starts", 100, "test")
    return workloads.override(item, "replay.capacity", 3000, "test")


@pytest.fixture(scope="module")
def start(small: Workload) -> TrainedStart:
    return trained.train(small, 80)


def test_the_state_is_that_of_so_many_steps_on_the_environments_own_transitions(
    small: Workload, start: TrainedStart
) -> None:
    assert start.steps == start.state["gradient_steps"] == 80
    fresh = created(small, 32, NATIVE).state_dict()
    assert any(not np.array_equal(start.state[name], fresh[name]) for name in fresh if "weight" in name)
    observations, rewards = start.columns["observation"], start.columns["reward"]
    assert set(np.unique(rewards)) <= {0.0, 1.0}, "CartPole's, not random ones"
    assert np.abs(observations[:, 2]).max() < 0.5, "radians, before the pole has fallen"


def test_batches_are_its_samples(start: TrainedStart) -> None:
    batch = start.batch(5000, np.random.default_rng(0))
    assert len(batch["reward"]) == 5000
    rows = {row.tobytes() for row in start.columns["observation"]}
    assert {row.tobytes() for row in batch["observation"]} <= rows
    other = start.batch(5000, np.random.default_rng(1))
    assert not np.array_equal(batch["observation"], other["observation"])


def test_a_training_ends_at_its_limit_of_time(small: Workload) -> None:
    assert trained.train(small, 10**6, limit_s=0).steps < 100


def test_an_on_policy_training_keeps_the_samples_of_an_iteration() -> None:
    item = workloads.load("cartpole-ppo")
    start = trained.train(item, 1)
    assert start.steps >= 1
    samples = item.training.actors * item.algorithm.hyperparameters["trajectory_length"]
    assert {len(column) for column in start.columns.values()} == {samples}
    trainee = created(item, 64, NATIVE, start)
    check_step(item, trainee, start.batch(64, np.random.default_rng(0)))


def test_one_training_serves_every_size_of_the_replay(small: Workload, monkeypatch) -> None:
    larger = workloads.override(small, "replay.capacity", 10**6, "test")
    largest = workloads.override(small, "replay.capacity", 2 * 10**6, "test")
    assert trained.profiled_start(larger) is trained.profiled_start(largest)
    assert trained.profiled_start(larger).steps == trained.STEPS
    monkeypatch.setattr(trained, "start", None)  # no other training is begun
    trained.profiled_start(larger)


def test_the_small_replay_holds_the_batches_that_are_sampled_ahead(small: Workload, monkeypatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(trained, "_trained_once", asked.append)
    large = workloads.override(small, "replay.capacity", 10**5, "test")
    ahead = workloads.override(large, "training.presampled_batches", 199, "test")
    trained.profiled_start(ahead)
    assert json.loads(asked[0])["replay"]["capacity"] == 200 * ahead.training.batch_size > trained.CAPACITY


@pytest.mark.parametrize("target", [NATIVE, Target("torch"), Target("native", precision="bfloat16")], ids=str)
def test_a_learner_continues_from_it_on_every_backend(
    small: Workload, start: TrainedStart, target: Target
) -> None:
    trainee = created(small, 16, target, start)
    state = trainee.state_dict()
    assert state.keys() == start.state.keys()
    for name, array in start.state.items():
        np.testing.assert_array_equal(state[name], array, err_msg=name)


def test_a_learner_that_narrows_does_so_by_its_own_steps_from_it(
    small: Workload, start: TrainedStart
) -> None:
    trainee = created(small, 16, Target("native", precision="dynamic"), start)
    assert trainee.gradient_steps == 2
    assert trainee.quantised


def test_cases_say_from_which_state_they_are_timed(small: Workload) -> None:
    made = {one.primitive: one for one in learner_cases(small, 8) if one.target == NATIVE}
    assert made["learner.step"].columns == {"state": "trained"}
    assert made["fresh_learner.step"].columns == {"state": "fresh"}
    begun = trained.profiled_start(small)
    assert made["learner.step"].case.setup().gradient_steps == begun.steps
    assert made["fresh_learner.step"].case.setup().gradient_steps == 0
    batch = made["learner.step"].case.inputs(None, np.random.default_rng(0))
    assert set(np.unique(batch["reward"])) <= {0.0, 1.0}


def test_rounds_run_on_trained_learners_and_real_transitions(small: Workload) -> None:
    parts = SharedParts(small, problem_of(small, 8))
    assert parts.learner(NATIVE).gradient_steps == trained.profiled_start(small).steps
    replay = parts.replay(NATIVE)
    assert len(replay) == 3000
    rewards = replay.sample(64, np.random.default_rng(0)).batch["reward"]
    assert set(np.unique(rewards)) <= {0.0, 1.0}
