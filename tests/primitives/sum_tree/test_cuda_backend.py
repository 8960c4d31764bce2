"""The CUDA backend: its source and the streams of its work are tested without a GPU, its results on one."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.primitives import sum_tree
from placerl.primitives.sum_tree import cuda_backend
from tests.nvrtc import compile_cubin


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_compiles_without_a_gpu(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(cuda_backend.source(dtype), architecture)
    assert cubin.startswith(b"\x7fELF")
    for kernel in (b"find", b"set_leaves", b"sum_nodes", b"scale"):
        assert b".text." + kernel in cubin


def test_a_mistake_in_a_kernel_is_seen() -> None:
    with pytest.raises(RuntimeError, match="undefined_name"):
        compile_cubin(cuda_backend.source("float32") + "\nKERNEL(bad)() { undefined_name; }", "sm_80")


class Resident(np.ndarray):
    """An array that says that it is in CUDA memory."""

    __cuda_array_interface__ = None


class RecordingDevice:
    """A `CudaDevice` that runs nothing: it keeps what it is asked to do, and the address of the stream."""

    number = 0

    def __init__(self) -> None:
        self.done: list[tuple[str, int | None]] = []
        self._stream: int | None = None
        device = SimpleNamespace(synchronize=lambda: self._do("synchronise"))
        cuda = SimpleNamespace(
            get_current_stream=lambda: self._on(None), ExternalStream=self._on, Device=lambda number: device
        )
        self.cupy = SimpleNamespace(asarray=np.asanyarray, cuda=cuda)

    @contextmanager
    def _on(self, stream: int | None) -> Iterator[None]:
        before, self._stream = self._stream, stream
        yield
        self._stream = before

    def _do(self, name: str) -> None:
        self.done.append((name, self._stream))

    def zeros(self, shape: int, dtype: Any) -> Any:
        self._do("zeros")
        return np.zeros(shape, dtype)

    def upload(self, values: np.ndarray) -> Any:
        return values.copy()

    def download(self, array: Any) -> np.ndarray:
        self._do("download")
        return np.array(array)

    def launch(self, name: str, size: int, *arguments: Any) -> None:
        self._do(name)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple["cuda_backend.CudaSumTree", RecordingDevice]:
    """A tree on a `RecordingDevice`, and the device."""
    device = RecordingDevice()
    monkeypatch.setattr(cuda_backend, "CudaDevice", lambda number, dtype: device)
    tree = cuda_backend.create(50, 16)
    assert isinstance(tree, cuda_backend.CudaSumTree)
    device.done.clear()
    return tree, device


def test_scratch_space_is_made_on_the_stream_that_uses_it(
    recorded: tuple["cuda_backend.CudaSumTree", RecordingDevice],
) -> None:
    """Its zeros on another stream might be written after the kernel's numbers."""
    tree, device = recorded
    uniform, indices = np.zeros(5).view(Resident), np.zeros(5, np.int64).view(Resident)
    tree.sample_on_device(uniform, indices, stream=7)
    assert device.done == [(name, 7) for name in ("zeros", "zeros", "scale", "find")]
    tree.sample_on_device(uniform, indices)
    assert device.done[4:] == [("scale", None), ("find", None)]


def test_waiting_is_for_the_whole_device_not_for_one_stream(
    recorded: tuple["cuda_backend.CudaSumTree", RecordingDevice],
) -> None:
    tree, device = recorded
    tree.synchronise()
    assert device.done == [("synchronise", None)]
    tree.raise_if_wrong()
    assert device.done[1:] == [("synchronise", None), ("download", None)]
    tree._wrong[1] = 1
    with pytest.raises(ValueError, match="update_on_device: found a wrong index or priority"):
        tree.raise_if_wrong()
    assert device.done[-1] == ("synchronise", None)  # later updates on any stream find the mark removed
    tree.raise_if_wrong()


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
