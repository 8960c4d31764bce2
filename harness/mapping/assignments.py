"""Device assignments: pairs of the devices on which a mapping trains and keeps its priorities (PRL 6.4).

A device is a piece of hardware: the CPU, a CUDA device, an OpenCL device that is neither, or the simulated FPGA.
Several backends on the same hardware are one device: OpenCL on the CPU counts as the CPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placerl.harness.mapping.target import Mapping, Target
from placerl.primitives.device import opencl_runtime

CPU, CUDA, FPGA, OPENCL = "cpu", "cuda", "fpga", "opencl"


@dataclass(frozen=True, order=True)
class Assignment:
    """The devices of learner and replay; PRL's metric of performance portability averages over such assignments.

    Attributes:
        learner, replay: the device of each: "cpu", "cuda", "opencl" or "fpga".
    """

    learner: str
    replay: str

    @classmethod
    def of(cls, mapping: Mapping) -> "Assignment":
        """Return the devices that a mapping's learner and replay use on this machine."""
        learner = _device(mapping.learner, lambda name: opencl_runtime.choose_for_learner(name or "cpu"))
        return cls(learner, _device(mapping.rmm, opencl_runtime.choose))

    @classmethod
    def parse(cls, text: str) -> "Assignment":
        """Return the assignment that a text such as `cuda-cpu` (learner, replay) names; the inverse of `str`."""
        learner, replay = text.split("-")
        return cls(learner, replay)

    @property
    def simulated(self) -> bool:
        """Return whether one of the devices is simulated."""
        return FPGA in (self.learner, self.replay)

    def __str__(self) -> str:
        return f"{self.learner}-{self.replay}"


def _device(target: Target, opencl: Callable[[str], Any]) -> str:
    """Return the device of a target."""
    kind = target.device.partition(":")[0]
    if kind != OPENCL:
        return kind
    try:
        device = opencl(target.location)
    except ValueError:  # the named device does not exist here, so nothing runs on it
        return OPENCL
    if opencl_runtime.is_cpu(device):
        return CPU
    return CUDA if "nvidia" in device.vendor.lower() else OPENCL


BASELINES_LEARN_ON = (CPU, CUDA)
"""Devices on which Stable-Baselines3 and RLlib train with PyTorch. Both keep their replay in Python on the CPU."""


def baseline_supports(assignment: Assignment) -> bool:
    """Return whether Stable-Baselines3 and RLlib can run with learner and replay on an assignment's devices."""
    return assignment.learner in BASELINES_LEARN_ON and assignment.replay == CPU
