"""This project's runtime behind the workers' protocol."""

import io
import json
import os
import sys
from types import SimpleNamespace

import pytest

from placerl.harness import workloads
from placerl.harness.compare import own_worker, registry
from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Environments, Loop, Schedule
from placerl.harness.runtime.training import Training
from tests.limits import LIMIT_S


def job(gradient_steps=20, **changes):
    tables = workloads.load("cartpole-dqn").tables()
    tables["training"]["learning_starts"] = 64
    return WorkerJob(
        **{"workload": tables, "batch_size": 32, "seed": 0, "gradient_steps": gradient_steps} | changes
    )


@pytest.mark.parametrize("mapping", ["native-native-cpu", "torch-native-cpu"])
def test_it_answers_jobs_and_keeps_its_agent(mapping):
    with registry.own_worker(mapping) as worker:
        first, second = (worker.ask(job(steps), LIMIT_S) for steps in (20, 300))
        evaluated = worker.ask(job(20, evaluation_episodes=3), LIMIT_S)
        alone = worker.ask(job(40, environment=False), LIMIT_S)
        assert (first.gradient_steps, second.gradient_steps) == (20, 300)
        assert second.environment_steps == 300
        assert second.episode_returns
        assert len(evaluated.evaluation_returns) == 3
        assert evaluated.environment_steps_so_far == second.environment_steps_so_far + 20
        assert {"placerl", "torch", "gymnasium"} <= second.versions.keys()
        assert sum(second.terms_s.values()) <= second.wall_s
        assert (alone.gradient_steps, alone.environment_steps, alone.episode_returns) == (40, 0, [])


def test_it_refuses_with_a_reason_what_it_cannot_do_and_finds_the_modules_of_this_process(
    tmp_path, monkeypatch
):
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('found').touch()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with registry.own_worker("abacus-native-cpu") as worker, pytest.raises(WorkerFailure) as failure:
        worker.ask(job(), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED
    assert "abacus" in failure.value.detail
    assert (tmp_path / "found").exists()


def resolved(schedule, item, mapping, batch_size, *, loop):
    """What is asked for as it is: this machine may have fewer cores, and no EnvPool."""
    if str(mapping).startswith("abacus"):
        raise UserError(mapping, "learner", "abacus", "native")
    return SimpleNamespace(schedule=loop or schedule, mapping=mapping, batch_size=batch_size)


class Trainings:
    """Makes trainings that note what they are asked for, in place of `own_worker.start`."""

    def __init__(self):
        self.made, self.calls = [], []

    def start(self, resolved, seed):
        number = len(self.made)
        training = object.__new__(Training)
        self.made.append((str(resolved.mapping), resolved.batch_size, seed, resolved.schedule))

        def note(name):
            return lambda *steps: self.calls.append((number, name, *steps)) or progress(*steps)

        def progress(steps=1):
            return SimpleNamespace(
                gradient_steps=steps,
                environment_steps=2 * steps,
                wall_s=0.5,
                episodes=[],
                terms_s={"learner": 0.25},
            )

        for name in ("warm_up", "advance", "learn", "close"):
            setattr(training, name, note(name))
        training.fusion = "none"
        training._acting = SimpleNamespace(environment_steps=64)
        return training


@pytest.fixture
def answered(monkeypatch):
    """A function from jobs to their answers in this process, and to the trainings that gave them."""

    def answer(*jobs, mapping="native-native-cpu", **options):
        trainings = Trainings()
        monkeypatch.setattr(own_worker, "start", trainings.start)
        monkeypatch.setattr(own_worker, "resolve", resolved)
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(one.model_dump_json() + "\n" for one in jobs)))
        return list(own_worker.answers(mapping, **options)), trainings

    return answer


def test_a_training_goes_on_from_job_to_job_until_something_but_its_length_changes(answered):
    answers, trainings = answered(job(20), job(30), job(40, seed=7), job(50, seed=7))
    assert [answer["gradient_steps"] for answer in answers] == [20, 30, 40, 50]
    assert trainings.calls == [
        *((0, "warm_up"), (0, "advance", 20), (0, "advance", 30), (0, "close")),
        *((1, "warm_up"), (1, "advance", 40), (1, "advance", 50)),
    ]
    assert answers[0]["terms_s"] == {"learner": 0.25}
    assert answers[0]["notes"] == {"mapping": "native-native-cpu", "fusion": "none"}


def test_without_the_environment_it_learns_alone(answered):
    _, trainings = answered(job(20, environment=False))
    assert trainings.calls == [(0, "warm_up"), (0, "learn", 20)]


@pytest.mark.parametrize(
    ("flags", "stepping"),
    [({}, "gymnasium"), ({"envpool": True}, "envpool"), ({"native_environments": True}, "native")],
)
def test_a_training_is_made_as_the_job_asks(answered, flags, stepping):
    _, trainings = answered(job(20, threads=3, seed=5), **flags)
    schedule = Schedule(threads=3, environments=Environments(stepping))
    assert trainings.made == [("native-native-cpu", 32, 5, schedule)]


@pytest.mark.parametrize(
    ("threads", "environments", "actors"), [(1, 4, 0), (2, 4, 1), (3, 4, 2), (4, 4, 3), (5, 4, 4)]
)
def test_cpp_threads_are_a_learner_and_actors_on_the_other_cores(answered, threads, environments, actors):
    tables = job().workload | {}
    tables["training"]["actors"] = environments
    answers, trainings = answered(job(20, workload=tables, threads=threads), threads_native=True)
    assert trainings.made == [("native-native-cpu", 32, 0, Schedule(processes=actors, threads_native=True))]
    assert answers[0]["gradient_steps"] == 20


def test_threads_run_free_in_the_concurrent_loop(answered):
    _, trainings = answered(job(20, threads=2), concurrent=True)
    assert trainings.made == [("native-native-cpu", 32, 0, Loop.CONCURRENT)]


def test_a_refusal_is_an_answer_and_the_next_job_is_tried(answered):
    answers, trainings = answered(job(20), job(30), mapping="abacus-native-cpu")
    assert [answer["error"] for answer in answers] == [
        "abacus-native-cpu: learner: found abacus; allowed: native"
    ] * 2
    assert trainings.calls == []


@pytest.mark.parametrize("flags", [[], *([name] for name in own_worker.FLAGS)])
def test_answers_have_standard_output_to_themselves(monkeypatch, capfd, flags):
    """What libraries print, in C too, goes to standard error."""
    asked = []

    def answers(mapping, **given):
        asked.append((mapping, [name for name, is_set in given.items() if is_set]))
        for number in (1, 2):
            os.write(1, b"a library's greeting\n")
            yield {"answer": number}
            assert capfd.readouterr().out == json.dumps({"answer": number}) + "\n", "at once"

    monkeypatch.setattr(own_worker, "answers", answers)
    given = [f"--{flag.replace('_', '-')}" for flag in flags]
    monkeypatch.setattr(sys, "argv", ["--envpool", "native-native-cpu", *given])
    output = os.dup(1)
    try:
        own_worker.main()
    finally:
        os.dup2(output, 1)
        os.close(output)
    assert asked == [("native-native-cpu", flags)]
