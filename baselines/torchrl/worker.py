"""Trains with TorchRL, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/torchrl/.venv/bin/python -P baselines/torchrl/worker.py

The worker trains DQN, DDPG, SAC or PPO with TorchRL's losses, replay buffers (the prioritised one with its C++ sum
tree), target updates and advantage estimation. These settings favour TorchRL: environments are stepped by a plain
loop, because one step of its collector takes longer than a gradient step; storage is contiguous in memory; Adam is
fused; the losses are compiled by `torch.compile` before anything is timed, as TorchRL's own examples do; the device is
the CPU.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

# Set even where a parent has set it: the cache must be of this PyTorch alone.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(sys.prefix) / "inductor")

import numpy as np
import torch
from agent import Agent, Environments, cadence, hidden_layers
from job_loop import UnsupportedError, serve
from tensordict import TensorDict
from tensordict.nn import (
    AddStateIndependentNormalScale,
    InteractionType,
    NormalParamExtractor,
    TensorDictModule,
)
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import (
    Bounded,
    LazyTensorStorage,
    SamplerWithoutReplacement,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DDPGLoss, DQNLoss, HardUpdate, SACLoss, SoftUpdate
from torchrl.objectives.value import GAE

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def network(workload: dict[str, Any], inputs: int, outputs: int) -> MLP:
    """Return a network with `inputs` inputs, the workload's hidden layers, and `outputs` outputs."""
    hidden, activation = hidden_layers(workload, ACTIVATIONS, "TorchRL")
    return MLP(in_features=inputs, out_features=outputs, num_cells=hidden, activation_class=activation)


def adam(rate: float, parameters: Any) -> torch.optim.Adam:
    return torch.optim.Adam([p for p in parameters if p.requires_grad], lr=rate, fused=True)


class Every:
    """Updates of target networks in every n-th step alone, for which TorchRL's soft updates have no option.

    Args:
        interval: n.
    """

    def __init__(self, interval: int, targets: SoftUpdate) -> None:
        self.interval, self.targets, self.steps = interval, targets, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps % self.interval == 0:
            self.targets.step()


class DQN:
    """A DQN learner with TorchRL's loss.

    Epsilon-greedy exploration is written out here: TorchRL's own would need a tensordict, and asks the network also
    where all actions are random.
    """

    def __init__(self, workload: dict[str, Any], observations: int, actions: int) -> None:
        self.settings = settings = workload["algorithm"]
        self.actions = actions
        self.q = network(workload, observations, actions)
        actor = QValueActor(self.q, in_keys=["observation"], action_space="categorical")
        distance = "smooth_l1" if settings["loss"] == "huber" else "l2"
        self.loss = DQNLoss(
            actor,
            loss_function=distance,
            delay_value=True,
            double_dqn=settings["double"],
            action_space="categorical",
        )
        self.loss.make_value_estimator(gamma=settings["gamma"])
        self.optimizers = [adam(settings["learning_rate"], self.loss.parameters())]
        self.norm = settings["maximum_gradient_norm"]
        if settings["tau"] == 1:
            self.targets = HardUpdate(self.loss, value_network_update_interval=settings["target_interval"])
        else:
            self.targets = Every(settings["target_interval"], SoftUpdate(self.loss, tau=settings["tau"]))

    def act(self, observations: Tensor, rng: np.random.Generator, environment_steps: int) -> np.ndarray:
        """Return an action for each row of `observations`, with exploration."""
        first, last = self.settings["epsilon_initial"], self.settings["epsilon_final"]
        epsilon = first + (last - first) * min(1.0, environment_steps / self.settings["exploration_steps"])
        drawn = rng.integers(self.actions, size=len(observations))
        random = rng.random(len(observations)) < epsilon
        return drawn if random.all() else np.where(random, drawn, self.q(observations).argmax(1).numpy())


