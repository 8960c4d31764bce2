"""Trains with RLlib's new API stack, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/rllib/.venv/bin/python -P baselines/rllib/worker.py

The worker trains DQN or SAC with RLlib's prioritised replay, or PPO, with the workload's environment, network, hyper-
parameters, replay capacity, learning starts and update interval. These settings favour RLlib: environment and learner
run in this process (no message per step), the learner on the job's device and actions on the CPU, and there is no
evaluation, no dueling and no minimum time per iteration. With DQN and SAC, a call of `train()` takes 64 steps, not
DQN's default of 1000, so that jobs are short: that costs 0.5% of the time (3 ms a call, measured with cartpole-dqn;
0.7% without environment steps). The result's `notes` say where RLlib departs from the workload.
"""

import logging
import os
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # so that Ray listens on the loopback interface alone

import ray
import torch
from agent import RETURNS, Agent, KeptReturns, hidden_layers, make_environment
from job_loop import CPU, UnsupportedError, serve
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig, dqn
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.tune.registry import register_env
from torch_device import device_of, devices_of

ITERATION_STEPS = 64  # environment steps per `train()`, which share its overhead


class Cadence:
    """Decides how often a training step of RLlib's off-policy algorithms stores samples, and how often it trains.

    It replaces RLlib's function `calculate_rr_weights`, in jobs in which only learner and replay run. At first,
    samples are stored to fill the replay. After `store` is set to 0, a training step consists of RLlib's own loop of
    sampling, gradient steps and priority updates, without a call of the environment.

    Attributes:
        store: how often a training step stores new samples.
        train: how often it samples a batch and takes a gradient step.
    """

    def __init__(self) -> None:
        self.store, self.train = ITERATION_STEPS, 1
        dqn.calculate_rr_weights = self

    def __call__(self, config: Any) -> list[int]:
        return [self.store, self.train]


