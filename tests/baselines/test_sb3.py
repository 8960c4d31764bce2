"""The Stable-Baselines3 worker in its own environment, which is built where it is not there."""

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.own_settings import goals
from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob
from tests.limits import LIMIT_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def job(name, gradient_steps=20, environment=True, **training):
    tables = workloads.load(name).tables()
    tables["training"] |= {"learning_starts": 300} | training
    steps = {"gradient_steps": gradient_steps, "environment": environment}
    return WorkerJob(workload=tables, batch_size=32, seed=0, **steps)


@pytest.fixture
def sb3():
    with registry.baseline_worker("sb3") as worker:
        yield worker


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg", "hopper-ddpg"])
def test_it_trains_our_workloads(sb3, name):
    first, second = (sb3.ask(job(name, steps), LIMIT_S) for steps in (20, 150))
    assert (first.gradient_steps, second.gradient_steps) == (20, 150)
    assert second.environment_steps == 150 * workloads.load(name).training.update_interval
    assert second.versions["stable-baselines3"] == "2.9.2"
    assert {"torch", "gymnasium", "ale-py", "Box2D"} <= set(second.versions)
    assert "uniform" in second.notes["replay"]
    assert first.episode_returns + second.episode_returns


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg"])
def test_its_learner_and_replay_work_alone(sb3, name):
    result = sb3.ask(job(name, 70, environment=False), LIMIT_S)
    assert (result.gradient_steps, result.environment_steps) == (70, 0)
    assert ("target" in result.notes) == (name == "cartpole-dqn")


@pytest.mark.parametrize(("actors", "interval"), [(1, 4), (3, 2), (4, 1)])
def test_the_update_interval_is_kept(sb3, actors, interval):
    result = sb3.ask(job("cartpole-dqn", 24, actors=actors, update_interval=interval), LIMIT_S)
    assert result.gradient_steps >= 24
    assert result.environment_steps == interval * result.gradient_steps


def test_what_it_cannot_do_is_refused_with_its_reason(sb3):
    asked = job("cartpole-dqn")
    asked.workload["algorithm"]["name"] = "muzero"
    with pytest.raises(WorkerFailure, match="muzero") as failure:
        sb3.ask(asked, LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


def test_a_gpu_that_is_not_there_is_refused(sb3):
    asked = job("cartpole-dqn").model_copy(update={"device": "cuda:99"})
    with pytest.raises(WorkerFailure, match="cuda:99") as failure:
        sb3.ask(asked, LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cartpole-dqn", "hopper-ddpg"])
def test_it_trains_on_a_gpu(sb3, name):
    result = sb3.ask(job(name, 20).model_copy(update={"device": "cuda"}), LIMIT_S)
    assert result.gradient_steps == 20
    assert result.notes["device"].startswith("cuda")


@pytest.mark.parametrize("name", ["pong-dqn", "pong-ppo"])
def test_pixels_go_through_its_nature_network(sb3, name):
    asked = job(name, 8)
    if name == "pong-dqn":
        asked.workload["replay"]["capacity"] = 1000
    result = sb3.ask(asked, LIMIT_S)
    assert result.gradient_steps >= 8
    assert result.environment_steps > 0


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ppo", "pendulum-sac", "hopper-ppo"])
def test_it_takes_settings_of_its_own_and_runs_greedy_episodes(sb3, name):
    """Those of RL Baselines3 Zoo: rounds of many steps, step sizes that fall, normalised environments."""
    goal = goals()[name]
    side, item = goal.side_of("sb3"), goal.workload_of("sb3")
    asked = WorkerJob(
        workload=item.tables(),
        batch_size=item.training.batch_size,
        seed=0,
        gradient_steps=10,
        evaluation_episodes=1,
        library=side.library,
    )
    first, second = (sb3.ask(asked, LIMIT_S) for _ in range(2))
    assert len(second.evaluation_returns) == 1
    if name == "cartpole-dqn":
        assert (first.gradient_steps, first.environment_steps) == (128, 256)
    assert second.environment_steps_so_far == first.environment_steps_so_far + second.environment_steps
