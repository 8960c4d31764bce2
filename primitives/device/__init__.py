"""Devices that run kernels: OpenCL, CUDA, and host C++ by which the results of the others are checked.

    import numpy as np

    from placerl.primitives import device

    opencl = device.create("opencl")
    kernels = opencl.kernels('''
        KERNEL(twice)(GLOBAL float *x, LONG count) {
            if (WORK_ITEM < count)
                x[WORK_ITEM] *= 2;
        }''')
    stream = opencl.stream()
    x = stream.uploaded(np.arange(4, dtype=np.float32))
    stream.launch(kernels["twice"], 4, x, np.int64(4))
    stream.download(x, 4, np.float32)  # [0, 2, 4, 6]

Sum trees, the rows of a replay and learners on a device are written for a `Device`; `prelude.h` says what language
their kernels share. No other code imports pyopencl or CuPy.
"""

from placerl.primitives.device.base import (
    KINDS,
    Buffer,
    Device,
    Event,
    Graph,
    Groups,
    Kernel,
    Part,
    Stream,
    create,
    unavailable_reason,
)

__all__ = [
    "KINDS",
    "Buffer",
    "Device",
    "Event",
    "Graph",
    "Groups",
    "Kernel",
    "Part",
    "Stream",
    "create",
    "unavailable_reason",
]
