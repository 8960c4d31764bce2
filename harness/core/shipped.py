"""Files that belong to the code but are not modules of it: the papers' numbers and the baselines' workers.

In a working copy they lie next to the packages; a wheel carries them in `harness/_shipped` (`CMakeLists.txt`).
"""

from pathlib import Path

_IN_WHEEL = Path(__file__).resolve().parents[1] / "_shipped"

INSTALLED = _IN_WHEEL.is_dir()
"""Whether the code runs from a wheel, and not from a working copy."""


def shipped(*parts: str) -> Path:
    """Return the path of a file or folder by its name in the working copy, such as `("results", "papers")`."""
    return (_IN_WHEEL if INSTALLED else _IN_WHEEL.parents[1]).joinpath(*parts)
