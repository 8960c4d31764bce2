"""SB3's replay in the memory of the model's device, so that batches and TD errors are never copied through the host."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives.replay.adapters.sb3_adapter.buffer import PrioritizedReplayBuffer
from placerl.primitives.replay.adapters.sb3_adapter.caller import refuse_an_algorithm_without_weights
from placerl.primitives.replay.device.packed_rows import PackedRows
from placerl.primitives.replay.device.tensor_replay import TensorReplay


class DevicePrioritizedReplayBuffer(PrioritizedReplayBuffer):
    """A `PrioritizedReplayBuffer` whose items and priorities are in the memory of a CUDA device; on "cpu", of the host.

    Transitions and the statistics of `VecNormalize` come from the host. Sampling, n-step returns, normalisation and the
    priorities' update are work of the device for which the host does not wait. What differs:

    - A TD error that is NaN or infinite raises ValueError at the next `add`, and changes no priority.
    - `observations`, `rewards` and the like are copies, made when they are asked for.
    - A seed belongs to a generator on the device. By default NumPy's global generator, which SB3 seeds, draws it when
      the buffer is created, so that a copy draws what its original does.
    - A copy has no last sample: `update_priorities` needs another one. `device` can be set, as SB3 does on loading: the
      items move there.
    - beta is a number or a `LinearSchedule`.

    The arguments are those of `PrioritizedReplayBuffer`, whose `device` is of type "cuda" or "cpu".

    Attributes:
        replay: the replay, a `TensorReplay`.
    """

    replay: TensorReplay

    def _create(self, seed: int | None, **options: Any) -> None:
        if seed is None:
            seed = int(np.random.randint(2**31))  # noqa: NPY002 (seeded by SB3)
        rows, fields = self.buffer_size * self.n_envs, self._fields()
        self._warn_of_memory(rows * PackedRows(fields).row_bytes)
        self.replay = TensorReplay(rows, fields, self.device, seed=seed, **options)

    def _memory(self) -> tuple[str, float]:
        if self.device.type != "cuda":
            return super()._memory()
        return f"Device {self.device}", torch.cuda.mem_get_info(self.device)[0]

    @property
    def device(self) -> torch.device:
        """The device of the items and of the batches."""
        return self._device

    @device.setter
    def device(self, where: torch.device) -> None:
        self._device = where
        if "replay" in self.__dict__:
            before, self.replay = self.replay, self.replay.to(where)
            if self.replay is not before:
                self._sampled = None

    def __getstate__(self) -> dict[str, Any]:
        # Tensors of the last sample, which the copy could not answer.
        return {name: value for name, value in self.__dict__.items() if name != "weights"} | {
            "_sampled": None
        }

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Draw transitions with probabilities proportional to their priorities, and set `weights`.

        Args, returns and raises: as `PrioritizedReplayBuffer.sample`.
        """
        refuse_an_algorithm_without_weights(self)
        sample = self.replay.sample(batch_size)
        self._sampled, self.weights = sample.indices, sample.weights.reshape(-1, 1)
        return self._samples(sample.indices, sample.batch, env)

    def _read(self, rows: Any, *names: str) -> Mapping[str, Any]:
        return self.replay.gather(rows, *names)

    def _update(self, td_errors: torch.Tensor | npt.NDArray) -> None:
        self.replay.update_priorities(torch.as_tensor(td_errors))

    @staticmethod
    def _normalize_obs(obs: Any, env: Any = None) -> Any:
        if env is None or not env.norm_obs:
            return obs
        if not isinstance(obs, dict):
            return _normalized(obs, env.obs_rms, env.epsilon, env.clip_obs)
        return obs | {
            key: _normalized(obs[key], env.obs_rms[key], env.epsilon, env.clip_obs)
            for key in env.norm_obs_keys
        }

    @staticmethod
    def _normalize_reward(reward: Any, env: Any = None) -> Any:
        if env is None or not env.norm_reward:
            return reward
        return _normalized(reward, env.ret_rms, env.epsilon, env.clip_reward, centred=False)

    def _n_step(self, rows: Any, env: Any) -> tuple[Any, Any, Any, Any]:
        rows = torch.as_tensor(rows, device=self.replay.where)
        path = rows[:, None] + torch.arange(self.n_steps, device=rows.device) * self.n_envs
        path %= self.replay.storage.capacity
        read = self.replay.gather(path.reshape(-1), "done", "timeout", "reward")
        done, timeout, reward = (read[name].reshape(path.shape) for name in ("done", "timeout", "reward"))
        newest = (self.pos - 1) % self.buffer_size
        cut = (path // self.n_envs == newest) & (done == 0)
        ended = (done != 0) | (timeout != 0) | cut
        # The first end, or the last step.
        last = ended.int().argmax(dim=1).where(ended.any(dim=1), self.n_steps - 1)
        within = torch.arange(self.n_steps, device=rows.device) <= last[:, None]
        powers = self._powers(rows.device)
        # Rows that hold no item yet may hold NaN.
        rewards = (self._normalize_reward(reward, env) * powers[:-1]).where(within, 0.0)
        total = rewards[:, :1].clone()
        for step in range(1, self.n_steps):  # as NumPy adds fewer than 8: SB3's bits
            total += rewards[:, step : step + 1]
        at_last = last[:, None]
        dones = done.gather(1, at_last) * (1 - timeout.gather(1, at_last))
        return total, path.gather(1, at_last)[:, 0], dones, powers[at_last + 1]

    def _powers(self, where: torch.device) -> torch.Tensor:
        """Return gamma ** (0, ..., n_steps), (n_steps + 1,) float32, with NumPy's bits."""
        key = self.gamma, self.n_steps, where
        if self.__dict__.get("_powers_of") != key:
            powers = self.gamma ** np.arange(self.n_steps + 1, dtype=np.float32)
            self._powers_of, self._kept_powers = key, torch.from_numpy(powers).to(where)
        return self._kept_powers


def _normalized(
    values: torch.Tensor, statistics: Any, epsilon: float, most: float, *, centred: bool = True
) -> torch.Tensor:
    """Return values as SB3's `VecNormalize` has them, float32: less the mean, by the standard deviation, clipped."""
    scale = _copied(np.sqrt(statistics.var + epsilon), values.device)
    wide = values.double()
    if centred:
        wide = wide - _copied(statistics.mean, values.device)
    return (wide / scale).clamp(-most, most).float()


def _copied(numbers: npt.ArrayLike, where: torch.device) -> torch.Tensor:
    """Return numbers of the host on a device; the host does not wait for the copy."""
    tensor = torch.as_tensor(numbers)
    if where.type == "cuda":
        # From other memory PyTorch waits for the copy. It lends pinned memory to no one else before the copy is done.
        tensor = tensor.pin_memory()
    return tensor.to(where, non_blocking=True)
