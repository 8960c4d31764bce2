"""SB3's off-policy algorithms with prioritised replay.

SB3's losses take no weights, so these classes replace `train` and change two things in it:

- DQN's loss is mean(w * smooth_l1(q - target)); the loss of each critic of DDPG, TD3 and SAC is
  mean(w * (q - target)^2), for SAC times 0.5. w are the importance weights of the batch, at most 1
  (`primitives.replay.importance_weights`). The losses of the actor and of SAC's entropy coefficient have no weights,
  as their gradients do not come from the TD error.
- After each gradient step the priorities of the batch are set from |q - target|, the mean over the critics.

With weights of 1 the gradient step is SB3's own, bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.utils import polyak_update
from torch.nn import functional

from placerl.primitives.replay.adapters.sb3_adapter.buffer import PrioritizedReplayBuffer
from placerl.primitives.sum_tree.base import checked_integer


class _Prioritized:
    """What the prioritised algorithms share: they create and load the prioritised replay buffer."""

    applies_weights = True
    n_steps: int
    gamma: float
    replay_buffer: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: dict[str, Any]

    def _setup_model(self) -> None:
        self.replay_buffer_class = self.replay_buffer_class or PrioritizedReplayBuffer
        if not issubclass(self.replay_buffer_class, PrioritizedReplayBuffer):
            raise TypeError(
                f"replay_buffer_class: found {self.replay_buffer_class.__name__}; allowed: None (also as an argument "
                "of `load`, for a model that SB3's own class saved), PrioritizedReplayBuffer or a subclass"
            )
        self.n_steps = checked_integer("n_steps", self.n_steps, 1)
        for name in ("n_steps", "gamma"):
            own = getattr(self, name)
            if (found := self.replay_buffer_kwargs.get(name, own)) != own:
                raise ValueError(
                    f"replay_buffer_kwargs[{name!r}]: found {found}; allowed: {own}, the model's"
                )
        # SB3 warns that n_steps is ignored where a class of replay buffer is given; this one heeds it.
        n_steps, self.n_steps = self.n_steps, 1
        try:
            super()._setup_model()  # type: ignore[misc]
        finally:
            self.n_steps = n_steps
        self._set_n_steps()

    def _set_n_steps(self) -> None:
        self.replay_buffer.n_steps, self.replay_buffer.gamma = self.n_steps, self.gamma

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        """Load a buffer that `save_replay_buffer` wrote; it draws as the saved one would have.

        Args:
            truncate_last_traj: for SB3's `HerReplayBuffer`; without effect, as in SB3's other buffers.

        Raises:
            TypeError: a buffer of another class.
            ValueError: a buffer for another number of environments or other spaces.
        """
        before = self.replay_buffer
        try:
            super().load_replay_buffer(path, truncate_last_traj)  # type: ignore[misc]
            loaded = self.replay_buffer
        finally:
            self.replay_buffer = before  # until what was loaded is checked
        if not isinstance(loaded, PrioritizedReplayBuffer):
            raise TypeError(f"{path}: found {type(loaded).__name__}; allowed: PrioritizedReplayBuffer")
        for name in ("n_envs", "observation_space", "action_space"):
            if (found := getattr(loaded, name)) != getattr(self, name):
                raise ValueError(f"{path}: {name}: found {found}; allowed: {getattr(self, name)}")
        self.replay_buffer = loaded
        self._set_n_steps()

    def _discounts(self, data: Any) -> Any:
        """Discounts of the next value: (B, 1) for n-step returns, or the algorithm's own."""
        return self.gamma if data.discounts is None else data.discounts

    def _weighted_square(self, values: Sequence[torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        """Return the sum over the critics of mean(w * (q - target)^2), a scalar.

        Args:
            values: of each critic (B, 1).
            target: (B, 1).
        """
        weights = self.replay_buffer.weights
        losses = [(weights * functional.mse_loss(value, target, reduction="none")).mean() for value in values]
        return torch.stack(losses).sum()

    def _update_priorities(self, values: Sequence[torch.Tensor], target: torch.Tensor) -> None:
        """Set the batch's priorities from the mean of |q - target| over the critics."""
        with torch.no_grad():
            self.replay_buffer.update_priorities((torch.cat(tuple(values), dim=1) - target).abs().mean(dim=1))


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
                target = data.rewards + (1 - data.dones) * self._discounts(data) * value
            q = self.q_net(data.observations).gather(1, data.actions.long())
            loss = (
                self.replay_buffer.weights * functional.smooth_l1_loss(q, target, reduction="none")
            ).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self._update_priorities([q], target)
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
                noise = torch.empty_like(data.actions).normal_(0, self.target_policy_noise)
                noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)
                actions = (self.actor_target(data.next_observations) + noise).clamp(-1, 1)
                following = torch.cat(self.critic_target(data.next_observations, actions), dim=1)
                value = following.min(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * self._discounts(data) * value
            values = self.critic(data.observations, data.actions)
            critic_loss = self._weighted_square(values, target)
            self.critic.optimizer.zero_grad()
            critic_loss.backward()
            self.critic.optimizer.step()
            self._update_priorities(values, target)
            critic_losses.append(critic_loss.item())
            if self._n_updates % self.policy_delay == 0:
                actor_losses.append(self._train_actor(data.observations))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        if actor_losses:
            self.logger.record("train/actor_loss", np.mean(actor_losses))
        self.logger.record("train/critic_loss", np.mean(critic_losses))

    def _train_actor(self, observations: Any) -> float:
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


class PrioritizedSAC(_Prioritized, SAC):
    """SB3's SAC with prioritised replay."""

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        self.policy.set_training_mode(True)
        tuned = [] if self.ent_coef_optimizer is None else [self.ent_coef_optimizer]
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer, *tuned])
        results: dict[str, list[float]] = {"ent_coef": [], "actor_loss": [], "critic_loss": []}
        for step in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            if self.use_sde:
                self.actor.reset_noise()  # log_std may have changed in the last step
            actions, log_prob = self.actor.action_log_prob(data.observations)
            log_prob = log_prob.reshape(-1, 1)
            entropy_coefficient = self._train_entropy_coefficient(log_prob, results)
            results["ent_coef"].append(entropy_coefficient.item())

            with torch.no_grad():
                next_actions, next_log_prob = self.actor.action_log_prob(data.next_observations)
                following = torch.cat(self.critic_target(data.next_observations, next_actions), dim=1)
                value = following.min(dim=1, keepdim=True).values
                value = value - entropy_coefficient * next_log_prob.reshape(-1, 1)
                target = data.rewards + (1 - data.dones) * self._discounts(data) * value
            values = self.critic(data.observations, data.actions)
            critic_loss = 0.5 * self._weighted_square(values, target)
            self.critic.optimizer.zero_grad()
            critic_loss.backward()
            self.critic.optimizer.step()
            self._update_priorities(values, target)
            results["critic_loss"].append(critic_loss.item())

            q = torch.cat(self.critic(data.observations, actions), dim=1).min(dim=1, keepdim=True).values
            actor_loss = (entropy_coefficient * log_prob - q).mean()
            self.actor.optimizer.zero_grad()
            actor_loss.backward()
            self.actor.optimizer.step()
            results["actor_loss"].append(actor_loss.item())

            if step % self.target_update_interval == 0:
                polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
                polyak_update(self.batch_norm_stats, self.batch_norm_stats_target, 1.0)
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, numbers in results.items():
            self.logger.record(f"train/{name}", np.mean(numbers))

    def _train_entropy_coefficient(
        self, log_prob: torch.Tensor, results: dict[str, list[float]]
    ) -> torch.Tensor:
        """Return the entropy coefficient, as it was before the gradient step that a tuned one takes here."""
        if self.ent_coef_optimizer is None:
            return self.ent_coef_tensor
        coefficient = torch.exp(self.log_ent_coef.detach())
        loss = -(self.log_ent_coef * (log_prob + self.target_entropy).detach()).mean()
        self.ent_coef_optimizer.zero_grad()
        loss.backward()
        self.ent_coef_optimizer.step()
        results.setdefault("ent_coef_loss", []).append(loss.item())
        return coefficient