class DDPG:
    """A DDPG learner with TorchRL's loss, and with Gaussian noise as exploration."""

    def __init__(self, workload: dict[str, Any], observations: int, actions: int) -> None:
        self.settings = settings = workload["algorithm"]
        self.policy = nn.Sequential(network(workload, observations, actions), nn.Tanh())
        actor = TensorDictModule(self.policy, in_keys=["observation"], out_keys=["action"])
        critic = ValueOperator(
            network(workload, observations + actions, 1), in_keys=["observation", "action"]
        )
        self.loss = DDPGLoss(actor, critic, loss_function="l2", delay_actor=True, delay_value=True)
        self.loss.make_value_estimator(gamma=settings["gamma"])
        self.optimizers = [
            adam(settings["actor_learning_rate"], self.loss.actor_network_params.values(True, True)),
            adam(settings["critic_learning_rate"], self.loss.value_network_params.values(True, True)),
        ]
        self.norm = None
        self.targets = SoftUpdate(self.loss, tau=settings["tau"])

    def act(self, observations: Tensor, rng: np.random.Generator, environment_steps: int) -> np.ndarray:
        """Return an action for each row of `observations`, with exploration."""
        chosen = self.policy(observations).numpy()
        noise = rng.standard_normal(chosen.shape, np.float32) * self.settings["exploration_noise"]
        return np.clip(chosen + noise, -1, 1)


class SAC:
    """An SAC learner with TorchRL's loss and two critics. All learning rates are the workload's."""

    def __init__(self, workload: dict[str, Any], observations: int, actions: int) -> None:
        self.settings = settings = workload["algorithm"]
        self.policy = nn.Sequential(network(workload, observations, 2 * actions), NormalParamExtractor())
        actor = ProbabilisticActor(
            TensorDictModule(self.policy, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            spec=Bounded(-torch.ones(actions), torch.ones(actions), (actions,)),
            distribution_class=TanhNormal,
            return_log_prob=False,
        )
        critic = ValueOperator(
            network(workload, observations + actions, 1), in_keys=["observation", "action"]
        )
        entropy = settings["target_entropy"]
        self.loss = SACLoss(
            actor,
            critic,
            num_qvalue_nets=2,
            loss_function="l2",
            alpha_init=settings["initial_temperature"],
            fixed_alpha=not settings["tune_temperature"],
            target_entropy=-float(actions) if entropy is None else entropy,
        )
        self.loss.make_value_estimator(gamma=settings["gamma"])
        self.optimizers = [
            adam(settings["actor_learning_rate"], self.loss.actor_network_params.values(True, True)),
            adam(settings["critic_learning_rate"], self.loss.qvalue_network_params.values(True, True)),
        ]
        if settings["tune_temperature"]:
            self.optimizers.append(adam(settings["temperature_learning_rate"], [self.loss.log_alpha]))
        self.norm = None
        self.targets = SoftUpdate(self.loss, tau=settings["tau"])

    def act(self, observations: Tensor, rng: np.random.Generator, environment_steps: int) -> np.ndarray:
        """Draw an action from the policy's distribution for each row of `observations`."""
        loc, scale = self.policy(observations)
        return torch.tanh(loc + scale * torch.randn_like(loc)).numpy()


class Trainer(Agent):
    """Trains one agent with TorchRL; the base class of `OffPolicy` and `OnPolicy`.

    Raises:
        UnsupportedError: the algorithm, network or environment is not mapped to TorchRL.
    """

    packages = ("torchrl", "tensordict")
    learners: ClassVar[dict[str, Any]]

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.job, self.workload = job, job["workload"]
        torch.set_num_threads(job["threads"])
        torch.manual_seed(job["seed"])
        self.rng = np.random.default_rng(job["seed"])
        self.environments = Environments(self.workload, job["seed"], self.episode_returns)
        environment = self.workload["environment"]
        (observations,), actions = environment["observation_shape"], environment["action_size"]
        self.learner = self.learners[self.workload["algorithm"]["name"]](self.workload, observations, actions)
        self.losses = torch.compile(self.learner.loss, dynamic=False)

    def step(self, batch: TensorDict) -> TensorDict:
        """Take one gradient step: one step of every optimiser, on the sum of the losses of a batch.

        Returns:
            The losses and other values that TorchRL's loss module returned, by name.
        """
        losses = self.losses(batch)
        total = sum(value for name, value in losses.items() if name.startswith("loss"))
        for optimizer in self.learner.optimizers:
            optimizer.zero_grad()
        total.backward()
        for optimizer in self.learner.optimizers:
            if self.learner.norm is not None:
                nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], self.learner.norm)
            optimizer.step()
        self.gradient_steps += 1
        return losses

    def begin(self) -> None:
        """Take a first gradient step, in which the losses are compiled, then train until the warm-up is over."""
        start_s = time.perf_counter()
        self.train_until(self.gradient_steps + 1)
        self.notes["compiled"] = (
            f"the losses, in {time.perf_counter() - start_s:.1f} s before anything is timed"
        )
        self.warm_up()


class OffPolicy(Trainer):
    """Trains DQN, DDPG or SAC with TorchRL's replay buffer."""

    learners: ClassVar = {"dqn": DQN, "ddpg": DDPG, "sac": SAC}

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.vector_steps, self.updates = cadence(self.workload["training"])
        replay = self.workload["replay"]
        storage = LazyTensorStorage(replay["capacity"])
        self.prioritized = replay["prioritized"]
        if self.prioritized:
            self.notes["replay"] = "prioritised; the exponent beta stays at its first value"
            self.replay: Any = TensorDictPrioritizedReplayBuffer(
                alpha=replay["alpha"],
                beta=replay["beta_initial"],
                eps=replay["epsilon"],
                storage=storage,
                batch_size=job["batch_size"],
            )
        else:
            self.replay = TensorDictReplayBuffer(storage=storage, batch_size=job["batch_size"])

    def begin(self) -> None:
        while self.environment_steps < self.workload["training"]["learning_starts"]:
            self.collect(self.environments.random_actions())
        super().begin()

    def collect(self, actions: np.ndarray) -> None:
        """Take one step in every environment, and store the transitions in the replay."""
        before = torch.from_numpy(self.environments.observations).float()
        following, rewards, terminated, truncated = self.environments.step(actions)
        self.replay.extend(
            transitions(before, torch.from_numpy(actions), following, rewards, terminated, truncated)
        )
        self.environment_steps += len(rewards)

    def iterate(self) -> None:
        for _ in range(self.vector_steps):
            with torch.no_grad():
                present = torch.from_numpy(self.environments.observations).float()
                actions = self.learner.act(present, self.rng, self.environment_steps)
            self.collect(actions)
        for _ in range(self.updates):
            batch = self.replay.sample()
            self.step(batch)
            self.learner.targets.step()
            if self.prioritized:
                self.replay.update_tensordict_priority(batch)


def transitions(
    before: Tensor,
    actions: Tensor,
    following: np.ndarray,
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> TensorDict:
    """Return N transitions as a tensordict with the names that TorchRL expects, such as ("next", "reward").

    Args:
        before: (N, ...) observations before the steps.
        actions: (N,) or (N, A), the actions taken.
        following: (N, ...) observations after the steps.
        rewards, terminated, truncated: (N,) results of the steps.
    """
    return TensorDict(
        {
            "observation": before,
            "action": actions,
            "next": TensorDict(
                {
                    "observation": torch.from_numpy(following).float(),
                    "reward": torch.from_numpy(rewards).unsqueeze(1),
                    "done": torch.from_numpy(terminated | truncated).unsqueeze(1),
                    "terminated": torch.from_numpy(terminated).unsqueeze(1),
                },
                len(rewards),
            ),
        },
        len(rewards),
    )


class PPO:
    """A PPO learner with TorchRL's clipped loss and generalised advantage estimation.

    Policy and value function have separate networks.
    """

    def __init__(self, workload: dict[str, Any], observations: int, actions: int) -> None:
        self.settings = settings = workload["algorithm"]
        body = network(workload, observations, actions)
        if workload["environment"]["action_kind"] == "continuous":
            scale = AddStateIndependentNormalScale(actions)
            nn.init.constant_(scale.state_independent_scale, settings["initial_log_std"])
            parts, keys, kind = nn.Sequential(body, scale), ["loc", "scale"], IndependentNormal
        else:
            parts, keys, kind = body, ["logits"], Categorical
        self.actor = ProbabilisticActor(
            TensorDictModule(parts, in_keys=["observation"], out_keys=keys),
            in_keys=keys,
            distribution_class=kind,
            default_interaction_type=InteractionType.RANDOM,  # TorchRL's own default is the likeliest action
            return_log_prob=True,
        )
        critic = ValueOperator(network(workload, observations, 1), in_keys=["observation"])
        self.advantages = GAE(
            gamma=settings["gamma"], lmbda=settings["gae_lambda"], value_network=critic, average_gae=False
        )
        self.loss = ClipPPOLoss(
            self.actor,
            critic,
            clip_epsilon=settings["clip"],
            entropy_bonus=settings["entropy_coefficient"] != 0,
            entropy_coeff=settings["entropy_coefficient"],
            critic_coeff=settings["value_coefficient"],
            loss_critic_type="l2",
            normalize_advantage=settings["normalize_advantages"],
        )
        self.optimizers = [
            adam(settings["policy_learning_rate"], self.loss.actor_network_params.values(True, True)),
            adam(settings["value_learning_rate"], self.loss.critic_network_params.values(True, True)),
        ]
        self.norm = settings["maximum_gradient_norm"]


class OnPolicy(Trainer):
    """Trains PPO.

    A round is one iteration of PPO: T steps of each of N environments, then K epochs of minibatches of M samples.
    """

    on_policy = True
    learners: ClassVar = {"ppo": PPO}

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        training, settings = self.workload["training"], self.workload["algorithm"]
        self.continuous = self.workload["environment"]["action_kind"] == "continuous"
        self.replay = TensorDictReplayBuffer(
            storage=LazyTensorStorage(training["actors"] * settings["trajectory_length"]),
            sampler=SamplerWithoutReplacement(),
            batch_size=job["batch_size"],
        )

    @torch.no_grad()
    def rollout(self) -> TensorDict:
        """Collect the N T samples of an iteration, T steps of each of N environments, and compute their advantages."""
        steps = []
        for _ in range(self.workload["algorithm"]["trajectory_length"]):
            present = torch.from_numpy(self.environments.observations).float()
            acted = self.learner.actor(TensorDict({"observation": present}, len(present)))
            taken = acted["action"].numpy()
            outcome = self.environments.step(np.clip(taken, -1, 1) if self.continuous else taken)
            steps.append(acted.update(transitions(present, acted["action"], *outcome)))
        samples = torch.stack(steps, 1)
        self.environment_steps += samples.numel()
        return self.learner.advantages(samples).flatten()

    def iterate(self) -> None:
        settings = self.workload["algorithm"]
        samples = self.rollout()
        for _ in range(settings["epochs"]):
            self.replay.extend(samples)
            for batch in self.replay:
                losses = self.step(batch)
            target = settings["target_kl"]
            if target is not None and losses["kl_approx"] > 1.5 * target:
                self.notes["early_stop"] = "after an epoch, of both networks"
                break


def create(job: dict[str, Any]) -> Trainer:
    """Return the agent for a job, with its warm-up done."""
    name = job["workload"]["algorithm"]["name"]
    hidden_layers(job["workload"], ACTIVATIONS, "TorchRL")  # raises before anything is created
    kinds: tuple[Callable[..., Any], ...] = (OffPolicy, OnPolicy)
    for kind in kinds:
        if name in kind.learners:  # type: ignore[attr-defined]
            agent = kind(job)
            agent.begin()
            return agent
    raise UnsupportedError(f"algorithm {name} is not mapped to TorchRL")


if __name__ == "__main__":
    serve(create)
