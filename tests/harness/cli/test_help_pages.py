"""Help pages and completion load nothing that takes long to load."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from placerl.harness.cli import app
from tests.limits import LIMIT_S

HEAVY = {"torch", "pandas", "scipy", "gymnasium", "amaranth", "matplotlib", "mujoco", "pyarrow"}
LATE = {"bench", "explore"}
"""Commands whose pages still load what the benchmarks use."""

PROGRAM = """
import sys
from typer.testing import CliRunner
from placerl.harness.cli.app import app
for arguments in {pages}:
    shown = CliRunner().invoke(app, [*arguments, "--help"])
    assert shown.exit_code == 0, shown.output
print(*sys.modules)
"""


def loaded(pages: list[list[str]]) -> set[str]:
    """Return the names of the modules that a fresh process has loaded after it showed some help pages."""
    command = [sys.executable, "-c", PROGRAM.format(pages=pages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_list_of_commands_loads_no_command() -> None:
    found = loaded([[]])
    assert not [
        name for name in found if name.startswith("placerl.harness.cli.") and name.endswith("_command")
    ]
    assert not found & (HEAVY | {"numpy", "pydantic"})


def test_the_page_of_a_command_loads_nothing_heavy() -> None:
    assert not loaded([[name] for name in app.commands() if name not in LATE]) & HEAVY


@pytest.mark.parametrize("name", app.commands())
def test_the_list_says_what_the_command_itself_says(name: str) -> None:
    group = get_command(app.app)
    context = group.make_context("placerl", [name, "--help"], resilient_parsing=True)
    listed = app.docstring(app.FOLDER / f"{name.replace('-', '_')}_command.py", app._registered)
    _, command, _ = group.resolve_command(context, [name])
    assert listed
    assert " ".join(listed.split()) == " ".join((command.help or "").split())


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below a group with the words that call it; of a group that is a command, itself too."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names or command.invoke_without_command:
        yield path, command
    for name in names:
        yield from leaves(command.get_command(None, name), (*path, name))


FRONT_ENDS = {("bench", "asv"), ("bench", "fpga-product"), ("bench", "fpga-tables")}
"""Benchmarks that are the command of another tool, or print tables of what others measured."""


def test_every_command_prints_json_and_names_what_it_writes_out() -> None:
    for path, command in leaves(get_command(app.app)):
        options = {name for parameter in command.params for name in parameter.opts}
        if path and path not in FRONT_ENDS:
            assert "--json" in options, path
        assert not options & {"--output", "--to", "--to-folder"}, path
        assert ("-o" in options) == ("--out" in options), path
