"""The learner on a CUDA device, as kernels that NVRTC builds from the step graph.

PyTorch's learner on the same device has NVIDIA's libraries for its products. This one's steps can stay on the device
together with their replay and environments (`resident_steps`).
"""

from collections.abc import Mapping

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import cuda
from placerl.primitives.graph.executable import Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.learner.base import Learner
from placerl.primitives.learner.device.executable import DeviceExecutable

HOST = "cpu"  # the default device of `learner.create`: here the first CUDA device


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return cuda.unavailable_reason()


def check_device(device: str | int) -> None:
    """Raise ValueError unless `create` finds the CUDA device."""
    if device != HOST:
        cuda.check_device(device)


def _opened(device: str | int) -> cuda.CudaDevice:
    check_device(device)
    return cuda.create(0 if device == HOST else device)


def compile_graphs(graphs: Mapping[str, Graph], *, device: str | int = HOST) -> Executable:
    """Return an executable for step graphs.

    Args:
        device: as for `create`.
    """
    return DeviceExecutable(graphs, _opened(device))


def create(algorithm: Algorithm, *, device: str | int = HOST, batch_size: int, seed: int = 0) -> Learner:
    """Create a learner on a CUDA device.

    Args:
        device: number of the device; "cpu", the default of every learner, is the first.

    Raises:
        ValueError: there is no such device.
    """
    from placerl.primitives.learner.graph_learner import GraphLearner

    opened = _opened(device)  # before the step is traced
    return GraphLearner(
        algorithm,
        lambda graphs: DeviceExecutable(graphs, opened),
        backend="cuda",
        device=str(opened.number),
        batch_size=batch_size,
        seed=seed,
    )
