"""The layout ablation runs over every fanout, aligned and not, and writes what it found."""

import json
from pathlib import Path

import pytest

from harness.benchmarks import layouts


def test_every_layout_of_a_small_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--rounds", "5", "--capacities", "500", "--batch-size", "32"]
    assert layouts.main(options) == 0
    text = (tmp_path / "table.md").read_text()
    assert text in capsys.readouterr().out
    measurements = json.loads((tmp_path / "measurements.json").read_text())["measurements"]
    assert len(measurements) == 2 * 2 * len(layouts.FANOUTS)
    assert all(m["status"] in ("ok", "too_noisy") for m in measurements), measurements
    assert all(f"K={fanout}, not aligned" in text for fanout in layouts.FANOUTS)
