"""Completion of command lines in a shell, as bash asks for it."""

import pytest
from typer.testing import CliRunner

from placerl.harness import workloads
from placerl.harness.cli.app import app, commands


def completed(line: str) -> list[str]:
    asked = {"_PLACERL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    return CliRunner().invoke(app, [], env=asked, prog_name="placerl").stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("placerl re", [name for name in commands() if name.startswith("re")]),
        ("placerl map hopper", [name for name in workloads.names() if name.startswith("hopper")]),
        ("placerl map --bat", ["--batch-size"]),
        ("placerl reproduce --tier st", ["standard"]),
        ("placerl bench train", ["training"]),
    ],
)
def test_words_are_completed(line: str, words: list[str]) -> None:
    assert words
    assert completed(line) == words
