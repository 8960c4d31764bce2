"""Every worker that trains speaks the protocol: in its own environment where that is built, the plain ones here too."""

import os
import sys

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.own_settings import goals
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob

LIMIT_S = 900.0
OFF_POLICY = ("cartpole-dqn", "cartpole-ddpg", "pendulum-td3", "pendulum-sac")
ALL = (*OFF_POLICY, "cartpole-ppo")
# Compiled for a minute and more: one workload stands for the others.
TRAINED = {
    "tianshou": ALL,
    "pfrl": ALL,
    "cleanrl_style": ALL,
    "leanrl_style": ("cartpole-dqn",),
    "spinningup_style": ("cartpole-ppo",),
    "ppo2_style": ("cartpole-ppo",),
    "rllib_2_6_3": ("cartpole-ddpg",),
    "rltools": ("pendulum-sac",),
    "rllib": ("cartpole-ppo",),
    "sbx": ALL,
    "torchrl": ("cartpole-dqn", "pendulum-sac", "cartpole-ppo"),
    "pufferlib": ("cartpole-ppo",),
}
CANNOT = {
    "tianshou": "pong-dqn",
    "pfrl": "pong-dqn",
    "cleanrl_style": "pong-dqn",
    "leanrl_style": "pong-ppo",
    "spinningup_style": "pong-ppo",
    "ppo2_style": "cartpole-dqn",
    "rllib_2_6_3": "cartpole-dqn",
    "rltools": "cartpole-dqn",
    "torchrl": "pendulum-td3",
    "sbx": "pong-dqn",
    "pufferlib": "cartpole-dqn",
}
EVALUATED = {system for goal in goals().values() for system in goal.systems}
PPO = workloads.load("cartpole-ppo").tables()["algorithm"]
PPO_ACTORS = workloads.load("cartpole-ppo").training.actors


def job(name, gradient_steps=20, **training):
    tables = workloads.load(name).tables()
    if tables["algorithm"]["name"] != "ppo":
        tables["training"] |= {"learning_starts": 100}
    tables["training"] |= training
    return WorkerJob(workload=tables, batch_size=32, seed=0, gradient_steps=gradient_steps)


def built(name):
    """A baseline's worker; the test is skipped where its environment is not built."""
    if not registry.is_built(name):
        pytest.skip(f"baselines/{name}/.venv is not built: `placerl baselines {name}`")
    return registry.baseline_worker(name)


def here(name):
    """The worker of a baseline that needs nothing but what this project's own environment has."""
    modules = os.pathsep.join(map(str, (registry.ENVIRONMENTS, registry.BASELINES)))
    script = registry.BASELINES / name / "worker.py"
    return Worker([sys.executable, "-P", str(script)], environment_variables={"PYTHONPATH": modules})


@pytest.fixture(scope="module")
def plain():
    """The CleanRL-style file at work, one process for all tests: loading PyTorch is most of what they take."""
    with here("cleanrl_style") as worker:
        yield worker


def trains(worker, name, further_rows=lambda result: 0):
    """Trains for a while; `further_rows` of a result are those that a library adds to the workload's samples."""
    first, second = (worker.ask(job(name, steps), LIMIT_S) for steps in (20, 150))
    assert first.gradient_steps >= 20
    assert second.gradient_steps >= 150
    if name in OFF_POLICY:
        assert (
            second.environment_steps == workloads.load(name).training.update_interval * second.gradient_steps
        )
    else:  # K epochs of minibatches of M
        rows = second.environment_steps + further_rows(second)
        assert second.gradient_steps == pytest.approx(PPO["epochs"] * rows / 32, rel=0.05)
    assert first.episode_returns or second.episode_returns or name.startswith("pendulum")
    return second


def rows_of_rllib(result):
    """RLlib adds a row to each episode, for the value after its last step, and to the part of one that goes on."""
    iterations = result.environment_steps / (PPO_ACTORS * PPO["trajectory_length"])
    return len(result.episode_returns) + PPO_ACTORS * iterations


@pytest.mark.parametrize("name", ALL)
def test_the_plain_file_trains_in_this_environment(plain, name):
    result = trains(plain, name)
    assert result.versions["torch"]
    assert ("uniform" in result.notes.get("replay", "")) == (name in OFF_POLICY)


@pytest.mark.parametrize("name", ALL)
def test_the_plain_file_runs_greedy_episodes(plain, name):
    asked = job(name).model_copy(update={"evaluation_episodes": 2})
    first, second = (plain.ask(asked, LIMIT_S) for _ in range(2))
    assert len(first.evaluation_returns) == len(second.evaluation_returns) == 2
    assert second.environment_steps_so_far == first.environment_steps_so_far + second.environment_steps
    if name in OFF_POLICY:
        assert first.environment_steps_so_far > 100 + first.environment_steps, "with the random steps"


