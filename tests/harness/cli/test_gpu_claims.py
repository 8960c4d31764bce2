"""`placerl gpu-claims`: in a given time, and without a device."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from placerl.harness.cli import gpu_claims_command
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.plan import gpu_claims
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from tests.harness.cli.command_line import Placerl
from tests.harness.store.rows import row


def test_without_a_device_one_line_says_so_and_nothing_is_written(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    results = tmp_path / "results"
    outcome = placerl("gpu-claims", "--minutes", "12", "--results", str(results))
    assert outcome.status == 1
    assert outcome.err.strip() == "placerl: not run: gpu-claims needs a CUDA device: PyTorch sees none"
    assert not results.exists()


def test_what_does_not_fit_is_counted_and_the_same_command_goes_on(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[str] = []

    def cell(key: str, estimate_s: float) -> Cell:
        def measure(run: Run, report: Report) -> Sequence[Row]:
            measured.append(key)
            return [row(1.0)]

        return Cell(key, estimate_s, measure)

    monkeypatch.setattr(gpu_claims_command, "_lacks_device", lambda: "")
    monkeypatch.setattr("placerl.primitives.device.unavailable_reason", lambda name: "no CuPy")
    monkeypatch.setattr(gpu_claims, "libraries_left_out", lambda: ["sb3"])
    monkeypatch.setattr(gpu_claims, "cells", lambda: [cell("a", 1), cell("b", 1e6), cell("c", 1)])
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("gpu", "earlier", {"fingerprint": "another card"}).finish("a", [row(1.0)])
    outcome = placerl("gpu-claims", "--minutes", "5", "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    assert measured == ["c"]
    assert "1 cells measured, 1 finished before, 1 to go." in outcome.out
    assert "Left out here: sb3, whose environment is not built" in outcome.err
    assert "Left out here: sum trees and kernels of this project on the device: no CuPy" in outcome.err
    counted = json.loads(placerl("gpu-claims", "--minutes", "5", "--json", "--results", str(tmp_path)).out)
    assert counted == {"measured": [], "finished_before": ["a", "c"], "cut_off": None, "left": ["b"]}
    again = placerl("gpu-claims", "--minutes", "5", "--results", str(tmp_path))
    assert "0 cells measured, 2 finished before, 1 to go." in again.out
    fresh = placerl("gpu-claims", "--minutes", "5", "--fresh", "--results", str(tmp_path))
    assert "2 cells measured, 0 finished before, 1 to go." in fresh.out


def test_runs_before_one_that_began_afresh_do_not_count(tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        elsewhere = store.begin_run("gpu", "r", {"fingerprint": "another card"})
        first = store.begin_run("gpu", "r", {"fingerprint": "this card"})
        both = [elsewhere.record.id, first.record.id]
        assert [run.record.id for run in first.counted()] == both
        fresh = store.begin_run("gpu", "r", {"fingerprint": "this card"}, fresh=True)
        assert [run.record.id for run in fresh.counted()] == [fresh.record.id], (
            "a fresh run goes on by itself"
        )
