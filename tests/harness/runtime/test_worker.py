"""This project's runtime behind the workers' protocol."""

import pytest

from harness import starting, workload
from harness.workers import FailureKind, Job, WorkerFailure

LIMIT_S = 120.0


def job(gradient_steps=20, **changes):
    tables = workload.load("cartpole-dqn").tables()
    tables["training"]["learning_starts"] = 64
    return Job(
        **{"workload": tables, "batch_size": 32, "seed": 0, "gradient_steps": gradient_steps} | changes
    )


def test_it_answers_jobs_and_keeps_its_agent():
    with starting.own_worker("torch-native-cpu") as worker:
        first, second = (worker.ask(job(steps), LIMIT_S) for steps in (20, 300))
        assert (first.gradient_steps, second.gradient_steps) == (20, 300)
        assert second.environment_steps == 300
        assert second.episode_returns
        assert {"placerl", "torch", "gymnasium"} <= second.versions.keys()
        assert sum(second.terms_s.values()) <= second.wall_s


@pytest.mark.parametrize("mapping", ["native-native-cpu", "torch-native-cpu"])
def test_learner_and_replay_work_alone(mapping):
    with starting.own_worker(mapping) as worker:
        result = worker.ask(job(40, environment=False), LIMIT_S)
    assert (result.gradient_steps, result.environment_steps, result.episode_returns) == (40, 0, [])


def test_what_it_cannot_do_is_a_refusal_with_its_reason():
    with starting.own_worker("abacus-native-cpu") as worker, pytest.raises(WorkerFailure) as failure:
        worker.ask(job(), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED
    assert "abacus" in failure.value.detail
