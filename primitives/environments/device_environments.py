"""Environments that step on a device, and write their transitions into a storage there without the host.

The physics are the functions that the native environments are compiled from (`dynamics/*.h`), and the random numbers
that begin an episode are NumPy's. On the host device the trajectories are Gymnasium's, bit for bit, but for Acrobot's
first observation of an episode, which Gymnasium computes with NumPy's functions of floats, and for squares that the C
library's `pow` rounds otherwise than a product. Another device's sine and cosine may differ in the last bit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

import numpy as np
from numpy.typing import NDArray

from placerl.primitives import checks
from placerl.primitives.device import Groups, Part, Stream
from placerl.primitives.environments.factory import make_native, native
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay import NStepReturns
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.packed_rows import PackedRows
from placerl.primitives.replay.storage import FieldSpec, transition_fields

_PHYSICS = {
    "Acrobot-v1": ("acrobot", "acrobot"),
    "CartPole-v1": ("cart_pole", "cart_pole"),
    "ContinuousCartPole-v0": ("cart_pole", "continuous_cart_pole"),
    "MountainCar-v0": ("mountain_car", "mountain_car"),
    "MountainCarContinuous-v0": ("mountain_car", "mountain_car_continuous"),
    "Pendulum-v1": ("pendulum", "pendulum"),
}
"""The header of an environment's physics, and what its functions begin with."""
_FUNCTIONS = """
FUNCTION double sine(double x) { return sin(x); }
FUNCTION double cosine(double x) { return cos(x); }
FUNCTION float sine_float(float x) { return sin(x); }
FUNCTION float cosine_float(float x) { return cos(x); }
FUNCTION double power_2(double x) { return x * x; }
FUNCTION float power_2_float(float x) { return x * x; }
FUNCTION void turn(double angle, double *sine_of, double *cosine_of) {
    *sine_of = sin(angle);
    *cosine_of = cos(angle);
}
"""
_ENDED_RETURNS = 2**16
"""About how many returns of episodes wait on the device for the host."""


def ids() -> tuple[str, ...]:
    """Return Gymnasium's ids of the environments that step on a device."""
    return tuple(_PHYSICS)


@dataclass(frozen=True)
class NStep:
    """How transitions of several steps are made of an environment's, as `NStepReturns` makes them.

    Attributes:
        n: largest number of steps in a transition, at least 1.
        gamma: discount of one step, in [0, 1].

    Raises:
        TypeError: a value of another type.
        ValueError: a value out of its range.
    """

    n: int
    gamma: float

    def __post_init__(self) -> None:
        NStepReturns(self.n, self.gamma)  # which checks both


def fields_of(env: native.VectorEnv, *, discount: bool = False) -> dict[str, FieldSpec]:
    """Return the columns of an environment's transitions; `discount`: with that of n-step returns."""
    action = FieldSpec((), np.int64) if env.action_count else FieldSpec((env.action_width,), np.float32)
    return transition_fields(FieldSpec((env.observation_width,), np.float32), action, discount=discount)


def kernel_source(id: str, episode_steps: int | None = None, *, n_step: bool = False) -> str:
    """Return the source of an environment's kernels, in the language that all devices share.

    Args:
        id: one of `ids()`.
        episode_steps: time limit, 0 for none; None for Gymnasium's.
        n_step: whether to add the kernels of n-step transitions.

    Raises:
        ValueError: no such environment steps on a device.
    """
    checks.one_of("id", id, _PHYSICS)
    env = make_native(id, 1, episode_steps=episode_steps)
    header, name = _PHYSICS[id]
    row = PackedRows(fields_of(env, discount=n_step))
    offsets = {f"{column}_AT".upper(): place for column, place in row.offsets.items()}
    applied = "(action)"
    if not env.action_count:
        # Algorithms that store actions as they drew them leave it to the environment to clip them.
        applied = "((action) < -1 ? -1 : (action) > 1 ? 1 : (action))"
        if (env.action_low, env.action_high) != ([-1], [1]):
            low, high = (np.float32(bound[0]) for bound in (env.action_low, env.action_high))
            half = (high - low) / np.float32(2)
            applied = f"({float(low).hex()}f + ({applied} + 1) * {float(half).hex()}f)"
    defined = {
        "STATE": f"{name}_STATE".upper(),
        "DRAWS": f"{name}_DRAWS".upper(),
        "WIDTH": env.observation_width,
        "ACTION": "LONG" if env.action_count else "float",
        "EPISODE_STEPS": env.episode_steps,
        "APPLIED(action)": applied,
        "ROW_BYTES": row.row_bytes,
        **offsets,
        **{f"environment_{call}": f"{name}_{call}" for call in ("start", "step", "observe")},
    }
    package = files(__package__)
    physics = [package.joinpath("dynamics", f"{file}.h").read_text() for file in ("numbers", header)]
    glue = "".join(f"#define {macro} {value}\n" for macro, value in defined.items())
    names = ["device_environments.h", *(["device_n_step.h"] if n_step else [])]
    own = [package.joinpath(name).read_text() for name in names]
    return "\n".join([_FUNCTIONS, *physics, glue, *own])


