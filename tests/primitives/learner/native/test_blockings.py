"""Which way products go: measured for every instruction set, and without effect on any bit of a gradient step."""

from pathlib import Path

import numpy as np
import pytest
import torch

from placerl.primitives import _native, disk_cache
from placerl.primitives.learner import trace
from placerl.primitives.learner.native.blockings import blockings
from placerl.primitives.learner.native.executable import NativeExecutable
from tests.primitives.simd import USABLE

Tensors = dict[str, torch.Tensor]


def gradient(state: Tensors, batch: Tensors) -> tuple[Tensors, Tensors]:
    def loss(weights: Tensors) -> torch.Tensor:
        hidden = torch.relu(batch["x"] @ weights["first"] + weights["bias"])
        return ((hidden @ weights["second"]) ** 2).mean()

    gradients, value = torch.func.grad_and_value(loss)(state)
    return {name: state[name] - 0.1 * gradients[name] for name in state}, {"loss": value}


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_gives_the_same_bits(simd: str, threads: int) -> None:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    state = {"first": normal(70, 100), "bias": normal(100), "second": normal(100, 33)}
    batch = {"x": normal(130, 70)}
    example = ({name: torch.from_numpy(x) for name, x in state.items()}, {"x": torch.zeros(130, 70)})
    graph = trace(gradient, example)

    def stepped(ways: tuple[int, ...]) -> list[bytes]:
        executable = NativeExecutable(
            {"full": graph}, simd=simd, threads=threads, part_ns=0.0, blockings=ways
        )
        for name, value in state.items():
            executable.write_state(f"state/{name}", value)
        for _ in range(2):
            executable.step("full", {"batch/x": batch["x"]})
        return [np.ascontiguousarray(executable.state()[f"state/{name}"]).tobytes() for name in state]

    expected = stepped(())
    for way in range(1, 8):
        assert stepped((way,) * 6) == expected
    assert stepped(blockings(simd)) == expected


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="found 8; allowed: 0 to 7"):
        _native.learner.Executor(64, blockings=[8] * 6)
    with pytest.raises(ValueError, match="found 2 numbers; allowed: none or 6"):
        _native.learner.Executor(64, blockings=[1, 2])


def test_the_widest_set_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    from placerl.primitives.learner.native import blockings as module

    module._blockings.cache_clear()
    found = blockings()
    assert found == blockings(_native.simd_level())
    assert len(list((tmp_path / "blockings").glob("*.json"))) == 1
    module._blockings.cache_clear()
    assert blockings() == found
