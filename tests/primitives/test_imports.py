"""Modules of `primitives` import each other in one direction, inside functions too."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import primitives

ROOT = Path(primitives.__path__[0])


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file names in its imports; of `from package import module`, the module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names.update(inner & known.keys())
            if inner - known.keys():
                names.add(node.module)
    return names & known.keys()


def test_modules_import_each_other_in_one_direction() -> None:
    known = modules()
    arrows = {name: imported(path, known) - {name} for name, path in known.items()}
    assert "primitives.learner.native.learner" in arrows["primitives.learner.native.native_backend"]
    tuple(TopologicalSorter(arrows).static_order())  # CycleError names the circle
