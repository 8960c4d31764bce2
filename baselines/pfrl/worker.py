"""Trains with PFRL, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/pfrl/.venv/bin/python -P baselines/pfrl/worker.py

The worker trains DQN, DDPG, TD3, SAC or PPO with the workload's environment, network, hyper-parameters, replay
capacity, learning starts and update interval, using PFRL's agents through their batch interface. These settings
favour PFRL: environments stepped by a plain loop in this process (PFRL's vector uses one process each), no
evaluation, no hooks, the checks of `gymnasium.make` off, and the CPU as device. The result's `notes` say where PFRL
departs from the workload.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pfrl
import torch
from agent import Agent, Environments, hidden_layers
from job_loop import UnsupportedError, serve
from pfrl import agents, explorers, policies, q_functions, replay_buffers
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
LOG_STD_RANGE = (-20.0, 2.0)


def squashed_gaussian(parameters: torch.Tensor) -> TransformedDistribution:
    """Return the distribution of SAC's actions: a Gaussian, squashed to [-1, 1] by tanh.

    Args:
        parameters: (N, 2 A), the policy network's output: means, then logarithms of standard deviations.
    """
    mean, log_std = parameters.chunk(2, 1)
    normal = Independent(Normal(mean, log_std.clamp(*LOG_STD_RANGE).exp()), 1)
    return TransformedDistribution(normal, [TanhTransform(cache_size=1)])


def adam(module: nn.Module, rate: float) -> torch.optim.Adam:
    """Return the optimiser that PFRL's own examples use, Adam, for a module's parameters."""
    return torch.optim.Adam(module.parameters(), lr=rate)


class Training(Agent):
    """Trains one agent of PFRL.

    Raises:
        UnsupportedError: PFRL has no such algorithm or network.
    """

    packages = ("pfrl",)

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.job, self.workload = job, job["workload"]
        self.settings = self.workload["algorithm"]
        makers: dict[str, tuple[Callable[[], Any], str]] = {
            "dqn": (self._dqn, "optim_t"),
            "ddpg": (self._ddpg, "n_updates"),
            "td3": (self._td3, "q_func_n_updates"),
            "sac": (self._sac, "n_policy_updates"),
            "ppo": (self._ppo, "n_updates"),
        }
        name = self.settings["name"]
        if name not in makers:
            raise UnsupportedError(f"algorithm {name} is not mapped to PFRL")
        self.on_policy = name == "ppo"
        self.hidden, self.activation = hidden_layers(self.workload, ACTIVATIONS, "PFRL")
        torch.set_num_threads(job["threads"])
        pfrl.utils.set_random_seed(job["seed"])
        environment = self.workload["environment"]
        (self.observation_size,), self.action_size = (
            environment["observation_shape"],
            environment["action_size"],
        )
        self.continuous = environment["action_kind"] == "continuous"
        self.environments = Environments(self.workload, job["seed"], self.episode_returns)
        make, self._counter = makers[name]
        self.agent = make()
        self.warm_up()

    def _layers(self, inputs: int, outputs: int) -> list[nn.Module]:
        """Return the workload's hidden layers between `inputs` and `outputs`."""
        layers: list[nn.Module] = []
        for size in self.hidden:
            layers += [nn.Linear(inputs, size), self.activation()]
            inputs = size
        return [*layers, nn.Linear(inputs, outputs)]

    def _critic(self) -> nn.Sequential:
        layers = self._layers(self.observation_size + self.action_size, 1)
        return nn.Sequential(pfrl.nn.ConcatObsAndAction(), *layers)

    def _deterministic(self) -> nn.Sequential:
        layers = self._layers(self.observation_size, self.action_size)
        return nn.Sequential(*layers, nn.Tanh(), policies.DeterministicHead())

    def _replaying(self) -> dict[str, Any]:
        """Return the arguments of every agent with a replay."""
        training = self.workload["training"]
        return {
            "gamma": self.settings["gamma"],
            "replay_start_size": max(training["learning_starts"], self.job["batch_size"]),
            "minibatch_size": self.job["batch_size"],
            "update_interval": training["update_interval"],
        }

    def _acting(self) -> dict[str, Any]:
        """Return the further arguments of agents with continuous actions."""
        if self.workload["replay"]["prioritized"]:
            self.notes["replay"] = "uniform: PFRL's prioritised replay serves DQN and its descendants alone"
        return self._replaying() | {
            "replay_buffer": replay_buffers.ReplayBuffer(self.workload["replay"]["capacity"]),
            "soft_update_tau": self.settings["tau"],
            "burnin_action_func": lambda: self.environments.random_actions()[0].astype(np.float32),
        }

    def _noise(self) -> explorers.AdditiveGaussian:
        return explorers.AdditiveGaussian(self.settings["exploration_noise"], low=-1.0, high=1.0)

    def _dqn(self) -> agents.DQN:
        settings, replay = self.settings, self.workload["replay"]
        buffer = replay_buffers.ReplayBuffer(replay["capacity"])
        if replay["prioritized"]:
            if replay["beta_final"] != 1:
                self.notes["beta"] = "ends at 1"
            buffer = replay_buffers.PrioritizedReplayBuffer(
                replay["capacity"],
                alpha=replay["alpha"],
                beta0=replay["beta_initial"],
                betasteps=replay["beta_steps"],
                eps=replay["epsilon"],
                error_max=None,
            )
        if settings["loss"] != "huber":
            self.notes["loss"] = "half the square"
        q = q_functions.DiscreteActionValueHead()
        model = nn.Sequential(*self._layers(self.observation_size, self.action_size), q)
        kind = agents.DoubleDQN if settings["double"] else agents.DQN
        return kind(
            model,
            adam(model, settings["learning_rate"]),
            buffer,
            explorer=explorers.LinearDecayEpsilonGreedy(
                settings["epsilon_initial"],
                settings["epsilon_final"],
                settings["exploration_steps"],
                lambda: np.random.randint(self.action_size),  # noqa: NPY002 (PFRL's own source)
            ),
            # PFRL counts environment steps where the workload counts gradient steps.
            target_update_interval=settings["target_interval"] * self.workload["training"]["update_interval"],
            target_update_method="hard" if settings["tau"] == 1 else "soft",
            soft_update_tau=settings["tau"],
            clip_delta=settings["loss"] == "huber",
            max_grad_norm=settings["maximum_gradient_norm"],
            **self._replaying(),
        )

    def _ddpg(self) -> agents.DDPG:
        policy, critic = self._deterministic(), self._critic()
        return agents.DDPG(
            policy,
            critic,
            adam(policy, self.settings["actor_learning_rate"]),
            adam(critic, self.settings["critic_learning_rate"]),
            explorer=self._noise(),
            target_update_method="soft",
            target_update_interval=self.workload["training"]["update_interval"],
            **self._acting(),
        )

    def _twins(self, policy: nn.Module) -> tuple[Any, ...]:
        """Return networks and their optimisers, as TD3 and SAC take them."""
        settings, critics = self.settings, (self._critic(), self._critic())
        optimizers = [adam(critic, settings["critic_learning_rate"]) for critic in critics]
        return policy, *critics, adam(policy, settings["actor_learning_rate"]), *optimizers

    def _td3(self) -> agents.TD3:
        deviation, limit = self.settings["target_noise"], self.settings["target_noise_clip"]

        def smooth(action: torch.Tensor) -> torch.Tensor:
            return (action + (torch.randn_like(action) * deviation).clamp(-limit, limit)).clamp(-1, 1)

        return agents.TD3(
            *self._twins(self._deterministic()),
            explorer=self._noise(),
            policy_update_delay=self.settings["policy_delay"],
            target_policy_smoothing_func=smooth,
            **self._acting(),
        )

    def _sac(self) -> agents.SoftActorCritic:
        settings, entropy = self.settings, self.settings["target_entropy"]
        if settings["tune_temperature"] and entropy is None:
            entropy = -float(self.action_size)
        layers = self._layers(self.observation_size, 2 * self.action_size)
        return agents.SoftActorCritic(
            *self._twins(nn.Sequential(*layers, pfrl.nn.lmbda.Lambda(squashed_gaussian))),
            initial_temperature=settings["initial_temperature"],
            entropy_target=entropy if settings["tune_temperature"] else None,
            temperature_optimizer_lr=settings["temperature_learning_rate"],
            **self._acting(),
        )

    def _ppo(self) -> agents.PPO:
        settings = self.settings
        self.notes["optimizer"] = "one Adam for both networks, with the policy's learning rate"
        self.notes["advantages"] = "normalised over the samples of an iteration"
        if settings["target_kl"] is not None:
            self.notes["early_stop"] = "none: PFRL's PPO has no KL divergence to stop at"
        head: nn.Module = policies.SoftmaxCategoricalHead()
        if self.continuous:
            head = policies.GaussianHeadWithStateIndependentCovariance(
                action_size=self.action_size,
                var_type="diagonal",
                var_func=lambda log_std: torch.exp(2 * log_std),
                var_param_init=settings["initial_log_std"],
            )
        policy = nn.Sequential(*self._layers(self.observation_size, self.action_size), head)
        value = nn.Sequential(*self._layers(self.observation_size, 1))
        model = pfrl.nn.Branched(policy, value)
        return agents.PPO(
            model,
            adam(model, settings["policy_learning_rate"]),
            gamma=settings["gamma"],
            lambd=settings["gae_lambda"],
            value_func_coef=settings["value_coefficient"],
            entropy_coef=settings["entropy_coefficient"],
            update_interval=self.workload["training"]["actors"] * settings["trajectory_length"],
            minibatch_size=self.job["batch_size"],
            epochs=settings["epochs"],
            clip_eps=settings["clip"],
            standardize_advantages=settings["normalize_advantages"],
            max_grad_norm=settings["maximum_gradient_norm"],
        )

    def iterate(self) -> None:
        """Step every environment once; PFRL's agent then takes the gradient steps that its update interval requires."""
        actions = self.agent.batch_act(self.environments.observations)
        taken = np.clip(np.asarray(actions), -1, 1) if self.continuous else actions
        following, rewards, terminated, truncated = self.environments.step(taken)
        self.agent.batch_observe(following, rewards, terminated, terminated | truncated)
        self.environment_steps += len(rewards)
        self.gradient_steps = getattr(self.agent, self._counter)


if __name__ == "__main__":
    serve(Training)
