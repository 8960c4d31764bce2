"""Finds the sources that a hardware block is made of, and hashes what they say.

The sources are found through their imports, so that none can be forgotten. Comments, docstrings and layout do not
count: a hash changes with the code alone. No module is executed.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache as remember
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache

PACKAGE = "placerl.primitives.fpga"
DRIVERS = ("placerl.primitives.sum_tree.fpga_tree",)
"""Further modules that simulate blocks and read results."""
KEEPERS = ("sources", "table", "timed_block")
"""Modules of `cycles` that keep results."""
_ROOT = Path(disk_cache.__file__).parents[2]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def design_key(module: str) -> str:
    """Return a hash of the code of a block and of all modules of `primitives.fpga` that it needs.

    Args:
        module: the block's module.

    Raises:
        ValueError: there is no such module.
    """
    return _key(sources_of(module))


@remember
def reading_key(function_file: str) -> str:
    """Return a hash of the code that simulates a block and reads the result.

    Args:
        function_file: path of the file of the simulating function.
    """
    return _key(tuple(sorted(_interpreting(Path(function_file)))))


@remember
def _key(paths: tuple[Path, ...]) -> str:
    return disk_cache.key(*(_code(path) for path in paths))


@remember
def _code(path: Path) -> str:
    return repr(_as_tuples(_tree(path)))


def _as_tuples(node: Any) -> Any:
    """Return a syntax tree as nested tuples, without docstrings; the same for every version of Python."""
    if isinstance(node, list):
        return tuple(map(_as_tuples, node))
    if not isinstance(node, ast.AST):
        return node
    fields = {name: value for name, value in ast.iter_fields(node) if value is not None and value != []}
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = fields["body"][1:]
    return type(node).__name__, *((name, _as_tuples(value)) for name, value in fields.items())


@remember
def sources_of(module: str) -> tuple[Path, ...]:
    """Return the files of `module` and of all modules of `primitives.fpga` that it needs, sorted; none is executed.

    Raises:
        ValueError: there is no such module.
    """
    first = _file_of(module)
    if first is None:
        raise ValueError(f"module: found {module!r}; allowed: a module of {PACKAGE}")
    return tuple(sorted(_closure([first])))


def _closure(waiting: list[Path]) -> set[Path]:
    closure: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in closure:
            closure.add(path)
            waiting += _needed(path)
    return closure


@remember
def _needed(path: Path) -> tuple[Path, ...]:
    """Return the files of the modules that a file imports, anywhere in it."""
    return tuple(filter(None, map(_file_of, _imported(ast.walk(_tree(path)), path))))


@remember
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _file_of(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def _imported(nodes: Iterable[ast.AST], path: Path) -> Iterator[str]:
    """Yield names that may be modules of `primitives.fpga`: for `from package import name`, both parts."""
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [*_package(path, node.level), node.module]))
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        yield from (
            name for name in names if f"{name}.".startswith(f"{PACKAGE}.") or name.startswith(DRIVERS)
        )


def _package(path: Path, level: int) -> Sequence[str]:
    """Return the package that an import with that many leading dots starts from; empty without dots."""
    if not level or not path.is_relative_to(_ROOT):
        return ()
    return path.relative_to(_ROOT).parts[:-level]


def _interpreting(path: Path) -> set[Path]:
    """Return the file of a simulating function, and the files that it imports for all of its functions.

    Imports within a function are left out: they are blocks, which only that function uses. So is the code that keeps
    results and reads none.
    """
    waiting = map(_file_of, _imported(_tree(path).body, path))
    files = {path} | _closure([*filter(None, waiting), *sources_of(f"{PACKAGE}.simulation")])
    return files - set(map(_file_of, (f"{PACKAGE}.cycles.{name}" for name in KEEPERS)))
