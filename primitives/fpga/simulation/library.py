"""A design built by Verilator and driven through ctypes: a whole batch in one call, up to 2 million cycles a second."""

import ctypes
import weakref
from functools import cache as remember
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from primitives.fpga.simulation import verilator_build
from primitives.fpga.simulation.base import Feed, RawRun, Simulation, SimulationStalledError

_words_p = ctypes.POINTER(ctypes.c_uint32)
_int64_p = ctypes.POINTER(ctypes.c_int64)
_uint8_p = ctypes.POINTER(ctypes.c_uint8)


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


class _Sink(ctypes.Structure):
    """`Sink` of harness.cpp."""

    _fields_ = (
        ("port", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("delivered", ctypes.c_int64),
        ("words_per_item", ctypes.c_int64),
        ("words", _words_p),
        ("ready", _uint8_p),
        ("period", ctypes.c_int64),
        ("cycles", _int64_p),
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
        ctypes.c_int64,
    ]
    return library


class CompiledSimulation(Simulation):
    """A design in a library of its own; several may run at once, in one process or many."""

    def __init__(self, design: Any) -> None:
        super().__init__(design)
        self._numbers = verilator_build.port_numbers(self.ports)
        self._library = _load(verilator_build.library(design))
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
        expected: dict[str, int],
        ready: dict[str, NDArray[np.uint8]],
        limit_cycles: int,
    ) -> RawRun:
        taken = {name: np.zeros(len(feed.words), np.int64) for name, feed in feeds.items()}
        delivered = {name: np.zeros(count, np.int64) for name, count in expected.items()}
        words = {
            name: np.zeros((count, self.ports[name].word_count), np.uint32)
            for name, count in expected.items()
        }
        sources = (_Source * len(feeds))(
            *(
                _Source(
                    self._numbers[name],
                    *(len(feed.words), 0, feed.words.shape[1]),
                    *(_pointer(feed.words, _words_p), _pointer(feed.gaps, _int64_p)),
                    _pointer(taken[name], _int64_p),
                )
                for name, feed in feeds.items()
            )
        )
        sinks = (_Sink * len(expected))(
            *(
                _Sink(
                    self._numbers[name],
                    *(count, 0, self.ports[name].word_count),
                    *(_pointer(words[name], _words_p), _pointer(ready[name], _uint8_p), len(ready[name])),
                    _pointer(delivered[name], _int64_p),
                )
                for name, count in expected.items()
            )
        )
        cycles = self._library.placerl_run(
            self._model, sources, len(sources), sinks, len(sinks), limit_cycles
        )
        if any(s.taken < s.count for s in sources) or any(s.delivered < s.count for s in sinks):
            progress = {name: (s.taken, s.count) for name, s in zip(feeds, sources, strict=True)}
            progress |= {name: (s.delivered, s.count) for name, s in zip(expected, sinks, strict=True)}
            raise SimulationStalledError(
                f"after {limit_cycles} cycles, transfers done and wanted: {progress}"
            )
        return RawRun(words, taken, delivered, int(cycles))


def _pointer(array: NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(kind)
