"""Trains with RLtools' own loop in C++, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 64, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/rltools/.venv/bin/python -P baselines/rltools/worker.py

The worker trains TD3, SAC or PPO with the workload's environment, network, hyper-parameters, replay capacity,
learning starts and update interval. RLtools calls the environment in Python, as its interface requires. These
settings favour RLtools: the loop is compiled for this workload before anything is timed, with RLtools' own compiler
call (-O3 -march=native -ffast-math) and OpenBLAS; there is no evaluation, no statistics and no log. The result's
`notes` say where RLtools departs from the workload.
"""

import os
import sys
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # read when it is loaded; other numbers of threads are refused
sys.path.insert(0, str(Path(__file__).parent))

import gymnasium
import learner
import numpy as np
from agent import Agent, cadence, make_environment
from job_loop import UnsupportedError, serve

NO_END = 10**12


class Counted(gymnasium.Wrapper):
    """Counts the steps of an environment, and appends the return of an episode to the agent's list at its end.

    The end of an episode is the next `reset`, because RLtools does not announce it otherwise.
    """

    def __init__(self, environment: gymnasium.Env, agent: "Training", seed: int) -> None:
        super().__init__(environment)
        self._agent, self._return, self._begun = agent, 0.0, False
        self.env.reset(seed=seed)

    def reset(self) -> tuple[Any, dict[str, Any]]:
        if self._begun:
            self._agent.episode_returns.append(self._return)
        self._return, self._begun = 0.0, False
        return self.env.reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        answer = self.env.step(action)
        self._return, self._begun = self._return + float(answer[1]), True
        self._agent.environment_steps += 1
        return answer


class Training(Agent):
    """Trains one agent with RLtools' own loop, compiled for the workload.

    Raises:
        UnsupportedError: RLtools has no such algorithm or network, or cannot keep this ratio of steps.
    """

    packages = ("rltools", "scipy-openblas32", "pybind11")

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        workload, self.seed = job["workload"], job["seed"]
        self.name = workload["algorithm"]["name"]
        if self.name not in learner.SETTINGS:
            raise UnsupportedError(f"algorithm {self.name}: RLtools has {', '.join(learner.SETTINGS)}")
        if job["threads"] != 1:
            raise UnsupportedError(f"threads {job['threads']}: RLtools' loop is compiled for one")
        environment = workload["environment"]
        if environment["action_kind"] != "continuous":
            raise UnsupportedError("discrete actions: RLtools' Python interface has continuous ones alone")
        try:
            settings = learner.SETTINGS[self.name](workload, job["batch_size"])
        except ValueError as error:
            raise UnsupportedError(str(error)) from error
        settings |= self._loop(workload, job["batch_size"])
        self.environments_made = 0
        self.environment = environment
        example = make_environment(environment)
        limit = example.spec.max_episode_steps or 1000
        (observation_size,), action_size = environment["observation_shape"], environment["action_size"]
        flags = [
            "-DRL_TOOLS_USE_PYTHON_ENVIRONMENT",
            f"-DRL_TOOLS_OBSERVATION_DIM={observation_size}",
            f"-DRL_TOOLS_ACTION_DIM={action_size}",
            f"-DRL_TOOLS_EPISODE_STEP_LIMIT={limit}",
        ]
        source = learner.PACKAGE / "interface" / "training" / "training.cpp"
        # Each workload compiles its own module, once.
        kind = zlib.crc32(repr((sorted(settings.items()), flags)).encode())
        extension = learner.compiled(source, f"training_{self.name}_{kind}", self.name, settings, flags)
        extension.set_environment_factory(self._make)
        self.state = extension.State(self.seed)
        for _ in range(settings.get("N_WARMUP_STEPS_CRITIC", 0)):  # RLtools trains from then on
            self.state.step()
        self.warm_up()

    def _loop(self, workload: dict[str, Any], batch_size: int) -> dict[str, Any]:
        """Return the settings of the loop around the gradient step, and the numbers of steps per round."""
        training, algorithm = workload["training"], workload["algorithm"]
        actors = training["actors"]
        if self.name == "ppo":
            samples = actors * algorithm["trajectory_length"]
            self.updates = algorithm["epochs"] * (samples // batch_size)
            self.vector_steps = 1  # of the loop
            self.notes["optimizer"] = (
                "the policy's learning rate for both networks; no KL stop, no clipped norm"
            )
            return {"STEP_LIMIT": NO_END, "EPISODE_STEP_LIMIT": 1000}
        self.vector_steps, self.updates = cadence(training)
        if self.updates != 1:
            raise UnsupportedError(
                f"{actors} actors and an update interval of {training['update_interval']}: RLtools takes at most one "
                "gradient step a step of its environments"
            )
        self.notes["optimizer"] = "the critic's learning rate for all networks"
        self.notes["replay"] = "uniform: RLtools has no prioritised replay"
        first = max(batch_size, -(-training["learning_starts"] // actors))
        settings = dict.fromkeys(("N_WARMUP_STEPS", "N_WARMUP_STEPS_ACTOR", "N_WARMUP_STEPS_CRITIC"), first)
        settings |= {
            "N_ENVIRONMENTS": actors,
            "REPLAY_BUFFER_CAP": workload["replay"]["capacity"],
            "STEP_LIMIT": NO_END,
        }
        settings |= {"CRITIC_TRAINING_INTERVAL": self.vector_steps}
        for name in ("ACTOR_TRAINING", "ACTOR_TARGET_UPDATE", "CRITIC_TARGET_UPDATE"):
            delay = algorithm.get("policy_delay", 1)
            settings[f"{name}_INTERVAL"] = self.vector_steps * delay
        if self.name == "td3":
            settings["EXPLORATION_NOISE"] = algorithm["exploration_noise"]
        return settings

    def _make(self) -> gymnasium.Env:
        environment = gymnasium.wrappers.RescaleAction(make_environment(self.environment), -1.0, 1.0)
        self.environments_made += 1
        return Counted(environment, self, self.seed + self.environments_made)

    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the action of RLtools' own evaluation for one observation."""
        return self.state.action(observation.astype(np.float32))

    def iterate(self) -> None:
        """Run RLtools' loop until one more gradient step is taken; for PPO, for one iteration."""
        for _ in range(self.vector_steps):
            self.state.step()
        self.gradient_steps += self.updates


if __name__ == "__main__":
    serve(Training)
