"""The bench leaves out each machine, keeps bundles that are there, and states errors and coverage."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli.bench.cards_bench import CardRate, predictions, table
from placerl.harness.machines import renting
from placerl.harness.machines.bundle import Bundle
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.machines.honest_bundles import honest
from tests.harness.machines.test_predicting import invented, moved
from tests.harness.machines.test_rates import committed_run, slower


def test_bundles_that_are_there_are_judged(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renting, "problems", lambda bundle: [])  # they are invented
    folder = tmp_path / "bundles"
    for seed in range(4):
        invented(seed, 0.02).write(folder / f"machine-{seed}.json")
    honest(0).write(folder / "cartpole-dqn-32-one-core.json")
    folders = ["--bundles", str(folder), "--results", str(tmp_path), "-o", str(tmp_path / "out")]
    outcome = placerl("bench", "cards", "--variants", "one core", *folders)
    assert outcome.status == 0, outcome
    text = (tmp_path / "out" / "table.md").read_text()
    by_machine = [line for line in text.splitlines() if line.startswith("| machine-") and ", " not in line]
    assert [line.split(" | ")[-1] for line in by_machine] == ["1.01 |"] * 4
    rows = json.loads(placerl("bench", "cards", "--variants", "one core", *folders, "--json").out)
    assert {row["machine"] for row in rows} >= {f"machine-{seed}" for seed in range(4)}
    assert all(row["low"] < row["value"] < row["high"] for row in rows)


def test_a_bundle_that_joins_the_folder_or_changes_is_judged_without_again(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renting, "problems", lambda bundle: [])  # they are invented
    folder = tmp_path / "bundles"
    options = ["--variants", "none", "--bundles", str(folder), "--results", str(tmp_path), "--json"]

    def measured() -> dict[str, list[float]]:
        by_machine: dict[str, list[float]] = {}
        for row in json.loads(placerl("bench", "cards", *options).out):
            if "measured_s" in row:
                by_machine.setdefault(row["machine"], []).append(row["measured_s"])
        return {name: sorted(times) for name, times in by_machine.items()}

    for seed in range(3):
        invented(seed).write(folder / f"machine-{seed}.json")
    three = measured()
    assert three.keys() == {"machine-0", "machine-1", "machine-2"}
    invented(3).write(folder / "machine-3.json")
    four = measured()
    assert four.keys() == {*three, "machine-3"}
    invented(4).write(folder / "machine-3.json")
    changed = measured()
    assert {name for name in four if changed[name] != four[name]} == {"machine-3"}


def test_one_machine_cannot_be_left_out(placerl: Placerl, tmp_path: Path) -> None:
    invented(0).write(tmp_path / "alone.json")
    folders = ["--bundles", str(tmp_path), "--results", str(tmp_path)]
    refused(placerl("bench", "cards", "--variants", "none", *folders), "--bundles", "1 bundles", "at least 2")


def test_bundles_of_others_that_cannot_be_are_refused(placerl: Placerl, tmp_path: Path) -> None:
    for seed in range(2):
        invented(seed).write(tmp_path / f"machine-{seed}.json")
    folders = ["--bundles", str(tmp_path), "--results", str(tmp_path)]
    refused(placerl("bench", "cards", "--variants", "none", *folders), "machine-0.json: bundle", "samples")


def test_rates_of_mappings_are_judged_and_what_the_choice_loses() -> None:
    """A machine whose fastest mapping takes three times as long as its card says chooses it all the same."""
    here, _ = committed_run()
    there = {f"x{factor:g}": [moved(row, factor) for row in here.rows] for factor in (1.0, 1.5, 2.0)}
    slow = [moved(row, 3.0) if row.primitive.startswith("native_round.") else row for row in there["x2"]]
    cards = {name: slower(float(name[1:])) for name in there}
    machines = {
        name: Bundle(
            format=Bundle.FORMAT, card=cards[name], rows=tuple(slow if name == "x2" else rows)
        ).sealed()
        for name, rows in there.items()
    }
    rows = predictions(machines)
    by_mapping = {row.mapping: row for row in rows if isinstance(row, CardRate) and row.machine == "x2"}
    assert len(by_mapping) > 10
    fastest = by_mapping["native-native-cpu"]
    assert fastest.chosen
    assert (fastest.value or 0) > 2 * fastest.measured_gps
    errors = {
        m: (row.value or 0) / row.measured_gps - 1 for m, row in by_mapping.items() if row is not fastest
    }
    assert max(map(abs, errors.values())) < 0.05
    best = max(row.measured_gps for row in by_mapping.values())
    assert f"native-native-cpu, loses {1 - fastest.measured_gps / best:.1%}" in table(rows)
