"""The bench leaves out each machine, keeps bundles that are there, and states errors and coverage."""

import json
from pathlib import Path

from tests.harness.cli.command_line import Placerl
from tests.harness.machines.honest_bundles import honest
from tests.harness.machines.test_predicting import invented


def test_bundles_that_are_there_are_judged(placerl: Placerl, tmp_path: Path) -> None:
    folder = tmp_path / "bundles"
    for seed in range(4):
        invented(seed, 0.02).write(folder / f"machine-{seed}.json")
    honest(0).write(folder / "cartpole-dqn-32-one-core.json")
    folders = ["--bundles", str(folder), "--results", str(tmp_path), "-o", str(tmp_path / "out")]
    outcome = placerl("bench", "cards", "--variants", "one core", *folders)
    assert outcome.status == 0, outcome
    text = (tmp_path / "out" / "table.md").read_text()
    assert all(f"| machine-{seed} |" in text for seed in range(4))
    rows = json.loads(placerl("bench", "cards", "--variants", "one core", *folders, "--json").out)
    assert {row["machine"] for row in rows} >= {f"machine-{seed}" for seed in range(4)}
    assert all(row["low"] < row["value"] < row["high"] for row in rows)
