"""Gives the clock cycles of hardware blocks whose cycles depend on the design and the call's size alone.

They come from the committed table (`cycles.table`), so that measurements of the tiers simulate nothing. What the table
lacks (a size that no tier asks for, a design whose code has changed) is simulated where the tools are, once for each
size, and kept in `primitives.disk_cache`; a line in the log says so. With `PLACERL_SIMULATE=1` everything is simulated,
with 0 nothing.
"""

import inspect
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache
from placerl.primitives.fpga.cycles import sources
from placerl.primitives.fpga.cycles.table import DesignKey, committed, design_text, size_text
from placerl.primitives.fpga.export import toolchain

SIMULATE_VARIABLE = "PLACERL_SIMULATE"
WAY_OUT = f"`placerl cycles` adds what the tiers need; with {SIMULATE_VARIABLE}=1 any command simulates what it needs"
_log = logging.getLogger(__name__)


class MissingCyclesError(RuntimeError):
    """The table of cycles lacks a design or a size, and nothing is simulated."""


def simulating() -> bool:
    """Return whether all cycles are simulated, and none taken from the table: the variable is set, and not to 0."""
    return os.environ.get(SIMULATE_VARIABLE, "0") not in ("", "0")


def may_simulate() -> bool:
    """Return whether what the table lacks is simulated: the variable is not 0, and the tools are installed."""
    return os.environ.get(SIMULATE_VARIABLE) != "0" and not toolchain.unavailable_reason()


def unavailable_reason() -> str:
    """Return why no cycles can be had on this machine; empty if they can.

    From the table they need the package that describes the designs, and to simulate them all tools.
    """
    return toolchain.unavailable_reason() if simulating() else toolchain.missing(toolchain.DESCRIBES)


class Wanted:
    """The results that were asked for while `recorded`, by block, design and size.

    Attributes:
        sizes: for each block and the text of its parameters, the parameters, and the sizes by their text.
    """

    def __init__(self) -> None:
        self.sizes: dict[tuple[TimedBlock, str], tuple[list[Any], dict[str, Any]]] = {}

    def add(self, block: "TimedBlock", parameters: Sequence[Any], sizes: Sequence[Any]) -> None:
        """Note that results were asked for."""
        key = block, block.design(parameters)
        _, known = self.sizes.setdefault(key, (list(parameters), {}))
        known.update({size_text(size): size for size in sizes})


_wanted: Wanted | None = None


@contextmanager
def recorded() -> Iterator[Wanted]:
    """Let blocks note what they are asked for; what the table lacks they answer by an example of a result."""
    global _wanted
    before, _wanted = _wanted, Wanted()
    try:
        yield _wanted
    finally:
        _wanted = before


