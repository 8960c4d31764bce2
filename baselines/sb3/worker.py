"""Trains with Stable-Baselines3, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/sb3/.venv/bin/python -P baselines/sb3/worker.py

The worker trains DQN, DDPG, TD3, SAC or PPO with the workload's environment, network, hyper-parameters, replay
capacity, learning starts and update interval. These settings favour SB3: no logging, the checks of `gymnasium.make`
off, and environments stepped in batches by its own `DummyVecEnv`. Networks are on the job's device. The result's
`notes` say where SB3 departs from the workload.

A job's settings of the library's own (`library`) are arguments of SB3's classes, as RL Baselines3 Zoo states them:
"lin_X" falls from X to 0 over `n_timesteps` environment steps, and `normalize` puts the environments into a
`VecNormalize`.
"""

import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from agent import WARM_UP_GRADIENT_STEPS, Agent, anneal, cadence, make_environment
from job_loop import UnsupportedError, serve
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch_device import device_of

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


class OwnRates:
    """A mix-in that keeps a separate learning rate for each optimiser; SB3 would set one for all before every step.

    Attributes:
        settings: the workload's `[algorithm]` table, by which the rates are annealed.
    """

    settings: ClassVar[dict[str, Any]] = {}

    def _update_learning_rate(self, optimizers: Any) -> None:
        each = optimizers if isinstance(optimizers, list) else [optimizers]
        anneal(each, self.settings, self._n_updates)  # type: ignore[attr-defined]


class OwnRatesDQN(OwnRates, DQN):
    """DQN whose learning rate may be annealed."""


class OwnRatesDDPG(OwnRates, DDPG):
    """DDPG with a separate learning rate for each optimiser."""


class OwnRatesTD3(OwnRates, TD3):
    """TD3 with a separate learning rate for each optimiser."""


