"""NVIDIA's run-time compiler (wheel `nvidia-cuda-nvrtc`), called without a GPU."""

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

from placerl.primitives.device.base import prelude
from placerl.primitives.device.cuda import options

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@cache
def _library() -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    assert package is not None, "nvidia-cuda-nvrtc is not installed"
    folders = [Path(folder) for folder in package.submodule_search_locations or []]
    found = [path for folder in folders for path in sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    return ctypes.CDLL(str(found[-1]))


def compile_cubin(
    source: str,
    architecture: str,
    *,
    flush_subnormals: bool = False,
    fuse_products: bool = True,
    as_text: bool = False,
) -> bytes:
    """The machine code of kernels for an architecture such as "sm_90", compiled with a device's prelude and options.

    Args:
        source: the kernels.
        architecture: the architecture.
        flush_subnormals, fuse_products: as `Device.kernels`.
        as_text: whether to return the assembly (PTX) instead.

    Raises:
        RuntimeError: the source does not compile; the message is the compiler's.
    """
    nvrtc = _library()
    program, text = ctypes.c_void_p(), (prelude() + source).encode()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None)
    assert status == 0, status
    try:
        given = [f"--gpu-architecture={architecture}", *options(flush_subnormals, fuse_products)]
        listed = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        failed = nvrtc.nvrtcCompileProgram(program, len(given), listed)
        size = ctypes.c_size_t()
        what = "ProgramLog" if failed else "PTX" if as_text else "CUBIN"
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, content)
        if failed:
            raise RuntimeError(content.value.decode())
        return content.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
