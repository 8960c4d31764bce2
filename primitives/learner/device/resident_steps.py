"""Resident gradient steps: many steps of a replay and a learner in a device's memory, which the host only starts.

    steps = ResidentSteps(replay, learner)
    steps.insert(transitions)
    steps.run(1000)  # returns while the device works
    steps.losses  # waits for it

A step draws, gathers, trains and updates the priorities, in this order, as separate calls do. Of a replay that draws D
batches ahead (MAP V-A), a step trains on the batch that has waited longest, while the replay's stream updates the
priorities of the step before and draws the next batch. Several steps are one recorded graph. Random numbers are
functions of a counter, so that a training is the same on every device but for the rounding of its arithmetic.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib.resources import files
from math import ceil

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import Graph, Part, philox
from placerl.primitives.learner import Learner, finite
from placerl.primitives.learner.columns import BOOL, TERMINATED, WEIGHT, refuse_columns
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.one_caller import OneCaller, one_at_a_time
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import ResidentBatch, ResidentReplay

STEPS_A_GRAPH = 8
"""Gradient steps of a graph: enough that a host starts graphs faster than a device ends them."""
Graphs = dict[tuple[tuple[str, ...], int, bool], Graph]
"""Graphs of gradient steps, by their variants, the batch of the first, and whether it is the first of all."""


def kernel_source() -> str:
    """Return the source of the kernels, in the language that all devices share."""
    return philox.kernel_source() + files(__package__).joinpath("step_kernels.h").read_text()


def check(learner: Learner) -> DeviceExecutable:
    """Check that a learner's gradient steps can stay on its device, and return its executable.

    Raises:
        TypeError: the learner's executable is not on a device, its algorithm is in float64, or draws random numbers of
            a distribution of its own.
    """
    if not isinstance(learner, GraphLearner) or not isinstance(learner.executable, DeviceExecutable):
        raise TypeError(f"learner: found backend {learner.backend!r}; allowed: one with kernels on a device")
    if learner.algorithm.dtype != torch.float32:
        raise TypeError("learner: found an algorithm in float64; allowed: float32")
    if type(learner.algorithm).draw is not Algorithm.draw:
        raise TypeError("learner: found draws of the algorithm's own; allowed: those of Algorithm.draw")
    return learner.executable


class ResidentSteps(OneCaller):
    """Takes gradient steps of a learner on a `ResidentReplay`, which its device does without the host.

    The learner can still be used directly: they share the state, the stream and the count of steps. One thread at a
    time may take steps, and meanwhile no other thread may use the learner or the replay.

    Args:
        replay: a replay whose stream is that of the learner's executable; if it draws batches ahead, one of its own.
        learner: a learner with kernels on a device (`check`).
        steps_a_graph: most gradient steps that one graph has; with D batches ahead, up to D more.

    Raises:
        TypeError: the learner's steps cannot stay on its device.
        ValueError: the replay has another stream or batch size, lacks a column that the learner reads, holds it with
            another shape or dtype, or holds a column that the learner does not read.
    """

    def __init__(
        self, replay: ResidentReplay, learner: Learner, *, steps_a_graph: int = STEPS_A_GRAPH
    ) -> None:
        super().__init__()
        checks.whole("steps_a_graph", steps_a_graph, 1)
        self._executable = executable = check(learner)
        self._replay, self._learner = replay, learner
        # Graphs begin with the same of the D + 1 batches, and so are equal, if they have a multiple of so many steps.
        self._steps_a_graph = ceil(steps_a_graph / (replay.ahead + 1)) * (replay.ahead + 1)
        if (replay.stream is executable.stream) == (replay.ahead > 0):
            found, allowed = "a stream of its own", "the learner's, executable.stream"
            if replay.ahead:
                found, allowed = "the learner's stream", "one of its own, as it draws batches ahead"
            raise ValueError(f"replay: found {found}; allowed: {allowed}")
        if replay.batch_size != learner.batch_size:
            allowed = f"the learner's, {learner.batch_size}"
            raise ValueError(f"replay: found batch_size {replay.batch_size}; allowed: {allowed}")
        self._check_columns()
        self._stream = stream = executable.stream
        self._beside = (replay.stream,) if replay.ahead else ()
        self._kernels = executable.device.kernels(kernel_source())
        variants = learner.algorithm.variants
        losses = [name for variant in variants for name in executable.outputs(variant) if name != "td_error"]
        self._names = list(dict.fromkeys(losses))
        self._sums_bytes = 8 * max(1, len(self._names))
        self._sums, self._numbers = stream.zeros(self._sums_bytes), stream.zeros(self._sums_bytes)
        self._places = {variant: self._losses_of(variant) for variant in variants}
        self._counter = stream.uploaded(np.array([learner.gradient_steps], np.int64))
        numbers = range(replay.ahead + 1)
        if replay.ahead:
            executable.add_batches(variants, len(numbers))
            waiting = [self._batch_of(variants, 1 + number) for number in numbers]
        self._batches = {
            (variant, number): waiting[number] if replay.ahead else self._batch_of([variant], 0)
            for variant in variants
            for number in numbers
        }
        # The next step overwrites its own, while these still give priorities.
        self._td_errors = [stream.zeros(4 * learner.batch_size) for _ in numbers if replay.ahead]
        self._taken = 0
        self._graphs: Graphs = {}
        self._checked = learner.gradient_steps
        self._read: dict[str, float] = {}

    def _check_columns(self) -> None:
        fields, columns = self._replay.storage.fields, self._learner._columns
        refuse_columns(fields, columns)
        for name, (shape, dtype) in columns.items():
            if name == WEIGHT:
                continue
            if name not in fields:
                raise ValueError(f"replay: found columns {sorted(fields)}; allowed: those with {name!r}")
            own, found = fields[name], np.dtype(fields[name].dtype)
            if own.shape != shape[1:] or found != (BOOL if name == TERMINATED else dtype):
                allowed = f"{shape[1:]} {BOOL if name == TERMINATED else dtype}"
                raise ValueError(f"replay: found column {name!r} of {own.shape} {found}; allowed: {allowed}")

    def _losses_of(self, variant: str) -> tuple[npt.NDArray[np.int64], object]:
        """Return where a variant's losses are in the arena and among the sums, (n, 2), and the same on the device."""
        graph, places = self._executable.graphs[variant], []
        for name, part in self._executable.outputs(variant).items():
            if (dtype := graph.buffers[graph.outputs[name].buffer].dtype) != "float32":
                raise TypeError(f"learner: found {name} of {dtype}; allowed: float32")
            if name != "td_error":
                places.append((part.offset_bytes, self._names.index(name)))
        table = np.array(places, np.int64).reshape(-1, 2)
        return table, self._stream.uploaded(table)

    def _batch_of(self, variants: Collection[str], number: int) -> ResidentBatch:
        """Return where variants read a batch of the executable; weights that none reads have a buffer of their own."""
        executable, columns = self._executable, self._learner._columns
        parts = {name: part for one in variants for name, part in executable.inputs(one, number).items()}
        places = {
            name: Place(parts[f"batch/{name}"].offset_bytes, dtype)
            for name, (_, dtype) in columns.items()
            if f"batch/{name}" in parts and name != WEIGHT
        }
        self._replay.storage.table(places)  # which is uploaded
        weights = parts.get(f"batch/{WEIGHT}")
        if weights is None:
            size_bytes = 4 * self._learner.batch_size
            weights = Part(self._stream.zeros(size_bytes), 0, size_bytes)
        return ResidentBatch(executable.arena, places, weights)

    @one_at_a_time
    def run(self, steps: int) -> None:
        """Start gradient steps: each draws a batch, trains on it and updates its priorities.

        Args:
            steps: number of steps, at least 1.

        Raises:
            ValueError: there is nothing to sample.
            RuntimeError: another process created this object, or a call of another thread is in progress.
        """
        checks.whole("steps", steps, 1)
        if not self._has_items():
            raise ValueError(EMPTY)
        learner = self._learner
        while steps > 0:
            first, count = learner.gradient_steps, self._at_once(steps, self._steps_a_graph)
            variants = tuple(learner.algorithm.variant(step) for step in range(first, first + count))
            self._start(self._graphs, variants, partial(self.launch, variants))
            steps -= count

    def _at_once(self, left: int, most: int) -> int:
        """Return how many of the steps or rounds that are left the next graph takes, at most `most`.

        With D batches ahead, graphs of each length that begin with each of the D + 1 batches would be too many to
        record: long ones begin with the first.
        """
        if not self._replay.ahead:
            return min(left, most)
        return most if left >= most and self._taken % (self._replay.ahead + 1) == 0 else 1

    def _start(self, graphs: "Graphs", variants: tuple[str, ...], launch: Callable[[], None]) -> None:
        """Start a graph that takes gradient steps of these variants; `launch` records one of its kind."""
        ahead, taken = self._replay.ahead, self._taken
        key = variants, taken % (ahead + 1), ahead > 0 and not taken
        if key not in graphs:
            with self._stream.recorded(*self._beside) as graphs[key]:
                launch()
            self._taken = taken
        graphs[key].replay()
        self._taken += len(variants)
        self._learner.gradient_steps += len(variants)

    def _has_items(self) -> bool:
        """Return whether there is something to sample when what was started is done."""
        return self._replay.storage.size > 0

    def launch(self, variants: tuple[str, ...]) -> None:
        """Start one gradient step of each of these variants, or record them. The learner does not count them."""
        replay, stream, kernels = self._replay, self._stream, self._kernels
        arena, ahead = self._executable.arena, self._replay.ahead
        for variant in variants:
            number, drawn = self._taken % (ahead + 1), (self._taken + ahead) % (ahead + 1)
            if not self._taken:
                for first in range(ahead):
                    replay.launch_sample(self._batches[variant, first], first)
                if ahead:
                    stream.wait_for(replay.stream)
            self._taken += 1
            inputs = self._executable.inputs(variant)
            draws = [part for name, part in inputs.items() if name.startswith("draws/")]
            for which, part in enumerate(draws, 1):  # the batch is drawn from 0
                count = part.size_bytes // 4
                written = arena, np.int64(part.offset_bytes), np.int64(0), np.int64(count)  # 0: normal
                random = self._counter, *replay.key, np.uint32(which)
                stream.launch(kernels["draw_numbers"], count, *random, *written)
            replay.launch_sample(self._batches[variant, drawn], drawn)
            self._executable.launch(variant, 1 + number if ahead else 0)
            table, places = self._places[variant]
            summed = self._sums, self._numbers, np.int64(len(table))
            stream.launch(kernels["end_step"], max(1, len(table)), self._counter, arena, places, *summed)
            td_errors = self._executable.outputs(variant)["td_error"]
            if ahead:
                own = Part(self._td_errors[number], 0, td_errors.size_bytes)
                stream.copy(own.buffer, arena, own.size_bytes, 0, td_errors.offset_bytes)
                replay.stream.wait_for(stream)
                stream.wait_for(replay.stream)  # for the drawn batch, but not for this update
                td_errors = own
            replay.launch_update(td_errors, number)

    @one_at_a_time
    def insert(
        self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Insert items from the host after the steps that were started, as `ResidentReplay.insert` does.

        Raises:
            ValueError: also for a number that is not finite, or an action out of range: nothing is inserted.
        """
        self._finish()
        storage, actions = self._replay.storage, self._learner.algorithm.action_size
        for name, array in storage.checked(batch).items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name}: found NaN or infinity; allowed: finite numbers")
            if array.dtype == np.int64 and not 0 <= array.min() <= array.max() < actions:
                allowed = f"integers in [0, {actions})"
                raise ValueError(
                    f"{name}: found values in [{array.min()}, {array.max()}]; allowed: {allowed}"
                )
        return self._replay.insert(batch, td_errors)

    @one_at_a_time
    def drain(self) -> None:
        """Wait for the steps that were started.

        Raises:
            NotFiniteError: a TD error, a loss or a number of the state is NaN or infinite, or a TD error is too large
                for a priority; the message names the steps since the last such check.
        """
        self._finish()

    def _finish(self) -> None:
        learner, first = self._learner, self._checked
        for one in self._beside:
            one.wait_for(self._stream)
        self._checked = learner.gradient_steps
        since = f"{first + 1} to {learner.gradient_steps}"
        try:
            self._replay.finish()
        except ValueError:
            raise finite.not_finite(since, "td_errors") from None
        if learner.gradient_steps == first:
            return
        numbers = self._stream.download(self._numbers, len(self._names), np.int64)
        sums = self._stream.download(self._sums, len(self._names), np.float64)
        self._read = {
            name.removeprefix("losses/"): float(total / number)
            for name, total, number in zip(self._names, sums, numbers, strict=True)
            if number
        }
        for buffer in (self._numbers, self._sums):
            self._stream.clear(buffer, self._sums_bytes)
        # A loss alone may overflow where the state does not: then the state decides, as after a step of the host.
        overflowed = self._executable.overflowed()
        if learner.algorithm.finite_state and (overflowed or not np.isfinite(sums).all()):
            finite.require_finite_state(first + 1, learner.gradient_steps, learner.state_dict())
        learner._check_state(first)

    @property
    def losses(self) -> dict[str, float]:
        """The means of the losses over the gradient steps between the last two calls that waited; waits for the rest.

        Empty before the first step.
        """
        self.drain()
        return dict(self._read)
