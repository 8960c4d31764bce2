"""Marks of tests that need something which not every machine has."""

import pytest

from placerl.primitives.device import opencl_runtime

needs_opencl = pytest.mark.skipif(
    bool(opencl_runtime.unavailable_reason()), reason=opencl_runtime.unavailable_reason() or "available"
)