class TimedBlock:
    """A hardware block whose cycles depend on its parameters and on the size of a call alone.

    Args:
        name: its name in the table.
        module: module of the simulated block, such as `placerl.primitives.fpga.gemm.timer`.
        build: returns the design with given parameters, not elaborated.
        simulate: called with a function that starts a simulation of the design, the parameters, and new sizes; returns
            their results, which JSON can hold. Its file counts as the code that reads results.
        example: returns a result for a size like those of a simulation, for lists of what is asked for.
    """

    def __init__(
        self,
        name: str,
        module: str,
        build: Callable[..., Any],
        simulate: Callable[[Callable[[], Any], Sequence[Any], Sequence[Any]], Sequence[Any]],
        example: Callable[[Any], Any] = lambda size: 1,
    ) -> None:
        self.name, self.example = name, example
        self._module, self._build, self._simulate = module, build, simulate
        self._recorded: dict[tuple[str, str], Any] = {}
        self._libraries: dict[str, Any] = {}
        self._said: set[str] = set()

    def __call__(self, parameters: Sequence[Any], size: Any) -> Any:
        """Return the result for a size of the call.

        Args:
            parameters: the design's parameters, as JSON can hold them.
            size: anything that JSON can hold; must include everything that the result depends on.

        Raises:
            MissingCyclesError: the table lacks the design or the size, and it cannot be simulated here.
        """
        return self.results(parameters, [size])[0]

    def results(self, parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        """Return the results for several sizes, of which new ones are simulated in one call, if any are.

        Args:
            parameters, sizes: as when this object is called.

        Raises:
            MissingCyclesError: the table lacks the design or a size, and it cannot be simulated here.
        """
        if _wanted is not None:
            _wanted.add(self, parameters, sizes)
            lacking = set(self.lacking(parameters, sizes))
            known = iter(self._known(parameters, [size for size in sizes if size_text(size) not in lacking]))
            return [self.example(size) if size_text(size) in lacking else next(known) for size in sizes]
        if simulating():
            return self.simulated_once(parameters, sizes)
        if lacking_now := self.lacking(parameters, sizes):
            return self._simulated_too(parameters, sizes, lacking_now)
        return self._known(parameters, sizes)

    def _simulated_too(
        self, parameters: Sequence[Any], sizes: Sequence[Any], lacking: Sequence[str]
    ) -> list[Any]:
        """Return the results for sizes of which the table lacks some, or raise MissingCyclesError."""
        design = self.design(parameters)
        if not may_simulate():
            self.require(parameters)
            raise MissingCyclesError(
                f"{design}: found no cycles of {lacking[0]} in the table; allowed: {WAY_OUT}"
            )
        if design not in self._said:
            self._said.add(design)
            _log.warning("%s: the table of cycles lacks %s; it is simulated here once", design, lacking[0])
        return self.simulated_once(parameters, sizes)

    def _known(self, parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        results = committed().of(self.design(parameters), map(size_text, sizes))
        assert results is not None
        return results

    def lacking(self, parameters: Sequence[Any], sizes: Sequence[Any]) -> list[str]:
        """Return the texts of the sizes that the table lacks: all if the design has changed or is not in it."""
        texts = [size_text(size) for size in sizes]
        if not self.is_current(parameters):
            return texts
        return [text for text in texts if committed().of(self.design(parameters), [text]) is None]

    def design(self, parameters: Sequence[Any]) -> str:
        """Return the text of a design, by which the table has it."""
        return design_text(self.name, list(parameters))

    def is_current(self, parameters: Sequence[Any]) -> bool:
        """Return whether the table has the design as its code is now."""
        key = committed().designs.get(self.design(parameters))
        return key is not None and (key.sources, key.reading) == self.code()

    def code(self) -> tuple[str, str]:
        """Return the hashes of the code that the block is made of, and of that which simulates it."""
        return sources.design_key(self._module), sources.reading_key(inspect.getfile(self._simulate))

    def key(self, parameters: Sequence[Any]) -> DesignKey:
        """Return the key of a design as it is now; its Verilog is made for that, which takes seconds."""
        from placerl.primitives.fpga.export import verilog

        text = verilog.export(self._build(*parameters), reset=False)
        return DesignKey(disk_cache.key(text), *self.code())

    def require(self, parameters: Sequence[Any]) -> None:
        """Raise MissingCyclesError if the table lacks the design as its code is now."""
        if not self.is_current(parameters):
            found = "another" if self.design(parameters) in committed().designs else "no"
            raise MissingCyclesError(
                f"{self.design(parameters)}: found {found} design of this name in the table of cycles; "
                f"allowed: {WAY_OUT}"
            )

    def simulated(self, parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        """Simulate sizes, whatever is known of them, and return their results.

        Args:
            parameters, sizes: as of `results`.
        """
        return list(self._simulate(lambda: self._library(parameters).start(), parameters, sizes))

    def _library(self, parameters: Sequence[Any]) -> Any:
        from placerl.primitives.fpga import simulation

        name = self.design(parameters)
        if name not in self._libraries:
            self._libraries[name] = simulation.built(self._build(*parameters))
        return self._libraries[name]

    def simulated_once(self, parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        """Return the results of sizes, of which those that no earlier simulation gave are simulated in one call.

        Args:
            parameters, sizes: as of `results`.
        """
        texts = [size_text(size) for size in sizes]
        new = {
            text: size for text, size in zip(texts, sizes, strict=True) if not self._is_kept(parameters, text)
        }
        if new:
            for text, result in zip(new, self.simulated(parameters, list(new.values())), strict=True):
                path = disk_cache.made(self._file(parameters, text), partial(_write, result=result))
                self._recorded[self.design(parameters), text] = json.loads(path.read_text())
        return [self._recorded[self.design(parameters), text] for text in texts]

    def _is_kept(self, parameters: Sequence[Any], text: str) -> bool:
        key = self.design(parameters), text
        if key not in self._recorded:
            path = disk_cache.folder() / self._file(parameters, text)
            if not path.exists():
                return False
            self._recorded[key] = json.loads(path.read_text())
        return True

    def _file(self, parameters: Sequence[Any], text: str) -> str:
        name = disk_cache.key(self.design(parameters), text, *self.code(), version("amaranth"))
        return f"cycles/{name}.json"


def _write(path: Path, result: Any) -> None:
    path.write_text(json.dumps(result))
