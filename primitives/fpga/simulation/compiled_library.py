"""Simulates a design that Verilator built, called through ctypes: a whole run per call, up to 2 million cycles/s."""

import ctypes
import weakref
from functools import cache as remember
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.simulation import verilator_build
from placerl.primitives.fpga.simulation.base import (
    Feed,
    RawRun,
    Simulation,
    SimulationStalledError,
    StreamGroup,
    StreamRuleError,
    broken_rule,
)
from placerl.primitives.fpga.simulation.ports import ports_of

_words_p = ctypes.POINTER(ctypes.c_uint32)
_int64_p = ctypes.POINTER(ctypes.c_int64)
_uint8_p = ctypes.POINTER(ctypes.c_uint8)
WITHDRAWN = 1  # of harness.cpp


class _Source(ctypes.Structure):
    """`Source` of harness.cpp."""

    _fields_ = (
        ("port", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("words_per_item", ctypes.c_int64),
        ("words", _words_p),
        ("gaps", _int64_p),
        ("cycles", _int64_p),
    )


class _Group(ctypes.Structure):
    """`StreamGroup` of harness.cpp."""

    _fields_ = (("wanted", ctypes.c_int64), ("delivered", ctypes.c_int64))


class _Sink(ctypes.Structure):
    """`Sink` of harness.cpp."""

    _fields_ = (
        ("port", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("delivered", ctypes.c_int64),
        ("words_per_item", ctypes.c_int64),
        ("words", _words_p),
        ("ready", _uint8_p),
        ("period", ctypes.c_int64),
        ("cycles", _int64_p),
        ("broken", ctypes.c_int64),
    )


@remember
def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.placerl_create.restype = ctypes.c_void_p
    library.placerl_destroy.argtypes = [ctypes.c_void_p]
    library.placerl_write.argtypes = [ctypes.c_void_p, ctypes.c_int, _words_p]
    library.placerl_read.argtypes = [ctypes.c_void_p, ctypes.c_int, _words_p]
    library.placerl_step.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.placerl_run.restype = ctypes.c_int64
    library.placerl_run.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(_Source),
        ctypes.c_int,
        ctypes.POINTER(_Sink),
        ctypes.c_int,
        ctypes.POINTER(_Group),
        ctypes.c_int,
        ctypes.c_int64,
    ]
    return library


class Library:
    """A design built by Verilator, from which simulations start at once; several may exist at the same time.

    Args:
        design: an Amaranth component that has not been elaborated.
    """

    def __init__(self, design: Any) -> None:
        self.ports = ports_of(design)
        self.entry_points = _load(verilator_build.library(design))

    def start(self) -> "CompiledSimulation":
        """Return a simulation of the design, after a reset."""
        return CompiledSimulation(self)


class CompiledSimulation(Simulation):
    """A simulation of a design in a library that Verilator built."""

    def __init__(self, library: Library) -> None:
        super().__init__(library.ports)
        self._numbers = verilator_build.port_numbers(self.ports)
        self._library = library.entry_points
        self._model = ctypes.c_void_p(self._library.placerl_create())
        weakref.finalize(self, self._library.placerl_destroy, self._model)

    def step(self, cycles: int = 1) -> None:
        self._library.placerl_step(self._model, cycles)

    def _write(self, name: str, words: NDArray[np.uint32]) -> None:
        self._library.placerl_write(self._model, self._numbers[name], _pointer(words, _words_p))

    def _read(self, name: str) -> NDArray[np.uint32]:
        words = np.zeros(max(2, self.ports[name].word_count), np.uint32)
        self._library.placerl_read(self._model, self._numbers[name], _pointer(words, _words_p))
        return words

    def _run(
        self,
        feeds: dict[str, Feed],
        groups: list[StreamGroup],
        ready: dict[str, NDArray[np.uint8]],
        limit_cycles: int,
    ) -> RawRun:
        group_of = {name: number for number, group in enumerate(groups) for name in group.names}
        room = {name: groups[number].count for name, number in group_of.items()}
        taken = {name: np.zeros(len(feed.words), np.int64) for name, feed in feeds.items()}
        delivered = {name: np.zeros(count, np.int64) for name, count in room.items()}
        words = {
            name: np.zeros((count, self.ports[name].word_count), np.uint32) for name, count in room.items()
        }
        sources = (_Source * len(feeds))(
            *(
                _Source(
                    port=self._numbers[name],
                    count=len(feed.words),
                    words_per_item=feed.words.shape[1],
                    words=_pointer(feed.words, _words_p),
                    gaps=_pointer(feed.gaps, _int64_p),
                    cycles=_pointer(taken[name], _int64_p),
                )
                for name, feed in feeds.items()
            )
        )
        sinks = (_Sink * len(room))(
            *(
                _Sink(
                    port=self._numbers[name],
                    group=group_of[name],
                    words_per_item=self.ports[name].word_count,
                    words=_pointer(words[name], _words_p),
                    ready=_pointer(ready[name], _uint8_p),
                    period=len(ready[name]),
                    cycles=_pointer(delivered[name], _int64_p),
                )
                for name in room
            )
        )
        wanted = (_Group * len(groups))(*(_Group(wanted=group.count) for group in groups))
        cycles = self._library.placerl_run(
            self._model, sources, len(sources), sinks, len(sinks), wanted, len(wanted), limit_cycles
        )
        for name, sink in zip(room, sinks, strict=True):
            if sink.broken:
                raise StreamRuleError(broken_rule(name, cycles - 1, withdrawn=sink.broken == WITHDRAWN))
        if any(s.taken < s.count for s in sources) or any(g.delivered < g.wanted for g in wanted):
            progress = {name: (s.taken, s.count) for name, s in zip(feeds, sources, strict=True)}
            done = {group.names: (g.delivered, g.wanted) for group, g in zip(groups, wanted, strict=True)}
            raise SimulationStalledError(
                f"after {limit_cycles} cycles, transfers done and wanted: {progress}, {done}"
            )
        counts = {name: sink.delivered for name, sink in zip(room, sinks, strict=True)}
        return RawRun(
            {name: words[name][:count] for name, count in counts.items()},
            taken,
            {name: delivered[name][:count] for name, count in counts.items()},
            int(cycles),
        )


def _pointer(array: NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(kind)
