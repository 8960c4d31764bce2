"""FIX's float steps on a device: here on the CPU, with a counter of energy that the test makes up."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.papers.fix import device_steps
from placerl.harness.plan.gpu_claims import GPU
from placerl.harness.plan.tiers import TIERS
from placerl.harness.platforms.energy import Counter, EnergyMeter
from tests.harness.papers.rows import claim_of, frame_of


def test_rates_of_whole_steps_and_of_gradient_steps_and_watts_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = itertools.count(0, 500)
    meter = EnergyMeter([Counter("a card", lambda: next(counts), 1e-3)])
    monkeypatch.setattr(device_steps, "meter_of", lambda *_, **__: meter)
    rows = device_steps.measure("cpu", 64, 0.0, silent, alone_round_s=0.01)
    assert [(row.quantity, row.unit, len(row.samples)) for row in rows] == [
        ("inferences_per_s", "IPS", 5),
        ("learner_inferences_per_s", "IPS", 5),
        ("inferences_per_s_per_watt", "IPS/W", 5),
    ]
    whole, alone, per_watt = rows
    assert min(whole.value, alone.value) > 0
    steps = per_watt.parameters["steps_a_round"]
    assert per_watt.samples == pytest.approx([64 * steps / 0.5] * 5)  # 0.5 J a round
    assert per_watt.parameters["counters"] == ["a card"]


def test_without_a_counter_the_efficiency_is_not_run_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_steps, "meter_of", lambda *_, **__: EnergyMeter(reason="no NVML"))
    *_, per_watt = device_steps.measure("cpu", 64, 0.0, silent, alone_round_s=0.01)
    assert (per_watt.status, per_watt.reason) == ("not_run", "not run: needs watts: no NVML")


def test_the_cells_are_of_machines_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"claim/FIX-F8/cuda/{size}{mode}" for mode in ("", "/eager") for size in (64, 128, 256, 512)]
    assert [cell.key for cell in device_steps.cells(GPU)] == keys
    for there, found in ((False, []), (True, keys)):
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        assert [cell.key for cell in device_steps.cells(TIERS["standard"])] == found
        assert not device_steps.cells(TIERS["quick"])


def test_the_second_finding_is_of_eager_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_steps, "meter_of", lambda *_, **__: EnergyMeter(reason="no NVML"))
    eager, *_ = device_steps.measure("cpu", 64, 0.0, silent, mode=device_steps.EAGER, alone_round_s=0.01)
    assert eager.backend == "torch, eager"
    on_device = [
        replace(eager, device="cuda:0", backend=backend, value=value)
        for backend, value in (("torch", 20.0), ("torch, eager", 10.0))
    ]
    claim, frame = claim_of("FIX-F8"), frame_of(tmp_path, *on_device)
    (table,) = claim.device_tables(frame)
    assert [one.how for one in table.at("cuda", 64)] == ["floats, torch, eager", "floats, torch"]
    for judged, rate in ((frame, 20.0), (claim.as_in_the_paper.of(frame), 10.0)):
        assert device_steps.on_gpu(judged, device_steps.WHOLE, "step")[64].value == rate


@pytest.mark.gpu
def test_on_a_gpu_all_three_rates_are_measured() -> None:
    rows = device_steps.measure("cuda", 64, 0.0, silent)
    assert [row.device for row in rows] == ["cuda"] * 3
    whole, alone, per_watt = rows
    assert min(whole.value, alone.value) > 0
    assert per_watt.status == "ok" or "NVML" in per_watt.reason
