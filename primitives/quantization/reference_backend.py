"""Fixed-point training on NumPy: slow, plain, and the definition of right for the other backends."""

from collections.abc import Mapping

from primitives.learner.graph import Graph
from primitives.quantization.executable import FixedPointExecutable
from primitives.quantization.precision import Precision


def unavailable_reason() -> str:
    """Empty: NumPy is all it needs."""
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """The graphs, made ready to run."""
    return FixedPointExecutable(graphs, precision)
