"""The hook that reads commit messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import LIMIT_S

SCRIPT = Path(__file__).parent.parent / ".ci" / "commit_subject.py"
COMMENT = "# Please enter the commit message for your changes.\n"


def refused(folder: Path, message: str) -> str:
    """What the hook says of a message; empty where it lets it pass."""
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    command = [sys.executable, "-P", str(SCRIPT), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert bool(done.returncode) == bool(done.stderr), "it fails exactly where it says why"
    return done.stderr


@pytest.mark.parametrize(
    "message",
    [
        "x" * 72,
        "Subject\n",
        "ü" * 72,
        "Subject\n\nBody of " + "any " * 40,
        COMMENT + "Subject\n" + COMMENT,
        f"Subject\n{COMMENT}# {'-' * 24} >8 {'-' * 24}\n# Do not touch the line above.\ndiff --git a/a b/a\n",
    ],
)
def test_a_sound_message_passes(tmp_path: Path, message: str) -> None:
    assert refused(tmp_path, message) == ""


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("x" * 73, "a subject of 73 characters; allowed: 1 to 72"),
        (COMMENT + "x" * 73 + "\n\nBody", "a subject of 73 characters"),
        ("", "no subject in its first line"),
        ("\nSubject in the second line", "no subject in its first line"),
        ("Subject\nand on", "'and on' right after the subject; allowed: an empty line"),
    ],
)
def test_a_message_of_another_form_is_refused(tmp_path: Path, message: str, complaint: str) -> None:
    assert complaint in refused(tmp_path, message)
