"""The command line as a user meets it: help, and bad input that every command refuses and that changes nothing."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from placerl.harness import cli
from placerl.harness.cli import app, doctor_command
from placerl.harness.cli.bench_command import names
from placerl.harness.cli.common import print_rows
from placerl.harness.core.provenance import Provenance
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.old_form import row_of

USERS_KNOW = {
    "baselines",
    "bench",
    "bundle",
    "card",
    "check",
    "compare",
    "diff",
    "doctor",
    "explore",
    "export",
    "gpu-claims",
    "learn",
    "map",
    "merge",
    "predict",
    "profile",
    "rent",
    "report",
    "reproduce",
    "rtl",
    "run",
    "validate",
    "why",
}


def test_the_commands_that_users_know_are_there() -> None:
    assert set(app.commands()) >= USERS_KNOW


@pytest.mark.parametrize("command", app.commands())
def test_every_command_has_help_with_an_example(placerl: Placerl, command: str) -> None:
    outcome = placerl(command, "--help")
    assert outcome.status == 0
    assert f"Example: placerl {command}" in outcome.out.replace("`", "")


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", [[one] for one in app.commands()] + [["bench", one] for one in names()])
def test_no_name_is_cut_in_help(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, command: list[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = placerl(*command, "--help").out.splitlines()
    assert columns - 6 < max(map(len, lines)) <= columns
    assert not [line for line in lines if "…" in line]


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), ([], 2)])
def test_help_lists_every_command_with_what_it_does(
    placerl: Placerl, arguments: list[str], status: int
) -> None:
    outcome = placerl(*arguments)
    assert outcome.status == status
    listed = re.findall(r"^│ ([a-z-]+) +[A-Z]", outcome.out, re.MULTILINE)
    assert listed == app.commands() == sorted(app.commands())


def test_a_new_file_is_a_command(placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "say_it_command.py").write_text(
        "from placerl.harness.cli.app import app\n\n\n"
        '@app.command("say-it")\ndef say_it(text: str = "x") -> None:\n    """Say it."""\n    print(text)\n'
    )
    monkeypatch.setattr(app.app, "registered_commands", [])
    monkeypatch.setattr(app, "FOLDER", tmp_path)
    monkeypatch.setattr(cli, "__path__", [str(tmp_path)])
    assert placerl("say-it", "--text", "said").out == "said\n"
    assert "Say it." in placerl("--help").out


@pytest.mark.parametrize("missing", ["pandas", "placerl.harness.gone"])
def test_a_command_without_a_package_names_the_extra(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(app, "importlib", SimpleNamespace(import_module=absent))
    if missing == "pandas":
        refused(placerl("doctor"), "pandas: found nothing: it is not installed", "placerl[harness]")
    else:  # a mistake of ours
        with pytest.raises(ModuleNotFoundError):
            placerl("doctor")


@pytest.mark.parametrize(
    ("revision", "said"),
    [("0123abc+45", "placerl 1.2.3 (0123abc+45)\n"), ("placerl-1.2.3", "placerl 1.2.3\n")],
)
def test_the_version_names_the_revision_where_there_is_one(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, revision: str, said: str
) -> None:
    monkeypatch.setattr(app, "metadata", SimpleNamespace(version=lambda name: "1.2.3"))
    monkeypatch.setattr(app, "revision", lambda: revision)
    outcome = placerl("--version")
    assert (outcome.status, outcome.out) == (0, said)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["repot"], ("no such command 'repot'", "did you mean report?")),
        (["--bogus"], ("found no such option: --bogus", "--help` lists")),
        (["explore"], ("placerl explore: found nothing; allowed: what",)),
        (["validate", "x"], ("placerl validate: found unexpected extra argument(s) (x)",)),
        (["map", "hopper-ddpg", "--against", "zcu"], ("--against: found zcu;", "did you mean zcu102?")),
        (["card", "-o", "/dev/null/card.json"], ("/dev/null: --out: found", "a folder that can be written")),
        (["card", "-o", "/tmp"], ("/tmp: --out: found a folder", "the path of a file")),
        (["check", "/tmp"], ("/tmp: file: found a folder", "a bundle")),
        (
            ["why", "--python", "/tmp", __file__],
            ("--python: found a folder", "the path of a Python interpreter, or its name"),
        ),
        (["why", "--python", "pythn", __file__], ("--python: found no program 'pythn'", "or its name")),
        (["why", "--out", "/tmp", __file__], ("/tmp: --out: found a folder", "the path of a file")),
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
    for results in (in_the_way, in_the_way / "results"):
        outcome = placerl("map", "cartpole-dqn", "--results", str(results))
        refused(outcome, str(in_the_way), "found a file where the folder should be")
    assert in_the_way.read_text() == "not a folder"


def test_doctor_ends_with_commands_to_type_next(placerl: Placerl) -> None:
    *_, first, second = placerl("doctor").out.rstrip().splitlines()
    for line, command in zip((first, second), doctor_command.NEXT, strict=True):
        assert line.startswith(f"  {command} ")
        name, *_ = command.removeprefix("placerl ").split()
        assert placerl(name, "--help").status == 0


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
    row = row_of(
        suite="s", primitive="p", quantity="q", unit="s", provenance=Provenance.SIMULATED,
        status="not_run", reason=reason,
    )  # fmt: skip
    print_rows([row], "title", as_json=False)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "tensor" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells == ["p", "", "", "q", "not run: needs tensor units", "", "s", ""]
