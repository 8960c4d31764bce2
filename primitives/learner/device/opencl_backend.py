"""The learner on any OpenCL device."""

from collections.abc import Mapping

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import opencl
from placerl.primitives.graph.executable import Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.learner.base import Learner
from placerl.primitives.learner.device.executable import DeviceExecutable


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl.unavailable_reason()


check_device = opencl.check_device


def compile_graphs(graphs: Mapping[str, Graph], *, device: str | int = "cpu") -> Executable:
    """Return an executable for step graphs.

    Args:
        device: as for `create`; by default this machine's first OpenCL device that is a CPU.
    """
    return DeviceExecutable(graphs, opencl.create(device))


def create(algorithm: Algorithm, *, device: str | int = "cpu", batch_size: int, seed: int = 0) -> Learner:
    """Create a learner on an OpenCL device.

    Args:
        device: a position in `opencl_runtime.devices()`, a part of a device's name, or "cpu" for the first CPU.

    Raises:
        ValueError: there is no such device.
    """
    from placerl.primitives.learner.graph_learner import GraphLearner

    opened = opencl.create(device)  # before the step is traced
    return GraphLearner(
        algorithm,
        lambda graphs: DeviceExecutable(graphs, opened),
        backend="opencl",
        device=str(device),
        batch_size=batch_size,
        seed=seed,
    )
