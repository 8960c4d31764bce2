"""A whole baseline, a linear Q-function: copy the folder to `baselines/<name>/` and put a library in its place."""

from typing import Any

import numpy as np
from agent import Agent, Environments, cadence
from job_loop import UnsupportedError, serve


class Training(Agent):
    """One agent in training; `job` is the first one for this workload, batch size, seed and threads."""

    packages = ("numpy",)  # whose versions a result names

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        workload = job["workload"]
        self.settings = workload["algorithm"]
        if self.settings["name"] != "dqn":
            raise UnsupportedError(f"algorithm {self.settings['name']} is not mapped to a linear Q-function")
        self.notes["replay"] = "none: learns from the latest transitions"  # what departs from the workload
        self.vector_steps, self.updates = cadence(workload["training"])
        self.environments = Environments(workload, job["seed"], self.episode_returns)
        size, actions = (
            workload["environment"]["observation_shape"][0],
            workload["environment"]["action_size"],
        )
        self.weights = np.zeros((size, actions))
        self.warm_up()

    def iterate(self) -> None:
        """Step the environments, then take the gradient steps that belong to these steps, and count both."""
        for _ in range(self.vector_steps):
            before, actions = self.environments.observations, self.environments.random_actions()
            after, rewards, terminated, _ = self.environments.step(actions)
            self.environment_steps += len(actions)
        following = (after @ self.weights).max(1)
        target = rewards + self.settings["gamma"] * np.where(terminated, 0, following)
        for _ in range(self.updates):
            error = target - (before @ self.weights)[np.arange(len(actions)), actions]
            np.add.at(self.weights.T, actions, 1e-3 * error[:, None] * before)
            self.gradient_steps += 1


if __name__ == "__main__":
    serve(Training)
