"""The backend "native": a learner in C++.

The module `executable` describes how it runs a gradient step, and `learner` how it computes actions.
"""

from collections.abc import Mapping

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.executable import Executable
from placerl.primitives.graph.graph import Graph
from placerl.primitives.interrupts import whole_imports
from placerl.primitives.learner.base import Learner
from placerl.primitives.learner.native.executable import PRODUCTS, NativeExecutable
from placerl.primitives.learner.native.learner import NativeLearner
from placerl.primitives.quantization.precision import BFLOAT_16

IN_BFLOAT_16 = PRODUCTS[1:]
PRECISIONS = (BFLOAT_16,)
"""Precisions besides float32 and fixed point; `create` takes them as `products`."""


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    try:
        with whole_imports():
            from placerl.primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def compile_graphs(graphs: Mapping[str, Graph]) -> Executable:
    """Return an executable for step graphs, on the widest instruction set of this processor.

    Args:
        graphs: the graph of each variant (kind of gradient step), by the variant's name.
    """
    return NativeExecutable(graphs)


def check_device(device: str) -> None:
    """Raise ValueError unless the device is "cpu", the only one."""
    checks.one_of("device", device, ("cpu",))


def create(
    algorithm: Algorithm,
    *,
    device: str = "cpu",
    batch_size: int,
    seed: int = 0,
    simd: str = "",
    threads: int = 1,
    products: str = "float32",
) -> Learner:
    """Create a learner in C++.

    Args:
        algorithm: from `primitives.algorithms.create`.
        device: "cpu", the only one.
        batch_size: transitions per gradient step, at least 1.
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.
        threads: threads that share the large operations of a step, at most 64; the results do not depend on it.
        products: how matrix products are computed, such as "float32" or "bfloat16"; one of `PRODUCTS` of `executable`.

    Raises:
        ValueError: the device is not "cpu", the processor lacks the instruction set, or the number of threads is out
            of range.
    """
    check_device(device)
    return NativeLearner(
        algorithm,
        device=device,
        batch_size=batch_size,
        seed=seed,
        simd=simd,
        threads=threads,
        products=products,
    )
