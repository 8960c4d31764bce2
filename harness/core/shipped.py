"""Finds files that the code needs but that are no modules of it: the papers' numbers, the committed reference runs and
the baselines' workers.

In a working copy these files lie next to the packages. A wheel contains them in `harness/_shipped`, as the overrides
of scikit-build in `pyproject.toml` say.
"""

from pathlib import Path

_IN_WHEEL = Path(__file__).resolve().parents[1] / "_shipped"

INSTALLED = _IN_WHEEL.is_dir()
"""Whether the code was installed from a wheel; otherwise it runs in a working copy."""


def shipped(*parts: str) -> Path:
    """Return the path of a file or folder, in a working copy or in an installed wheel.

    Args:
        parts: the parts of its path from the top of a working copy, such as `"results", "papers"`.
    """
    return (_IN_WHEEL if INSTALLED else _IN_WHEEL.parents[1]).joinpath(*parts)