class OwnRatesSAC(OwnRates, SAC):
    """SAC with a separate learning rate for each optimiser."""


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of an optimiser."""
    for group in optimizer.param_groups:
        group["lr"] = rate


class Returns(BaseCallback):
    """A callback of SB3 that collects the returns of episodes that end in a call of the model's `learn`.

    Args:
        episode_returns: list to which the returns are appended.
    """

    def __init__(self, episode_returns: list[float]) -> None:
        super().__init__()
        self.episode_returns = episode_returns

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.episode_returns.append(float(info["episode"]["r"]))
        return True


class Training(Agent):
    """Trains one model of SB3.

    Raises:
        UnsupportedError: SB3 has no such algorithm or network, or PyTorch does not see the job's device.
    """

    packages = ("stable-baselines3", "ale-py", "Box2D")  # the last two provide environments, if installed
    devices = ("cpu", "cuda")
    learns_alone = True
    anneals = True
    takes_settings = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        workload = job["workload"]
        self.alone, self.batch_size = not job.get("environment", True), job["batch_size"]
        self.device = device_of(job)
        training = workload["training"]
        self.on_policy = workload["algorithm"]["name"] == "ppo"
        if workload["replay"]["prioritized"] and not self.on_policy:
            self.notes["replay"] = "uniform: Stable-Baselines3 has no prioritised replay"
        torch.set_num_threads(job["threads"])
        environments = make_environments(workload["environment"], training["actors"])
        library = dict(job.get("library", {}))
        self.falling_steps = library.pop("n_timesteps", 0)
        if library.pop("normalize", False):
            environments = VecNormalize(environments, gamma=workload["algorithm"]["gamma"])
        self.library = {name: self._scheduled(value) for name, value in library.items()}
        if self.on_policy:
            # A round is an iteration: N T environment steps, then K epochs of minibatches of M.
            samples = training["actors"] * workload["algorithm"]["trajectory_length"]
            self.round_environment_steps = samples
            self.round_gradient_steps = workload["algorithm"]["epochs"] * (samples // job["batch_size"])
            self.model = self._ppo(job, environments)
            warm_up_steps = samples
        else:
            self.vector_steps, self.round_gradient_steps = cadence(training)
            if "train_freq" in library:
                self.vector_steps, self.round_gradient_steps = (
                    library["train_freq"],
                    library["gradient_steps"],
                )
            self.round_environment_steps = self.vector_steps * training["actors"]
            self.model = self._model(job, environments)
            starts = library.get("learning_starts", training["learning_starts"])
            warm_up_steps = starts + self._steps_for(WARM_UP_GRADIENT_STEPS)
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        if self.device != "cpu":
            self.notes["device"] = str(self.model.device)
        self._run(warm_up_steps)

    def _scheduled(self, value: Any) -> Any:
        """Return a setting as SB3 takes it: "lin_X" as a function that falls with the environment steps taken."""
        if not (isinstance(value, str) and value.startswith("lin_")):
            return value
        first = float(value.removeprefix("lin_"))

        def falling(_: float) -> float:
            model = getattr(self, "model", None)  # SB3 asks before the model is there
            return first * max(0.0, 1 - (model.num_timesteps if model else 0) / self.falling_steps)

        return falling

    def _create(self, kind: Callable[..., Any], **settings: Any) -> Any:
        """Return a model of SB3 with the settings that follow from the workload, and the library's own over them."""
        for name, value in self.library.items():
            settings[name] = settings.get(name, {}) | value if isinstance(value, dict) else value
        return kind(**settings)

    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the policy's deterministic action for one observation."""
        environments = self.model.get_vec_normalize_env()
        if environments is not None:
            observation = environments.normalize_obs(observation)
        action, _ = self.model.predict(observation, deterministic=True)
        if self.model.action_space.shape:
            action = self.model.policy.scale_action(action)
        return action

    def _steps_for(self, gradient_steps: int) -> int:
        return math.ceil(gradient_steps / self.round_gradient_steps) * self.round_environment_steps

    @staticmethod
    def _network(workload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the name of SB3's policy, and the arguments that give it the workload's network."""
        network = workload["network"]
        if network["kind"] == "nature_cnn":
            # SB3's own trunk is the same: three convolutions and 512 units, shared by PPO's two heads.
            return "CnnPolicy", {"net_arch": []}
        if network["kind"] != "mlp" or network["activation"] not in ACTIVATIONS:
            raise UnsupportedError(
                f"network {network['kind']} with {network['activation']} is not mapped to SB3"
            )
        activation = ACTIVATIONS[network["activation"]]
        return "MlpPolicy", {"net_arch": list(network["hidden"]), "activation_fn": activation}

    def _model(self, job: dict[str, Any], environments: DummyVecEnv) -> BaseAlgorithm:
        workload = job["workload"]
        algorithm = workload["algorithm"]
        builders: dict[str, Callable[..., Any]] = {
            "dqn": self._dqn,
            "ddpg": self._ddpg,
            "td3": self._td3,
            "sac": self._sac,
        }
        if algorithm["name"] not in builders:
            raise UnsupportedError(f"algorithm {algorithm['name']} is not mapped to SB3")
        policy, policy_kwargs = self._network(workload)
        model = builders[algorithm["name"]](
            algorithm,
            environments,
            policy=policy,
            policy_kwargs=policy_kwargs,
            buffer_size=workload["replay"]["capacity"],
            learning_starts=workload["training"]["learning_starts"],
            batch_size=job["batch_size"],
            gamma=algorithm["gamma"],
            tau=algorithm["tau"],
            train_freq=(self.vector_steps, "step"),
            gradient_steps=self.round_gradient_steps,
            seed=job["seed"],
            device=self.device,
        )
        model.settings = algorithm
        return model

    def _dqn(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> DQN:
        if algorithm["double"]:
            self.notes["double"] = "plain targets: Stable-Baselines3 has no double DQN"
        if algorithm["loss"] != "huber":
            self.notes["loss"] = "Huber's: Stable-Baselines3 has no other"
        if self.alone:
            self.notes["target"] = "not updated: Stable-Baselines3 does it after environment steps"
        norm = algorithm.get("maximum_gradient_norm")
        model = self._create(
            OwnRatesDQN,
            env=environments,
            learning_rate=algorithm["learning_rate"],
            # SB3 counts environment steps where the workload counts gradient steps.
            target_update_interval=self._steps_for(algorithm["target_interval"]),
            max_grad_norm=math.inf if norm is None else norm,
            **common,
        )
        first, last = algorithm["epsilon_initial"], algorithm["epsilon_final"]
        steps = algorithm["exploration_steps"]
        # SB3's schedule covers one call of `learn`; the workload's covers environment steps.
        model.exploration_schedule = lambda _: first + (last - first) * min(1.0, model.num_timesteps / steps)
        return model

    @staticmethod
    def _noise(algorithm: dict[str, Any], environments: DummyVecEnv) -> VectorizedActionNoise:
        size = environments.action_space.shape[0]
        noise = NormalActionNoise(np.zeros(size), np.full(size, algorithm["exploration_noise"]))
        return VectorizedActionNoise(noise, environments.num_envs)

    def _ddpg(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> DDPG:
        model = self._create(
            OwnRatesDDPG,
            env=environments,
            action_noise=self._noise(algorithm, environments),
            learning_rate=algorithm["critic_learning_rate"],
            **common,
        )
        set_rate(model.actor.optimizer, algorithm["actor_learning_rate"])
        return model

    def _td3(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> TD3:
        model = self._create(
            OwnRatesTD3,
            env=environments,
            action_noise=self._noise(algorithm, environments),
            learning_rate=algorithm["critic_learning_rate"],
            policy_delay=algorithm["policy_delay"],
            target_policy_noise=algorithm["target_noise"],
            target_noise_clip=algorithm["target_noise_clip"],
            **common,
        )
        set_rate(model.actor.optimizer, algorithm["actor_learning_rate"])
        return model

    def _sac(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> SAC:
        temperature, entropy = algorithm["initial_temperature"], algorithm["target_entropy"]
        model = self._create(
            OwnRatesSAC,
            env=environments,
            learning_rate=algorithm["critic_learning_rate"],
            ent_coef=f"auto_{temperature}" if algorithm["tune_temperature"] else temperature,
            target_entropy="auto" if entropy is None else entropy,
            **common,
        )
        set_rate(model.actor.optimizer, algorithm["actor_learning_rate"])
        if model.ent_coef_optimizer is not None:
            set_rate(model.ent_coef_optimizer, algorithm["temperature_learning_rate"])
        return model

    def _ppo(self, job: dict[str, Any], environments: DummyVecEnv) -> PPO:
        workload = job["workload"]
        algorithm = workload["algorithm"]
        policy, policy_kwargs = self._network(workload)
        self.notes["optimizer"] = "one Adam for both networks, with the policy's learning rate"
        if algorithm["target_kl"] is not None:
            self.notes["early_stop"] = "stops the value network too"
        if algorithm.get("annealing_steps"):
            self.notes["step sizes"] = "constant: they are not annealed"
        norm = algorithm["maximum_gradient_norm"]
        model = self._create(
            PPO,
            policy=policy,
            env=environments,
            learning_rate=algorithm["policy_learning_rate"],
            n_steps=algorithm["trajectory_length"],
            batch_size=job["batch_size"],
            n_epochs=algorithm["epochs"],
            gamma=algorithm["gamma"],
            gae_lambda=algorithm["gae_lambda"],
            clip_range=algorithm["clip"],
            normalize_advantage=algorithm["normalize_advantages"],
            ent_coef=algorithm["entropy_coefficient"],
            vf_coef=algorithm["value_coefficient"],
            max_grad_norm=math.inf if norm is None else norm,
            target_kl=algorithm["target_kl"],
            policy_kwargs=policy_kwargs | {"log_std_init": algorithm["initial_log_std"]},
            seed=job["seed"],
            device=self.device,
        )
        self.minibatches = 0
        model.policy.optimizer.register_step_post_hook(self._count_minibatch)
        return model

    def _count_minibatch(self, *_: object) -> None:
        self.minibatches += 1

    def _count(self) -> None:
        """Copy the model's own counts; SB3 counts the gradient steps of PPO in epochs."""
        self.gradient_steps = self.minibatches if self.on_policy else self.model._n_updates
        self.environment_steps = self.model.num_timesteps

    def _run(self, environment_steps: int) -> None:
        """Train in one call of SB3's loop."""
        returns = Returns(self.episode_returns)
        self.model.learn(
            environment_steps, callback=returns, log_interval=sys.maxsize, reset_num_timesteps=False
        )
        self._count()

    def iterate(self) -> None:
        """Train one round in SB3's own loop: environment steps, then the gradient steps that belong to them."""
        self._run(self.round_environment_steps)

    def train_until(self, gradient_steps: int) -> None:
        """Train until `self.gradient_steps` is at least `gradient_steps`, in as few calls of SB3's loop as possible."""
        # PPO's early stop skips steps of an iteration.
        while (missing := gradient_steps - self.gradient_steps) > 0:
            if self.alone:
                self.learn(missing)
            else:
                self._run(self._steps_for(missing))
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)  # a step may return before the GPU is done

    def learn(self, gradient_steps: int) -> None:
        """Take gradient steps without environment steps, in one call of SB3's `train`.

        DQN's target network is not updated meanwhile.
        """
        self.model.train(gradient_steps, self.batch_size)
        self._count()


def make_environments(environment: dict[str, Any], number: int) -> DummyVecEnv:
    """Create `number` environments of the workload in SB3's `DummyVecEnv`, which steps them one after another."""
    return DummyVecEnv([lambda: Monitor(make_environment(environment))] * number)


if __name__ == "__main__":
    serve(Training)