class Training(Agent):
    """Trains one algorithm of RLlib.

    Raises:
        UnsupportedError: RLlib has no such algorithm or network, or PyTorch does not see the job's device.
    """

    packages = ("ray",)
    devices = ("cpu", "cuda")
    learns_alone = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.alone = not job.get("environment", True)
        workload = job["workload"]
        self.on_policy = workload["algorithm"]["name"] == "ppo"
        self.episode_returns = RETURNS
        self.batch_size, self.device = job["batch_size"], device_of(job)
        torch.set_num_threads(job["threads"])
        config = self._config(job)
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.algorithm: Algorithm = config.build_algo()
        if self.device != CPU:
            self.notes["device"] = devices_of(self._parameters())
        if self.alone:
            self._cadence = Cadence()
        while self.environment_steps < workload["training"]["learning_starts"]:
            self.iterate()
        if self.alone:
            self._cadence.store = 0
        self.warm_up()

    def _parameters(self) -> list[torch.nn.Parameter]:
        """Return the parameters of the learner, of which there is one, in this process."""
        (result,) = self.algorithm.learner_group.foreach_learner(lambda learner: learner.module)
        return [parameter for network in result.get().values() for parameter in network.parameters()]

    def _config(self, job: dict[str, Any]) -> Any:
        workload = job["workload"]
        algorithm, training = workload["algorithm"], workload["training"]
        kinds = {"dqn": self._dqn, "sac": self._sac, "ppo": self._ppo}
        if algorithm["name"] not in kinds:
            raise UnsupportedError(f"algorithm {algorithm['name']} is not mapped to RLlib")
        hidden, activation = hidden_layers(workload, {"relu": "relu", "tanh": "tanh"}, "RLlib")
        off_policy = algorithm["name"] != "ppo"
        config = kinds[algorithm["name"]](workload)
        config = self._replaying(config, job) if off_policy else self._iterating(config, job)
        return (
            config.environment(registered(workload["environment"]))
            .env_runners(num_env_runners=0, num_envs_per_env_runner=training["actors"])
            .learners(**_learner_on(device_of(job)))
            .rl_module(
                model_config={
                    "fcnet_hiddens": hidden,
                    "fcnet_activation": activation,
                    "head_fcnet_hiddens": [],
                    "vf_share_layers": False,
                }
            )
            .training(gamma=algorithm["gamma"])
            .debugging(seed=job["seed"], log_level="ERROR")
            .reporting(
                min_time_s_per_iteration=0,
                min_sample_timesteps_per_iteration=ITERATION_STEPS if off_policy and not self.alone else 0,
            )
        )

    def _replaying(self, config: Any, job: dict[str, Any]) -> Any:
        """Return the configuration with a replay of the workload's size, and its update interval."""
        workload = job["workload"]
        training, replay = workload["training"], workload["replay"]
        self.notes["replay"] = (
            "episodes, cut into transitions when sampled; weights by the whole buffer's largest"
        )
        if not replay["prioritized"]:
            self.notes["replay"] += "; prioritised all the same"
        return config.training(
            tau=workload["algorithm"]["tau"],
            train_batch_size_per_learner=job["batch_size"],
            num_steps_sampled_before_learning_starts=training["learning_starts"],
            # Transitions trained on per environment step.
            training_intensity=job["batch_size"] / training["update_interval"],
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": replay["capacity"],
                "alpha": replay["alpha"],
                "beta": replay["beta_initial"],
            },
        )

    def _iterating(self, config: PPOConfig, job: dict[str, Any]) -> PPOConfig:
        """Return the configuration with iterations of N T samples, in minibatches of M."""
        algorithm = job["workload"]["algorithm"]
        return config.training(
            train_batch_size_per_learner=job["workload"]["training"]["actors"]
            * algorithm["trajectory_length"],
            minibatch_size=job["batch_size"],
            num_epochs=algorithm["epochs"],
        )

    def _ppo(self, workload: dict[str, Any]) -> PPOConfig:
        algorithm = workload["algorithm"]
        self.notes["optimizer"] = "one Adam for both networks, with the policy's learning rate"
        self.notes["advantages"] = "normalised over the samples of an iteration"
        if workload["environment"]["action_kind"] == "continuous":
            self.notes["deviations of actions"] = "outputs of the policy network, one for each observation"
        if algorithm["target_kl"] is not None:
            self.notes["early_stop"] = "none: RLlib's PPO has no KL divergence to stop at"
        return PPOConfig().training(
            lr=algorithm["policy_learning_rate"],
            lambda_=algorithm["gae_lambda"],
            clip_param=algorithm["clip"],
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            vf_loss_coeff=algorithm["value_coefficient"],
            entropy_coeff=algorithm["entropy_coefficient"],
            grad_clip=algorithm["maximum_gradient_norm"],
        )

    def _dqn(self, workload: dict[str, Any]) -> DQNConfig:
        algorithm = workload["algorithm"]
        if self.alone:
            self.notes["target"] = "not updated: RLlib does it after environment steps"
        first, last = algorithm["epsilon_initial"], algorithm["epsilon_final"]
        return DQNConfig().training(
            lr=algorithm["learning_rate"],
            double_q=algorithm["double"],
            dueling=False,
            td_error_loss_fn={"huber": "huber", "squared": "mse"}[algorithm["loss"]],
            grad_clip=algorithm.get("maximum_gradient_norm"),
            # RLlib counts environment steps where the workload counts gradient steps.
            target_network_update_freq=algorithm["target_interval"] * workload["training"]["update_interval"],
            epsilon=[(0, first), (algorithm["exploration_steps"], last)],
        )

    def _sac(self, workload: dict[str, Any]) -> SACConfig:
        algorithm = workload["algorithm"]
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

    def iterate(self) -> None:
        """Call RLlib's `train()` once, and update the counts of steps."""
        result = self.algorithm.train()
        if self.device != CPU:
            torch.cuda.synchronize(self.device)  # a step may return before the device is done
        self.environment_steps = int(result.get("num_env_steps_sampled_lifetime", self.environment_steps))
        if learners := result.get("learners"):
            trained = learners["__all_modules__"]["num_module_steps_trained_lifetime"]
            self.gradient_steps = int(trained // self.batch_size)

    def learn(self, gradient_steps: int) -> None:
        """Call RLlib's `train()` once without environment steps, for at most `gradient_steps` gradient steps."""
        self._cadence.train = min(gradient_steps, ITERATION_STEPS)
        self.iterate()


def _learner_on(device: str) -> dict[str, int]:
    """Return RLlib's settings for a learner in this process, on a device."""
    kind, _, number = device.partition(":")
    on_device = {} if kind == CPU else {"num_gpus_per_learner": 1, "local_gpu_idx": int(number or 0)}
    return {"num_learners": 0, **on_device}


def registered(environment: dict[str, Any]) -> str:
    """Register the workload's environment with RLlib, and return its name there.

    Raises:
        UnsupportedError: the environment is not available in this virtual environment.
    """
    make_environment(environment).close()
    register_env("workload", lambda _: KeptReturns(make_environment(environment)))
    return "workload"


if __name__ == "__main__":
    serve(Training)
