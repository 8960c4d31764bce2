"""The papers, each a folder that is found by its name.

A folder of this package that holds a `claims.py` is a paper. The folder's `__init__.py` says which one (`PAPER`), its
`claims.py` lists the claims (`CLAIMS`), and every module of it may state more, such as what must be measured
(`cells(tier)`). No list names the folders, and no other file imports them.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Paper:
    """Which paper a folder is about.

    Attributes:
        key: what the keys of its claims begin with, such as "MAP".
        title: for a reader, with where it was published.
        position: among the papers of a report; papers without one follow, by their keys.
    """

    key: str
    title: str
    position: int = sys.maxsize


def folders() -> list[Path]:
    """Return the papers' folders, wherever on the package's path they lie, by name."""
    roots = map(Path, sys.modules[__package__].__path__)
    return sorted((path.parent for root in roots for path in root.glob("*/claims.py")), key=lambda f: f.name)


def packages() -> list[ModuleType]:
    """Return the papers' packages, in the order of their positions.

    Raises:
        TypeError: a folder's `__init__.py` has no `PAPER`.
    """
    found = [importlib.import_module(f"{__package__}.{folder.name}") for folder in folders()]
    for package in found:
        if not isinstance(getattr(package, "PAPER", None), Paper):
            raise TypeError(f"{package.__file__}: PAPER: found none; allowed: a {Paper.__qualname__}")
    return sorted(found, key=lambda package: (package.PAPER.position, package.PAPER.key))


def papers() -> list[Paper]:
    """Return every paper, in the order of their positions."""
    return [package.PAPER for package in packages()]


def functions(name: str) -> Iterator[Callable[..., Any]]:
    """Yield the functions of a name that the modules of the papers' folders define: paper by paper, module by module.

    Args:
        name: such as "cells". A module that only imports such a function does not count.
    """
    for package in packages():
        for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            function = vars(module).get(name)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function
