"""Names of what the project ships, as a Tab press completes them: read from files, without importing what they name.

Importing a workload's, a mapping's or a claim's own module takes up to seconds; a Tab press must not.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_HARNESS = Path(__file__).parents[1]
_PRIMITIVES = _HARNESS.parent / "primitives"
_BACKEND = "_backend"

THIS_MACHINE = "this-machine"
TIERS = ("quick", "standard", "full")
OTHER_PRECISIONS = ("fixed32", "fixed16", "dynamic", "bfloat16")
"""Precisions of a learner other than float32."""
_NOT_MODELLED = frozenset({"fixar21", "pearl24-authors", "pearl24-discrete", "pearl24-integrated"})
"""Shipped platforms that state too few numbers to be modelled, so that `placerl map` does not take them."""
_COMPARED_ONLY = frozenset({"binary", "reference"})
"""Backends that exist only to be compared with."""


def completed(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function for Typer's `autocompletion`, which returns the names that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def workloads() -> list[str]:
    """Return the names of the shipped workloads."""
    return _stems(_HARNESS / "workloads", "*.toml")


def platforms() -> list[str]:
    """Return the names of the platforms that `placerl map` takes, this machine first."""
    return [THIS_MACHINE, *(n for n in _stems(_HARNESS / "platforms", "*.toml") if n not in _NOT_MODELLED)]


def mappings() -> Iterator[str]:
    """Yield mappings of all backends, each with every storage on the host or on a device that it uses."""
    managers = _backends("sum_tree")
    stores = _backends("replay/device")
    for learner in _backends("learner"):
        for manager in managers:
            for storage in ("cpu", *(one for one in stores if one in (learner, manager))):
                yield f"{learner}-{manager}-{storage}"


def claims() -> list[str]:
    """Return the keys of the papers' claims, such as FIX-F7, sorted."""
    sources = (path.read_text(encoding="utf-8") for path in (_HARNESS / "papers").glob("*/*.py"))
    return sorted(key for text in sources for key in re.findall(r'(?m)^    key(?:, \w+)* = "([^"]+)"', text))


def blocks() -> list[str]:
    """Return the names of the hardware blocks that `placerl rtl` exports."""
    text = (_PRIMITIVES / "fpga" / "tools" / "blocks.py").read_text(encoding="utf-8")
    return re.findall(r'(?m)^        Block\(\s*"([^"]+)"', text)


def _stems(folder: Path, pattern: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(pattern))


def _backends(primitive: str) -> list[str]:
    stems = _stems(_PRIMITIVES / primitive, f"**/*{_BACKEND}.py")
    return sorted({stem.removesuffix(_BACKEND) for stem in stems} - _COMPARED_ONLY)
