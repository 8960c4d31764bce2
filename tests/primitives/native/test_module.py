from placerl.primitives import _native


def test_simd_level_is_one_that_kernels_are_built_for() -> None:
    assert _native.simd_level() in {"avx512", "avx2", "portable"}
