"""Merges modules of Yosys' Verilog that are equal except for their names, and counts instances.

Amaranth writes a module for every instance: a 16 x 16 array has 256 copies of its element. With one module that is
instantiated 256 times, the text is shorter, and Verilator and the C++ compiler take seconds instead of minutes.
"""

import re
from collections import Counter
from collections.abc import Container

MERGED = "merged 1"  # a part of cache keys: must change when the result of `merged` does
_MODULE = re.compile(r"^(?:\(\*.*?\*\)\n)*module (\\\S+|\w+)(.*?^endmodule\n)", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\\\S+|\w+)( +(?:\\\S+|\w+) +\()$", re.MULTILINE)
_COUNTER = re.compile(r"\\\$auto\$\S+")  # Yosys numbers these names through the whole text


def merged(text: str) -> str:
    """Return the Verilog `text` of Yosys without repeated modules, which are equal except for their names.

    The first of equal modules remains, and instances of the others become instances of it.
    """
    while True:
        first: dict[str, str] = {}
        same = {}
        for module in _MODULE.finditer(text):
            name, body = module.group(1), _COUNTER.sub(r"\\$auto", module.group(2))
            if (kept := first.setdefault(body, name)) != name:
                same[name] = kept
        if not same:
            return text
        text = _MODULE.sub(lambda m, same=same: "" if m.group(1) in same else m.group(0), text)  # type: ignore[misc]
        text = _INSTANCE.sub(lambda m, same=same: f"  {same.get(m.group(1), m.group(1))}{m.group(2)}", text)  # type: ignore[misc]


def instance_counts(text: str, *, within: str = "") -> Counter[str]:
    """Return how often each module without parameters is instantiated in the text, by its name.

    Args:
        within: count only in the module with this name.
    """
    bodies = {module.group(1): module.group(2) for module in _MODULE.finditer(text)}
    names = set(bodies)
    found = (instance.group(1) for instance in _INSTANCE.finditer(bodies[within] if within else text))
    return Counter(name for name in found if name in names)


def marked(text: str, names: Container[str]) -> str:
    """Return `text` with the attribute `keep_hierarchy` before the modules with these names."""
    return re.sub(
        r"^module (\\\S+|\w+)",
        lambda found: (
            f"(* keep_hierarchy *)\n{found.group(0)}" if found.group(1) in names else found.group(0)
        ),
        text,
        flags=re.MULTILINE,
    )
