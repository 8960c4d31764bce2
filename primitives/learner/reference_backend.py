"""The backend "reference": a learner that runs step graphs in NumPy, slow and simple."""

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner.base import Learner


def unavailable_reason() -> str:
    """Return an empty string: the backend needs only NumPy."""
    return ""


compile_graphs = ReferenceExecutable


def check_device(device: str) -> None:
    """Raise ValueError unless the device is "cpu", the only one."""
    checks.one_of("device", device, ("cpu",))


def create(algorithm: Algorithm, *, device: str = "cpu", batch_size: int, seed: int = 0) -> Learner:
    """Create a learner that runs step graphs in NumPy.

    Raises:
        ValueError: the device is not "cpu".
    """
    from placerl.primitives.learner.graph_learner import GraphLearner

    check_device(device)
    return GraphLearner(
        algorithm, compile_graphs, backend="reference", device=device, batch_size=batch_size, seed=seed
    )
