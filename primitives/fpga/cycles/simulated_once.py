"""Results of simulations that depend on sizes alone: simulated once for each size, then kept on disk.

What is kept lies in `primitives.disk_cache` under a hash of the block's sources, of Amaranth's version, and of the
sizes: after a change of a source all is simulated again. The sources are found by their imports, so that none can be
forgotten.
"""

import ast
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache as remember
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from primitives import disk_cache

PACKAGE = "primitives.fpga"
_ROOT = Path(disk_cache.__file__).parents[1]


@remember
def sources_of(module: str) -> tuple[Path, ...]:
    """Return the files of `module` and of all modules of `primitives.fpga` that it needs, sorted; none is executed.

    Raises:
        ValueError: there is no such module.
    """
    first = _file_of(module)
    if first is None:
        raise ValueError(f"module: found {module!r}; allowed: a module of {PACKAGE}")
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += filter(None, map(_file_of, _imported(path)))
    return tuple(sorted(found))


def _file_of(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def _imported(path: Path) -> Iterable[str]:
    """Names that may be modules of `primitives.fpga`: of `from package import name`, both."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{PACKAGE}."):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@remember
def _rtl_key(module: str) -> str:
    return disk_cache.key(version("amaranth"), *(path.read_text() for path in sources_of(module)))


class SimulatedOnce:
    """What a block's simulation gave for each size.

    Args:
        module: of the simulated block, such as `primitives.fpga.gemm.timer`.
        simulate: from sizes that are not known yet, each once, to a result for each: whatever JSON can hold.
    """

    def __init__(self, module: str, simulate: Callable[[Sequence[Any]], Sequence[Any]]):
        self._module, self._simulate = module, simulate
        self._found: dict[str, Any] = {}

    def __call__(self, size: Any) -> Any:
        """Return the result for a size, simulated where it is not known.

        Args:
            size: whatever JSON can hold; with all that the result depends on.
        """
        self.simulate([size])
        return self._found[json.dumps(size)]

    def simulate(self, sizes: Iterable[Any]) -> None:
        """Simulate all sizes that are not known in one go."""
        new = {json.dumps(size): size for size in sizes if not self.is_known(size)}
        if not new:
            return
        for text, result in zip(new, self._simulate(list(new.values())), strict=True):
            path = disk_cache.made(self._name(text), partial(_write, text=json.dumps(result)))
            self._found[text] = json.loads(path.read_text())

    def is_known(self, size: Any) -> bool:
        """Whether the result for a size needs no simulation any more."""
        text = json.dumps(size)
        if text not in self._found:
            path = disk_cache.folder() / self._name(text)
            if not path.exists():
                return False
            self._found[text] = json.loads(path.read_text())
        return True

    def _name(self, text: str) -> str:
        return f"cycles/{disk_cache.key(_rtl_key(self._module), text)}.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text)
