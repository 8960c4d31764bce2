"""The native environments behind Gymnasium's interface `gymnasium.vector.VectorEnv`."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from placerl.primitives._native import environments as native

from placerl.primitives.environments.factory import make_native

SEED_MAX = 2**64 - 1

Stepped = tuple[
    npt.NDArray, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
]
"""The result of a step: observations (N, width), rewards (N,), terminated (N,), truncated (N,), info."""


class NativeVectorEnv(VectorEnv[npt.NDArray, npt.NDArray, npt.NDArray]):
    """A vector of N environments of one kind, stepped in one call to C++; created by `make_vec`.

    Seeds, autoreset, time limits and `info` are those of `gymnasium.vector.SyncVectorEnv` over
    `gymnasium.make(id)`, and so are the trajectories, bit for bit (`distance_from_origin` in MuJoCo's `info`
    excepted: Gymnasium's is a BLAS product, whose last bit depends on the machine). Continuous actions are taken as
    float32, the action space's type. Episode statistics come from `gymnasium.wrappers.vector.RecordEpisodeStatistics`,
    and are also in `episode_returns` and `episode_lengths`.

    Attributes:
        native: the C++ object.
        episode_returns: (N,) float64, the sum of rewards of each environment's running episode, or of the episode that
            the last step ended.
        episode_lengths: (N,) int64, the number of steps of the same episode.
    """

    def __init__(
        self,
        id: str,
        num_envs: int,
        autoreset_mode: object,
        max_episode_steps: int | None,
        arguments: Mapping[str, object],
        *,
        copy: bool,
    ) -> None:
        try:
            mode = AutoresetMode(autoreset_mode)
        except ValueError:
            allowed = ", ".join(mode.value for mode in AutoresetMode)
            raise ValueError(f"autoreset_mode: found {autoreset_mode!r}; allowed: {allowed}") from None
        env = make_native(
            id, num_envs, autoreset=mode.name.lower(), episode_steps=max_episode_steps, **arguments
        )
        self.native = env
        self.num_envs = num_envs = env.count
        self.copy = copy
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.spec = gymnasium.registry.get(id)
        self.single_observation_space, self.single_action_space = spaces(env)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = mode
        self._seeded = np.zeros(num_envs, np.bool_)
        self._observations = np.zeros(
            (num_envs, env.observation_width), np.float64 if env.float64 else np.float32
        )
        self._final_observations = np.zeros_like(self._observations)
        self._rewards = np.zeros(num_envs)
        self._terminated = np.zeros(num_envs, np.bool_)
        self._truncated = np.zeros(num_envs, np.bool_)
        # Whether the last step ended an environment's episode and none has begun.
        self._over = np.zeros(num_envs, np.bool_)
        self.episode_returns = np.zeros(num_envs)
        self.episode_lengths = np.zeros(num_envs, np.int64)
        width = sum(width for _, width, _, _ in env.info)
        self._info = np.zeros((num_envs, width)) if width else None
        self._final_info = np.zeros((num_envs, width)) if width and mode is AutoresetMode.SAME_STEP else None
        self._buffers = native.Buffers(
            env,
            self._observations,
            self._rewards,
            self._terminated,
            self._truncated,
            self._final_observations,
            self.episode_returns,
            self.episode_lengths,
            self._info,
            self._final_info,
        )

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray, dict[str, Any]]:
        """Begin an episode in all environments, or in those of `options["reset_mask"]`.

        Args:
            seed: the seed of the first environment, while the others get the integers that follow it; or N seeds. None
                keeps the random generators; the first reset seeds them at random. Seeds are in [0, 2**64).
            options: None to reset all environments, or {"reset_mask": (N,) bool}, whose elements say which to reset,
                at least one.

        Returns:
            Observations (N, width), float32, or float64 for MuJoCo; and `info`.

        Raises:
            ValueError, TypeError: a seed or an option that is not allowed.
        """
        mask = self._mask(options)
        seeds = self._seeds(seed)
        # The wording of Gymnasium: an environment without a seed keeps its generator, if it has one.
        for i in np.flatnonzero(mask & ~self._seeded):
            if seeds[i] is None:
                seeds[i] = secrets.randbits(64)
        given = np.array([s is not None for s in seeds]) & mask
        numbers = np.array([s or 0 for s in seeds], np.uint64)
        for which, values in ((given, numbers), (mask & ~given, None)):
            if which.any():
                self.native.reset(values, which, self._observations, self._info)
        self._seeded |= mask
        for array in (
            self._terminated,
            self._truncated,
            self._over,
            self.episode_returns,
            self.episode_lengths,
        ):
            array[mask] = 0
        return self._seen(), self._infos(self._info, mask, after_reset=mask)

    def step(self, actions: npt.ArrayLike) -> Stepped:
        """Take one step in every environment.

        Args:
            actions: (N,) integers for discrete actions, else (N, width) numbers. Numbers outside the bounds are treated
                as Gymnasium's environment treats them.

        Returns:
            Observations (N, width), rewards (N,), terminated (N,), truncated (N,) and `info`, as Gymnasium's.

        Raises:
            ValueError, TypeError: actions that are not allowed.
            RuntimeError: `reset` has not been called, or an episode is over and `autoreset_mode` is DISABLED.
        """
        if not self._seeded.all():
            raise RuntimeError("step: the environments have not been reset; call reset first")
        if self._mode is AutoresetMode.DISABLED and self._over.any():
            over = np.flatnonzero(self._over).tolist()
            raise RuntimeError(
                f"step: the episodes of environments {over} are over; reset them by a reset_mask first"
            )
        self.native.step(self._actions(actions), self._buffers)
        done = self._terminated | self._truncated
        begun = done if self._mode is AutoresetMode.SAME_STEP else self._over
        infos: dict[str, Any] = {}
        if self._mode is AutoresetMode.SAME_STEP and done.any():
            final_observations = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(done):
                final_observations[i] = self._final_observations[i].copy()
            infos = {"final_obs": final_observations, "_final_obs": done.copy()}
            infos |= {"final_info": self._infos(self._final_info, done), "_final_info": done.copy()}
        infos |= self._infos(self._info, np.ones_like(done), after_reset=begun)
        self._over = done
        return self._seen(), self._rewards.copy(), self._terminated.copy(), self._truncated.copy(), infos

    def _seen(self) -> npt.NDArray:
        return self._observations.copy() if self.copy else self._observations

    def _infos(
        self,
        rows: npt.NDArray[np.float64] | None,
        which: npt.NDArray[np.bool_],
        after_reset: npt.NDArray[np.bool_] | None = None,
    ) -> dict[str, Any]:
        """Return Gymnasium's `info`: an array and a mask for each field that at least one environment has.

        Args:
            rows: (N, info width), None without fields.
            which: (N,) the environments that have an info at all.
            after_reset: (N,) those of them that have only the fields that a reset gives.
        """
        infos: dict[str, Any] = {}
        if rows is None:
            return infos
        first = 0
        for name, width, is_float32, at_reset in self.native.info:
            values = rows[:, first : first + width].astype(np.float32 if is_float32 else np.float64)
            first += width
            mask = which.copy() if at_reset or after_reset is None else which & ~after_reset
            if not mask.any():
                continue
            values[~mask] = 0
            # A field with several numbers is an array in Gymnasium.
            infos[name] = values if name.startswith("tendon") else values[:, 0]
            infos[f"_{name}"] = mask
        return infos

    def _actions(self, actions: npt.ArrayLike) -> npt.NDArray:
        env = self.native
        array = np.asarray(actions)
        shape = (self.num_envs,) if env.action_count else (self.num_envs, env.action_width)
        if array.shape != shape:
            raise ValueError(f"actions: found shape {array.shape}; allowed: {shape}")
        if env.action_count and not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"actions: found {array.dtype}; allowed: integers")
        if not env.action_count and array.dtype.kind not in "fiu":
            raise TypeError(f"actions: found {array.dtype}; allowed: numbers")
        # Before the conversion: a large unsigned integer would become a negative one.
        checked = np.ascontiguousarray(array, np.int64 if env.action_count else np.float32)
        if not checked.flags.writeable:  # the extension takes none
            checked = checked.copy()
        invalid = env.first_invalid(checked)
        if invalid >= 0:
            allowed = f"an integer in [0, {env.action_count})" if env.action_count else "a number"
            place = f"[{invalid // env.action_width}]"
            raise ValueError(f"actions{place}: found {array.flat[invalid]}; allowed: {allowed}")
        return checked

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            seeds: list[int | None] = [int(seed) + i for i in range(self.num_envs)]
        else:
            try:
                seeds = [None if one is None else int(one) for one in seed]  # type: ignore[union-attr]
            except (TypeError, ValueError):
                raise TypeError(
                    f"seed: found {seed!r}; allowed: an integer, {self.num_envs} integers or None"
                ) from None
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"seed: found {len(seeds)} seeds; allowed: {self.num_envs}, one of each environment"
            )
        for one in seeds:
            if one is not None and not 0 <= one <= SEED_MAX:
                raise ValueError(f"seed: found {one}; allowed: integers in [0, 2**64)")
        return seeds

    def _mask(self, options: dict[str, Any] | None) -> npt.NDArray[np.bool_]:
        # The mask stays in `options`, where Gymnasium's wrappers look for it afterwards.
        others = sorted(set(options or {}) - {"reset_mask"})
        if others:
            raise ValueError(f"options: found {others}; allowed: reset_mask")
        if not options or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            found = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise TypeError(f"options['reset_mask']: found {found}; allowed: a NumPy array of bool")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"options['reset_mask']: found shape {mask.shape}; allowed: ({self.num_envs},)")
        if not mask.any():
            raise ValueError("options['reset_mask']: found none that is set; allowed: at least one")
        return mask.copy()


def spaces(env: native.VectorEnv) -> tuple[Box, Box | Discrete]:
    """Return the observation and the action space of one environment, equal to Gymnasium's."""
    dtype: Any = np.float64 if env.float64 else np.float32
    observation = Box(
        np.array(env.observation_low, dtype), np.array(env.observation_high, dtype), dtype=dtype
    )
    if env.action_count:
        return observation, Discrete(env.action_count)
    low, high = np.array(env.action_low, np.float32), np.array(env.action_high, np.float32)
    return observation, Box(low, high, dtype=np.float32)
