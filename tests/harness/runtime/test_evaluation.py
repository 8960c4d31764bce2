"""What a training has learnt: greedy episodes, the best stretch, and when the threshold was reached."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.spaces import Box

from placerl.harness import workloads
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.runtime import evaluation
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.evaluation import Evaluation, Solved, best_mean, solved
from placerl.harness.runtime.training import Progress

CARTPOLE, CONTINUOUS, PPO = map(workloads.load, ("cartpole-dqn", "cartpole-ddpg", "pendulum-sac"))


def stretch(environment_steps: int, wall_s: float, *episodes: tuple[int, float]) -> Progress:
    return Progress(1, environment_steps, wall_s, [Episode(*episode) for episode in episodes], {})


def lean(observation: npt.NDArray) -> npt.NDArray:
    """Push the cart to the side to which the pole leans, which balances it for some 25 to 70 steps."""
    return np.asarray(int(observation[2] > 0))


def test_the_same_starts_give_the_same_returns_of_whole_episodes() -> None:
    first, again = Evaluation(CARTPOLE, 3), Evaluation(CARTPOLE, 3)
    returns = first.returns(lean)
    assert len(returns) == EPISODES
    assert returns == first.returns(lean) == again.returns(lean)
    assert len(set(returns)) > 1  # other starts
    assert returns != Evaluation(CARTPOLE, 4).returns(lean)
    assert min(returns) > max(first.returns(lambda observation: np.asarray(0)))  # which falls within 11 steps


def test_continuous_actions_are_clipped_and_scaled_to_the_environment() -> None:
    at_the_bound = Evaluation(PPO, 0).returns(lambda observation: np.ones(1, np.float32), 2)
    beyond = Evaluation(PPO, 0).returns(lambda observation: np.full(1, 7, np.float32), 2)
    assert at_the_bound == beyond
    assert at_the_bound != Evaluation(PPO, 0).returns(lambda observation: np.zeros(1, np.float32), 2)
    assert Evaluation(CONTINUOUS, 0).returns(lambda observation: np.zeros(1, np.float32), 1)[0] > 1


class Narrow(gymnasium.Env[Any, Any]):
    """Episodes of one step; the range of its actions, rounded, and the lower bound make more than the upper one."""

    observation_space = Box(-1, 1, (1,), np.float32)
    action_space = Box(np.float32(-1), np.float32(1.5 * 2**-24), (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize("chosen", [-1, 0, 1, 7])
def test_a_greedy_action_is_in_the_space(monkeypatch: pytest.MonkeyPatch, chosen: float) -> None:
    low, high = Narrow.action_space.low, Narrow.action_space.high
    assert low + 2 * ((high - low) / 2) > high
    monkeypatch.setattr(evaluation.environments, "make", lambda *_: Narrow())
    act = lambda observation: np.full(1, chosen, np.float32)  # noqa: E731
    assert Evaluation(CONTINUOUS, 0).returns(act, 2) == [0.0, 0.0]
    assert Narrow.action_space.contains(Evaluation(CONTINUOUS, 0).action(act, np.zeros(1, np.float32)))


def test_an_evaluation_ends_at_its_limit_and_leaves_the_cut_episode_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that goes on by a second at each reading: the policy falls after 9 to 10 steps."""
    seconds = iter(range(10**6))
    monkeypatch.setattr(evaluation, "perf_counter", lambda: float(next(seconds)))
    falls = lambda observation: np.asarray(0)  # noqa: E731
    whole = Evaluation(CARTPOLE, 0).returns(falls)
    cut = Evaluation(CARTPOLE, 0).returns(falls, limit_s=30)
    assert 0 < len(cut) < 5
    assert cut == whole[: len(cut)]
    assert Evaluation(CARTPOLE, 0).returns(falls, limit_s=3) == []


def test_the_best_is_the_largest_mean_of_episodes_in_a_row() -> None:
    returns = [*[0.0] * 30, *[10.0] * EPISODES, *[5.0] * 30]
    assert best_mean([Episode(i, value) for i, value in enumerate(returns)]) == 10
    assert best_mean([Episode(i, 1.0) for i in range(EPISODES - 1)]) is None


def test_a_task_is_solved_by_the_episode_that_completes_the_mean() -> None:
    """20 episodes of 100 steps return 400, then 500: 15 of 500 and 5 of 400 have a mean of 475."""
    warm_up = stretch(2000, 2.0, *((100 * (i + 1), 400.0) for i in range(20)))
    first = stretch(1000, 10.0, *((2000 + 100 * (i + 1), 500.0) for i in range(10)))
    second = stretch(1000, 5.0, *((3000 + 100 * (i + 1), 500.0) for i in range(10)))
    found = solved([warm_up, first, second], 475)
    assert found == Solved(environment_steps=3500, wall_s=pytest.approx(2 + 10 + 2.5))  # type: ignore[arg-type]
    assert solved([warm_up, first, second], 500) == Solved(4000, 17.0)
    assert solved([warm_up, first, second], 500.5) is None
    assert solved([warm_up], 400) == Solved(2000, 2.0)
    assert solved([stretch(5, 1.0)], -1e9) is None
