"""Finds the papers: each is a folder of this package with a `claims.py`.

The folder's `__init__.py` defines the paper (`PAPER`), its `claims.py` lists the claims, which are the statements to
check (`CLAIMS`), and each module may define more, such as what must be measured (`cells(tier)`). The folders are not
listed anywhere, and no other file imports them.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Paper:
    """The description of a paper, which its folder defines.

    Attributes:
        key: prefix of the keys of its claims, such as "MAP".
        title: title for readers, with the place of publication.
        position: position among the papers of a report; papers without one follow, sorted by key.
    """

    key: str
    title: str
    position: int = sys.maxsize


def folders() -> list[Path]:
    """Return the folders of all papers, those of this package with a `claims.py`, sorted by name."""
    roots = map(Path, sys.modules[__package__].__path__)
    return sorted((path.parent for root in roots for path in root.glob("*/claims.py")), key=lambda f: f.name)


def packages() -> list[ModuleType]:
    """Return the Python packages of the papers' folders, in the order in which a report lists the papers.

    Raises:
        TypeError: a folder's `__init__.py` has no `PAPER`.
    """
    found = [importlib.import_module(f"{__package__}.{folder.name}") for folder in folders()]
    for package in found:
        if not isinstance(getattr(package, "PAPER", None), Paper):
            raise TypeError(f"{package.__file__}: PAPER: found none; allowed: a {Paper.__qualname__}")
    return sorted(found, key=lambda package: (package.PAPER.position, package.PAPER.key))


def papers() -> list[Paper]:
    """Return the description of every paper, in the order in which a report lists them."""
    return [package.PAPER for package in packages()]


def modules() -> Iterator[ModuleType]:
    """Yield every Python module in the papers' folders, paper by paper, sorted by name within a paper."""
    for package in packages():
        for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            yield importlib.import_module(f"{package.__name__}.{found.name}")


def functions(name: str) -> Iterator[Callable[..., Any]]:
    """Yield the functions with a given name that the modules of the papers' folders define, paper by paper.

    Args:
        name: name of the functions, such as "cells". A module that only imports such a function is skipped.

    Raises:
        TypeError: something else has this name, such as a `partial` or a class; the message names the file.
    """
    for module in modules():
        found = vars(module).get(name)
        if found is None:
            continue
        if not isinstance(found, FunctionType):
            kind = type(found).__qualname__
            raise TypeError(
                f"{module.__file__}: {name}: found a {kind}; allowed: a function (def {name}(...))"
            )
        if found.__module__ == module.__name__:
            yield found


def tuples(name: str, of: type[T]) -> Iterator[tuple[T, ...]]:
    """Yield the tuples with a given name that the modules of the papers' folders define, paper by paper.

    Args:
        name: name of the tuples, such as "COUNTERPARTS".
        of: class that every element of such a tuple has.

    Raises:
        TypeError: something else has this name; the message names the file.
    """
    for module in modules():
        found = vars(module).get(name, ())
        if not isinstance(found, tuple) or not all(isinstance(one, of) for one in found):
            raise TypeError(
                f"{module.__file__}: {name}: found {found!r}; allowed: a tuple of {of.__qualname__}"
            )
        if found:
            yield found
