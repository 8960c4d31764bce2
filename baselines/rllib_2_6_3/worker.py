"""Trains with RLlib 2.6.3, the last version with DDPG, as a worker that answers jobs in JSON.

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/rllib_2_6_3/.venv/bin/python -P \\
        baselines/rllib_2_6_3/worker.py

The papers MAP and PAL compare with the DDPG and DQN of the RLlib of their time, which this version still has. The
worker trains DDPG or TD3 with RLlib's prioritised replay, with the workload's environment, network, hyper-parameters,
replay capacity, learning starts and update interval, with networks on the job's device. These settings favour RLlib:
environment and learner in this process (no message per step), no evaluation, no logs, no filter of observations, and
no minimum time per iteration. A call of `train()` takes 64 environment steps, not the default 1000, so that jobs are
short: that costs 0.4% of the time (2 ms a call, measured with cartpole-ddpg). The result's `notes` say where RLlib
departs from the workload.
"""

import logging
import os
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # the default is one per core; PyTorch's own threads are set from the job
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # so that Ray listens on the loopback interface alone

import gymnasium
import ray
import torch
from agent import Agent, hidden_layers, make_environment
from job_loop import CPU, UnsupportedError, serve
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ddpg import DDPGConfig
from ray.rllib.algorithms.simple_q import simple_q
from ray.rllib.algorithms.td3 import TD3Config
from ray.rllib.utils.metrics import NUM_ENV_STEPS_TRAINED
from ray.tune.logger import NoopLogger
from ray.tune.registry import register_env
from torch_device import device_of, devices_of

ITERATION_STEPS = 64  # environment steps per `train()`, which share its overhead
USABLE = (CPU, "cuda", "cuda:0")

# Returns of ended episodes. A global, because RLlib copies its configuration with everything bound to a callback.
EPISODE_RETURNS: list[float] = []


class Returns(DefaultCallbacks):
    """A callback of RLlib that appends the return of each ended episode to `EPISODE_RETURNS`."""

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        EPISODE_RETURNS.append(float(episode.total_reward))


class Training(Agent):
    """Trains DDPG or TD3 with RLlib 2.6.3.

    Raises:
        UnsupportedError: RLlib 2.6.3 has no such algorithm or network, it cannot use the job's device, or this virtual
            environment lacks the workload's environment.
    """

    packages = ("ray",)
    devices = ("cpu", "cuda")
    learns_alone = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.alone = not job.get("environment", True)
        self.episode_returns = EPISODE_RETURNS
        self.batch_size, self.device = job["batch_size"], device_of(job)
        torch.set_num_threads(job["threads"])
        config = self._config(job)
        make_environment(job["workload"]["environment"]).close()  # raises if it does not exist
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.algorithm = config.build(logger_creator=lambda logged: NoopLogger(logged, ""))
        if self.device != CPU:
            self.notes["device"] = devices_of(self.algorithm.get_policy().model.parameters())
        while self.environment_steps < job["workload"]["training"]["learning_starts"]:
            self.iterate()
        if self.alone:  # DDPG and TD3 inherit their training step from it
            simple_q.synchronous_parallel_sample = lambda **_: []
        self.warm_up()

    def _config(self, job: dict[str, Any]) -> DDPGConfig:
        workload = job["workload"]
        algorithm, training, replay = workload["algorithm"], workload["training"], workload["replay"]
        kinds = {"ddpg": DDPGConfig, "td3": TD3Config}
        if algorithm["name"] not in kinds:
            raise UnsupportedError(f"algorithm {algorithm['name']} is not mapped to RLlib 2.6.3")
        hidden, activation = hidden_layers(workload, {"relu": "relu", "tanh": "tanh"}, "RLlib 2.6.3")
        if not replay["prioritized"]:
            self.notes["replay"] = "prioritised all the same"
        settings = {"twin_q": False, "policy_delay": 1, "smooth_target_policy": False}
        if algorithm["name"] == "td3":
            settings = {
                "twin_q": True,
                "policy_delay": algorithm["policy_delay"],
                "smooth_target_policy": True,
            }
            settings |= {"target_noise": algorithm["target_noise"]}
            settings |= {"target_noise_clip": algorithm["target_noise_clip"]}
        device = device_of(job)
        if device not in USABLE:
            raise UnsupportedError(
                f"device: found {device}; allowed: {', '.join(USABLE)}: RLlib 2.6.3 takes the first"
            )
        environment = workload["environment"]
        register_env("workload", lambda _: rescaled(environment))
        return (
            kinds[algorithm["name"]]()
            .environment("workload")
            .framework("torch")
            .resources(num_gpus=int(device != CPU))
            .rollouts(
                num_rollout_workers=0, num_envs_per_worker=training["actors"], rollout_fragment_length=1
            )
            .exploration(
                exploration_config={
                    "type": "GaussianNoise",
                    "random_timesteps": training["learning_starts"],
                    "stddev": algorithm["exploration_noise"],
                    "initial_scale": 1.0,
                    "final_scale": 1.0,
                    "scale_timesteps": 1,
                }
            )
            .training(
                gamma=algorithm["gamma"],
                tau=algorithm["tau"],
                actor_hiddens=hidden,
                actor_hidden_activation=activation,
                critic_hiddens=hidden,
                critic_hidden_activation=activation,
                actor_lr=algorithm["actor_learning_rate"],
                critic_lr=algorithm["critic_learning_rate"],
                use_huber=False,
                l2_reg=None,
                target_network_update_freq=0,
                train_batch_size=job["batch_size"],
                num_steps_sampled_before_learning_starts=training["learning_starts"],
                # Transitions trained on per environment step.
                training_intensity=job["batch_size"] / training["update_interval"],
                replay_buffer_config={
                    "type": "MultiAgentPrioritizedReplayBuffer",
                    "capacity": replay["capacity"],
                    "prioritized_replay_alpha": replay["alpha"],
                    "prioritized_replay_beta": replay["beta_initial"],
                    "prioritized_replay_eps": replay["epsilon"],
                    "worker_side_prioritization": False,
                },
                **settings,
            )
            .callbacks(Returns)
            .debugging(seed=job["seed"], log_level="ERROR")
            .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=ITERATION_STEPS)
        )

    def iterate(self) -> None:
        """Call RLlib's `train()` once, and update the counts of steps."""
        result = self.algorithm.train()
        self._wait()
        self.environment_steps = int(result["num_env_steps_sampled"])
        self.gradient_steps = int(result["num_env_steps_trained"] // self.batch_size)

    def _wait(self) -> None:
        if self.device != CPU:
            torch.cuda.synchronize(self.device)  # a step may return before the device is done

    def learn(self, gradient_steps: int) -> None:
        """Take gradient steps without environment steps, at most `gradient_steps`.

        This calls RLlib's own training step, without the rest of `train()`; no samples are stored.
        """
        for _ in range(min(gradient_steps, ITERATION_STEPS)):
            self.algorithm.training_step()
        self._wait()
        trained = int(self.algorithm._counters[NUM_ENV_STEPS_TRAINED])
        self.gradient_steps = trained // self.batch_size


def rescaled(environment: dict[str, Any]) -> gymnasium.Env:
    """Create the workload's environment, with actions rescaled to [-1, 1].

    Args:
        environment: the workload's `[environment]` table.
    """
    env = make_environment(environment)
    return gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)


if __name__ == "__main__":
    serve(Training)
