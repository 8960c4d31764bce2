"""Actors in this process, in turns with the learner or in a thread beside it, are named when they return rubbish."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from harness.mapping import Mapping
from harness.runtime.actors import CHECKED_ROWS, InlineActors, ThreadActors, refuse_rubbish
from harness.runtime.compose import Fusion, actors_of, columns_of, learner_of
from harness.runtime.program import compose
from harness.runtime.unit import UnitError

NATIVE = Mapping.parse("native-native-cpu")
BOTH = pytest.mark.parametrize("kind", [InlineActors, ThreadActors])


class Rubbish(gymnasium.Env):
    """Returns a number where it says, from its third step on."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, where, number):
        self.where, self.number, self.steps = where, number, 0

    def _observation(self, rubbish):
        return np.full(4, self.number if rubbish else self.steps, np.float32)

    def reset(self, **_):
        return self._observation(self.where == "reset" and self.steps), {}

    def step(self, action):
        self.steps += 1
        due = self.steps >= 3
        reward = self.number if self.where == "reward" and due else 1.0
        return self._observation(self.where == "step" and due), reward, due, False, {}


def actors_with(kind, item, environment):
    seeds = np.random.SeedSequence(0).spawn(3)
    learner = learner_of(item, NATIVE, 8, seeds[0])
    plan = actors_of(item, *seeds[1:], columns_of(item), local_storage=CHECKED_ROWS)
    return kind(replace(plan, environments=(lambda: environment,)).build(), learner)


@pytest.mark.parametrize(
    ("kind", "steps"), [(InlineActors, CHECKED_ROWS), (ThreadActors, 1), (ThreadActors, 8)]
)
@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["reward", "step", "reset"])
def test_rubbish_is_told_by_the_actors_name(kind, where, number, steps, explore, short):
    actors = actors_with(kind, short("cartpole-dqn"), Rubbish(where, number))

    def collect():
        for _ in range(8):
            actors.collect(steps, explore)

    try:
        with pytest.raises(UnitError, match=r"^actor: .*NaN or infinity"):
            collect()
    finally:
        actors.close()


def test_which_column_it_is_in_is_told(short):
    actors = actors_with(InlineActors, short("cartpole-dqn"), Rubbish("reward", np.nan))
    with pytest.raises(UnitError, match="actor: returned rubbish: NaN or infinity in 'reward'"):
        actors.collect(CHECKED_ROWS)


@pytest.mark.parametrize(
    "options",
    [
        {"fusion": Fusion.STEP},
        {"fusion": Fusion.NONE},
        {"presampled_batches": 1, "replay_beside": True},
    ],
)
@pytest.mark.parametrize("where", ["reward", "step", "reset"])
def test_rubbish_of_a_few_steps_is_named_when_something_fails_on_it(where, options):
    training = compose(
        lambda: Rubbish(where, np.nan), FIRST, step, act, mapping="native-native-cpu", **options
    )
    column = {"reward": "reward", "step": "next_observation", "reset": "observation"}[where]
    with pytest.raises(UnitError, match=f"^actor: returned rubbish: NaN or infinity in '{column}'"):
        training.advance(100)
    training.close()


@BOTH
def test_numbers_whose_squares_have_no_room_are_none(kind, short):
    actors = actors_with(kind, short("cartpole-dqn"), Rubbish("step", 1e30))
    assert actors.collect(8, explore=False)["next_observation"].max() == np.float32(1e30)
    actors.close()


@pytest.mark.filterwarnings("error")
def test_no_column_but_those_of_floats_is_looked_at_and_nothing_warns():
    refuse_rubbish("actor", {"pixels": np.full((2, 3), 255, np.uint8), "big": np.full(3, 1e38, np.float32)})
    with pytest.raises(UnitError, match="actor: returned rubbish: NaN or infinity in 'both'"):
        refuse_rubbish("actor", {"both": np.array([np.inf, -np.inf], np.float32)})


def test_an_error_of_the_environments_own_comes_as_it_is(short):
    class Broken(Rubbish):
        def step(self, action):
            raise ValueError("no such pole")

    with pytest.raises(ValueError, match="no such pole"):
        actors_with(InlineActors, short("cartpole-dqn"), Broken("", 0)).collect(1)


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
