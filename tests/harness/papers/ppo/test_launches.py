"""What a trace of PPO's gradient steps counts; on the CPU, which has no kernels, nothing is."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from placerl.harness.core.progress import silent
from placerl.harness.papers.ppo import launches
from placerl.harness.plan.gpu_claims import GPU
from placerl.harness.plan.tiers import TIERS
from placerl.primitives.fpga.cycles.ppo import PpoIteration

SHORT = PpoIteration(agents=2, steps=8, minibatch=8, epochs=2)
DEVICE, HOST = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU


def event(name: str, microseconds: float, device_type: Any = HOST) -> Any:
    return SimpleNamespace(
        name=name, device_type=device_type, time_range=SimpleNamespace(elapsed_us=lambda: microseconds)
    )


EVENTS = [
    event("aten::linear", 500.0),
    event("cudaLaunchKernel", 6.0),
    event("cudaMemcpyAsync", 4.0),
    event("cudaStreamSynchronize", 20.0),
    event("ampere_sgemm_32x32", 8.0, DEVICE),
    event("elementwise_kernel", 2.0, DEVICE),
    event("Memcpy HtoD (Pageable -> Device)", 3.0, DEVICE),
]


def test_kernels_launches_and_waits_are_told_apart() -> None:
    counted = launches.spent(EVENTS)
    assert counted[:3] == (2, 2, 1)
    assert counted[3:] == pytest.approx((10e-6, 10e-6, 20e-6))


def test_a_device_without_kernels_is_not_run_and_says_so() -> None:
    (row,) = launches.measure("cpu", "Hopper", "eager", 0.0, silent, SHORT)
    assert (row.status, row.device) == ("not_run", "cpu")
    assert "cpu has none" in row.reason


@dataclass
class FakeTrace:
    """A profiler that has always traced the same iteration."""

    activities: list[Any] = field(default_factory=list)

    def __enter__(self) -> "FakeTrace":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self) -> list[Any]:
        return EVENTS


def test_counts_and_both_shares_have_a_sample_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "profile", FakeTrace)
    rows = launches.measure("cpu", "Hopper", "eager", 0.0, silent, SHORT)
    values = {(row.quantity, row.parameters.get("share")): row.value for row in rows}
    assert {len(row.samples) for row in rows} == {5}
    assert values["kernels_per_iteration", None] == 2
    assert values["launches_per_iteration", None] == 2
    assert values["synchronisations_per_iteration", None] == 1
    assert values["fraction_of_time", launches.OF_CALLS] == pytest.approx(30 / 40)
    assert 0.9 < values["fraction_of_time", launches.WITHOUT_KERNEL] < 1


def test_the_cells_are_of_machines_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        f"claim/PPO-2.4/{benchmark}/{mode}" for mode in ("eager", "graph") for benchmark in ("hopper", "pong")
    ]
    assert [cell.key for cell in launches.cells(GPU)] == keys
    for there, found in ((False, []), (True, keys)):
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        assert [cell.key for cell in launches.cells(TIERS["full"])] == found
        assert not launches.cells(TIERS["quick"])


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_on_a_gpu_kernels_launches_and_waits_are_traced(mode: str) -> None:
    rows = launches.measure("cuda", "Hopper", mode, 0.0, silent, SHORT)
    values = {(row.quantity, row.parameters.get("share")): row.value for row in rows}
    assert values["kernels_per_iteration", None] > values["synchronisations_per_iteration", None] > 0
    assert 0 < values["fraction_of_time", launches.OF_CALLS] < 1
    assert 0 < values["fraction_of_time", launches.WITHOUT_KERNEL] < 1
    fewer = values["launches_per_iteration", None] < values["kernels_per_iteration", None]
    assert fewer or mode == "eager", "a graph launches several kernels at once"
