"""Rounds that are native calls train as the loop in Python does, bit for bit, whatever steps its environments."""

from contextlib import closing
from typing import Any

import numpy as np
import pytest

from placerl.harness.loop.schedule import Environments, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS, Training
from tests.harness.runtime.trainings import replay_training

NATIVE = Mapping.parse("native-native-cpu")


def trained(item: Any, **options: Any) -> tuple[Any, ...]:
    """What a training leaves behind: the learner's state, the replay's, episodes, losses, terms."""
    with closing(replay_training(item, NATIVE, seed=3, schedule=Schedule(**options))) as training:
        parts = [training.warm_up(), training.advance(120), training.learn(5), training.advance(1)]
        assert training.gradient_steps == sum(part.gradient_steps for part in parts)
        assert training.environment_steps == sum(part.environment_steps for part in parts)
        rows = np.arange(len(training.replay))
        state = training.learner.state_dict() | training.replay.storage.columns
        state["priorities"] = training.replay.priorities(rows)
        episodes = [episode for part in parts for episode in part.episodes]
        return state, episodes, training.gradient_steps, parts[-1].losses, parts[1].terms_s.keys()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cartpole-dqn", {}),
        ("cartpole-dqn", {"actors": 3, "update_interval": 2}),
        ("pendulum-sac", {"actors": 2}),
        ("mountaincar-ddpg", {"update_interval": 3}),
    ],
)
def test_they_train_as_the_loop_in_python_does(short: Any, name: str, settings: dict[str, int]) -> None:
    item = short(name, **settings)
    found = trained(item)
    for options in ({"fusion": Fusion.STEP}, {"environments": Environments.GYMNASIUM}):
        wanted = trained(item, **options)
        for key, value in wanted[0].items():
            np.testing.assert_array_equal(found[0][key], value, err_msg=key)
        assert found[1:] == wanted[1:]


def test_a_round_is_whole_and_its_seconds_are_divided_among_its_parts(short: Any) -> None:
    item = short("cartpole-dqn", actors=4, update_interval=6)
    with closing(replay_training(item, NATIVE)) as training:
        assert isinstance(training, Training)
        assert training.fusion is Fusion.ROUND
        progress = training.advance(3)
        assert (progress.gradient_steps, progress.environment_steps) == (4, 24)  # rounds of 2 and 12
        assert training.gradient_steps == WARM_UP_GRADIENT_STEPS + 4
        assert 0 < sum(progress.terms_s.values()) <= progress.wall_s
        assert min(progress.terms_s.values()) > 0
        acted, learnt = training.environment_steps, training.learn(7)
        assert (learnt.gradient_steps, learnt.environment_steps) == (7, 0)
        assert training.environment_steps == acted
