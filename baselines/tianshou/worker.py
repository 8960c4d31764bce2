"""Trains with tianshou, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/tianshou/.venv/bin/python -P baselines/tianshou/worker.py

The worker trains DQN, DDPG, TD3, SAC or PPO with the workload's environment, network, hyper-parameters, prioritised
or uniform replay, learning starts and update interval. It calls tianshou's algorithms, buffers and collector as
tianshou's trainer does. These settings favour tianshou: no logging and no progress bar (the trainer has both), no
search for NaN through the whole buffer after each step, the checks of `gymnasium.make` off, its own
`DummyVectorEnv`, and the CPU as device. The result's `notes` say where tianshou departs from the workload.
"""

import warnings
from typing import Any

import numpy as np
import torch
from agent import Agent, cadence, hidden_layers, make_environment
from job_loop import UnsupportedError, serve
from tianshou.algorithm import DDPG, DQN, PPO, SAC, TD3
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import (
    Collector,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    VectorReplayBuffer,
)
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step
from torch.distributions import Independent, Normal

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}
DEFAULT_MAX_BATCHSIZE = 256
"""tianshou's own."""


class Networks:
    """Builds the workload's networks from tianshou's network classes."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self._hidden, self._activation = hidden_layers(workload, ACTIVATIONS, "tianshou")
        self._observation = tuple(workload["environment"]["observation_shape"])
        self._actions = workload["environment"]["action_size"]

    def body(self, **more: Any) -> Net:
        """Return the network's hidden layers; keyword arguments are passed on to tianshou's `Net`."""
        return Net(
            state_shape=self._observation, hidden_sizes=self._hidden, activation=self._activation, **more
        )

    def q(self) -> Net:
        """Return a network that outputs the Q value of each discrete action."""
        return self.body(action_shape=self._actions)

    def critic(self) -> ContinuousCritic:
        """Return a critic, which outputs the value of an observation and a continuous action."""
        return ContinuousCritic(preprocess_net=self.body(action_shape=self._actions, concat=True))

    def actor(self, kind: type, **more: Any) -> torch.nn.Module:
        """Return an actor for continuous actions, of tianshou's class `kind`; further arguments are passed on to it."""
        return kind(preprocess_net=self.body(), action_shape=(self._actions,), **more)

    def discrete_actor(self) -> DiscreteActor:
        """Return an actor for discrete actions, which outputs a logit for each."""
        return DiscreteActor(preprocess_net=self.body(), action_shape=self._actions, softmax_output=False)


