"""Refuse a commit message whose subject is missing or too long, or runs into its body.

python .ci/commit_subject.py .git/COMMIT_EDITMSG    # as a commit-msg hook: exits 1 with what is wrong
"""

import re
import sys
from pathlib import Path

LIMIT = 72


def complaint(message: str) -> str:
    """Return what is wrong with a commit message; empty where nothing is.

    Args:
        message: as Git hands it to the hook; lines that begin with "#" are comments.
    """
    message = re.split(r"^# -+ >8 -+$", message, maxsplit=1, flags=re.M)[
        0
    ]  # `git commit -v` puts the change below
    subject, *rest = [line for line in message.splitlines() if not line.startswith("#")] or [""]
    if not subject.strip():
        return f"commit message: found no subject in its first line; allowed: 1 to {LIMIT} characters"
    if len(subject) > LIMIT:
        return f"commit message: found a subject of {len(subject)} characters; allowed: 1 to {LIMIT}"
    if rest and rest[0].strip():
        return f"commit message: found {rest[0]!r} right after the subject; allowed: an empty line"
    return ""


if __name__ == "__main__":
    sys.exit(complaint(Path(sys.argv[1]).read_text(encoding="utf-8")) or None)
