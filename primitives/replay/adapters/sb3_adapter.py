"""Prioritised replay for Stable-Baselines3 2.9.2, which has none.

    from primitives.replay.adapters.sb3_adapter import PrioritizedDQN
    model = PrioritizedDQN("MlpPolicy", "CartPole-v1", replay_buffer_kwargs={"alpha": 0.6, "beta": 0.4})
    model.learn(50_000)

`PrioritizedDDPG` and `PrioritizedTD3` are used in the same way. SB3's losses take no weights, so these classes
replace `train` and change three things in it:

- DQN's loss is mean(w * smooth_l1(q - target)); the loss of each critic of DDPG and TD3 is mean(w * (q - target)^2).
  w are the importance weights of the batch, at most 1 (`primitives.replay.importance_weights`). The actor's loss
  has no weights, as its gradient does not come from the TD error.
- After each gradient step the priorities of the batch are set from |q - target|, the mean over the critics.
- n-step returns and dictionary observations are refused.
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3 import DDPG, DQN, TD3
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update
from torch.nn import functional

from primitives.replay import ConcurrentReplay, FieldSpec, Schedule, Storage, transition_fields


class PrioritizedReplayBuffer(ReplayBuffer):
    """A `ConcurrentReplay` with the interface of SB3's `ReplayBuffer`.

    After `sample`, `weights` holds the importance weights of that sample, (B, 1), and `update_priorities` sets the
    priorities of its items.

    Args:
        buffer_size, observation_space, action_space, device, n_envs: arguments of SB3's `ReplayBuffer`.
        optimize_memory_usage: must be False.
        handle_timeout_termination: whether episodes cut by a time limit count as truncated, not as terminated.
        alpha: exponent on priorities; 0 samples uniformly.
        beta: exponent of the importance weights, a constant or a schedule over calls of `sample`.
        fanout: children of a node of the sum tree (K), 2 to 256.
        seed: seed of the sampling; by default drawn from NumPy's global generator, which SB3 seeds.
    """

    pos: int

    def __init__(  # noqa: PLR0913 (SB3 fills in the first seven, and its users the others by name)
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        alpha: float = 0.6,
        beta: float | Schedule = 0.4,
        fanout: int = 16,
        seed: int | None = None,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage: found True; allowed: False")
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        action_dtype = self._maybe_cast_dtype(action_space.dtype)
        fields = transition_fields(
            FieldSpec(self.obs_shape, observation_space.dtype), FieldSpec((self.action_dim,), action_dtype)
        )
        self.replay = ConcurrentReplay(Storage(buffer_size, fields), alpha=alpha, beta=beta, fanout=fanout)
        if seed is None:
            seed = int(np.random.randint(2**31))  # noqa: NPY002 (SB3 seeds NumPy's global state)
        self._rng = np.random.default_rng(seed)

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        terminated = np.asarray(done, np.bool_)
        if self.handle_timeout_termination:
            terminated = terminated & ~np.array([info.get("TimeLimit.truncated", False) for info in infos])
        shape = (self.n_envs, *self.obs_shape)
        self.replay.insert(
            {
                "observation": np.reshape(obs, shape),
                "action": np.reshape(action, (self.n_envs, self.action_dim)),
                "reward": reward,
                "next_observation": np.reshape(next_obs, shape),
                "terminated": terminated,
            }
        )
        self.pos = (self.pos + self.n_envs) % self.buffer_size
        self.full = len(self.replay) == self.buffer_size

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        sample = self.replay.sample(batch_size, self._rng)
        self._indices = sample.indices
        self.weights = self.to_torch(sample.weights, copy=False).reshape(-1, 1)
        batch = sample.batch
        columns = (
            self._normalize_obs(batch["observation"], env),
            batch["action"],
            self._normalize_obs(batch["next_observation"], env),
            batch["terminated"].astype(np.float32).reshape(-1, 1),
            self._normalize_reward(batch["reward"].reshape(-1, 1), env),
        )
        return ReplayBufferSamples(*(self.to_torch(column, copy=False) for column in columns))

    def update_priorities(self, td_errors: torch.Tensor) -> None:
        """Set the priorities of the last sample from its TD errors, (B,) or (B, 1)."""
        self.replay.update_priorities(self._indices, td_errors.detach().cpu().numpy().reshape(-1))


class _Prioritized:
    """What the prioritised algorithms share: they create the prioritised replay buffer."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("replay_buffer_class", PrioritizedReplayBuffer)
        if not issubclass(options["replay_buffer_class"], PrioritizedReplayBuffer):
            raise TypeError("replay_buffer_class: allowed: PrioritizedReplayBuffer or a subclass")
        if options.get("n_steps", 1) != 1:
            raise ValueError(f"n_steps: found {options['n_steps']}; allowed: 1")
        super().__init__(*arguments, **options)


class PrioritizedDQN(_Prioritized, DQN):
    """SB3's DQN with prioritised replay."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                value = self.q_net_target(data.next_observations).max(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * self.gamma * value
            q = self.q_net(data.observations).gather(1, data.actions.long())
            loss = (
                self.replay_buffer.weights * functional.smooth_l1_loss(q, target, reduction="none")
            ).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.replay_buffer.update_priorities(q - target)
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))


class PrioritizedTD3(_Prioritized, TD3):
    """SB3's TD3 with prioritised replay."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer])
        actor_losses, critic_losses = [], []
        for _ in range(gradient_steps):
            self._n_updates += 1
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                noise = torch.randn_like(data.actions) * self.target_policy_noise
                noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)
                actions = (self.actor_target(data.next_observations) + noise).clamp(-1, 1)
                values = torch.cat(self.critic_target(data.next_observations, actions), dim=1)
                target = data.rewards + (1 - data.dones) * self.gamma * values.min(dim=1, keepdim=True).values
            td_errors = torch.cat(self.critic(data.observations, data.actions), dim=1) - target
            critic_loss = (self.replay_buffer.weights * td_errors.square()).mean(dim=0).sum()
            self.critic.optimizer.zero_grad()
            critic_loss.backward()
            self.critic.optimizer.step()
            self.replay_buffer.update_priorities(td_errors.abs().mean(dim=1))
            critic_losses.append(critic_loss.item())
            if self._n_updates % self.policy_delay == 0:
                actor_losses.append(self._train_actor(data.observations))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        if actor_losses:
            self.logger.record("train/actor_loss", np.mean(actor_losses))
        self.logger.record("train/critic_loss", np.mean(critic_losses))

    def _train_actor(self, observations: torch.Tensor) -> float:
        loss = -self.critic.q1_forward(observations, self.actor(observations)).mean()
        self.actor.optimizer.zero_grad()
        loss.backward()
        self.actor.optimizer.step()
        polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
        polyak_update(self.actor.parameters(), self.actor_target.parameters(), self.tau)
        polyak_update(self.critic_batch_norm_stats, self.critic_batch_norm_stats_target, 1.0)
        polyak_update(self.actor_batch_norm_stats, self.actor_batch_norm_stats_target, 1.0)
        return float(loss.item())


class PrioritizedDDPG(_Prioritized, DDPG):
    """SB3's DDPG with prioritised replay. (SB3's DDPG is its TD3 with one critic and without target smoothing.)"""

    train = PrioritizedTD3.train
    _train_actor = PrioritizedTD3._train_actor