class Training(Agent):
    """Trains one algorithm of tianshou.

    Raises:
        UnsupportedError: tianshou has no such algorithm or network.
    """

    packages = ("tianshou", "numba")

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.job, self.workload = job, job["workload"]
        self.settings, training = self.workload["algorithm"], self.workload["training"]
        makers = {"dqn": self._dqn, "ddpg": self._ddpg, "td3": self._td3, "sac": self._sac, "ppo": self._ppo}
        name = self.settings["name"]
        if name not in makers:
            raise UnsupportedError(f"algorithm {name} is not mapped to tianshou")
        torch.set_num_threads(job["threads"])
        torch.manual_seed(job["seed"])
        np.random.seed(job["seed"])  # noqa: NPY002 (the only source that tianshou knows)
        warnings.filterwarnings("ignore", module="tianshou")
        self.nets = Networks(self.workload)
        self.actors, self.on_policy = training["actors"], name == "ppo"
        environments = DummyVectorEnv([lambda: make_environment(self.workload["environment"])] * self.actors)
        environments.seed(job["seed"])
        self.action_space = environments.action_space[0]
        self.algorithm: Algorithm = makers[name]()
        self.buffer = self._buffer()
        self.collector = Collector(
            self.algorithm,
            environments,
            self.buffer,
            exploration_noise=not self.on_policy,
            raise_on_nan_in_buffer=False,
        )
        self.collector.reset()
        if not self.on_policy:
            self.vector_steps, self.updates = cadence(training)
            self._collect(-(-training["learning_starts"] // self.actors), random=True)
        self.warm_up()

    def _buffer(self) -> VectorReplayBuffer:
        replay = self.workload["replay"]
        if self.on_policy:
            return VectorReplayBuffer(self.actors * self.settings["trajectory_length"], self.actors)
        if not replay["prioritized"]:
            return VectorReplayBuffer(replay["capacity"], self.actors)
        if self.settings["name"] == "dqn" and self.settings["loss"] == "huber":
            self.notes["replay"] = "prioritised; tianshou's Huber loss leaves out the importance weights"
        return PrioritizedVectorReplayBuffer(
            replay["capacity"], self.actors, alpha=replay["alpha"], beta=replay["beta_initial"]
        )

    def _dqn(self) -> DQN:
        settings = self.settings
        # As old on average: a copy is half its interval old, what moves by parts interval * ((1 - tau) / tau + 1 / 2).
        interval = round(settings["target_interval"] * (2 / settings["tau"] - 1))
        if settings["tau"] != 1:
            self.notes["target"] = f"copied every {interval} steps: tianshou's DQN does not move it by a part"
        policy = DiscreteQLearningPolicy(model=self.nets.q(), action_space=self.action_space)
        algorithm = DQN(
            policy=policy,
            optim=AdamOptimizerFactory(lr=settings["learning_rate"]),
            gamma=settings["gamma"],
            target_update_freq=interval,
            is_double=settings["double"],
            huber_loss_delta=1.0 if settings["loss"] == "huber" else None,
        )
        algorithm.optim._max_grad_norm = settings[
            "maximum_gradient_norm"
        ]  # DQN's constructor does not take these
        return algorithm

    def _common(self) -> dict[str, Any]:
        """Return the common arguments of DDPG, TD3 and SAC."""
        settings = self.settings
        return {
            "policy_optim": AdamOptimizerFactory(lr=settings["actor_learning_rate"]),
            "critic": self.nets.critic(),
            "critic_optim": AdamOptimizerFactory(lr=settings["critic_learning_rate"]),
            "tau": settings["tau"],
            "gamma": settings["gamma"],
        }

    def _deterministic(self) -> ContinuousDeterministicPolicy:
        return ContinuousDeterministicPolicy(
            actor=self.nets.actor(ContinuousActorDeterministic),
            exploration_noise=GaussianNoise(sigma=self.settings["exploration_noise"]),
            action_space=self.action_space,
        )

    def _ddpg(self) -> DDPG:
        return DDPG(policy=self._deterministic(), **self._common())

    def _td3(self) -> TD3:
        return TD3(
            policy=self._deterministic(),
            critic2=self.nets.critic(),
            policy_noise=self.settings["target_noise"],
            noise_clip=self.settings["target_noise_clip"],
            update_actor_freq=self.settings["policy_delay"],
            **self._common(),
        )

    def _sac(self) -> SAC:
        settings = self.settings
        alpha: float | AutoAlpha = settings["initial_temperature"]
        if settings["tune_temperature"]:
            entropy = settings["target_entropy"]
            alpha = AutoAlpha(
                -float(self.workload["environment"]["action_size"]) if entropy is None else entropy,
                float(np.log(settings["initial_temperature"])),
                AdamOptimizerFactory(lr=settings["temperature_learning_rate"]),
            )
        actor = self.nets.actor(ContinuousActorProbabilistic, unbounded=True, conditioned_sigma=True)
        policy = SACPolicy(actor=actor, action_space=self.action_space)
        return SAC(policy=policy, critic2=self.nets.critic(), alpha=alpha, **self._common())

    def _ppo(self) -> PPO:
        settings = self.settings
        self.notes["optimizer"] = "one Adam for both networks, with the policy's learning rate"
        if settings["target_kl"] is not None:
            self.notes["early_stop"] = "none: tianshou's PPO has no KL divergence to stop at"
        policy: ProbabilisticActorPolicy
        if self.workload["environment"]["action_kind"] == "discrete":
            critic: torch.nn.Module = DiscreteCritic(preprocess_net=self.nets.body())
            policy = DiscreteActorPolicy(actor=self.nets.discrete_actor(), action_space=self.action_space)
        else:
            critic = ContinuousCritic(preprocess_net=self.nets.body())
            actor = self.nets.actor(ContinuousActorProbabilistic, unbounded=True)
            torch.nn.init.constant_(actor.sigma_param, settings["initial_log_std"])
            policy = ProbabilisticActorPolicy(
                actor=actor,
                dist_fn=lambda parts: Independent(Normal(*parts), 1),
                action_space=self.action_space,
            )
        return PPO(
            policy=policy,
            critic=critic,
            optim=AdamOptimizerFactory(lr=settings["policy_learning_rate"]),
            eps_clip=settings["clip"],
            advantage_normalization=settings["normalize_advantages"],
            vf_coef=settings["value_coefficient"],
            ent_coef=settings["entropy_coefficient"],
            max_grad_norm=settings["maximum_gradient_norm"],
            gae_lambda=settings["gae_lambda"],
            gamma=settings["gamma"],
            # Of samples whose values are computed at once, which takes less time the more they are.
            max_batchsize=max(DEFAULT_MAX_BATCHSIZE, self.job["batch_size"]),
        )

    def _collect(self, vector_steps: int, random: bool = False) -> None:
        collected = self.collector.collect(n_step=vector_steps * self.actors, random=random)
        self.environment_steps += collected.n_collected_steps
        self.episode_returns += np.asarray(collected.returns, float).tolist()

    def _schedules(self) -> None:
        """Apply the schedules: epsilon by environment steps, beta by gradient steps."""
        settings, replay = self.settings, self.workload["replay"]
        if settings["name"] == "dqn":
            first, last = settings["epsilon_initial"], settings["epsilon_final"]
            share = min(1.0, self.environment_steps / settings["exploration_steps"])
            self.algorithm.policy.set_eps_training(first + (last - first) * share)
        if replay["prioritized"]:
            share = min(1.0, self.gradient_steps / replay["beta_steps"])
            beta = replay["beta_initial"] + (replay["beta_final"] - replay["beta_initial"]) * share
            # The vector buffer's `set_beta` changes only its parts, which are not read.
            PrioritizedReplayBuffer.set_beta(self.buffer, beta)

    def iterate(self) -> None:
        """Train one round: environment steps, and the gradient steps that belong to them; for PPO, one iteration."""
        with policy_within_training_step(self.algorithm.policy):
            if self.on_policy:
                self._collect(self.settings["trajectory_length"])
                outcome = self.algorithm.update(self.buffer, self.job["batch_size"], self.settings["epochs"])
                self.gradient_steps += outcome.gradient_steps
                self.collector.reset_buffer(keep_statistics=True)
                return
            self._schedules()
            self._collect(self.vector_steps)
            for _ in range(self.updates):
                self.algorithm.update(self.buffer, self.job["batch_size"])
            self.gradient_steps += self.updates


if __name__ == "__main__":
    serve(Training)
