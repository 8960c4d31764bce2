"""A training of a user's own algorithm is saved, continued, asked for actions and evaluated."""

import re
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Schedule
from placerl.harness.runtime.actors.pool import ActorPool
from placerl.harness.runtime.program import Settings, compose
from tests.harness.runtime.test_program import FIRST, Parts, Sides, act, step

SHORT = Settings(learning_starts=100)
SOME = Settings(learning_starts=100, actors=2, update_interval=2)


def new(mapping="native-native-cpu", settings=SHORT, environment=Sides, **options):
    return compose(environment, FIRST, step, act, mapping=mapping, settings=settings, **options)


def state(training):
    return {name: array.tolist() for name, array in training.learner.state_dict().items()}


@pytest.mark.parametrize(
    ("mapping", "settings", "schedule"),
    [
        ("native-native-cpu", SHORT, Schedule()),
        ("torch-native-cpu", Settings(learning_starts=100, prioritized=False), Schedule()),
        ("torch-native-cpu", SOME, Schedule(overlap=4)),
        ("torch-native-cpu", Settings(learning_starts=100, capacity=150), Schedule(presampled_batches=2)),
    ],
)
def test_a_loaded_training_goes_on_bit_for_bit(tmp_path, mapping, settings, schedule):
    first, *others = (new(mapping, settings, schedule=schedule, seed=seed) for seed in (1, 1, 2))
    first.advance(120)
    first.save(tmp_path / "saved")
    for other in others:
        other.load(tmp_path / "saved")
        assert other.gradient_steps == first.gradient_steps
        assert other.environment_steps == first.environment_steps
    if not schedule.presampled_batches:  # those that `first` has sampled ahead are not saved
        for training in (first, *others):
            training.learn(20)
        assert state(first) == state(others[0])
    episodes = [other.advance(60).episodes for other in others]
    assert episodes[0] == episodes[1]
    assert episodes[0][0].environment_step > first.environment_steps
    assert state(others[0]) == state(others[1])
    for training in (first, *others):
        training.close()


def test_actors_in_processes_go_on_counting():
    training = new(settings=SOME)
    plan = replace(training._plan, environment_steps=350)
    pool = ActorPool(plan, training.learner, 2, inline=True)
    pool.collect(8)
    assert pool.environment_steps == 366
    assert [episode.environment_step for episode in pool.take_episodes()] == [366, 366]
    pool.close()
    training.close()


def test_a_loaded_training_is_evaluated_from_the_saved_starts(tmp_path):
    first, other = new(seed=1), new(seed=2)
    first.save(tmp_path)
    other.evaluate(1)
    other.load(tmp_path)
    other.evaluate(1)
    assert other._evaluation._seed == 1
    first.close()
    other.close()


def test_saving_again_replaces_the_folder_s_training(tmp_path):
    training = new()
    for steps in (20, 30):
        training.advance(steps)
        training.save(tmp_path)
    training.close()
    assert len(list(tmp_path.iterdir())) == 2
    loaded = new()
    loaded.load(tmp_path)
    assert loaded.gradient_steps == training.gradient_steps
    with pytest.raises(
        UserError, match=r"^load: training: found a training of \d+ environment steps; allowed: a"
    ):
        loaded.load(tmp_path)
    loaded.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"settings": Settings(learning_starts=100, batch_size=16)}, "batch_size: found 32; allowed: 16, as in this"),
        ({"settings": Settings(learning_starts=100, alpha=0.5)}, "alpha: found 0.6; allowed: 0.5, as in this"),
        ({"settings": Settings(learning_starts=100, discount=0.9)}, "columns.discount: found none; allowed: () "),
        ({"mapping": "torch-native-cpu"}, "mapping: found native-native-cpu; allowed: torch-native-cpu, as in this "),
        ({"schedule": Schedule(overlap=1)}, "schedule.overlap: found none; allowed: 1, as in this training, or load("),
    ],
)  # fmt: skip
def test_another_task_or_place_is_refused_by_name(tmp_path, changed, message):
    first, other = new(), new(**changed)
    first.save(tmp_path)
    with pytest.raises(UserError, match=f"^{re.escape(f'{tmp_path}: {message}')}"):
        other.load(tmp_path)
    assert not other.gradient_steps
    if "settings" not in changed:
        other.load(tmp_path, elsewhere=True)
        other.advance(1)
    first.close()
    other.close()


class Pairs(Sides):
    action_space = gymnasium.spaces.Box(np.float32(2), np.float32(6), (1,))

    def step(self, action):
        assert self.action_space.contains(action)
        return super().step(int(action[0] > 4))