STYLES_OF_PPO = ("spinningup_style", "ppo2_style")


@pytest.mark.parametrize("name", STYLES_OF_PPO)
def test_the_papers_kinds_of_ppo_train_in_this_environment(name):
    """Two actors; a job's parts are within its time, and greedy episodes have none of it."""
    asked = job("cartpole-ppo", actors=2).model_copy(update={"evaluation_episodes": 2})
    with here(name) as worker:
        first, second = (worker.ask(asked, LIMIT_S) for _ in range(2))
        with pytest.raises(WorkerFailure, match="found cuda:99; PyTorch sees cpu") as failure:
            worker.ask(asked.model_copy(update={"device": "cuda:99"}), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED
    per_iteration = PPO["epochs"] * 2 * PPO["trajectory_length"] // 32
    assert first.gradient_steps == second.gradient_steps == per_iteration
    assert second.environment_steps_so_far == 3 * 2 * PPO["trajectory_length"], "with that of the warm-up"
    assert set(second.terms_s) == {"environment", "infer", "prepare", "learner"}
    assert 0 < sum(second.terms_s.values()) <= second.wall_s
    assert len(second.evaluation_returns) == 2


def test_mini_batches_that_the_processes_cannot_share_are_refused():
    with here("spinningup_style") as worker, pytest.raises(WorkerFailure, match="multiples of") as failure:
        worker.ask(job("cartpole-ppo", actors=3), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


@pytest.mark.gpu
@pytest.mark.parametrize("name", STYLES_OF_PPO)
def test_the_papers_kinds_of_ppo_train_on_a_gpu(name):
    with here(name) as worker:
        result = worker.ask(job("cartpole-ppo", actors=2).model_copy(update={"device": "cuda"}), LIMIT_S)
    assert result.gradient_steps > 0


@pytest.mark.parametrize(("actors", "interval"), [(1, 4), (3, 2), (4, 1)])
def test_the_plain_file_keeps_the_update_interval(plain, actors, interval):
    result = plain.ask(job("cartpole-dqn", 24, actors=actors, update_interval=interval), LIMIT_S)
    assert result.gradient_steps >= 24
    assert result.environment_steps == interval * result.gradient_steps


def test_what_the_plain_file_cannot_do_is_refused():
    with here("cleanrl_style") as worker, pytest.raises(WorkerFailure, match="nature_cnn") as failure:
        worker.ask(job("pong-dqn"), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


def test_settings_of_a_library_s_own_are_refused_by_one_that_has_none():
    asked = job("cartpole-dqn").model_copy(update={"library": {"train_freq": 2}})
    with here("cleanrl_style") as worker, pytest.raises(WorkerFailure, match="train_freq") as failure:
        worker.ask(asked, LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("baseline", "name"), [(b, name) for b, names in TRAINED.items() for name in names])
def test_a_baseline_trains_in_its_own_environment(baseline, name):
    with built(baseline) as worker:
        if baseline in EVALUATED:
            asked = job(name).model_copy(update={"evaluation_episodes": 2})
            assert len(worker.ask(asked, LIMIT_S).evaluation_returns) == 2
        result = trains(worker, name, rows_of_rllib if baseline == "rllib" else lambda result: 0)
    if name == "cartpole-dqn":  # whose step sizes fall
        assert ("step sizes" in result.notes) == (baseline != "cleanrl_style")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_parameters_of_the_older_rllib_are_on_a_gpu():
    with built("rllib_2_6_3") as worker:
        result = worker.ask(job("cartpole-ddpg").model_copy(update={"device": "cuda"}), LIMIT_S)
    assert result.gradient_steps >= 20
    assert result.notes["device"] == "cuda:0"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("baseline", "name"), CANNOT.items())
def test_what_a_baseline_cannot_do_is_refused(baseline, name):
    with built(baseline) as worker, pytest.raises(WorkerFailure) as failure:
        worker.ask(job(name), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED


def test_every_folder_is_a_baseline_and_names_its_torch():
    folders = {
        path.name for path in registry.BASELINES.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert set(registry.baseline_names()) == folders
    for name in folders:
        folder = registry.BASELINES / name
        assert (folder / "worker.py").exists() or registry.replay_alone(name), name
        requirements = (folder / "requirements.txt").read_text()
        if name != "rltools":  # which computes without PyTorch
            wanted = "torch==2.14.1" if name == "torchrl" else "torch"  # the one it was compiled for
            assert f"\n{wanted}\n" in requirements, name
