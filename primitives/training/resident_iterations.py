"""Iterations of PPO that never leave a device: environments, policy, advantages and gradient steps.

    iterations = ResidentIterations(learner, "CartPole-v1", seeds=range(4096))
    iterations.run(100)  # returns while the device works
    iterations.losses  # waits for it

An iteration is that of `training.on_policy`: N environments take T steps with the current policy, and K epochs of
minibatches of M of the T N samples follow. It is one recorded graph, which the host starts without waiting for the one
before. Random numbers are functions of counters: the noise with which actions are drawn, and the order of the samples
in each epoch, which no one stores.
"""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from placerl.primitives import checks
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.device import Part, philox
from placerl.primitives.environments import make_native
from placerl.primitives.environments.device_environments import DeviceEnvironments, fields_of
from placerl.primitives.learner import Learner
from placerl.primitives.learner.device.started_steps import StartedSteps, check
from placerl.primitives.one_caller import one_at_a_time
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.packed_rows import PackedRows, Place
from placerl.primitives.training.fitting import check_environments
from placerl.primitives.training.on_policy import evaluating_graph, exploring_graph, refusal

UNREAD_ITERATIONS = 16
"""Iterations that start before the host has to wait to read the returns of the first of them."""
_ACTING, _DEALING = np.uint32(0), np.uint32(1)
"""What tells the random numbers of actions apart from those of the samples' order."""


def kernel_source() -> str:
    """Return the source of the kernels, in the language that all devices share."""
    return philox.kernel_source() + files(__package__).joinpath("iteration_kernels.h").read_text()


