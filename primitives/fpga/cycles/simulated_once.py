"""Keeps the results of simulations that depend only on sizes: each size is simulated once, and its result kept on disk.

Results are stored in `primitives.disk_cache` under a hash of the hardware block's sources, of the code that simulates
it and reads the result, of Amaranth's version, and of the sizes: after a change of a source everything is simulated
again. The sources are found through their imports, so that none can be forgotten.
"""

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache as remember
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache

PACKAGE = "placerl.primitives.fpga"
_ROOT = Path(disk_cache.__file__).parents[2]


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
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            nodes = ast.walk(ast.parse(path.read_text()))
            waiting += filter(None, map(_file_of, _imported(nodes, path)))
    return found


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
        yield from (name for name in names if f"{name}.".startswith(f"{PACKAGE}."))


def _package(path: Path, level: int) -> Sequence[str]:
    """Return the package that an import with that many leading dots starts from; empty without dots."""
    if not level or not path.is_relative_to(_ROOT):
        return ()
    return path.relative_to(_ROOT).parts[:-level]


def _interpreting(path: Path) -> set[Path]:
    """Return the file of a simulating function, and the files that it imports for all of its functions.

    Imports within a function are left out: they are blocks, which only that function uses.
    """
    waiting = map(_file_of, _imported(ast.parse(path.read_text()).body, path))
    return {path} | _closure([*filter(None, waiting), *sources_of(f"{PACKAGE}.simulation")])


@remember
def _code_key(module: str, interpreting: str) -> str:
    """Return a hash of everything except the sizes.

    Args:
        module: module of the simulated block.
        interpreting: the file of the function that simulates it.
    """
    sources = sorted({*sources_of(module), *_interpreting(Path(interpreting))})
    return disk_cache.key(module, version("amaranth"), *(path.read_text() for path in sources))


class SimulatedOnce:
    """The results of a hardware block's simulation, by size.

    Args:
        module: module of the simulated block, such as `primitives.fpga.gemm.timer`.
        simulate: function or method that maps new sizes, each once, to results that JSON can hold. Its file is part
            of the key under which results are kept.
    """

    def __init__(self, module: str, simulate: Callable[[Sequence[Any]], Sequence[Any]]):
        self._module, self._simulate = module, simulate
        self._found: dict[str, Any] = {}

    def __call__(self, size: Any) -> Any:
        """Return the result for a size, which is simulated if it is not known yet.

        Args:
            size: anything that JSON can hold; must include everything that the result depends on.
        """
        self.simulate([size])
        return self._found[json.dumps(size)]

    def simulate(self, sizes: Iterable[Any]) -> None:
        """Simulate the sizes whose results are not known yet, all in one call, and keep the results.

        Args:
            sizes: sizes as JSON can hold them, such as lists of integers.
        """
        new = {json.dumps(size): size for size in sizes if not self.is_known(size)}
        if not new:
            return
        for text, result in zip(new, self._simulate(list(new.values())), strict=True):
            path = disk_cache.made(self._name(text), partial(_write, text=json.dumps(result)))
            self._found[text] = json.loads(path.read_text())

    def is_known(self, size: Any) -> bool:
        """Return whether the result for a size is already known, from this process or from the disk."""
        text = json.dumps(size)
        if text not in self._found:
            path = disk_cache.folder() / self._name(text)
            if not path.exists():
                return False
            self._found[text] = json.loads(path.read_text())
        return True

    def _name(self, text: str) -> str:
        return f"cycles/{disk_cache.key(_code_key(self._module, inspect.getfile(self._simulate)), text)}.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text)
