"""Each field of a schedule is an option of a command, as the field says."""

from collections.abc import Sequence
from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from placerl.harness.cli.schedule_options import with_schedule
from placerl.harness.core.errors import OptionName
from placerl.harness.loop.schedule import STRICT, Fusion, InitialPriorities, Schedule


def called(*words: str) -> tuple[list[tuple[str, Schedule, int]], Sequence[str]]:
    """What a command is called with, and the lines of its error."""
    app, asked = typer.Typer(), []

    @app.command()
    @with_schedule
    def train(name: str, *, schedule: Schedule, size: int = 3) -> None:
        """Train."""
        asked.append((name, schedule, size))

    return asked, CliRunner().invoke(app, words).output.splitlines()


def test_a_command_gets_the_schedule_that_the_options_make() -> None:
    assert called("mine")[0] == [("mine", STRICT, 3)]
    words = (
        "--overlap",
        "8",
        "--replay-beside",
        "--fusion",
        "replay",
        "--initial-priorities",
        "actor",
        "--size",
        "5",
    )
    schedule = Schedule(
        overlap=8, replay_beside=True, fusion=Fusion.REPLAY, initial_priorities=InitialPriorities.ACTOR
    )
    assert called("mine", *words)[0] == [("mine", schedule, 5)]


def test_every_field_is_offered_and_says_what_it_means() -> None:
    helped = " ".join(called("--help")[1])
    for one in fields(Schedule):
        assert str(OptionName(one.name)) in helped


@pytest.mark.parametrize(
    "words", [["--learners", "0"], ["--fusion", "all"], ["--environments", "mine"], ["--schedule", "x"]]
)
def test_a_value_out_of_range_and_an_unknown_option_are_refused(words: list[str]) -> None:
    asked, lines = called("mine", *words)
    assert not asked
    assert lines
