"""`placerl rent` ranks machines by what a training to a return takes and costs."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import rent_command
from placerl.harness.machines import renting
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.machines.test_curves import ITEM, SIZE, trained
from tests.harness.machines.test_prices import ONE
from tests.harness.machines.test_rates import NAME, committed_run, slower
from tests.harness.machines.test_renting import price


@pytest.fixture(autouse=True)
def no_committed_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the machines of the test are known, whichever are committed."""
    monkeypatch.setattr(renting, "COMMITTED", tmp_path / "committed")
    (tmp_path / "committed").mkdir()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a measured machine and two cards, of which one is twice and one three times as slow."""
    committed_run()[0].write(tmp_path / "cards" / "measured.json")
    for name, factor in (("twice", 2.0), ("thrice", 3.0)):
        slower(factor).write(tmp_path / "cards" / f"{name}.json")
    return tmp_path


def test_machines_are_ranked_by_cost_with_intervals(
    placerl: Placerl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rent_command.out, "width", 60)
    prices = [
        ONE.replace('"a"', f'"{name}"').replace("0.5", cost)
        for name, cost in (("thrice", "1"), ("twice", "4"))
    ]
    (folder / "prices.toml").write_text("".join([*prices, ONE]))
    ends = [22 * (number + 1) for number in range(50)]
    row = trained(0, 450.0, workload=NAME, batch_size=32, environment_steps=1100, episode_ends=ends)
    with Store.open(folder / "placerl.sqlite") as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("cell", [row])
    asked = ["rent", NAME, "--until", "475", "--cards", str(folder / "cards"), "--curves", str(folder)]
    asked += ["--prices", str(folder / "prices.toml")]
    said = placerl(*asked)
    assert said.status == 0, said
    wide = [line for line in said.out.splitlines() if len(line) > 60]
    assert not [line for line in wide if str(folder) not in line], "but for a path, which is not broken"
    assert "1 of 1 seeds arrived after 692 gradient steps" in said.out
    for line in (
        "measured: no price",
        "a: a price, but no card",
        "twice: 4 EUR an hour, made up, 2026-11-01",
    ):
        assert line in said.out
    rows = json.loads(placerl(*asked, "--json").out)
    assert [row["machine"] for row in rows] == ["thrice", "twice", "measured"]
    assert [row["inputs"] for row in rows] == ["modelled", "modelled", "measured"]
    for row in rows:
        assert row["low_seconds"] < row["seconds"] < row["high_seconds"]
    assert rows[0]["cost"] == pytest.approx(rows[0]["seconds"] / 3600)
    assert rows[2]["cost"] is None


def test_a_return_that_no_seed_reached_is_not_run(placerl: Placerl, folder: Path) -> None:
    said = placerl("rent", NAME, "--until", "501", "--cards", str(folder / "cards"))
    assert said.status == 1
    assert "measured" in said.out
    assert "never" in said.out
    assert "trainings reached it" in said.err
    assert "--curves FOLDER" in said.err


def test_without_a_curve_the_rates_are_shown_and_the_command_that_makes_one(
    placerl: Placerl, folder: Path
) -> None:
    with Store.open(folder / "placerl.sqlite") as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("cell", [trained(0)])
    options = ["--cards", str(folder / "cards"), "--curves", str(folder)]
    said = placerl("rent", NAME, "--until", "475", *options)
    assert said.status == 1
    assert "not run" in said.out
    assert f"`placerl run {NAME} --batch-size 32" in said.err


def test_what_is_mistaken_is_refused(placerl: Placerl, folder: Path) -> None:
    cards = ["--until", "475", "--cards", str(folder / "cards")]
    refused(placerl("rent", ITEM.name, *cards), "--known", f"no time of {ITEM.name} {SIZE}", NAME)
    refused(placerl("rent", NAME, "--batch-size", "0", *cards), "--batch-size", "found 0")
    (folder / "prices.toml").write_text(ONE.replace('"a"', '"thrise"'))
    refused(placerl("rent", NAME, *cards, "--prices", str(folder / "prices.toml")), "did you mean thrice?")


def test_a_machine_that_has_a_card_but_no_rate_is_not_said_to_lack_one() -> None:
    prices = {name: price(name, 1.0) for name in ("a", "b")}
    assert rent_command._notes([], prices, {"a"}) == ["b: a price, but no card"]
