"""The RLlib worker in its own environment, which is built where it is not there."""

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob
from tests.limits import LIMIT_S

# Its installation takes minutes, as each of its trainings does.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1500)]


def job(name, gradient_steps, environment=True, **training):
    tables = workloads.load(name).tables()
    tables["training"] |= {"learning_starts": 200} | training
    steps = {"gradient_steps": gradient_steps, "environment": environment}
    return WorkerJob(workload=tables, batch_size=32, seed=0, **steps)


@pytest.fixture
def rllib():
    with registry.baseline_worker("rllib") as worker:
        yield worker


@pytest.mark.parametrize("name", ["cartpole-dqn", "pendulum-sac"])
def test_it_trains_our_workloads_at_their_update_interval(rllib, name):
    first, second = (rllib.ask(job(name, steps), LIMIT_S) for steps in (20, 220))
    assert first.gradient_steps >= 20
    assert second.gradient_steps >= 220
    assert second.environment_steps == second.gradient_steps
    assert second.versions["ray"] == "2.60.0"
    assert first.episode_returns + second.episode_returns


@pytest.mark.parametrize("name", ["cartpole-dqn", "pendulum-sac"])
def test_its_learner_and_replay_work_alone(rllib, name):
    result = rllib.ask(job(name, 70, environment=False), LIMIT_S)
    assert (result.gradient_steps, result.environment_steps) == (70, 0)
    assert ("target" in result.notes) == (name == "cartpole-dqn")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cartpole-dqn", "pendulum-sac"])
def test_its_parameters_are_on_a_gpu(rllib, name):
    result = rllib.ask(job(name, 20).model_copy(update={"device": "cuda"}), LIMIT_S)
    assert result.gradient_steps >= 20
    assert result.notes["device"] == "cuda:0"


def test_what_it_cannot_do_is_refused_with_its_reason(rllib):
    with pytest.raises(WorkerFailure, match="ddpg") as failure:
        rllib.ask(job("cartpole-ddpg", 20), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED
