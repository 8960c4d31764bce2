"""Trains with one file of plain PyTorch in the style of CleanRL, as a worker that answers jobs in JSON.

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/cleanrl_style/.venv/bin/python -P \\
        baselines/cleanrl_style/worker.py

The file contains DQN, DDPG, TD3, SAC and PPO. It was written for this project after CleanRL's example, because
CleanRL is a collection of files and not a package. These settings favour it: fused Adam, target networks updated by
one call for all tensors, environments stepped by a plain loop (no Gymnasium vector, no logging), a replay in NumPy
arrays that PyTorch reads without a copy, and the CPU as device. As in CleanRL, the replay is uniform, and PPO takes a
step of one Adam on the sum of both losses, whose gradients are clipped to a joint norm. As the workload's, the value's
loss is not clipped.
"""

import copy
from typing import Any, ClassVar

import numpy as np
import torch
from agent import Agent, Environments, anneal, cadence, hidden_layers
from job_loop import UnsupportedError, serve
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional

SYSTEM = "the CleanRL-style file"
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
LOG_STD_RANGE = (-20.0, 2.0)
PPO_EPSILON = 1e-5
Batch = dict[str, Tensor]


def network(workload: dict[str, Any], inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with `inputs` inputs, the workload's hidden layers, and `outputs` outputs."""
    hidden, activation = hidden_layers(workload, ACTIVATIONS, SYSTEM)
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), activation()]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def adam(*parts: tuple[float, nn.Module], epsilon: float = 1e-8) -> torch.optim.Adam:
    """Return one Adam for some modules, each with its step size; those of one step size are one group."""
    groups: dict[float, list[nn.Parameter]] = {}
    for rate, module in parts:
        groups.setdefault(rate, []).extend(module.parameters())
    return torch.optim.Adam(
        [{"params": parameters, "lr": rate} for rate, parameters in groups.items()], eps=epsilon, fused=True
    )


def take_step(optimizer: torch.optim.Optimizer, loss: Tensor, norm: float | None = None) -> None:
    """Take one step of an optimiser.

    Args:
        norm: the gradients of all its parameters are scaled down so that their joint norm is at most this; None for no
            limit.
    """
    optimizer.zero_grad()
    loss.backward()
    if norm is not None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        nn.utils.clip_grad_norm_(parameters, norm)
    optimizer.step()


@torch.no_grad()
def move(target: nn.Module, source: nn.Module, tau: float) -> None:
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), tau)


class DQN:
    steps = ("update",)

    def __init__(self, workload: dict[str, Any], observation_size: int, action_size: int) -> None:
        self.settings = workload["algorithm"]
        self.q = network(workload, observation_size, action_size)
        self.target = copy.deepcopy(self.q)
        self.optimizer = adam((self.settings["learning_rate"], self.q))

    def best(self, observation: Tensor) -> Tensor:
        return self.q(observation).argmax(1)

    @torch.no_grad()
    def choose(
        self, observations: np.ndarray, rng: np.random.Generator, environment_steps: int, size: int
    ) -> np.ndarray:
        """Return epsilon-greedy actions. As CleanRL, it asks the network only for those that are not random."""
        first, last = self.settings["epsilon_initial"], self.settings["epsilon_final"]
        epsilon = first + (last - first) * min(1.0, environment_steps / self.settings["exploration_steps"])
        random, drawn = rng.random(len(observations)) < epsilon, rng.integers(size, size=len(observations))
        if random.all():
            return drawn
        return np.where(random, drawn, self.best(torch.from_numpy(observations).float()).numpy())

    def update(self, batch: Batch) -> None:
        with torch.no_grad():
            following = self.target(batch["next_observation"])
            chooser = self.q(batch["next_observation"]) if self.settings["double"] else following
            best = following.gather(1, chooser.argmax(1, keepdim=True)).squeeze(1)
            wanted = batch["reward"] + self.settings["gamma"] * (1 - batch["terminated"]) * best
        value = self.q(batch["observation"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        distance = functional.smooth_l1_loss if self.settings["loss"] == "huber" else functional.mse_loss
        take_step(self.optimizer, distance(value, wanted), self.settings["maximum_gradient_norm"])

    def train(self, batch: Batch, step: int) -> None:
        self.update(batch)
        if step % self.settings["target_interval"] == 0:
            move(self.target, self.q, self.settings["tau"])


class DDPG:
    steps = ("update",)

    def __init__(self, workload: dict[str, Any], observation_size: int, action_size: int) -> None:
        self.settings = workload["algorithm"]
        self.actor = network(workload, observation_size, action_size).append(nn.Tanh())
        self.critic = network(workload, observation_size + action_size, 1)
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = adam((self.settings["actor_learning_rate"], self.actor))
        self.critic_optimizer = adam((self.settings["critic_learning_rate"], self.critic))

    def best(self, observation: Tensor) -> Tensor:
        return self.actor(observation)

    @torch.no_grad()
    def choose(
        self, observations: np.ndarray, rng: np.random.Generator, environment_steps: int, size: int
    ) -> np.ndarray:
        action = self.best(torch.from_numpy(observations).float()).numpy()
        noise = rng.standard_normal(action.shape, np.float32) * self.settings["exploration_noise"]
        return np.clip(action + noise, -1, 1)

    def update(self, batch: Batch) -> None:
        observation, following = batch["observation"], batch["next_observation"]
        with torch.no_grad():
            value = self.target_critic(torch.cat([following, self.target_actor(following)], 1)).squeeze(1)
            wanted = batch["reward"] + self.settings["gamma"] * (1 - batch["terminated"]) * value
        value = self.critic(torch.cat([observation, batch["action"]], 1)).squeeze(1)
        take_step(self.critic_optimizer, functional.mse_loss(value, wanted))
        take_step(
            self.actor_optimizer, -self.critic(torch.cat([observation, self.actor(observation)], 1)).mean()
        )

    def train(self, batch: Batch, step: int) -> None:
        self.update(batch)
        move(self.target_critic, self.critic, self.settings["tau"])
        move(self.target_actor, self.actor, self.settings["tau"])


class TD3:
    steps = ("update_critics", "update_actor")

    def __init__(self, workload: dict[str, Any], observation_size: int, action_size: int) -> None:
        self.settings = workload["algorithm"]
        self.actor = network(workload, observation_size, action_size).append(nn.Tanh())
        self.critics = nn.ModuleList(network(workload, observation_size + action_size, 1) for _ in range(2))
        self.target_actor, self.target_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optimizer = adam((self.settings["actor_learning_rate"], self.actor))
        self.critic_optimizer = adam((self.settings["critic_learning_rate"], self.critics))

    best = DDPG.best
    choose = DDPG.choose

    def update_critics(self, batch: Batch) -> None:
        following, settings = batch["next_observation"], self.settings
        with torch.no_grad():
            noise = torch.randn_like(batch["action"]) * settings["target_noise"]
            noise = noise.clamp(-settings["target_noise_clip"], settings["target_noise_clip"])
            action = (self.target_actor(following) + noise).clamp(-1, 1)
            state = torch.cat([following, action], 1)
            value = torch.minimum(*(critic(state) for critic in self.target_critics)).squeeze(1)
            wanted = batch["reward"] + settings["gamma"] * (1 - batch["terminated"]) * value
        state = torch.cat([batch["observation"], batch["action"]], 1)
        losses = [functional.mse_loss(critic(state).squeeze(1), wanted) for critic in self.critics]
        take_step(self.critic_optimizer, losses[0] + losses[1])

    def update_actor(self, batch: Batch) -> None:
        state = torch.cat([batch["observation"], self.actor(batch["observation"])], 1)
        take_step(self.actor_optimizer, -self.critics[0](state).mean())

    def train(self, batch: Batch, step: int) -> None:
        self.update_critics(batch)
        if step % self.settings["policy_delay"] == 0:
            self.update_actor(batch)
            move(self.target_critics, self.critics, self.settings["tau"])
            move(self.target_actor, self.actor, self.settings["tau"])


class SAC:
    steps = ("update_critics", "update_actor")

    def __init__(self, workload: dict[str, Any], observation_size: int, action_size: int) -> None:
        self.settings = workload["algorithm"]
        self.actor = network(workload, observation_size, 2 * action_size)
        self.critics = nn.ModuleList(network(workload, observation_size + action_size, 1) for _ in range(2))
        self.target_critics = copy.deepcopy(self.critics)
        self.log_alpha = nn.Parameter(torch.tensor(self.settings["initial_temperature"]).log())
        entropy = self.settings["target_entropy"]
        self.target_entropy = -float(action_size) if entropy is None else entropy
        self.actor_optimizer = adam((self.settings["actor_learning_rate"], self.actor))
        self.critic_optimizer = adam((self.settings["critic_learning_rate"], self.critics))
        rate = self.settings["temperature_learning_rate"]
        self.temperature_optimizer = adam((rate, nn.ParameterList([self.log_alpha])))

    def draw(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Draw an action for each observation, and return the actions and their log-probabilities."""
        mean, log_std = self.actor(observation).chunk(2, 1)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        density = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
        squashed = 2 * (np.log(2) - raw - functional.softplus(-2 * raw))
        return raw.tanh(), (density - squashed).sum(1)

    def best(self, observation: Tensor) -> Tensor:
        return self.actor(observation).chunk(2, 1)[0].tanh()

    @torch.no_grad()
    def choose(
        self, observations: np.ndarray, rng: np.random.Generator, environment_steps: int, size: int
    ) -> np.ndarray:
        return self.draw(torch.from_numpy(observations).float())[0].numpy()

    def update_critics(self, batch: Batch) -> None:
        following = batch["next_observation"]
        with torch.no_grad():
            action, log_probability = self.draw(following)
            state = torch.cat([following, action], 1)
            value = torch.minimum(*(critic(state) for critic in self.target_critics)).squeeze(1)
            value = value - self.log_alpha.exp() * log_probability
            wanted = batch["reward"] + self.settings["gamma"] * (1 - batch["terminated"]) * value
        state = torch.cat([batch["observation"], batch["action"]], 1)
        losses = [functional.mse_loss(critic(state).squeeze(1), wanted) / 2 for critic in self.critics]
        take_step(self.critic_optimizer, losses[0] + losses[1])

    def update_actor(self, batch: Batch) -> None:
        action, log_probability = self.draw(batch["observation"])
        state = torch.cat([batch["observation"], action], 1)
        value = torch.minimum(*(critic(state) for critic in self.critics)).squeeze(1)
        take_step(self.actor_optimizer, (self.log_alpha.exp().detach() * log_probability - value).mean())
        if self.settings["tune_temperature"]:
            excess = (log_probability + self.target_entropy).detach().mean()
            take_step(self.temperature_optimizer, -self.log_alpha * excess)

    def train(self, batch: Batch, step: int) -> None:
        self.update_critics(batch)
        self.update_actor(batch)
        move(self.target_critics, self.critics, self.settings["tau"])


class PPO:
    steps = ("update",)

    def __init__(self, workload: dict[str, Any], observation_size: int, action_size: int) -> None:
        self.settings = workload["algorithm"]
        self.continuous = workload["environment"]["action_kind"] == "continuous"
        self.policy = network(workload, observation_size, action_size)
        self.value = network(workload, observation_size, 1)
        self.log_std = nn.Parameter(torch.full((action_size,), self.settings["initial_log_std"]))
        self.create_optimizers()

    def create_optimizers(self) -> None:
        """Create one optimiser for both networks, as CleanRL does."""
        self.optimizer = adam(
            (self.settings["policy_learning_rate"], self.trained_policy),
            (self.settings["value_learning_rate"], self.value),
            epsilon=PPO_EPSILON,
        )

    @property
    def trained_policy(self) -> nn.ModuleList:
        """The policy's network, and for continuous actions its log standard deviations."""
        return nn.ModuleList([self.policy, nn.ParameterList([self.log_std] if self.continuous else [])])

    def evaluate(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy network's output and the value of each observation.

        The output holds the means of the action distribution, or the logits for discrete actions.
        """
        return self.policy(observation), self.value(observation).squeeze(1)

    def best(self, observation: Tensor) -> Tensor:
        """Return the most likely action for each observation."""
        policy, _ = self.evaluate(observation)
        return policy if self.continuous else policy.argmax(1)

    def judge(self, policy: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each action, and the entropy of each distribution.

        Args:
            policy: the policy network's output, a row for each action.
            action: the actions, (M, A) continuous or (M,) discrete.
        """
        if self.continuous:
            normal = Normal(policy, self.log_std.exp(), validate_args=False)
            return normal.log_prob(action).sum(1), normal.entropy().sum(1)
        categorical = Categorical(logits=policy, validate_args=False)
        return categorical.log_prob(action), categorical.entropy()

    def draw(self, policy: Tensor) -> Tensor:
        """Draw an action from each row of the policy network's output."""
        if self.continuous:
            return policy + self.log_std.exp() * torch.randn_like(policy)
        return Categorical(logits=policy, validate_args=False).sample()

    def normalized(self, batch: Batch) -> Batch:
        """Return a minibatch whose advantages have mean 0 and standard deviation 1, if the workload says so."""
        if not self.settings["normalize_advantages"]:
            return batch
        advantage = batch["advantage"]
        return batch | {"advantage": (advantage - advantage.mean()) / (advantage.std() + 1e-8)}

    def policy_loss(self, policy: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the policy's loss on a minibatch, and the estimated KL divergence to the one that collected it.

        Args:
            policy: the policy network's output for the minibatch.
        """
        settings, advantage = self.settings, batch["advantage"]
        log_probability, entropy = self.judge(policy, batch["action"])
        difference = log_probability - batch["log_probability"]
        ratio = difference.exp()
        gain = torch.minimum(
            ratio * advantage, ratio.clamp(1 - settings["clip"], 1 + settings["clip"]) * advantage
        )
        loss = -gain.mean() - settings["entropy_coefficient"] * entropy.mean()
        return loss, (ratio - 1 - difference).mean().detach()

    def update(self, batch: Batch) -> Tensor:
        """Take one gradient step of both networks on a minibatch, on the sum of their losses.

        Returns:
            The estimated KL divergence between the policy before the step and the one that collected the samples.
        """
        batch = self.normalized(batch)
        policy, value = self.evaluate(batch["observation"])
        loss, divergence = self.policy_loss(policy, batch)
        loss = loss + self.settings["value_coefficient"] * functional.mse_loss(value, batch["value_target"])
        take_step(self.optimizer, loss, self.settings["maximum_gradient_norm"])
        return divergence


class Replay:
    """A replay with uniform sampling: a ring buffer in which the newest transitions replace the oldest."""

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], action: np.ndarray) -> None:
        arrays = {
            "observation": np.zeros((capacity, *observation_shape), np.float32),
            "next_observation": np.zeros((capacity, *observation_shape), np.float32),
            "action": np.zeros((capacity, *action.shape[1:]), action.dtype),
            "reward": np.zeros(capacity, np.float32),
            "terminated": np.zeros(capacity, np.float32),
        }
        self._arrays = arrays
        self._tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self._capacity, self._next, self._size = capacity, 0, 0

    def add(self, **columns: np.ndarray) -> None:
        number = len(columns["reward"])
        places = (self._next + np.arange(number)) % self._capacity if number > 1 else self._next
        for name, column in columns.items():
            self._arrays[name][places] = column if number > 1 else column[0]
        self._next = (self._next + number) % self._capacity
        self._size = min(self._capacity, self._size + number)

    def sample(self, batch_size: int, rng: np.random.Generator) -> Batch:
        places = torch.from_numpy(rng.integers(self._size, size=batch_size))
        return {name: tensor[places] for name, tensor in self._tensors.items()}


class Trainer(Agent):
    """Trains one agent; the base class of `OffPolicy` and `OnPolicy`.

    Raises:
        UnsupportedError: this worker has no such algorithm, network or environment.
    """

    learners: ClassVar[dict[str, type]]

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.job, self.workload = job, job["workload"]
        torch.set_num_threads(job["threads"])
        torch.manual_seed(job["seed"])
        self.rng = np.random.default_rng(job["seed"])
        self.environments = Environments(self.workload, job["seed"], self.episode_returns)
        environment = self.workload["environment"]
        (observation_size,), self.action_size = environment["observation_shape"], environment["action_size"]
        self.learner = self.learners[self.workload["algorithm"]["name"]](
            self.workload, observation_size, self.action_size
        )

        optimizers = vars(self.learner).values()
        self.optimizers = [each for each in optimizers if isinstance(each, torch.optim.Optimizer)]

    @torch.no_grad()
    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the most likely action for one observation."""
        return self.learner.best(torch.from_numpy(observation[None]).float())[0].numpy()

    def begin(self) -> None:
        """Train until the warm-up is over, before anything is timed."""
        self.warm_up()


class OffPolicy(Trainer):
    """Trains DQN, DDPG, TD3 or SAC with a uniform replay."""

    learners: ClassVar = {"dqn": DQN, "ddpg": DDPG, "td3": TD3, "sac": SAC}

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        if self.workload["replay"]["prioritized"]:
            self.notes["replay"] = "uniform, as CleanRL's"
        self.vector_steps, self.updates = cadence(self.workload["training"])
        capacity, observations = self.workload["replay"]["capacity"], self.environments.observations
        self.replay = Replay(capacity, observations.shape[1:], self.environments.random_actions())

    def begin(self) -> None:
        while self.environment_steps < self.workload["training"]["learning_starts"]:
            self.collect(self.environments.random_actions())
        self.warm_up()

    def collect(self, actions: np.ndarray) -> None:
        observations = self.environments.observations
        following, rewards, terminated, _ = self.environments.step(actions)
        self.replay.add(
            observation=observations,
            action=actions,
            reward=rewards,
            next_observation=following,
            terminated=terminated,
        )
        self.environment_steps += len(rewards)

    def iterate(self) -> None:
        for _ in range(self.vector_steps):
            observations = self.environments.observations
            self.collect(
                self.learner.choose(observations, self.rng, self.environment_steps, self.action_size)
            )
        for _ in range(self.updates):
            anneal(self.optimizers, self.workload["algorithm"], self.gradient_steps)
            self.gradient_steps += 1
            self.learner.train(self.replay.sample(self.job["batch_size"], self.rng), self.gradient_steps)


class OnPolicy(Trainer):
    """Trains PPO.

    A round is one iteration of PPO: T steps of each of N environments, then K epochs of minibatches of M samples.
    """

    on_policy = True
    learners: ClassVar = {"ppo": PPO}

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.notes["optimizer"] = "one Adam on the sum of both losses, clipped to a joint norm, as CleanRL's"

    @torch.no_grad()
    def rollout(self) -> Batch:
        """Collect the N T samples of an iteration, T steps of each of N environments, and compute their advantages."""
        settings, steps = self.workload["algorithm"], []
        for _ in range(settings["trajectory_length"]):
            observation = torch.from_numpy(self.environments.observations).float()
            policy, value = self.learner.evaluate(observation)
            action = self.learner.draw(policy)
            log_probability, _ = self.learner.judge(policy, action)
            taken = action.numpy()
            following, reward, terminated, truncated = self.environments.step(
                np.clip(taken, -1, 1) if self.learner.continuous else taken
            )
            over = terminated | truncated
            last = torch.zeros(0)
            if truncated.any():  # the last state of a truncated episode has a value
                last = self.learner.value(torch.from_numpy(following).float()).squeeze(1)
            steps.append((observation, action, log_probability, value, reward, terminated, over, last))
        _, value = self.learner.evaluate(torch.from_numpy(self.environments.observations).float())
        next_value, advantage, rows = value, torch.zeros_like(value), []
        for observation, action, log_probability, value, reward, terminated, over, last in reversed(steps):
            following_value = (
                torch.where(torch.from_numpy(over), last, next_value) if len(last) else next_value
            )
            going_on = 1 - torch.from_numpy(terminated).float()
            delta = torch.from_numpy(reward) + settings["gamma"] * going_on * following_value - value
            carried = settings["gamma"] * settings["gae_lambda"] * (1 - torch.from_numpy(over).float())
            advantage = delta + carried * advantage
            rows.append((observation, action, log_probability, advantage, advantage + value))
            next_value = value
        names = ("observation", "action", "log_probability", "advantage", "value_target")
        return {name: torch.cat(parts) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}

    def iterate(self) -> None:
        settings, batch_size = self.workload["algorithm"], self.job["batch_size"]
        samples = self.rollout()
        number = len(samples["advantage"])
        self.environment_steps += number
        for _ in range(settings["epochs"]):
            order = torch.from_numpy(self.rng.permutation(number))
            for begin in range(0, number - batch_size + 1, batch_size):
                places = order[begin : begin + batch_size]
                anneal(self.optimizers, settings, self.gradient_steps)
                divergence = self.learner.update({name: column[places] for name, column in samples.items()})
                self.gradient_steps += 1
            if settings["target_kl"] is not None and divergence > 1.5 * settings["target_kl"]:
                self.notes["early_stop"] = "after an epoch, of both networks, as CleanRL does"
                break


def create(job: dict[str, Any]) -> Trainer:
    """Return the agent for a job, with its warm-up done."""
    agent = trainer_of(job)
    agent.begin()
    return agent


create.anneals = True  # type: ignore[attr-defined]


def trainer_of(job: dict[str, Any]) -> Trainer:
    """Return the agent for a job; its warm-up is still to be done (`begin`)."""
    hidden_layers(job["workload"], ACTIVATIONS, SYSTEM)  # raises before anything is created
    name = job["workload"]["algorithm"]["name"]
    for kind in (OffPolicy, OnPolicy):
        if name in kind.learners:
            return kind(job)
    raise UnsupportedError(f"algorithm {name} is not in {SYSTEM}")


if __name__ == "__main__":
    serve(create)
