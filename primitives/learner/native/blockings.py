"""Choose by measurement the fastest blocking of matrix products on this processor.

A blocking says whether panels of B and blocks of A are copied before they are multiplied, and how many vectors wide a
tile of sums is. Which one is fastest depends on the processor's caches and ports. The bits of the result are the same
for all (`native/blocking.hpp`). The choice is measured at first use and then kept on disk.
"""

from functools import cache

from placerl.primitives.measured_choice import measured_choice

MEASURED_S = 0.15
"""Seconds of the measurement; slow instruction sets need longer, for at least three rounds."""
_WAYS = 6
_WAY = range(8)


def blockings(simd: str = "") -> tuple[int, ...]:
    """Return the fastest blockings on this processor, as the native `Executor` takes them.

    Args:
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.

    Returns:
        Six numbers from 0 to 7, one for each memory layout of the operands and size of the product, in the order of
        `Blockings::ways`.
    """
    from placerl.primitives import _native

    return _blockings(simd or str(_native.simd_level()))


@cache
def _blockings(simd: str) -> tuple[int, ...]:
    from placerl.primitives import _native

    return measured_choice(
        "blockings",
        (simd,),
        lambda: _native.learner.measured_blockings(simd, MEASURED_S),
        (_WAY,) * _WAYS,
    )
