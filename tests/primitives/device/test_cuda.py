"""CUDA: the shared language compiles without a GPU, and streams of other libraries are used as they are."""

import numpy as np
import pytest

from placerl.primitives.device.cuda import CudaDevice, options, unavailable_reason
from tests.primitives.device import stand_in_cupy
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin
from tests.primitives.device.test_device import ATOMICS, FUNCTIONS, SCALE, SUMS, TYPES


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_shared_language_compiles_without_a_gpu(architecture: str) -> None:
    cubin = compile_cubin(SCALE + TYPES + ATOMICS + SUMS, architecture)
    assert cubin.startswith(b"\x7fELF")
    for name in (b"scale", b"types", b"atomics", b"sums"):
        assert b".text." + name in cubin


@pytest.mark.parametrize("real", ["float", "double"])
def test_functions_keep_the_precision(real: str) -> None:
    """Where a function were double's alone, a float would be converted."""
    calls = [*(f"{name}(({real})1)" for name in FUNCTIONS), f"pow(({real})1, ({real})1)"]
    asserted = "".join(f'static_assert(sizeof({call}) == sizeof({real}), "{call}");' for call in calls)
    compile_cubin(f"KERNEL(functions)(GLOBAL float *x) {{ {asserted} x[0] = 0; }}", "sm_80")


def test_a_mistake_in_a_kernel_is_seen() -> None:
    with pytest.raises(RuntimeError, match="undefined_name"):
        compile_cubin("KERNEL(bad)() { undefined_name; }", "sm_80")


def test_subnormal_numbers_are_flushed_on_request() -> None:
    assert options() == ("--std=c++17",)
    source = SCALE + "// ftz"
    flushed = compile_cubin(source, "sm_80", flush_subnormals=True, as_text=True)
    assert b"mul.ftz.f32" in flushed
    assert b"mul.ftz.f32" not in compile_cubin(source, "sm_80", as_text=True)


def test_the_usual_stream_is_the_current_one_of_cupy_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    one, asked = CudaDevice(stand_in_cupy, 0), []

    def current() -> stand_in_cupy.Stream:
        asked.append(None)
        return stand_in_cupy.Stream()

    monkeypatch.setattr(stand_in_cupy.cuda, "get_current_stream", current)
    usual, own = one.usual_stream(), one.stream()
    usual.zeros(8)
    before = len(asked)
    assert before > 0
    own.zeros(8)
    one.stream_at(7).zeros(8)
    assert len(asked) == before
    usual.finish()
    assert len(asked) == before + 1


def test_a_stream_of_another_library_is_given_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []

    class Noted(stand_in_cupy.Stream):
        def __enter__(self) -> "Noted":
            entered.append(self.address)
            return self

    monkeypatch.setattr(stand_in_cupy.cuda, "ExternalStream", Noted)
    one = CudaDevice(stand_in_cupy, 0)
    kernel, stream = one.kernels(SCALE)["scale"], one.stream_at(7)
    x = one.stream().uploaded(np.ones(1, np.float32))
    stream.launch(kernel, 1, x, np.float32(2), np.int64(1))
    assert entered == [7]


def test_memory_of_other_libraries_is_used_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    one = CudaDevice(stand_in_cupy, 0)
    tensor = torch.ones(4)
    kernel, stream = one.kernels(SCALE)["scale"], one.stream()
    stream.launch(kernel, 4, one.adopted(tensor), np.float32(2), np.int64(4))
    assert tensor.tolist() == [2] * 4


def test_says_why_it_cannot_be_used() -> None:
    if not (reason := unavailable_reason()):
        pytest.skip("there is a CUDA device")
    assert "CuPy is not installed" in reason or "no CUDA device" in reason
