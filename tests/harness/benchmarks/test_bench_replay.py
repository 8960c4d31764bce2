"""The replay benchmark: every tree is checked before it is timed, and one that fails is a row that says why."""

import json
import sys
from pathlib import Path

import pytest

from harness.benchmarks import bench_replay
from harness.benchmarks.bench_replay import WORKER, Row, main, own_rows, peer_rows, table, verdict

BROKEN = {
    "crashes": "raise SystemExit(3)",
    "draws wrongly": """
import numpy as np
VERSION, NOTE = "1", ""
class create:
    def __init__(self, capacity): self.capacity = capacity
    def fill(self, priorities): pass
    def update(self, indices, priorities): pass
    def sample(self, size, rng): return rng.integers(0, self.capacity, size)
""",
}


def row_of(name: str, source: str, folder: Path) -> Row:
    """A peer whose `tree.py` has this source."""
    script = folder / f"{name.replace(' ', '_')}.py"
    script.write_text(source)
    return Row(name, [sys.executable, str(WORKER), str(script)], peer=True)


def test_times_ours_beside_peers_that_fail(tmp_path: Path) -> None:
    ours = [row for row in own_rows() if row.name in ("native", "reference", "binary")]
    broken = [row_of(name, source, tmp_path) for name, source in BROKEN.items()]
    (missing,) = peer_rows(["no_such_peer"])
    rows = [*ours, *broken, missing]
    measured = bench_replay.run([5000], [32, 256], rounds=5, rows=rows)
    assert len(measured) == 2 * 2 * (len(rows) + len(bench_replay.FLOORS))
    for m in measured:
        if m.backend in ("native", "reference", "binary", *bench_replay.FLOORS):
            assert m.status == "ok", m.reason
            assert len(m.samples) == 5
            assert m.value is not None
            assert 1e-8 < m.value < 1
    assert "exit status 3" in broken[0].failure
    assert "drawn too seldom" in broken[1].failure
    assert missing.failure.startswith("not run: needs")
    text = table(measured, rows)
    assert "| native |" in text
    assert "not run" in text
    assert "drawn too seldom" in text
    assert "the floor (target 2x" in text


def test_verdict_names_the_fastest_peer() -> None:
    def cell(name: str, seconds: float, peer: bool) -> bench_replay.Measurement:
        row = Row(name, [], peer=peer)
        return bench_replay.measurement("sum_tree.sample", row, 256, 1000, [seconds] * 5)

    cells = {
        "native": cell("native", 2e-6, peer=False),
        "slow": cell("slow", 20e-6, peer=True),
        "fast": cell("fast", 6e-6, peer=True),
        "load_dependent": cell("load_dependent", 1.5e-6, peer=False),
    }
    expected = "3.0x fast (target 4x: MISSED); 1.3x the floor (target 2x: met)"
    assert verdict(cells, "sample", 256) == expected


def test_writes_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rounds", "5", "--capacities", "1000", "--batch-sizes", "32", "--peers"]
    assert main(["--out", str(tmp_path), *options]) == 0
    assert (tmp_path / "table.md").read_text() in capsys.readouterr().out
    content = json.loads((tmp_path / "measurements.json").read_text())
    assert content["machine"]["cpu"]
    assert {m["provenance"] for m in content["measurements"]} == {"measured"}


def test_too_few_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--rounds", "1"])
    assert "--rounds: found 1; allowed: at least 5" in capsys.readouterr().err
