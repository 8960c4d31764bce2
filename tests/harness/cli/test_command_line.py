"""The command line as a user meets it: help, and bad input that every command refuses and that changes nothing."""

import json
from pathlib import Path

import pytest

from harness.cli.common import print_rows
from harness.core.provenance import Provenance
from harness.store.store import Measurement
from tests.harness.cli.command_line import Placerl, refused

COMMANDS = (
    "baselines",
    "bench",
    "compare",
    "diff",
    "doctor",
    "export",
    "learn",
    "map",
    "merge",
    "profile",
    "report",
    "reproduce",
    "rtl",
    "run",
    "validate",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(placerl: Placerl, command: str) -> None:
    outcome = placerl(command, "--help")
    assert outcome.status == 0
    assert f"Example: placerl {command}" in outcome.out.replace("`", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], ("frobnicate", "placerl --help")),
        (["profile"], ("WORKLOAD", "found nothing")),
        (["baselines", "nope"], ("NAMES", "'nope'", "sb3")),
        (["baselines", ""], ("NAMES", "found ''")),
        (["report", "--bogus"], ("--bogus", "placerl report --help")),
        (["run", "cartpole-dqn", "--seconds", "0"], ("--seconds", "'0'", "greater than or equal to 1")),
        (
            ["profile", "cartpole-dqn", "--batch-size", "abc"],
            ("--batch-size: found 'abc'; allowed: a valid integer",),
        ),
        (
            ["run", "cartpole-dqn", "--fusion", "xyz"],
            ("--fusion: found 'xyz'; allowed: 'none', 'replay', 'step'",),
        ),
    ],
)
def test_arguments_that_no_command_takes_are_refused(
    placerl: Placerl, arguments: list[str], words: tuple[str, ...]
) -> None:
    refused(placerl(*arguments), *words)


@pytest.mark.parametrize("command", ["reproduce", "map"])
def test_an_unknown_tier_is_refused(placerl: Placerl, tmp_path: Path, command: str) -> None:
    arguments = ["cartpole-dqn"] if command == "map" else []
    outcome = placerl(command, *arguments, "--tier", "instant", "--results", str(tmp_path / "results"))
    refused(outcome, "--tier", "instant", "quick")
    assert not (tmp_path / "results").exists()


def test_an_unwritable_results_folder_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    refused(placerl("map", "cartpole-dqn", "--results", str(in_the_way / "results")), str(in_the_way))
    assert in_the_way.read_text() == "not a folder"


def test_doctor_as_json_says_which_backends_run_and_why_others_do_not(placerl: Placerl) -> None:
    outcome = placerl("doctor", "--json")
    assert outcome.status == 0
    description = json.loads(outcome.out)
    assert description["cpu"]["usable_cores"] >= 1
    for backend in description["backends"]:
        assert backend["available"] == (backend["reason"] == "")


@pytest.mark.parametrize("reason", ["needs tensor units", "not run: needs tensor units"])
def test_what_was_not_run_says_what_it_needs_and_is_of_no_provenance(
    capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    """DESIGN: what cannot run here reads `not run: needs X`; nothing was simulated, measured or modelled."""
    row = Measurement(
        suite="s", primitive="p", quantity="q", unit="s", provenance=Provenance.SIMULATED,
        status="not_run", reason=reason,
    )  # fmt: skip
    print_rows([row], "title", as_json=False)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "tensor" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells == ["p", "", "", "q", "not run: needs tensor units", "", "s", ""]
