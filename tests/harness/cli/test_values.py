"""Empty texts and numbers that are not finite: refused for every option and argument of every command."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main
from typer.main import get_group

import placerl.harness.cli.app
from placerl.harness.cli.app import app
from tests.harness.cli.command_line import Placerl, refused


def parameters() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each option and argument that takes a value, with the words that name its command."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        if not hasattr(command, "list_commands"):
            for one in command.params:
                if not (getattr(one, "is_flag", False) or one.name == "help"):
                    yield words, one
            return
        for name in command.list_commands(None):
            if hasattr(command, "load"):
                command.load(name)
            yield from below(command.get_command(None, name), (*words, name))

    return below(get_group(app), ())


def given(words: tuple[str, ...], parameter: Any, value: str) -> tuple[str, ...]:
    """Return a command line on which this parameter has this value, and arguments before it some other one."""
    if parameter.param_type_name == "option":
        return (*words, parameter.opts[0], value)
    before = [one for command, one in PARAMETERS if command == words and one.param_type_name == "argument"]
    return (*words, *["x"] * before.index(parameter), value)


def field(parameter: Any) -> str:
    """Return the name that a message gives a parameter: an option's own, or an argument's in the usage line."""
    return (
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.opts[0]
    )


PARAMETERS = list(parameters())


@pytest.fixture(autouse=True)
def _built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds the commands once: all of them are loaded, and are built anew for each command line otherwise."""
    for module, name in ((typer.main, "get_command"), (placerl.harness.cli.app, "get_group")):
        monkeypatch.setattr(module, name, cache(getattr(module, name)))


def test_every_value_that_is_empty_is_refused_by_name(placerl: Placerl) -> None:
    named = {(*words, one.opts[0]) for words, one in PARAMETERS}
    assert {("reproduce", "--only"), ("run", "--place"), ("bench", "learner", "--cells")} <= named
    for words, one in PARAMETERS:
        for value in ("", " "):
            outcome = placerl(*given(words, one, value))
            refused(outcome, f"{field(one)}: found {value!r}; allowed: ")


def test_every_number_that_is_not_finite_is_refused_by_name(placerl: Placerl) -> None:
    numbers = [(words, one) for words, one in PARAMETERS if one.type_descriptor.annotation in (int, float)]
    assert len(numbers) > 30
    for words, one in numbers:
        for value in ("nan", "inf", "-inf", "1e999"):
            outcome = placerl(*given(words, one, value))
            refused(outcome, f"{field(one)}: found {value!r}; allowed: ")


@pytest.mark.parametrize("words", [("--only=",), ("--paper", "")])
def test_other_spellings_of_an_empty_option_are_refused_too(placerl: Placerl, words: tuple[str, ...]) -> None:
    refused(
        placerl("claims", *words),
        "--only: found ''; allowed: a value that is not empty, or the option left out",
    )
