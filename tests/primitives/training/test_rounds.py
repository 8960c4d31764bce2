"""Native rounds: what they are given is checked, and they stop at numbers that are not finite."""

from typing import Any

import numpy as np
import pytest

from placerl.primitives import learner
from placerl.primitives.algorithms.ddpg import DDPG
from placerl.primitives.algorithms.dqn import DQN
from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.environments import make_native
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
from placerl.primitives.replay.storage import transition_fields
from placerl.primitives.training.rounds import Acting, FusedRounds

SMALL = NetworkDescription(hidden=(8,))
CARTPOLE = DQN((4,), 2, SMALL, action_kind="discrete")
CONTINUOUS = DDPG((4,), 1, SMALL, action_kind="continuous")
COUNT, CAPACITY = 2, 64
RNG = np.random.default_rng(0)


def rounds(algorithm: Any = CARTPOLE, backend: str = "native", id: str = "", **acting: Any) -> FusedRounds:
    action = FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((1,), np.float32)
    replay = ConcurrentReplay(Storage(CAPACITY, transition_fields(FieldSpec((4,), np.float32), action)))
    id = id or ("CartPole-v1" if algorithm.discrete else "ContinuousCartPole-v0")
    environments = make_native(id, COUNT, autoreset="same_step")
    asked = {"seeds": (1, 2), "rng": np.random.default_rng(3), "filled_at_once": 8} | acting
    trainee = learner.create(algorithm, backend=backend, batch_size=4, seed=1)
    return FusedRounds(replay, trainee, Acting(environments, **asked))


def columns_of(made: FusedRounds, steps: int) -> dict[str, Any]:
    """The columns of the first vector steps, (steps, COUNT, ...)."""
    columns = made._replay.storage.columns
    return {
        name: column[: steps * COUNT].reshape(steps, COUNT, *column.shape[1:])
        for name, column in columns.items()
    }


@pytest.mark.parametrize("algorithm", [CARTPOLE, CONTINUOUS])
def test_a_transition_ends_in_its_own_episodes_last_observation(algorithm: Any) -> None:
    made = rounds(algorithm)
    for _ in range(4):
        made.fill(8)
    assert made.environment_steps == CAPACITY
    columns = columns_of(made, 32)
    ended = columns["terminated"][:-1]
    followed = (columns["next_observation"][:-1] == columns["observation"][1:]).all(-1)
    np.testing.assert_array_equal(followed, ~ended)
    assert ended.any()
    beyond = np.abs(columns["next_observation"][columns["terminated"]])
    assert ((beyond[:, 0] > 2.4) | (beyond[:, 2] > 0.2)).all()  # out of the track, or fallen
    assert np.unique(columns["action"]).size > 1
    episodes = made.take_episodes()
    assert len(episodes) == columns["terminated"].sum()
    assert not made.take_episodes()


def test_gradient_steps_alone_leave_the_environments_as_they_are() -> None:
    made = rounds(gradient_steps=2, vector_steps=3)
    made.fill(8)
    made.run(5, RNG)
    assert made.environment_steps == 16
    made.run_rounds(4, RNG)
    assert made.environment_steps == 16 + 4 * 3 * COUNT
    assert made._learner.gradient_steps == 5 + 4 * 2


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"backend": "torch"}, TypeError, "learner: found backend 'torch'; allowed: 'native', in float32"),
        (
            {"id": "Pendulum-v1"},
            ValueError,
            "environments: found Pendulum-v1 of \\(3,\\) observations and 1 continuous",
        ),
        ({"gradient_steps": 0}, ValueError, "gradient_steps: found 0; allowed: an integer of at least 1"),
        ({"filled_at_once": 0}, ValueError, "filled_at_once: found 0; allowed: an integer of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        rounds(**options)


def test_calls_out_of_range_are_refused() -> None:
    made = rounds()
    with pytest.raises(ValueError, match="vector_steps: found 9; allowed: an integer from 1 to 8"):
        made.fill(9)
    with pytest.raises(ValueError, match="rounds: found 0; allowed: an integer of at least 1"):
        made.run_rounds(0, RNG)
    with pytest.raises(TypeError, match="rng: found int"):
        made.run_rounds(1, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="found no item to draw"):
        made.run(1, RNG)


def test_an_action_that_is_no_number_ends_the_rounds() -> None:
    made = rounds(CONTINUOUS)
    made.fill(8)
    state = made._learner.state_dict()
    spoilt = {name: np.full_like(value, np.nan) for name, value in state.items() if name.startswith("actor")}
    made._learner.load_state_dict(state | spoilt)
    with pytest.raises(ValueError, match="action: found NaN; allowed: finite numbers"):
        made.run_rounds(1, RNG)
    assert made.environment_steps == 16


def test_rounds_that_are_refused_leave_no_actions_to_the_next_call() -> None:
    made = rounds()
    made.fill(8)
    programs = [made._programs[made._learner.algorithm.variants[0]]] * made._acting.gradient_steps
    with pytest.raises(ValueError, match="one beta for each sample"):
        made._fused.run_rounds(np.random.default_rng(0), programs, RNG, [], [])
    made.run(1, RNG)
    assert made.environment_steps == 16
