"""Finds the papers and their claims: a paper is a folder of this package, a claim a class in one of its modules.

The folder's `__init__.py` defines the paper (`PAPER`), and its modules the claims, which are the statements to check.
Neither is listed anywhere, and no other file imports the folders.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from placerl.harness.papers.base import Claim

_instances: dict[type[Claim], Claim] = {}


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
    """Return the folders of all papers, which are the packages in this one, sorted by name."""
    roots = map(Path, sys.modules[__package__].__path__)
    return sorted(
        (path.parent for root in roots for path in root.glob("*/__init__.py")), key=lambda f: f.name
    )


def packages() -> list[ModuleType]:
    """Return the Python packages of the papers' folders, in the order in which a report lists the papers.

    Raises:
        TypeError: a folder's `__init__.py` has no `PAPER`.
    """
    imported = [importlib.import_module(f"{__package__}.{folder.name}") for folder in folders()]
    for package in imported:
        if not isinstance(getattr(package, "PAPER", None), Paper):
            raise TypeError(f"{package.__file__}: PAPER: found none; allowed: a {Paper.__qualname__}")
    return sorted(imported, key=lambda package: (package.PAPER.position, package.PAPER.key))


def papers() -> list[Paper]:
    """Return the description of every paper, in the order in which a report lists them."""
    return [package.PAPER for package in packages()]


def modules() -> Iterator[ModuleType]:
    """Yield every Python module in the papers' folders, paper by paper, sorted by name within a paper."""
    for package in packages():
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            yield importlib.import_module(f"{package.__name__}.{info.name}")


def claims() -> list[Claim]:
    """Return every claim, paper by paper in the order of a report: the classes that the papers' modules define."""
    order = [paper.key for paper in papers()]
    kinds = {kind for module in modules() for kind in vars(module).values() if _is_claim(kind)}
    every = [_instances.setdefault(kind, kind()) for kind in kinds]
    return sorted(every, key=lambda claim: (order.index(claim.paper), claim.position))


def _is_claim(kind: object) -> TypeGuard[type[Claim]]:
    """Return whether a name of a module is a claim, and not what several claims share."""
    return isinstance(kind, type) and issubclass(kind, Claim) and "key" in vars(kind)
