"""NVIDIA's run-time compiler, called without a GPU: createProgram, compileProgram, getCUBIN."""

import ctypes
import importlib.util
from functools import cache
from pathlib import Path


@cache
def _library() -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    assert package is not None, "nvidia-cuda-nvrtc is not installed"
    folders = [Path(folder) for folder in package.submodule_search_locations or []]
    found = [path for folder in folders for path in sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    return ctypes.CDLL(str(found[-1]))


def compile_cubin(source: str, architecture: str) -> bytes:
    """The machine code of CUDA C++ `source` for an architecture such as "sm_90".

    Raises:
        RuntimeError: the source does not compile; the message is the compiler's.
    """
    nvrtc = _library()
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    assert status == 0, status
    try:
        options = (ctypes.c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
        failed = nvrtc.nvrtcCompileProgram(program, len(options), options)
        size = ctypes.c_size_t()
        what = "ProgramLog" if failed else "CUBIN"
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, content)
        if failed:
            raise RuntimeError(content.value.decode())
        return content.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