def test_actions_and_returns_are_those_of_the_environment():
    first = {"slope": torch.tensor([[0.0, 9.0]]), "bias": torch.zeros(2)}
    training = compose(Sides, first, step, act, mapping="torch-native-cpu", settings=SHORT)
    assert training.evaluate() == [8.0] * 20
    with pytest.raises(ValueError, match="episodes: found 0; allowed: at least 1"):
        training.evaluate(0)
    assert [training.predict(np.array([at], np.float32)) for at in (-0.5, 0.5)] == [0, 1]
    training.close()

    def still(state, batch):
        return state, {"td_error": torch.zeros_like(batch["reward"])}

    sign = {"one": torch.ones(1)}, still, lambda state, seen: seen.sign()
    training = compose(Pairs, *sign, mapping="torch-native-cpu", settings=SHORT)
    assert [training.predict([at]).tolist() for at in (-0.5, 0.5)] == [[2.0], [6.0]]
    assert training.evaluate(2) == [8.0, 8.0]
    training.close()


def test_an_observation_of_several_arrays_is_predicted_as_the_environment_returns_it():
    slope = torch.zeros(6, 2)
    slope[0, 1] = 1
    still = lambda state, batch: (state, {"td_error": torch.zeros_like(batch["reward"])})  # noqa: E731
    policy = {"slope": slope, "bias": torch.zeros(2)}
    training = compose(Parts, policy, still, act, mapping="torch-native-cpu", settings=SHORT)
    environment = Parts()
    observation, _ = environment.reset(seed=5)
    assert training.predict(observation) == (environment.number > 0)
    assert training.evaluate(1) == [8.0]
    with pytest.raises(UserError, match=r"observation\['noise'\]: found "):
        training.predict(observation | {"noise": 3})
    training.close()


class Uncopied(Sides):
    def __deepcopy__(self, memo):
        raise TypeError("it holds a socket")


def test_each_actor_steps_a_copy_of_an_environment():
    environment = Sides()
    training = new(environment=environment, settings=SOME)
    assert training.advance(20).episodes
    training.close()
    assert not hasattr(environment, "left")
    with pytest.raises(
        UserError, match=r"found one that cannot be copied: it holds a socket; allowed: .* a function"
    ):
        new(environment=Uncopied())
    with pytest.raises(
        UserError, match=r"environment: found 3; allowed: a gymnasium\.Env, a function that returns"
    ):
        new(environment=3)


class Count(gymnasium.Env):
    """Counts its steps, of which each pays 1; an episode has 5, and the odd ones are truncated."""

    observation_space = gymnasium.spaces.Box(-1, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.episodes = 0, self.episodes + 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        over, odd = self.at == 5, self.episodes % 2
        return np.array([self.at], np.float32), 1.0, over and not odd, over and bool(odd), {}


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(overlap=2)])
def test_n_step_transitions_sum_rewards_to_the_end_of_the_episode(schedule):
    asked = Settings(learning_starts=40, actors=2, update_interval=2, n_step=3, discount=0.5, capacity=44)
    training = new(environment=Count, settings=asked, schedule=schedule)
    training.advance(30)
    columns = training.replay.storage.columns
    begun, ended = columns["observation"][:, 0], columns["next_observation"][:, 0]
    np.testing.assert_array_equal(ended, np.minimum(begun + 3, 5))
    np.testing.assert_array_equal(columns["discount"], 0.5 ** (ended - begun))
    np.testing.assert_allclose(columns["reward"], 2 - 2 * columns["discount"])
    assert 0 < columns["terminated"].sum() < (ended == 5).sum()  # truncated ones have a value
    training.close()


def test_exponents_are_those_of_the_settings():
    asked = Settings(learning_starts=100, alpha=0.3, beta_initial=0.2, beta_final=0.7, beta_steps=10)
    training = new(settings=asked)
    assert training.replay.alpha == 0.3
    assert [training.replay._beta(step) for step in (0, 10)] == [0.2, 0.7]
    training.close()


def test_a_step_that_a_backend_cannot_run_names_its_line_and_the_mapping_that_can():
    def inverse(state, batch):
        torch.linalg.inv(torch.eye(2))
        return step(state, batch)

    line = inverse.__code__.co_firstlineno + 1
    with pytest.raises(UserError) as refused:
        compose(Sides, FIRST, inverse, act, mapping="native-native-cpu")
    expected = rf'learner: found native; allowed: mapping="torch-native-cpu", .*linalg_inv.*{__file__}:{line}'
    assert re.search(expected, str(refused.value))
    compose(Sides, FIRST, inverse, act, mapping="torch-native-cpu").close()
