"""The progress bar: what it shows on a terminal, and that a file gets nothing of it."""

import io

import pytest
from rich.console import Console

from placerl.harness.core import progress


def drawn(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=200)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    with progress.bar("reproduce") as bar:
        bar(1, 4, "run/a")
        bar.last("a B=32: 341 gradient steps/s")
        bar.last("")
        bar.progress.refresh()
    return text.getvalue()


def test_it_shows_the_stage_and_the_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = drawn(monkeypatch, terminal=True)
    assert "reproduce: run/a" in shown
    assert "25%" in shown
    assert "last: a B=32: 341 gradient steps/s" in shown, "an empty text leaves the one before"


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "reproduce" not in drawn(monkeypatch, terminal=False)
