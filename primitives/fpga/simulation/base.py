"""The interface of a simulated design, which both simulators implement, and the result of a run."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.simulation.ports import Port, Values, pack, unpack

LIMIT_CYCLES = 100_000_000
"""Cycles after which a design counts as stalled, unless a caller expects it to take longer."""


class SimulationStalledError(RuntimeError):
    """A design did not deliver the expected outputs within the allowed cycles."""


class StreamRuleError(RuntimeError):
    """A design withdrew or changed an item of an output stream that was offered and not yet taken."""


def broken_rule(stream: str, cycle: int, *, withdrawn: bool) -> str:
    """Return the message of a `StreamRuleError`.

    Args:
        stream: name of the output stream.
        cycle: cycle of the run in which the item was no longer offered.
        withdrawn: whether it was withdrawn, rather than changed.
    """
    change = "withdrawn" if withdrawn else "changed"
    return f"{stream}: cycle {cycle}: found an item that was {change} before it was taken"


@dataclass(frozen=True)
class Feed:
    """The items for one input stream, as 32-bit words.

    Attributes:
        words: (N, words of an item) uint32.
        gaps: (N,) int64, the idle cycles before each item is offered.
    """

    words: NDArray[np.uint32]
    gaps: NDArray[np.int64]


@dataclass(frozen=True)
class StreamGroup:
    """Output streams that must together deliver a number of items in a run.

    Attributes:
        names: names of the streams.
        count: number of items.
    """

    names: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class RawRun:
    """The result of a simulator's run, with outputs that are still 32-bit words. Cycles count from 0 at its start.

    Attributes:
        outputs: for each output stream its items, (N, words of an item) uint32.
        input_cycles: for each input stream the (N,) int64 cycle in which each item was taken.
        output_cycles: for each output stream the (N,) int64 cycle in which each item was delivered.
        cycles: clock cycles from the start to the end of the last transfer.
    """

    outputs: dict[str, NDArray[np.uint32]]
    input_cycles: dict[str, NDArray[np.int64]]
    output_cycles: dict[str, NDArray[np.int64]]
    cycles: int


@dataclass(frozen=True)
class SimulatedRun:
    """The result of one `Simulation.run`. Cycles count from 0 at its start.

    Attributes:
        outputs: for each output stream its values, as `simulation.ports` describes them.
        input_cycles: for each input stream the (N,) int64 cycle in which each item was taken.
        output_cycles: for each output stream the (N,) int64 cycle in which each item was delivered.
        cycles: clock cycles from the start to the end of the last transfer.
    """

    outputs: dict[str, Values]
    input_cycles: dict[str, NDArray[np.int64]]
    output_cycles: dict[str, NDArray[np.int64]]
    cycles: int


class Simulation(ABC):
    """A simulation of a design, which begins after a reset. The state is kept from one `run` to the next."""

    def __init__(self, ports: dict[str, Port]) -> None:
        self.ports = ports

    def run(
        self,
        inputs: Mapping[str, Values],
        expected: Mapping[str | tuple[str, ...], int],
        *,
        gaps: Mapping[str, Sequence[int]] | None = None,
        ready: Mapping[str, Sequence[bool]] | None = None,
        limit_cycles: int = LIMIT_CYCLES,
    ) -> SimulatedRun:
        """Run the clock until the design has taken all inputs and has delivered all expected outputs.

        Every item is offered as early as the design takes it.

        Args:
            inputs: for input streams, N values each.
            expected: the number of items to wait for, by output stream, or by a tuple of streams that deliver this
                number together. Streams that are not named are never ready.
            gaps: for input streams, idle cycles before each of the N items is offered; 0 by default.
            ready: for output streams, in which cycles the consumer is ready: a pattern, repeated. Always by default.
            limit_cycles: number of cycles after which the design counts as stalled.

        Raises:
            ValueError: a name is not a stream of that direction, or lengths differ.
            SimulationStalledError: the limit was reached.
            StreamRuleError: an output stream that is named did not keep valid and payload while its consumer was not
                ready (AXI4-Stream 2.2.1). The compiled simulation checks this until all expected items are delivered.
        """
        groups = [
            StreamGroup((names,) if isinstance(names, str) else tuple(names), count)
            for names, count in expected.items()
        ]
        sinks = [name for group in groups for name in group.names]
        for names, is_input in ((inputs, True), (sinks, False), (gaps or {}, True), (ready or {}, False)):
            self._check(names, is_input)
        feeds = {}
        for name, values in inputs.items():
            words = np.ascontiguousarray(pack(self.ports[name].shape, values))
            idle = np.zeros(len(words), np.int64)
            if gaps and name in gaps:
                idle = np.ascontiguousarray(gaps[name], np.int64)
                if idle.shape != (len(words),):
                    raise ValueError(f"gaps[{name!r}]: found shape {idle.shape}; allowed: ({len(words)},)")
            feeds[name] = Feed(words, idle)
        patterns = {name: np.ascontiguousarray((ready or {}).get(name, [True]), np.uint8) for name in sinks}
        raw = self._run(feeds, groups, patterns, limit_cycles)
        outputs = {name: unpack(self.ports[name].shape, words) for name, words in raw.outputs.items()}
        return SimulatedRun(outputs, raw.input_cycles, raw.output_cycles, raw.cycles)

    def write(self, name: str, value: Values) -> None:
        """Set an input port that is not a stream. The value counts from the next cycle on.

        Args:
            name: name of the port, such as "inference".
            value: an integer, or a dict of integers by field for a struct.
        """
        port = self._plain(name, is_input=True)
        self._write(name, pack(port.shape, _one(value))[0])

    def read(self, name: str) -> Values:
        """Return the value of an output port that is not a stream, after the last cycle.

        Args:
            name: name of the port, such as "total".
        """
        port = self._plain(name, is_input=False)
        value = unpack(port.shape, self._read(name)[None])
        return {key: array[0] for key, array in value.items()} if isinstance(value, dict) else value[0]

    def _check(self, names: Iterable[str], is_input: bool) -> None:
        streams = [p.name for p in self.ports.values() if p.is_stream and p.is_input == is_input]
        for name in names:
            if name not in streams:
                kind = "input" if is_input else "output"
                raise ValueError(f"{kind} stream: found {name!r}; allowed: {', '.join(streams)}")

    def _plain(self, name: str, is_input: bool) -> Any:
        plain = {p.name: p for p in self.ports.values() if not p.is_stream and p.is_input == is_input}
        if name not in plain:
            raise ValueError(f"port: found {name!r}; allowed: {', '.join(plain)}")
        return plain[name]

    @abstractmethod
    def step(self, cycles: int = 1) -> None:
        """Let the clock run for a number of cycles without offering inputs or taking outputs."""

    @abstractmethod
    def _run(
        self,
        feeds: dict[str, Feed],
        groups: list[StreamGroup],
        ready: dict[str, NDArray[np.uint8]],
        limit_cycles: int,
    ) -> RawRun:
        """Implement `run`; the arguments are checked and the values packed."""

    @abstractmethod
    def _write(self, name: str, words: NDArray[np.uint32]) -> None: ...

    @abstractmethod
    def _read(self, name: str) -> NDArray[np.uint32]: ...


def _one(value: Values) -> Values:
    """Return one item's value as values with N = 1."""
    if isinstance(value, Mapping):
        return {key: _one(field) for key, field in value.items()}
    return np.asarray(value)[None]
