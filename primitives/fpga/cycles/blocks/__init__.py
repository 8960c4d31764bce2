"""The hardware blocks whose cycles are in the table of cycles: one file each, found by its name.

A file `NAME.py` defines `BLOCK`, a `TimedBlock` called NAME. It imports the block itself inside functions: the table
gives cycles without the hardware.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

from placerl.primitives.fpga.cycles.table import committed, parsed
from placerl.primitives.fpga.cycles.timed_block import TimedBlock


@cache
def every_block() -> dict[str, TimedBlock]:
    """Return all blocks by their names, sorted."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    return {name: import_module(f"{__name__}.{name}").BLOCK for name in names}


def changed_designs() -> list[str]:
    """Return the designs of the table whose code has changed since their cycles were simulated."""
    every = every_block()
    changed = []
    for design in committed().designs:
        name, parameters = parsed(design)
        if name not in every or not every[name].is_current(parameters):
            changed.append(design)
    return changed