class DeviceEnvironments(OwnProcess):
    """Environments of one kind that step together, each of which begins its next episode in the same step.

    Args:
        id: one of `ids()`.
        seeds: the seed of each environment, N; they are reset with it, and once more without one, as actors do.
        storage: where the transitions go, on the device: empty, with exactly their columns, and inserted into by these
            environments alone.
        stream: the stream of all work.
        observations: where in a buffer the observations to act on are, (N, width) float32.
        at_once: most vector steps that are counted at once, and at least how many the host need not read returns of.
        episode_steps: time limit, 0 for none; None for Gymnasium's.
        n_step: how n-step transitions are made; None: the transitions are of one step.

    Attributes:
        count: N.
        counters: buffer of two int64, the numbers of vector steps and of rows written so far.
        rows_a_step: most rows that a vector step writes, N, or n times as many.
        inserted: buffer of one int64, the rows that the last vector step wrote.
        indices: buffer of (rows_a_step,) int64, those rows; after them, others which it did not write.
        ended, ended_steps: a vector step writes the return of each environment whose episode it ended, else NaN, into
            row `vector_steps % ended_steps` of `ended`, a buffer of (ended_steps, N) float64.
        vector_steps: vector steps that were started so far, or counted by `count_started`.

    Raises:
        ValueError: there is no such environment, or the storage does not fit it.
    """

    def __init__(
        self,
        id: str,
        seeds: Sequence[int],
        storage: DeviceStorage,
        stream: Stream,
        observations: Part,
        *,
        at_once: int = 1,
        episode_steps: int | None = None,
        n_step: NStep | None = None,
    ) -> None:
        super().__init__()
        self._n_step = n_step
        source = kernel_source(id, episode_steps, n_step=n_step is not None)
        self.native = make_native(id, len(seeds), autoreset="same_step", episode_steps=episode_steps)
        if storage.fields != (expected := fields_of(self.native, discount=n_step is not None)):
            raise ValueError(f"storage: found columns {storage.fields}; allowed: {expected}")
        self.rows_a_step = len(seeds) * (n_step.n if n_step else 1)
        # After n-step transitions, `indices` has the row that follows them.
        if storage.size or storage.capacity < (needed := self.rows_a_step + (n_step is not None)):
            raise ValueError(
                f"storage: found {storage.size} items of {storage.capacity}; "
                f"allowed: none, and room for {needed}, what {len(seeds)} environments write in a step"
            )
        self.count, self._storage, self._stream = len(seeds), storage, stream
        self._kernels = storage.device.kernels(source, fuse_products=False)
        numbers = int(
            cast(re.Match[str], re.search(rf"define {_PHYSICS[id][1].upper()}_STATE (\d+)", source))[1]
        )
        sizes_bytes = (8 * self.count * numbers, 8 * self.count, 8 * self.count)
        self._states, self._lengths, self._returns = (stream.zeros(size) for size in sizes_bytes)
        self._randoms = stream.uploaded(_generators(seeds))
        self.counters, self.indices = stream.zeros(16), stream.zeros(8 * self.rows_a_step)
        self.inserted = stream.uploaded(np.array([self.count], np.int64))
        if n_step:
            row_bytes = PackedRows(storage.fields).row_bytes
            self._recent = stream.zeros(self.rows_a_step * row_bytes)
            self._live, self._complete = stream.zeros(8 * self.count), stream.zeros(24 * self.count)
            self._powers = stream.uploaded(n_step.gamma ** np.arange(n_step.n + 1))
        self.ended_steps = max(at_once, _ENDED_RETURNS // self.count)
        self.ended = stream.zeros(8 * self.ended_steps * self.count)
        self._returns_read = list[tuple[int, float]]()
        self._observations = observations
        self.vector_steps = self._read = self._counted_rows = 0
        for _ in range(2):
            own = self._states, self._randoms, self._lengths, self._returns
            seen = observations.buffer, np.int64(observations.offset_bytes)
            stream.launch(self._kernels["begin_episodes"], self.count, *own, *seen, np.int64(self.count))

    def launch_step(self, actions: Part) -> None:
        """Start a step of every environment, which writes its transitions; `count_started` counts it.

        Args:
            actions: (N,) int64 in [0, number of actions), or (N, 1) float32, clipped to [-1, 1] where they are applied.
        """
        own = self._states, self._randoms, self._lengths, self._returns, actions.buffer
        places = np.int64(self._observations.offset_bytes), np.int64(actions.offset_bytes)
        rows = stored = self._storage.rows, np.int64(self._storage.capacity)
        if self._n_step:
            rows = self._recent, np.int64(self.rows_a_step)
        count, ended = np.int64(self.count), (self.ended, np.int64(self.ended_steps))
        stream, kernels = self._stream, self._kernels
        written = self.counters, *rows, self.indices, *ended, count
        stream.launch(kernels["step_environments"], self.count, *own, *places, *written)
        if self._n_step:
            most = np.int64(self._n_step.n)
            counted = self._live, self._complete, self.inserted, most, count
            stream.launch(kernels["count_transitions"], Groups(1, (256, 1)), self.counters, *ended, *counted)
            complete = self.counters, self._complete, self.inserted, self.indices, self._powers, most, count
            stream.launch(kernels["complete_transitions"], self.rows_a_step, self._recent, *stored, *complete)
        stream.launch(kernels["count_vector_step"], 1, self.counters, self.inserted)

    def room(self) -> int:
        """Return how many vector steps may start before the host has to read returns."""
        return self.ended_steps - (self.vector_steps - self._read)

    def count_started(self, vector_steps: int) -> None:
        """Count vector steps that are about to start, at most `at_once`, and the rows that they write, if it is known.

        Returns that they would overwrite are read before, which waits for the device.
        """
        if self.room() < vector_steps:
            self._returns_read = self.take_returns()
        self.vector_steps += vector_steps
        if not self._n_step:
            self._count_rows(self.vector_steps * self.count)

    def count_rows(self) -> None:
        """Count the rows of n-step transitions in the storage; waits for the device."""
        if self._n_step:
            self._count_rows(int(self._stream.download(self.counters, 2, np.int64)[1]))

    def _count_rows(self, rows: int) -> None:
        self._storage.count_written(rows - self._counted_rows)
        self._counted_rows = rows

    def take_returns(self) -> list[tuple[int, float]]:
        """Return (environment step, return) of each episode that ended since the last call; waits for the device.

        Environment steps are counted over all environments, from 1.
        """
        self._check_process()
        taken, self._returns_read = self._returns_read, []
        steps = np.arange(self._read, self.vector_steps)
        if not len(steps):
            return taken
        shape = (self.ended_steps, self.count)
        ended = self._stream.download(self.ended, shape, np.float64)[steps % self.ended_steps]
        self._read = self.vector_steps
        step, environment = np.nonzero(~np.isnan(ended))
        numbers = steps[step] * self.count + environment + 1
        return taken + list(zip(numbers.tolist(), ended[step, environment].tolist(), strict=True))


def _generators(seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Return the states of NumPy's generators of these seeds, (N, 4): state and increment, the upper word first."""
    words = []
    for seed in seeds:
        state = np.random.PCG64(seed).state["state"]
        words.append([word for name in ("state", "inc") for word in divmod(state[name], 2**64)])
    return np.array(words, np.uint64)
