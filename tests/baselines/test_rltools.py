"""How the RLtools worker counts, with an imitation of RLtools' loop: it needs nothing that RLtools installs."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import gymnasium
import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry


class State:
    """RLtools' loop as far as the worker sees it; `trained` counts its gradient steps.

    `operations_generic.h` of RLtools' TD3 and SAC: loop step s, from 0, steps each environment, and trains if s is at
    least N_WARMUP_STEPS_CRITIC and a multiple of CRITIC_TRAINING_INTERVAL.
    """

    settings, make = {}, None

    def __init__(self, seed):
        self.environments = [self.make() for _ in range(self.settings["N_ENVIRONMENTS"])]
        self.ended = [True] * len(self.environments)
        self.step_number = self.trained = 0

    def step(self):
        for number, environment in enumerate(self.environments):
            if self.ended[number]:
                environment.reset()
            answer = environment.step(environment.action_space.sample())
            self.ended[number] = answer[2] or answer[3]
        begun = self.step_number >= self.settings["N_WARMUP_STEPS_CRITIC"]
        self.trained += begun and self.step_number % self.settings["CRITIC_TRAINING_INTERVAL"] == 0
        self.step_number += 1


@pytest.fixture
def worker(monkeypatch):
    """The worker's module, with an imitation of `learner`, which compiles RLtools."""

    def compiled(source, module, name, settings, flags):
        State.settings = settings
        return SimpleNamespace(
            State=State, set_environment_factory=lambda make: setattr(State, "make", staticmethod(make))
        )

    learner = ModuleType("learner")
    learner.SETTINGS = {"sac": lambda workload, batch_size: {}}
    learner.PACKAGE, learner.compiled = Path("/"), compiled
    monkeypatch.setitem(sys.modules, "learner", learner)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", [*map(str, (registry.BASELINES, registry.ENVIRONMENTS)), *sys.path])
    import job_loop

    return job_loop.load(registry.BASELINES / "rltools" / "worker.py")


@pytest.mark.parametrize(
    ("batch_size", "learning_starts", "actors", "interval"),
    [(8, 40, 1, 1), (64, 40, 1, 1), (64, 40, 4, 4), (8, 41, 4, 4), (8, 40, 1, 3)],
)
def test_the_gradient_steps_are_those_that_rltools_takes(
    worker, batch_size, learning_starts, actors, interval
):
    """Also if a batch holds more transitions than learning starts with."""
    tables = workloads.load("pendulum-sac").tables()
    tables["training"] |= {
        "learning_starts": learning_starts, "actors": actors, "update_interval": interval,
    }  # fmt: skip
    made = worker.Training({"workload": tables, "batch_size": batch_size, "seed": 0, "threads": 1})
    assert made.gradient_steps == made.state.trained > 0
    before = made.environment_steps
    result = made.advance(30)
    assert made.gradient_steps == made.state.trained
    assert result["environment_steps"] == made.environment_steps - before == 30 * interval


class Rewardless(gymnasium.Env):
    """Ends each episode after three steps without reward."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        self.left = 3
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), 0.0, not self.left, False, {}


def test_an_episode_with_a_return_of_zero_is_an_episode(worker):
    agent = SimpleNamespace(episode_returns=[], environment_steps=0)
    environment = worker.Counted(Rewardless(), agent, 0)
    environment.reset()
    for _ in range(2):
        environment.reset()
        for _ in range(3):
            environment.step(environment.action_space.sample())
    environment.reset()
    assert (agent.episode_returns, agent.environment_steps) == ([0.0, 0.0], 6)
