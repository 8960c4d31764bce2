"""Resident gradient steps: many steps of a replay and a learner in a device's memory, which the host only starts.

    steps = ResidentSteps(replay, learner)
    steps.insert(transitions)
    steps.run(1000)  # returns while the device works
    steps.losses  # waits for it

A step draws, gathers, trains and updates the priorities, in this order, as separate calls do. Several steps are one
recorded graph. Random numbers are functions of a counter, so that a training is the same on every device but for the
rounding of its arithmetic.
"""

from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import Graph, philox
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
        replay: a replay whose stream is that of the learner's executable.
        learner: a learner with kernels on a device (`check`).
        steps_a_graph: most gradient steps that one graph has.

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
        self._replay, self._learner, self._steps_a_graph = replay, learner, steps_a_graph
        if replay.stream is not executable.stream:
            raise ValueError("replay: found a stream of its own; allowed: the learner's, executable.stream")
        if replay.batch_size != learner.batch_size:
            allowed = f"the learner's, {learner.batch_size}"
            raise ValueError(f"replay: found batch_size {replay.batch_size}; allowed: {allowed}")
        self._check_columns()
        self._stream = stream = replay.stream
        self._kernels = executable.device.kernels(kernel_source())
        variants = learner.algorithm.variants
        losses = [name for variant in variants for name in executable.outputs(variant) if name != "td_error"]
        self._names = list(dict.fromkeys(losses))
        self._sums_bytes = 8 * max(1, len(self._names))
        self._sums, self._numbers = stream.zeros(self._sums_bytes), stream.zeros(self._sums_bytes)
        self._places = {variant: self._losses_of(variant) for variant in variants}
        self._batches = {variant: self._batch_of(variant) for variant in variants}
        self._graphs: dict[tuple[str, ...], Graph] = {}
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

    def _batch_of(self, variant: str) -> ResidentBatch:
        """Return where a variant reads its batch; weights that it does not read are written to the TD errors."""
        columns, parts = self._learner._columns, self._executable.inputs(variant)
        places = {
            name: Place(parts[f"batch/{name}"].offset_bytes, dtype)
            for name, (_, dtype) in columns.items()
            if f"batch/{name}" in parts and name != WEIGHT
        }
        self._replay.storage.table(places)  # which is uploaded
        unread = self._executable.outputs(variant)["td_error"]
        weights = parts.get(f"batch/{WEIGHT}", unread)
        return ResidentBatch(self._executable.arena, places, weights.offset_bytes)

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
            first, count = learner.gradient_steps, min(steps, self._steps_a_graph)
            variants = tuple(learner.algorithm.variant(step) for step in range(first, first + count))
            if variants not in self._graphs:
                with self._stream.recorded() as self._graphs[variants]:
                    self.launch(variants)
            self._graphs[variants].replay()
            learner.gradient_steps += count
            steps -= count

    def _has_items(self) -> bool:
        """Return whether there is something to sample when what was started is done."""
        return self._replay.storage.size > 0

    def launch(self, variants: tuple[str, ...]) -> None:
        """Start one gradient step of each of these variants, or record them. The learner does not count them."""
        replay, stream, kernels = self._replay, self._stream, self._kernels
        arena = self._executable.arena
        for variant in variants:
            inputs = self._executable.inputs(variant)
            draws = [part for name, part in inputs.items() if name.startswith("draws/")]
            for number, part in enumerate(draws, 1):  # the batch is drawn from 0
                count = part.size_bytes // 4
                written = arena, np.int64(part.offset_bytes), np.int64(0), np.int64(count)  # 0: normal
                stream.launch(
                    kernels["draw_numbers"], count, replay.step, *replay.key, np.uint32(number), *written
                )
            replay.launch_sample(self._batches[variant])
            self._executable.launch(variant)
            table, places = self._places[variant]
            if len(table):
                summed = self._sums, self._numbers, np.int64(len(table))
                stream.launch(kernels["add_losses"], len(table), arena, places, *summed)
            replay.launch_update(self._executable.outputs(variant)["td_error"])

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
