"""RLlib's new API stack as a worker: a job in, a result out, one line of JSON each (`harness/workers.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/rllib/.venv/bin/python -P baselines/rllib/worker.py

It trains DQN or SAC with its own prioritised replay on the workload's environment, network, hyper-parameters, replay
capacity, learning starts and update interval. The settings that favour it: environment and learner in this process
(no message a step), no evaluation, no dueling, no minimum time an iteration. Where it cannot do what the workload
says, the result's `notes` say so.
"""

import gc
import logging
import time
from typing import Any

import gymnasium
import ray
import torch
from job_loop import UnsupportedError, register_environments, serve, versions
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.tune.registry import register_env

WARM_UP_GRADIENT_STEPS = 50
ITERATION_STEPS = 64  # environment steps of one `train()`, whose own overhead they share


# Of the episodes that ended; RLlib copies its configuration, and would copy what a callback is bound to.
EPISODE_RETURNS: list[float] = []


def episode_ended(*, episode: Any, **_: Any) -> None:
    """Keeps the return of an episode."""
    EPISODE_RETURNS.append(float(episode.get_return()))


class Agent:
    """One algorithm in training.

    Args:
        job: the first job for this workload, batch size, seed and threads.

    Raises:
        UnsupportedError: RLlib has no such algorithm or network here.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        workload = job["workload"]
        self.notes = {
            "replay": "episodes, cut into transitions when sampled; weights by the whole buffer's largest"
        }
        self.gradient_steps = self.environment_steps = 0
        self.batch_size = job["batch_size"]
        torch.set_num_threads(job["threads"])
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        self.algorithm: Algorithm = self._config(job).build_algo()
        while self.environment_steps < workload["training"]["learning_starts"]:
            self._iterate()
        while self.gradient_steps < WARM_UP_GRADIENT_STEPS:
            self._iterate()

    def _config(self, job: dict[str, Any]) -> Any:
        workload = job["workload"]
        algorithm, training, replay = workload["algorithm"], workload["training"], workload["replay"]
        kinds = {"dqn": self._dqn, "sac": self._sac}
        if algorithm["name"] not in kinds:
            raise UnsupportedError(f"algorithm {algorithm['name']} is not mapped to RLlib")
        network = workload["network"]
        if network["kind"] != "mlp":
            raise UnsupportedError(f"network {network['kind']} is not mapped to RLlib")
        if not replay["prioritized"]:
            self.notes["replay"] += "; prioritised all the same"
        config = kinds[algorithm["name"]](algorithm)
        return (
            config.environment(make_environment(workload["environment"]))
            .env_runners(num_env_runners=0, num_envs_per_env_runner=training["actors"])
            .learners(num_learners=0)
            .rl_module(
                model_config={
                    "fcnet_hiddens": list(network["hidden"]),
                    "fcnet_activation": network["activation"],
                    "head_fcnet_hiddens": [],
                }
            )
            .training(
                gamma=algorithm["gamma"],
                tau=algorithm["tau"],
                train_batch_size_per_learner=job["batch_size"],
                num_steps_sampled_before_learning_starts=training["learning_starts"],
                # Transitions trained on for each environment step.
                training_intensity=job["batch_size"] / training["update_interval"],
                replay_buffer_config={
                    "type": "PrioritizedEpisodeReplayBuffer",
                    "capacity": replay["capacity"],
                    "alpha": replay["alpha"],
                    "beta": replay["beta_initial"],
                },
            )
            .callbacks(on_episode_end=episode_ended)
            .debugging(seed=job["seed"], log_level="ERROR")
            .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=ITERATION_STEPS)
        )

    def _dqn(self, algorithm: dict[str, Any]) -> DQNConfig:
        first, last = algorithm["epsilon_initial"], algorithm["epsilon_final"]
        return DQNConfig().training(
            lr=algorithm["learning_rate"],
            double_q=algorithm["double"],
            dueling=False,
            td_error_loss_fn=algorithm["loss"],
            grad_clip=algorithm.get("maximum_gradient_norm"),
            target_network_update_freq=algorithm["target_interval"],
            epsilon=[(0, first), (algorithm["exploration_steps"], last)],
        )

    def _sac(self, algorithm: dict[str, Any]) -> SACConfig:
        entropy = algorithm["target_entropy"]
        if not algorithm["tune_temperature"]:
            self.notes["temperature"] = "tuned: RLlib always tunes it"
        return SACConfig().training(
            actor_lr=algorithm["actor_learning_rate"],
            critic_lr=algorithm["critic_learning_rate"],
            alpha_lr=algorithm["temperature_learning_rate"],
            initial_alpha=algorithm["initial_temperature"],
            target_entropy="auto" if entropy is None else entropy,
            twin_q=True,
        )

    def _iterate(self) -> float:
        """One `train()`; its seconds."""
        start_s = time.perf_counter()
        result = self.algorithm.train()
        wall_s = time.perf_counter() - start_s
        self.environment_steps = int(result["num_env_steps_sampled_lifetime"])
        if learners := result.get("learners"):
            trained = learners["__all_modules__"]["num_module_steps_trained_lifetime"]
            self.gradient_steps = int(trained // self.batch_size)
        return wall_s

    def advance(self, gradient_steps: int) -> dict[str, Any]:
        """Train on for at least `gradient_steps`, and say what that took."""
        gc.collect()
        before = self.gradient_steps, self.environment_steps
        EPISODE_RETURNS.clear()
        wall_s = 0.0
        while self.gradient_steps < before[0] + gradient_steps:
            wall_s += self._iterate()
        return {
            "gradient_steps": self.gradient_steps - before[0],
            "environment_steps": self.environment_steps - before[1],
            "wall_s": wall_s,
            "episode_returns": list(EPISODE_RETURNS),
            "versions": versions("ray"),
            "notes": self.notes,
        }


def make_environment(environment: dict[str, Any]) -> str:
    """The workload's environment under a name that RLlib knows."""
    register_environments()
    register_env(
        "workload",
        lambda _: gymnasium.make(environment["id"], disable_env_checker=True, **environment["kwargs"]),
    )
    return "workload"


if __name__ == "__main__":
    serve(Agent)
