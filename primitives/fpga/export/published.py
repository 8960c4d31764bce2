"""Prepares exported Verilog for users, who read, lint and simulate it with tools of their own.

`verilog.export` leaves both changes out: nothing that the project itself runs needs them, and committed counts of cells
are kept by a hash of that text.
"""

import re

from placerl.primitives.fpga.export.ram_verilog import with_zeroed_memories

_NO_BIT = re.compile(r"^ *(?:wire|reg) \[-1:0\] [^;=]*;\n", re.MULTILINE)


def published(text: str) -> str:
    """Return an exported text as users get it.

    Memories are 0 at first in every simulator, as on a device (`with_zeroed_memories`). Signals of no bits, written
    [-1:0], are left out: Amaranth's FIFO of two words declares some for its addresses, and uses none.
    """
    return with_zeroed_memories(_NO_BIT.sub("", text))
