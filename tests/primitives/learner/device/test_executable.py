"""The arena of a device's executable, which grows with the graphs that are added."""

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

from placerl.primitives.device import Device, opencl_runtime
from placerl.primitives.learner.acting import exploring_graph
from placerl.primitives.learner.device.started_steps import check
from tests.primitives.device.kinds import device_of
from tests.primitives.learner.device.resident_parts import algorithm_of, learner_on


def watched(kind: str, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device, with buffers that can be referenced weakly: not every release of pyopencl has such."""
    device: Any = device_of(kind)
    if kind == "opencl":
        opencl = opencl_runtime.load()

        class Watched(opencl.Buffer):
            pass

        flags = opencl.mem_flags.READ_WRITE
        monkeypatch.setattr(device, "allocate", lambda size: Watched(device.context, flags, size))
    return device


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_an_arena_that_was_replaced_is_freed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = algorithm_of("dqn")
    learner = learner_on(watched(kind, monkeypatch), algorithm)
    executable, before = check(learner), learner.state_dict()
    arenas = [ref(executable.arena)]
    executable.add("explore", exploring_graph(algorithm, 3))
    arenas.append(ref(executable.arena))
    executable.add_batches(algorithm.variants, 2)
    executable.stream.finish()
    gc.collect()
    assert [arena() for arena in arenas] == [None, None]
    for leaf, values in learner.state_dict().items():
        np.testing.assert_array_equal(values, before[leaf], err_msg=leaf)
