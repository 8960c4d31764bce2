"""`placerl predict` shows the times of a machine that is not here, with their intervals."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import predict_command
from placerl.harness.machines import renting
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.machines.test_predicting import invented


@pytest.fixture(autouse=True)
def no_committed_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the machines of the test are known, whichever are committed."""
    monkeypatch.setattr(renting, "COMMITTED", tmp_path / "committed")
    (tmp_path / "committed").mkdir()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The options that name a card and two bundles."""
    there = invented(2)
    there.card.write(tmp_path / "there.json")
    options = ["--card", str(tmp_path / "there.json")]
    for seed in (0, 1):
        invented(seed).write(tmp_path / f"{seed}.json")
        options += ["--known", str(tmp_path / f"{seed}.json")]
    return options


def test_times_are_predicted_with_intervals(
    placerl: Placerl, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_command.out, "width", 60)
    monkeypatch.setattr("placerl.harness.machines.renting.problems", lambda bundle: [])  # they are invented
    said = placerl("predict", "cartpole-dqn", "--batch-size", "32", *files)
    assert said.status == 0, said
    assert "From 2 known machines" in said.out
    assert all(len(line) <= 60 for line in said.out.splitlines())
    rows = json.loads(placerl("predict", "cartpole-dqn", "--batch-size", "32", *files, "--json").out)
    assert {row["primitive"] for row in rows} >= {"learner.step", "sum_tree.sample"}
    assert all(row["low_s"] < row["time_s"] < row["high_s"] for row in rows)
    refused(placerl("predict", "cartpole-dqn", "--batch-size", "8", *files), "--known", "cartpole-dqn 8")
    refused(placerl("predict", "cartpole-dqn", "--batch-size", "0", *files), "--batch-size", "found 0")


def test_a_bundle_that_cannot_be_is_refused(placerl: Placerl, files: list[str]) -> None:
    refused(placerl("predict", "cartpole-dqn", "--batch-size", "32", *files), "0.json: bundle", "samples")