class ResidentIterations(StartedSteps):
    """Runs PPO's iterations on a learner's device, which the host only starts.

    Once the KL divergence stops the policy, the iteration's other steps undo what they did to it, on the device: they
    train the value network alone. `losses` has the policy's losses of these steps, too.

    Args:
        learner: a learner of PPO with two networks, with kernels on a device, to which no `StartedSteps` belongs yet;
            its batch size is M.
        id: Gymnasium's id of the environments (`device_environments.ids`).
        seeds: seed of each environment, (N,).
        seed: which random numbers are drawn, below 2^64.

    Raises:
        TypeError: the learner's steps cannot stay on its device, or its algorithm is not PPO of two networks.
        ValueError: the environments do not fit the algorithm, M is larger than an iteration, or the device has no
            double precision.
        UnsupportedOperationError: the device lacks an operation of the policy.
    """

    def __init__(self, learner: Learner, id: str, seeds: Sequence[int], *, seed: int = 0) -> None:
        executable, algorithm = check(learner), learner.algorithm
        if (reason := refusal(algorithm)) or not isinstance(algorithm, PPO):
            raise TypeError(
                f"learner: found algorithm {algorithm.name!r}: {reason}; allowed: PPO of two networks"
            )
        device, count = executable.device, len(seeds)
        if not device.has_double:
            raise ValueError(f"device: found {device.name}; allowed: one with double precision")
        native = make_native(id, 1)
        check_environments(native, algorithm)
        self._settings = settings = algorithm.hyperparameters
        self._samples = samples = settings.trajectory_length * count
        self._minibatches = samples // learner.batch_size
        if not self._minibatches:
            raise ValueError(f"batch_size: found {learner.batch_size}; allowed: 1 to {samples}")
        self._explore, self._evaluate = f"explore {count}", f"evaluate {samples}"
        executable.add(self._explore, exploring_graph(algorithm, count))
        executable.add(self._evaluate, evaluating_graph(algorithm, samples))
        super().__init__(learner)
        stream, self._key, self._discrete = self._stream, philox.key_of(seed), algorithm.discrete
        self._storage = DeviceStorage(samples, fields_of(native), device)
        inputs, seen = executable.inputs(self._explore), "batch/observation"
        (self._noise,) = [part for name, part in inputs.items() if name.startswith("draws/")]
        self._environments = DeviceEnvironments(
            id,
            seeds,
            self._storage,
            stream,
            inputs[seen],
            at_once=UNREAD_ITERATIONS * settings.trajectory_length,
        )
        self._iteration_kernels = device.kernels(kernel_source(), fuse_products=False)
        self._values, self._sample_numbers = stream.zeros(4 * samples), stream.zeros(12 * samples)
        self._every, self._order = stream.uploaded(np.arange(samples)), stream.zeros(8 * learner.batch_size)
        evaluated = Place(executable.inputs(self._evaluate)[seen].offset_bytes, np.dtype(np.float32))
        self._before, self._after = {"observation": evaluated}, {"next_observation": evaluated}
        self._batch = executable.inputs("full")
        action = np.dtype(np.int64 if self._discrete else np.float32)
        kept = (("observation", np.dtype(np.float32)), ("action", action))
        self._kept = {name: Place(self._batch[f"batch/{name}"].offset_bytes, dtype) for name, dtype in kept}
        for places in (self._before, self._after, self._kept):
            self._storage.table(places)  # which is uploaded
        self._stopped, self._policy = stream.zeros(4), self._policy_words()
        self._saved = stream.zeros(4 * sum(count for _, count in self._policy))
        with stream.recorded() as self._iteration:
            self._launch_iteration()

    @property
    def gradient_steps_each(self) -> int:
        """The number of gradient steps of one iteration."""
        return self._settings.epochs * self._minibatches

    @property
    def environment_steps(self) -> int:
        """The number of environment steps started so far, over all environments."""
        return self._environments.vector_steps * self._environments.count

    @one_at_a_time
    def run(self, iterations: int) -> None:
        """Start iterations.

        Raises:
            ValueError: `iterations` is below 1.
            RuntimeError: another process created this object, or a call of another thread is in progress.
        """
        checks.whole("iterations", iterations, 1)
        for _ in range(iterations):
            self._environments.count_started(self._settings.trajectory_length)
            self._iteration.replay()
            self._learner.gradient_steps += self.gradient_steps_each

    @one_at_a_time
    def take_episodes(self) -> list[tuple[int, float]]:
        """Return (environment step, return) of each episode that ended since the last call; waits for the device."""
        return self._environments.take_returns()

    @one_at_a_time
    def samples(self) -> dict[str, npt.NDArray]:
        """Return copies of the columns of the last iteration's T N samples, by name, as `PPO.prepare` has them."""
        self._finish()
        held = self._storage.held_columns(self._samples)
        numbers = self._stream.download(self._sample_numbers, (3, self._samples), np.float32)
        named = dict(zip(("log_probability", "advantage", "value_target"), numbers, strict=True))
        return {"observation": held["observation"], "action": held["action"]} | named

    def _launch_iteration(self) -> None:
        for step in range(self._settings.trajectory_length):
            self._launch_vector_step(step)
        self._launch_values(self._before)
        values = self._executable.outputs(self._evaluate)["value"]
        self._stream.copy(self._values, values.buffer, values.size_bytes, 0, values.offset_bytes)
        self._launch_values(self._after)
        self._launch_advantages(values)
        self._stream.clear(self._stopped, 4)
        for epoch in range(self._settings.epochs):
            for number in range(self._minibatches):
                self._launch_minibatch(epoch, number * self._learner.batch_size)

    def _launch_vector_step(self, step: int) -> None:
        """Start an action and a step of every environment, the iteration's step number `step`."""
        stream, arena, noise = self._stream, self._executable.arena, self._noise
        numbers = noise.size_bytes // 4
        drawn = self._environments.counters, *self._key, _ACTING, arena, np.int64(noise.offset_bytes)
        if self._discrete:
            stream.launch(self._iteration_kernels["draw_gumbel"], numbers, *drawn, np.int64(numbers))
        else:
            normal = np.int64(0), np.int64(numbers)
            stream.launch(self._kernels["draw_numbers"], numbers, *drawn, *normal)
        self._executable.launch(self._explore)
        outputs = self._executable.outputs(self._explore)
        probable = outputs["log_probability"]
        place = step * probable.size_bytes
        stream.copy(self._sample_numbers, arena, probable.size_bytes, place, probable.offset_bytes)
        self._environments.launch_step(outputs["action"])

    def _launch_values(self, places: dict[str, Place]) -> None:
        """Start to evaluate the observations before or after all samples."""
        arena = self._executable.arena
        self._storage.launch_gather(self._stream, self._every, self._samples, arena, places)
        self._executable.launch(self._evaluate)

    def _launch_advantages(self, next_values: Part) -> None:
        environments, settings = self._environments, self._settings
        layout = PackedRows(self._storage.fields)
        columns = (np.int64(layout.offsets[name]) for name in ("reward", "terminated"))
        self._stream.launch(
            self._iteration_kernels["estimate_advantages"],
            environments.count,
            environments.counters,
            self._storage.rows,
            np.int64(layout.row_bytes),
            *columns,
            environments.ended,
            np.int64(environments.ended_steps),
            self._values,
            next_values.buffer,
            np.int64(next_values.offset_bytes),
            self._sample_numbers,
            np.float32(settings.gamma),
            np.float64(settings.gamma * settings.gae_lambda),
            np.int64(settings.trajectory_length),
            np.int64(environments.count),
        )

    def _launch_minibatch(self, epoch: int, first: int) -> None:
        """Start a gradient step on the minibatch that begins with sample `first` of an epoch's order."""
        stream, kernels, arena, settings = (
            self._stream,
            self._iteration_kernels,
            self._executable.arena,
            self._settings,
        )
        size = self._learner.batch_size
        places = ("log_probability", "advantage", "value_target")
        stream.launch(
            kernels["deal_samples"],
            size,
            self._environments.counters,
            *self._key,
            _DEALING,
            *map(np.int64, (settings.trajectory_length, settings.epochs, epoch, first)),
            self._sample_numbers,
            np.int64(self._samples),
            self._order,
            arena,
            *(np.int64(self._batch[f"batch/{name}"].offset_bytes) for name in places),
            np.int64(size),
        )
        self._storage.launch_gather(stream, self._order, size, arena, self._kept)
        saved = 0  # what early stopping may undo
        for offset, words in self._policy:
            stream.copy(self._saved, arena, 4 * words, 4 * saved, offset)
            saved += words
        self._launch_step("full")
        for offset, words in reversed(self._policy):
            saved -= words
            undone = self._stopped, arena, np.int64(offset), self._saved, np.int64(saved), np.int64(words)
            stream.launch(kernels["restore_words"], words, *undone)
        if settings.target_kl is not None:
            kl = np.int64(self._executable.outputs("full")["losses/kl"].offset_bytes)
            most = np.float64(1.5 * settings.target_kl)
            stream.launch(kernels["stop_early"], 1, self._stopped, arena, kl, most)

    def _policy_words(self) -> list[tuple[int, int]]:
        """Return where in the arena is what early stopping leaves unchanged: first bytes, and 32-bit words from there.

        Leaves that follow each other in the arena are one piece, with what lies between them.
        """
        if self._settings.target_kl is None:
            return []
        pieces, joins = list[tuple[int, int]](), False
        for name, part in sorted(
            self._executable.state_parts().items(), key=lambda item: item[1].offset_bytes
        ):
            is_policy = name.split("/")[1].startswith("policy")
            if is_policy:
                begin = pieces.pop()[0] if joins else part.offset_bytes
                pieces.append((begin, (part.offset_bytes + part.size_bytes - begin) // 4))
            joins = is_policy
        return pieces
