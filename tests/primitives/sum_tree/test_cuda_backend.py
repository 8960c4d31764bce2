"""The CUDA backend: its source and the streams of its work are tested without a GPU, its results on one too."""

from typing import Any

import numpy as np
import pytest

from placerl.primitives import sum_tree
from placerl.primitives.device import cuda
from placerl.primitives.sum_tree import cuda_backend
from placerl.primitives.sum_tree.gpu.device_tree import kernel_source
from tests.primitives.device import stand_in_cupy
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_a_gpu(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(kernel_source(dtype), architecture)
    assert cubin.startswith(b"\x7fELF")
    for kernel in (b"find", b"set_leaves", b"sum_nodes", b"scale"):
        assert b".text." + kernel in cubin


class Resident(np.ndarray):
    """An array that says that it is in CUDA memory."""

    __cuda_array_interface__ = None


def resident(values: Any, dtype: type) -> np.ndarray:
    return np.array(values, dtype).view(Resident)


class NotedStream(cuda.CudaStream):
    """A stream that notes its address with what it is asked for."""

    noted: list[tuple[str, int | None]]
    address: int | None = None

    def _note(self, name: str) -> None:
        self.noted.append((name, self.address))

    def zeros(self, size_bytes: int) -> Any:
        self._note("zeros")
        return super().zeros(size_bytes)

    def launch(self, kernel: Any, *arguments: Any) -> None:
        self._note(kernel.name)
        super().launch(kernel, *arguments)

    def download(self, *arguments: Any) -> Any:
        self._note("download")
        return super().download(*arguments)


class NotedDevice(cuda.CudaDevice):
    """The device of the stand-in for CuPy, with such streams."""

    def __init__(self) -> None:
        super().__init__(stand_in_cupy, 0)
        self.noted: list[tuple[str, int | None]] = []

    def _stream(self, address: int | None) -> NotedStream:
        stream = NotedStream(self, stand_in_cupy.Stream())
        stream.noted, stream.address = self.noted, address
        return stream

    def usual_stream(self) -> NotedStream:
        return self._stream(None)

    def stream_at(self, address: int) -> NotedStream:
        return self._stream(address)

    def finish(self) -> None:
        self.noted.append(("synchronise", None))
        super().finish()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple["cuda_backend.CudaSumTree", NotedDevice]:
    """A tree on a `NotedDevice`, and the device."""
    device = NotedDevice()
    monkeypatch.setattr(cuda, "create", lambda number: device)
    tree = cuda_backend.create(50, 16)
    assert isinstance(tree, cuda_backend.CudaSumTree)
    tree.update(np.arange(50), np.arange(50.0))
    device.noted.clear()
    return tree, device


def test_scratch_space_is_made_on_the_stream_that_uses_it(
    recorded: tuple["cuda_backend.CudaSumTree", NotedDevice],
) -> None:
    """Its zeros on another stream might be written after the kernel's numbers."""
    tree, device = recorded
    uniform, indices = resident([0, 0.2, 0.4, 0.6, 0.9999], np.float64), resident(np.zeros(5), np.int64)
    tree.sample_on_device(uniform, indices, stream=7)
    assert device.noted == [(name, 7) for name in ("zeros", "zeros", "scale", "find")]
    tree.sample_on_device(uniform, indices)
    assert device.noted[4:] == [("scale", None), ("find", None)]
    assert indices.tolist() == tree.find(np.array(uniform) * tree.total).tolist()


def test_waiting_is_for_the_whole_device_not_for_one_stream(
    recorded: tuple["cuda_backend.CudaSumTree", NotedDevice],
) -> None:
    tree, device = recorded
    tree.synchronise()
    assert device.noted == [("synchronise", None)]
    tree.raise_if_wrong()
    assert device.noted[1:] == [("synchronise", None), ("download", None)]
    tree.update_on_device(resident([50], np.int64), resident([1], np.float32), stream=7)
    with pytest.raises(ValueError, match="update_on_device: found a wrong index or priority"):
        tree.raise_if_wrong()
    assert device.noted[-1] == ("synchronise", None)  # later updates on any stream find the mark removed
    tree.raise_if_wrong()


def test_a_wrong_update_on_the_device_changes_nothing_and_the_next_one_is_done(
    recorded: tuple["cuda_backend.CudaSumTree", NotedDevice],
) -> None:
    tree, _ = recorded
    before, total = tree.get(np.arange(50)).tolist(), tree.total
    for index, priority in [(50, 1.0), (-1, 1.0), (1, np.nan), (1, -1.0), (1, np.inf)]:
        tree.update_on_device(resident([0, index], np.int64), resident([9, priority], np.float32))
        assert tree.get(np.arange(50)).tolist() == before
        assert tree.total == total
    tree.update([0], [3.0])  # of the host, which checked it
    tree.update_on_device(resident([1, 1], np.int64), resident([7, 5], np.float32))
    assert tree.get([0, 1]).tolist() == [3, 5]
    assert tree.total == total + 3 + 4
    with pytest.raises(ValueError, match="update_on_device"):
        tree.raise_if_wrong()
    tree.raise_if_wrong()


def test_only_contiguous_arrays_of_the_device_are_taken(
    recorded: tuple["cuda_backend.CudaSumTree", NotedDevice],
) -> None:
    tree, _ = recorded
    indices = resident([0, 1], np.int64)
    with pytest.raises(TypeError, match="CUDA memory"):
        tree.update_on_device(np.array([0]), np.array([1.0]))
    with pytest.raises(TypeError, match="dtype int32"):
        tree.update_on_device(resident([0], np.int32), resident([1], np.float32))
    with pytest.raises(ValueError, match="found shape"):
        tree.update_on_device(indices, resident(np.ones(3), np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        tree.update_on_device(resident(np.zeros(4), np.int64)[::2], resident([1, 1], np.float32))


@pytest.fixture
def filled() -> tuple["cuda_backend.CudaSumTree", np.ndarray]:
    """A tree of 5000 leaves with a third of them 0, and its priorities."""
    if reason := cuda_backend.unavailable_reason():
        pytest.skip(reason)
    tree = sum_tree.create(5000, backend="cuda")
    assert isinstance(tree, cuda_backend.CudaSumTree)
    rng = np.random.default_rng(0)
    priorities = rng.random(5000) * (rng.random(5000) < 0.7)
    tree.update(np.arange(5000), priorities)
    return tree, priorities


@pytest.mark.gpu
def test_torch_tensors_without_a_copy(filled: tuple["cuda_backend.CudaSumTree", np.ndarray]) -> None:
    import torch

    tree, priorities = filled
    uniform = torch.rand(4096, dtype=torch.float64, device="cuda")
    indices = torch.full((4096,), -1, dtype=torch.int64, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    tree.sample_on_device(uniform, indices, stream=stream)
    expected = tree.find(np.minimum(uniform.cpu().numpy() * tree.total, np.nextafter(tree.total, 0.0)))
    assert indices.cpu().numpy().tolist() == expected.tolist()
    assert (priorities[expected] > 0).all()
    tree.update_on_device(indices, torch.ones(4096, device="cuda"), stream=stream)
    tree.raise_if_wrong()
    assert (tree.get(expected) == 1).all()


@pytest.mark.gpu
def test_a_wrong_update_on_the_device(filled: tuple["cuda_backend.CudaSumTree", np.ndarray]) -> None:
    import torch

    tree, _ = filled
    before, total = tree.get(np.arange(5000)).tolist(), tree.total
    for index, priority in [(5000, 1.0), (-1, 1.0), (1, float("nan")), (1, -1.0), (1, float("inf"))]:
        indices = torch.tensor([0, index], device="cuda")
        tree.update_on_device(indices, torch.tensor([9.0, priority], device="cuda"))
        assert tree.get(np.arange(5000)).tolist() == before
        assert tree.total == total
        with pytest.raises(ValueError, match="update_on_device"):
            tree.raise_if_wrong()
    tree.raise_if_wrong()
    with pytest.raises(TypeError, match="CUDA memory"):
        tree.update_on_device(np.array([0]), np.array([1.0]))
    with pytest.raises(TypeError, match="dtype int32"):
        tree.update_on_device(indices.int(), torch.ones(2, device="cuda"))
    with pytest.raises(ValueError, match="found shape"):
        tree.update_on_device(indices, torch.ones(3, device="cuda"))


@pytest.mark.gpu
def test_captured_in_a_cuda_graph(filled: tuple["cuda_backend.CudaSumTree", np.ndarray]) -> None:
    import torch

    tree, priorities = filled
    uniform = torch.rand(256, dtype=torch.float64, device="cuda")
    indices = torch.zeros(256, dtype=torch.int64, device="cuda")
    new = torch.ones(256, device="cuda")
    tree.sample_on_device(uniform, indices)  # allocates its scratch space
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        tree.sample_on_device(uniform, indices, stream=stream)
        tree.update_on_device(indices, new, stream=stream)
    for value in (2.0, 3.0):
        uniform.copy_(torch.rand(256, dtype=torch.float64))
        new.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        drawn = indices.cpu().numpy()
        assert (priorities[drawn] > 0).all()
        assert (tree.get(drawn) == value).all()
    tree.raise_if_wrong()
    assert tree.total == pytest.approx(tree.get(np.arange(5000)).sum(dtype=np.float64), rel=1e-5)


@pytest.mark.gpu
def test_scratch_space_is_bounded(filled: tuple["cuda_backend.CudaSumTree", np.ndarray]) -> None:
    import torch

    tree, priorities = filled
    for count in range(1, 301):
        uniform = torch.rand(count, dtype=torch.float64, device="cuda")
        indices = torch.full((count,), -1, dtype=torch.int64, device="cuda")
        tree.sample_on_device(uniform, indices)
        assert (priorities[indices.cpu().numpy()] > 0).all()
    assert sorted(tree._scratch) == [1 << power for power in range(10)]
