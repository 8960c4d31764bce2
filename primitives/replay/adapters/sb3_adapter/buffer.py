"""A `ConcurrentReplay` behind the interface of SB3's replay buffers."""

import warnings
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples

from placerl.primitives.interrupts import whole_imports
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Schedule, Storage
from placerl.primitives.replay.adapters.sb3_adapter.caller import refuse_an_algorithm_without_weights
from placerl.primitives.replay.checks import number
from placerl.primitives.sum_tree.base import checked_integer

try:
    with whole_imports():
        import psutil
except ImportError:  # optional, as for SB3
    psutil = None  # type: ignore[assignment]


class PrioritizedReplayBuffer(ReplayBuffer):
    """A `ConcurrentReplay` with the interface of SB3's `ReplayBuffer`, `DictReplayBuffer` and `NStepReplayBuffer`.

    After `sample`, `weights` holds the importance weights of that sample, (B, 1), and `update_priorities` sets the
    priorities of its items. By hand, any number of samples may be drawn, with or without updates; an algorithm that
    does not apply the weights gets a TypeError.

    `observations`, `next_observations`, `actions`, `rewards`, `dones` and `timeouts` are views of what is stored,
    (buffer_size, n_envs, ...) with SB3's dtypes; of a dictionary space, observations are a dict of views.

    Attributes:
        replay: the replay, a `ConcurrentReplay`. Row i holds step i // n_envs of environment i % n_envs.
        weights: importance weights of the last sample, at most 1, (B, 1) float32 on `device`.
        n_steps, gamma: rewards of up to `n_steps` steps are added up when a batch is sampled, as SB3 does.

    Args:
        buffer_size, observation_space, action_space, device, n_envs: arguments of SB3's `ReplayBuffer`. Each
            environment gets buffer_size // n_envs steps, at least 1.
        optimize_memory_usage: must be False.
        handle_timeout_termination: whether episodes cut by a time limit count as truncated, not as terminated.
        n_steps: steps of a transition, at least 1.
        gamma: discount of one step, for `n_steps` above 1.
        alpha: exponent on priorities; 0 samples uniformly.
        beta: exponent of the importance weights, a constant or a schedule over calls of `sample`.
        fanout: children of a node of the sum tree (K), 2 to 256.
        seed: seed of the sampling; by default NumPy's global generator is used, as by SB3, which seeds it.

    Raises:
        ValueError: an argument out of its range.
        TypeError: an argument of another type, or created by an algorithm that does not apply the weights, such as
            SB3's own.
    """

    replay: Any
    weights: torch.Tensor
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
        n_steps: int = 1,
        gamma: float = 0.99,
        alpha: float = 0.6,
        beta: float | Schedule = 0.4,
        fanout: int = 16,
        seed: int | None = None,
    ) -> None:
        refuse_an_algorithm_without_weights(self)
        if optimize_memory_usage:
            raise ValueError(
                "optimize_memory_usage: found True; allowed: False, as an item keeps its own next observation"
            )
        buffer_size = checked_integer("buffer_size", buffer_size, 1)
        n_envs = checked_integer("n_envs", n_envs, 1)
        self.n_steps, self.gamma = checked_integer("n_steps", n_steps, 1), number("gamma", gamma)
        BaseBuffer.__init__(
            self, max(buffer_size // n_envs, 1), observation_space, action_space, device, n_envs
        )
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self._sampled: Any = None
        self._create(seed, alpha=alpha, beta=beta, fanout=fanout)

    def _create(self, seed: int | None, **options: Any) -> None:
        """Set `replay`, and what draws from it."""
        storage = Storage(self.buffer_size * self.n_envs, self._fields())
        self._warn_of_memory(storage.nbytes)
        self.replay = ConcurrentReplay(storage, **options)
        self._own_rng = None if seed is None else np.random.default_rng(seed)

    def _fields(self) -> dict[str, FieldSpec]:
        following = {}
        observation = {}
        for key, space in self._observation_spaces().items():
            shape = self.obs_shape[key] if self._is_dict else self.obs_shape
            observation[_column("observation", key)] = FieldSpec(shape, space.dtype)
            following[_column("next_observation", key)] = FieldSpec(shape, space.dtype)
        scalar = FieldSpec((), np.float32)
        action = FieldSpec((self.action_dim,), self._maybe_cast_dtype(self.action_space.dtype))
        return (
            observation | following | {"action": action, "reward": scalar, "done": scalar, "timeout": scalar}
        )

    @property
    def _is_dict(self) -> bool:
        return isinstance(self.observation_space, spaces.Dict)

    def _observation_spaces(self) -> dict[str | None, Any]:
        """Return the spaces of the observations by key; a space that is no dictionary has the key None."""
        return dict(self.observation_space.spaces) if self._is_dict else {None: self.observation_space}

    def _warn_of_memory(self, needed_bytes: int) -> None:
        holder, free_bytes = self._memory()
        if needed_bytes > free_bytes:
            warnings.warn(
                f"{holder} does not have apparently enough memory to store the complete replay buffer "
                f"{needed_bytes / 1e9:.2f}GB > {free_bytes / 1e9:.2f}GB",
                stacklevel=3,
            )

    def _memory(self) -> tuple[str, float]:
        """Return what holds the items, and its free bytes, infinitely many where nothing tells how many."""
        return "This system", inf if psutil is None else psutil.virtual_memory().available

    @property
    def observations(self) -> Any:
        return self._observation_views("observation")

    @property
    def next_observations(self) -> Any:
        return self._observation_views("next_observation")

    @property
    def actions(self) -> npt.NDArray:
        return self._view("action")

    @property
    def rewards(self) -> npt.NDArray[np.float32]:
        return self._view("reward")

    @property
    def dones(self) -> npt.NDArray[np.float32]:
        return self._view("done")

    @property
    def timeouts(self) -> npt.NDArray[np.float32]:
        return self._view("timeout")

    def _view(self, column: str) -> npt.NDArray:
        rows = self.replay.storage.columns[column]
        return rows.reshape(self.buffer_size, self.n_envs, *rows.shape[1:])

    def _observation_views(self, name: str) -> Any:
        views = {key: self._view(_column(name, key)) for key in self._observation_spaces()}
        return views if self._is_dict else views[None]

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        """Insert one step of every environment, with the highest priority so far.

        Args:
            obs, next_obs: (n_envs, *shape), or a dict of those; the axis may be missing for one environment.
            action: n_envs * action_dim numbers.
            reward: (n_envs,).
            done: (n_envs,), whether the episode ended: booleans, or 0 and 1.
            infos: one dict per environment, whose "TimeLimit.truncated" says that a time limit cut the episode.

        Raises:
            TypeError, ValueError: arrays that do not fit the spaces, or a `done` that is no truth value; nothing is
                inserted.
        """
        timeouts = np.zeros(self.n_envs, np.float32)
        if self.handle_timeout_termination:
            if len(infos) != self.n_envs:
                raise ValueError(f"infos: found {len(infos)}; allowed: {self.n_envs}, one per environment")
            timeouts[:] = [info.get("TimeLimit.truncated", False) for info in infos]
        batch = self._observation_rows("obs", "observation", obs)
        batch |= self._observation_rows("next_obs", "next_observation", next_obs)
        batch["action"] = self._rows("action", action, (self.action_dim,), reshape=True)
        batch["reward"] = self._rows("reward", reward, (), reshape=True)
        dones = self._rows("done", done, (), reshape=True)
        if dones.dtype.kind not in "biuf":
            raise TypeError(f"done: found dtype {dones.dtype}; allowed: booleans, or 0 and 1")
        if dones.dtype.kind != "b" and not ((dones == 0) | (dones == 1)).all():
            raise ValueError(f"done: found {dones.tolist()}; allowed: booleans, or 0 and 1")
        batch["done"], batch["timeout"] = dones.astype(np.float32), timeouts
        self.replay.insert(batch)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def _observation_rows(self, argument: str, name: str, value: Any) -> dict[str, npt.NDArray]:
        if self._is_dict and not (isinstance(value, Mapping) and value.keys() >= self.obs_shape.keys()):
            found = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"{argument}: found {found}; allowed: a dict with {sorted(self.obs_shape)}")
        rows = {}
        for key, space in self._observation_spaces().items():
            part, shape = (value[key], self.obs_shape[key]) if self._is_dict else (value, self.obs_shape)
            label = argument if key is None else f"{argument}[{key!r}]"
            rows[_column(name, key)] = self._rows(label, part, shape, isinstance(space, spaces.Discrete))
        return rows

    def _rows(self, argument: str, value: Any, shape: tuple[int, ...], reshape: bool) -> npt.NDArray:
        """Return an argument as (n_envs, *shape); with `reshape` any shape of so many numbers will do."""
        array, allowed = np.asarray(value), (self.n_envs, *shape)
        missing_axis = self.n_envs == 1 and array.shape == shape
        if array.shape != allowed:
            if not (missing_axis or (reshape and array.size == np.prod(allowed))):
                raise ValueError(
                    f"{argument}: found shape {array.shape}; allowed: {allowed}{_way_out(array.shape, allowed)}"
                )
            array = array.reshape(allowed)
        return array

    def reset(self) -> None:
        """Remove every item. The beta schedule goes on."""
        super().reset()
        self.replay.clear()
        self._sampled = None

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Draw transitions with probabilities proportional to their priorities, and set `weights`.

        Args:
            batch_size: B, at least 1.
            env: the `VecNormalize` that normalises observations and rewards, or None.

        Returns:
            SB3's samples; `discounts` only if `n_steps` is above 1.

        Raises:
            TypeError: called by an algorithm that does not apply the weights, such as SB3's own.
            ValueError: nothing to draw, or a batch size below 1.
        """
        refuse_an_algorithm_without_weights(self)
        sample = self.replay.sample(batch_size, self._rng)
        self._sampled = sample.indices
        self.weights = self.to_torch(sample.weights, copy=False).reshape(-1, 1)
        return self._samples(sample.indices, sample.batch, env)

    @property
    def _rng(self) -> np.random.Generator:
        # Not an attribute: a pickle would hold a copy of the global generator, which no seed would reach.
        return self._own_rng or np.random.Generator(np.random.get_bit_generator())  # type: ignore[attr-defined]

    def _get_samples(
        self, batch_inds: npt.NDArray[np.int64], env: Any = None
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Return the transitions at the given steps, each of a random environment, as SB3's buffers do."""
        environments = np.random.randint(0, self.n_envs, size=len(batch_inds))  # noqa: NPY002 (seeded by SB3)
        rows = np.asarray(batch_inds, np.int64) * self.n_envs + environments
        return self._samples(rows, self.replay.gather(rows), env)

    def _samples(
        self, rows: Any, batch: Mapping[str, Any], env: Any
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        discounts = None
        if self.n_steps > 1:
            rewards, last_rows, dones, discounts = self._n_step(rows, env)
            names = [_column("next_observation", key) for key in self._observation_spaces()]
            batch = {**batch, **self._read(last_rows, *names)}
        else:
            rewards = self._normalize_reward(batch["reward"].reshape(-1, 1), env)
            dones = (batch["done"] * (1 - batch["timeout"])).reshape(-1, 1)
        kind = DictReplayBufferSamples if self._is_dict else ReplayBufferSamples
        return kind(
            observations=self._observation_tensors("observation", batch, env),
            actions=self.to_torch(batch["action"], copy=False),
            next_observations=self._observation_tensors("next_observation", batch, env),
            dones=self.to_torch(dones, copy=False),
            rewards=self.to_torch(rewards, copy=False),
            discounts=None if discounts is None else self.to_torch(discounts, copy=False),
        )

    def _read(self, rows: Any, *names: str) -> Mapping[str, Any]:
        """Return columns of rows."""
        return {name: self.replay.storage.columns[name][rows] for name in names}

    def _observation_tensors(self, name: str, batch: Mapping[str, Any], env: Any) -> Any:
        if not self._is_dict:
            return self.to_torch(self._normalize_obs(batch[name], env), copy=False)
        parts = {key: batch[_column(name, key)] for key in self.obs_shape}
        return {key: self.to_torch(part, copy=False) for key, part in self._normalize_obs(parts, env).items()}

    def _n_step(self, rows: Any, env: Any) -> tuple[Any, Any, Any, Any]:
        """Add up the rewards of up to `n_steps` steps, at most to the end of the episode or the newest step.

        Args:
            rows: (B,), the first rows.
            env: the `VecNormalize` that normalises rewards, or None.

        Returns:
            Rewards (B, 1); the last row of each (B,); whether it terminated its episode (B, 1); the discounts of the
            value after it (B, 1). Where only the newest step cuts a transition, its next observation has a value.
        """
        columns, ahead = self.replay.storage.columns, np.arange(self.n_steps)
        path = (rows[:, None] + ahead * self.n_envs) % self.replay.storage.capacity
        done, timeout = columns["done"][path], columns["timeout"][path]
        newest = (self.pos - 1) % self.buffer_size
        cut = (path // self.n_envs == newest) & (done == 0)
        ended = (done != 0) | (timeout != 0) | cut
        last = np.where(ended.any(axis=1), ended.argmax(axis=1), self.n_steps - 1)
        within = ahead <= last[:, None]
        # In SB3's order of operations, so that the sums have the same bits.
        weights = self.gamma ** np.arange(self.n_steps, dtype=np.float32).reshape(1, -1)
        rewards = self._normalize_reward(columns["reward"][path], env) * weights * within
        discounts = self.gamma ** within.sum(axis=1, keepdims=True).astype(np.float32)
        chosen = np.arange(len(rows)), last
        dones = (done[chosen] * (1 - timeout[chosen])).reshape(-1, 1)
        return rewards.sum(axis=1, keepdims=True), path[chosen], dones, discounts

    def update_priorities(self, td_errors: torch.Tensor | npt.NDArray) -> None:
        """Set the priorities of the last sample.

        Args:
            td_errors: (B,) or (B, 1), finite; a tensor or an array.

        Raises:
            RuntimeError: there was no sample since the buffer was created or reset.
            ValueError: another shape than the sample's, NaN or infinity.
        """
        if self._sampled is None:
            raise RuntimeError("update_priorities: found no sample; allowed: after `sample`")
        if not isinstance(td_errors, torch.Tensor):
            td_errors = np.asarray(td_errors)
        shape, count = tuple(td_errors.shape), len(self._sampled)
        if shape not in ((count,), (count, 1)):
            raise ValueError(f"td_errors: found shape {shape}; allowed: {(count,)}, {(count, 1)}")
        self._update(td_errors.reshape(-1))

    def _update(self, td_errors: torch.Tensor | npt.NDArray) -> None:
        if isinstance(td_errors, torch.Tensor):
            td_errors = td_errors.detach().cpu().numpy()
        self.replay.update_priorities(self._sampled, td_errors)


def _column(name: str, key: str | None) -> str:
    return name if key is None else f"{name}/{key}"


def _way_out(found: tuple[int, ...], allowed: tuple[int, ...]) -> str:
    """Return the end of an error about a shape: what to do about images whose channels are last."""
    if len(found) == 4 and (found[0], found[3], found[1], found[2]) == allowed:
        return (
            ", channels first: VecNormalize(VecTransposeImage(env)), as VecNormalize hands on what it wraps"
        )
    return ""
