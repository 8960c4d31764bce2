"""Modules of a Verilog text as Yosys writes it: merges those that are the same but for their names, counts uses.

Amaranth writes a module for every instance: a 16 x 16 array has 256 of its element. One module that is instantiated
256 times reads better, and takes Verilator and the C++ compiler seconds instead of minutes.
"""

import re
from collections import Counter
from collections.abc import Container

MERGED = "merged 1"  # a part of cache keys: changes with what `merged` makes
_MODULE = re.compile(r"^(?:\(\*.*?\*\)\n)*module (\\\S+|\w+)(.*?^endmodule\n)", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\\\S+|\w+)( +(?:\\\S+|\w+) +\()$", re.MULTILINE)
_COUNTER = re.compile(r"\\\$auto\$\S+")  # Yosys numbers these names through the whole text


def merged(text: str) -> str:
    """`text`, as Yosys writes it, with each module once; the first of a name's likes stays."""
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
    """How often each module is written down as an instance, by its name; of modules without parameters.

    Args:
        text: the Verilog.
        within: count in the module of this name alone.
    """
    bodies = {module.group(1): module.group(2) for module in _MODULE.finditer(text)}
    names = set(bodies)
    found = (instance.group(1) for instance in _INSTANCE.finditer(bodies[within] if within else text))
    return Counter(name for name in found if name in names)


def marked(text: str, names: Container[str]) -> str:
    """`text`, with the attribute `keep_hierarchy` before the modules of these names."""
    return re.sub(
        r"^module (\\\S+|\w+)",
        lambda found: (
            f"(* keep_hierarchy *)\n{found.group(0)}" if found.group(1) in names else found.group(0)
        ),
        text,
        flags=re.MULTILINE,
    )
