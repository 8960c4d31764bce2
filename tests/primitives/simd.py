"""The instruction sets for which the native backends have kernels, and those that this processor has."""

SETS = ["portable", "avx2", "avx512"]
"""From the narrowest to the widest: a processor that has one has those before it."""


def _usable() -> list[str]:
    try:
        from placerl.primitives import _native
    except ImportError:
        return []
    return SETS[: SETS.index(_native.simd_level()) + 1]


USABLE = _usable()
"""Those of this processor; none where the native extension is not built."""
