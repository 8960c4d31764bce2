"""What gradient steps that stay on a device have in common: the host starts them, and the device sums their losses."""

from importlib.resources import files

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import Buffer, philox
from placerl.primitives.learner import Learner, finite
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.one_caller import OneCaller, one_at_a_time

_TD_ERROR = "td_error"


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


class StartedSteps(OneCaller):
    """Gradient steps of a learner that its device does without the host; the base class of the ways to take them.

    The learner can still be used directly: they share the state, the stream and the count of steps. One thread at a
    time may take steps, and meanwhile no other thread may use the learner.

    Args:
        learner: a learner with kernels on a device (`check`).

    Raises:
        TypeError: the learner's steps cannot stay on its device.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self._executable = executable = check(learner)
        self._learner, self._stream = learner, executable.stream
        self._kernels = executable.device.kernels(kernel_source())
        variants = learner.algorithm.variants
        losses = [name for variant in variants for name in executable.outputs(variant) if name != _TD_ERROR]
        self._names = list(dict.fromkeys(losses))
        self._sums_bytes = 8 * max(1, len(self._names))
        self._sums, self._numbers = (self._stream.zeros(self._sums_bytes) for _ in range(2))
        self._places = {variant: self._losses_of(variant) for variant in variants}
        self._counter = self._stream.zeros(8)
        self._counted = 0
        self._checked = learner.gradient_steps
        self._read: dict[str, float] = {}

    def _losses_of(self, variant: str) -> tuple[npt.NDArray[np.int64], Buffer]:
        """Return where a variant's losses are in the arena and among the sums, (n, 2), and the same on the device."""
        graph, places = self._executable.graphs[variant], []
        for name, part in self._executable.outputs(variant).items():
            if (dtype := graph.buffers[graph.outputs[name].buffer].dtype) != "float32":
                raise TypeError(f"learner: found {name} of {dtype}; allowed: float32")
            if name != _TD_ERROR:
                places.append((part.offset_bytes, self._names.index(name)))
        table = np.array(places, np.int64).reshape(-1, 2)
        return table, self._stream.uploaded(table)

    def _count_from(self, gradient_steps: int) -> None:
        """Draw the random numbers of the learner's next step, also where others have taken steps of it meanwhile."""
        if self._counted != gradient_steps:
            self._stream.upload(self._counter, np.array([gradient_steps], np.int64))
            self._counted = gradient_steps

    def _launch_step(self, variant: str, batch: int = 0) -> None:
        """Start a step on a batch that is in the arena, and add its losses to the sums."""
        self._executable.launch(variant, batch)
        table, places = self._places[variant]
        summed = self._executable.arena, places, self._sums, self._numbers, np.int64(len(table))
        self._stream.launch(self._kernels["end_step"], max(1, len(table)), self._counter, *summed)

    @one_at_a_time
    def drain(self) -> None:
        """Wait for the steps that were started.

        Raises:
            NotFiniteError: a TD error, a loss or a number of the state is NaN or infinite, or a TD error is too large
                for a priority; the message names the steps since the last such check.
            IndexError: a step looked up an element that does not exist; the state is of no use.
        """
        self._finish()

    def _wait(self, since: str) -> None:
        """Wait for the device; `since` names the steps that were not waited for, for errors."""
        self._stream.finish()

    def _finish(self) -> None:
        learner, first = self._learner, self._checked
        self._checked = learner.gradient_steps
        self._wait(f"{first + 1} to {learner.gradient_steps}")
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
        self._executable.read_notes()
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
