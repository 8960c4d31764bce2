"""The host's compiler builds kernels without a warning, and flushes subnormal numbers only on request."""

from pathlib import Path

import numpy as np
import pytest

from placerl.primitives import device
from placerl.primitives.device import host
from tests.primitives.device.test_device import ATOMICS, SCALE, SUMS, TYPES

pytestmark = pytest.mark.skipif(
    bool(device.unavailable_reason("host")), reason=device.unavailable_reason("host") or "available"
)


def test_kernels_compile_without_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "FLAGS", (*host.FLAGS, "-Werror"))
    device.create("host").kernels(f"// -Werror\n{SCALE}{TYPES}{ATOMICS}{SUMS}")
    with pytest.raises(RuntimeError, match="misleading-indentation"):
        device.create("host").kernels(
            "KERNEL(bad)(GLOBAL int *x) {\n    if (*x)\n        *x = 1;\n        *x = 2;\n}"
        )


@pytest.mark.parametrize("flush", [False, True])
def test_subnormal_numbers(flush: bool) -> None:
    one = device.create("host")
    stream = one.stream()
    x = stream.uploaded(np.array([1e-30, 1.0], np.float32))
    stream.launch(one.kernels(SCALE, flush_subnormals=flush)["scale"], 1, x, np.float32(1e-10), np.int64(1))
    assert (stream.download(x, (), np.float32) == 0) == flush
    assert np.float32(1e-30) * np.float32(1e-10) > 0, "the host computes as before"


def test_a_library_is_built_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACERL_CACHE", str(tmp_path))
    source = SCALE.replace("scale", "kept")
    device.create("host").kernels(source)
    (built,) = tmp_path.glob("host-kernels-*.so")
    host._library.cache_clear()
    monkeypatch.setattr(host.subprocess, "run", lambda *_, **__: pytest.fail("built again"))
    assert "kept" in device.create("host").kernels(source)
    assert built.exists()


def test_without_a_compiler_the_reason_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_compiler", lambda: None)
    assert host.unavailable_reason() == "no C++ compiler: install c++, or name one in CXX"
