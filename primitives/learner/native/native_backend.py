"""The learner in C++: see `executable` for how a gradient step runs, and `learner` for how actions do."""

from collections.abc import Mapping

from primitives.algorithms import Algorithm, checks
from primitives.graph.executable import Executable
from primitives.graph.graph import Graph
from primitives.learner.base import Learner
from primitives.learner.native.executable import NativeExecutable
from primitives.learner.native.learner import NativeLearner


def unavailable_reason() -> str:
    """Why this backend cannot be used here; empty when it can."""
    try:
        from primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def compile_graphs(graphs: Mapping[str, Graph]) -> Executable:
    """An executable on the widest instruction set of this processor."""
    return NativeExecutable(graphs)


def create(
    algorithm: Algorithm,
    *,
    device: str = "cpu",
    batch_size: int,
    seed: int = 0,
    simd: str = "",
    threads: int = 1,
) -> Learner:
    """A learner in C++; see `primitives.learner.create`.

    Args:
        simd: instruction set, one of `SIMD`; empty for the widest that this processor has.
        threads: that share the large operations of a step, at most 64; its results are the same with any number.

    Raises:
        ValueError: a device other than "cpu", an instruction set that the processor lacks, or a number of threads
            out of range.
    """
    checks.one_of("device", device, ("cpu",))
    return NativeLearner(
        algorithm, device=device, batch_size=batch_size, seed=seed, simd=simd, threads=threads
    )
