"""Actors in this process, in turns with the learner or in a thread beside it, are named when they return invalid."""

from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Environments, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.actors.actor import Actor
from placerl.harness.runtime.actors.in_process import (
    CHECKED_ROWS,
    Actors,
    InlineActors,
    ThreadActors,
    refuse_invalid,
)
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.program import compose
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.workloads.task import columns_of
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields
from tests.harness.runtime.trainings import replay_training

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")
BOTH = pytest.mark.parametrize("kind", [InlineActors, ThreadActors])


class Invalid(gymnasium.Env):
    """Returns a number where it says, from its third step on."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, where, number):
        self.where, self.number, self.steps = where, number, 0

    def _observation(self, invalid):
        return np.full(4, self.number if invalid else self.steps, np.float32)

    def reset(self, **_):
        return self._observation(self.where == "reset" and self.steps), {}

    def step(self, action):
        self.steps += 1
        due = self.steps >= 3
        reward = self.number if self.where == "reward" and due else 1.0
        return self._observation(self.where == "step" and due), reward, due, False, {}


def actors_with(kind, item, environment):
    seeds = np.random.SeedSequence(0).spawn(3)
    learner = learner_of(item, NATIVE, seeds[0])
    plan = actors_of(item, *seeds[1:], columns_of(item), local_storage=CHECKED_ROWS)
    return kind(replace(plan, environments=(lambda: environment,), together=None).build(), learner)


PLACES = {"reward": "reward", "step": "observation", "reset": "observation"}


# Each value, not each pair: one search finds NaN and infinity.
@pytest.mark.parametrize(("kind", "steps"), [(InlineActors, 1), (ThreadActors, 1), (ThreadActors, 8)])
@pytest.mark.parametrize(("explore", "number"), [(True, np.nan), (False, np.inf)])
@pytest.mark.parametrize("where", PLACES)
def test_an_environments_invalid_number_is_refused_by_its_name(kind, where, number, steps, explore, short):
    actors = actors_with(kind, short("cartpole-dqn"), Invalid(where, number))

    def collect():
        for _ in range(8):
            actors.collect(steps, explore)

    try:
        with pytest.raises(UserError, match=f"^environment Invalid: {PLACES[where]}: found {number}"):
            collect()
    finally:
        actors.close()


@pytest.mark.parametrize(
    "options",
    [
        {"fusion": Fusion.STEP},
        {"fusion": Fusion.NONE},
        {"presampled_batches": 1, "replay_beside": True},
    ],
)
@pytest.mark.parametrize("where", ["reward", "step", "reset"])
def test_a_training_refuses_an_invalid_number_at_its_step(where, options):
    training = compose(
        lambda: Invalid(where, np.nan),
        FIRST,
        step,
        act,
        mapping="native-native-cpu",
        schedule=Schedule(**options),
    )
    with pytest.raises(UserError, match=f"^environment Invalid: {PLACES[where]}: found nan; allowed: "):
        training.advance(100)
    training.close()


@BOTH
def test_numbers_whose_squares_have_no_room_are_none(kind, short):
    actors = actors_with(kind, short("cartpole-dqn"), Invalid("step", 1e30))
    assert actors.collect(8, explore=False)["next_observation"].max() == np.float32(1e30)
    actors.close()


@pytest.mark.filterwarnings("error")
def test_no_column_but_those_of_floats_is_looked_at_and_nothing_warns():
    refuse_invalid("actor", {"pixels": np.full((2, 3), 255, np.uint8), "big": np.full(3, 1e38, np.float32)})
    with pytest.raises(UnitError, match="actor: returned invalid data: NaN or infinity in 'both'"):
        refuse_invalid("actor", {"both": np.array([np.inf, -np.inf], np.float32)})


def test_an_error_of_the_environments_own_comes_as_it_is(short):
    class Broken(Invalid):
        def step(self, action):
            raise ValueError("no such pole")

    with pytest.raises(ValueError, match="no such pole"):
        actors_with(InlineActors, short("cartpole-dqn"), Broken("", 0)).collect(1)


@pytest.mark.parametrize("rows", [CHECKED_ROWS, CHECKED_ROWS + 1])
def test_invalid_data_among_many_rows_is_looked_for_in_turns_too(rows):
    """Such as the actions of a policy that has diverged."""
    one = SimpleNamespace(collect=lambda *_: {"reward": np.zeros(rows), "action": np.full(rows, np.nan)})
    with pytest.raises(UnitError, match="actor: returned invalid data: NaN or infinity in 'action'"):
        InlineActors(one, SimpleNamespace(explore=None)).collect(rows)


FIELDS = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))


class Weighted:
    """A learner, and its policy, whose actions are its weights."""

    def __init__(self):
        self.weights, self.acts = 0, 0

    def policy(self):
        return SimpleNamespace(explore=self.explored)

    def policy_parameters(self):
        return {"weights": self.weights}

    def explored(self, parameters, observations, environment_step, rng):
        self.acts += 1
        return np.full(len(observations), parameters["weights"])

    def explore(self, observations, environment_step, rng):
        return self.explored(self.policy_parameters(), observations, environment_step, rng)


def weighted(kind):
    learner = Weighted()
    environment = Invalid("", 0)
    environment.action_space = gymnasium.spaces.Discrete(5)
    return learner, kind(Actor([environment], np.random.default_rng(0), FIELDS, 16), learner)


@BOTH
def test_requests_explore_unless_they_are_to_be_random(kind):
    learner, actors = weighted(kind)
    actors.collect(3)
    assert learner.acts == 3
    actors.submit(2)
    actors.result()
    assert learner.acts == 5
    actors.collect(4, explore=False)
    actors.submit(4, explore=False)
    actors.result()
    assert learner.acts == 5
    actors.close()


@BOTH
def test_steps_and_seconds_are_those_of_the_actor(kind):
    _, actors = weighted(kind)
    assert (actors.environment_steps, actors.environment_s, actors.inference_s) == (0, 0, 0)
    actors.collect(5)
    assert actors.environment_steps == 5
    assert min(actors.environment_s, actors.inference_s) > 0
    actors.close()


def test_in_turns_the_learner_acts_itself_and_beside_it_what_was_published_last():
    for kind, expected in ((InlineActors, [0, 1, 2, 2, 4]), (ThreadActors, [0, 0, 2, 2, 3])):
        learner, actors = weighted(kind)
        acted = []

        def collect(actors=actors, acted=acted):
            acted.append(int(actors.collect(1)["action"][0]))

        collect()
        learner.weights = 1
        collect()  # not published
        learner.weights = 2
        actors.publish()
        collect()
        collect()  # nothing new
        learner.weights = 3
        actors.publish()
        learner.weights = 4
        collect()
        assert acted == expected
        actors.close()


def test_what_all_actors_offer():
    """A class that leaves one out cannot be made."""
    assert Actors.__abstractmethods__ == {"submit", "result", "publish", "take_episodes", "close"}


FIRST = {"slope": torch.zeros(4, 2)}


def act(weights, observation):
    return (observation @ weights["slope"]).argmax(1)


def step(weights, batch):
    def loss(weights):
        value = (batch["observation"] + batch["next_observation"]) @ weights["slope"]
        error = batch["reward"] - value.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        return (batch["weight"] * error * error).mean(), error

    slope, (cost, error) = torch.func.grad_and_value(loss, has_aux=True)(weights)
    return {"slope": weights["slope"] - 1e-3 * slope["slope"]}, {"loss": cost, "td_error": error}


@pytest.mark.parametrize("mapping", [TORCH, NATIVE])
@pytest.mark.parametrize(("actors", "interval"), [(1, 1), (3, 2)])
def test_an_overlapped_actor_trains_the_same_for_the_same_seed(short, mapping, actors, interval):
    the_workload = short("cartpole-dqn", actors=actors, update_interval=interval)
    runs = [
        replay_training(the_workload, mapping, seed=seed, schedule=Schedule(overlap=8)) for seed in (1, 1, 2)
    ]
    for training in runs:
        training.warm_up()
        progress = training.advance(60)
        training.close()
    parameters = [training.learner.parameters() for training in runs]
    for key, value in parameters[0].items():
        np.testing.assert_array_equal(value, parameters[1][key])
    assert any(np.any(value != parameters[2][key]) for key, value in parameters[0].items())
    assert progress.gradient_steps >= 60
    assert progress.environment_steps == interval * progress.gradient_steps
    assert len(runs[0].replay) == min(500, runs[0].environment_steps)


def test_an_overlapped_iteration_uses_the_weights_from_before_it(short):
    training = replay_training(short("cartpole-dqn"), NATIVE, schedule=Schedule(overlap=4))
    training.warm_up()
    seen = []
    explore = type(training.learner.algorithm).explore

    def spy(self, parameters, *arguments):
        seen.append({name: value.copy() for name, value in parameters.items()})
        return explore(self, parameters, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(training.learner.algorithm), "explore", spy)
        before = training.learner.parameters()
        training.advance(4)
        after = training.learner.parameters()
        training.advance(4)
    training.close()
    assert len(seen) == 8
    for name in before:
        np.testing.assert_array_equal(seen[0][name], before[name])
        np.testing.assert_array_equal(seen[3][name], before[name])
        np.testing.assert_array_equal(seen[4][name], after[name])


def test_an_environment_that_breaks_stops_an_overlapped_run_by_name(short):
    schedule = Schedule(overlap=4, environments=Environments.GYMNASIUM)
    training = replay_training(short("cartpole-dqn"), NATIVE, schedule=schedule)
    training.warm_up()

    def broken(action):
        raise OSError("the simulator is gone")

    training._acting._actor._environments[0].step = broken
    with pytest.raises(UnitError, match="actor: OSError: the simulator is gone"):
        training.advance(4)
    training.close()
