"""Simulates a design in Amaranth's own simulator, for small cases.

Nothing has to be built, but it runs only 0.4 to 12 thousand cycles per second.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from amaranth import Value
from amaranth.sim import Simulator
from numpy.typing import NDArray

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

CLOCK_PERIOD_S = 1e-9  # any value: results are in cycles
PAUSE_S = 1e-15  # far below a period

Job = Callable[[Any], Awaitable[None]]


class InterpretedSimulation(Simulation):
    """A simulation of a design in Amaranth's own simulator, `amaranth.sim`."""

    def __init__(self, design: Any) -> None:
        super().__init__(ports_of(design))
        self._design = design
        self._job: Job | None = None
        self._simulator = Simulator(design)
        self._simulator.add_clock(CLOCK_PERIOD_S)
        # A simulator takes its processes before it starts, so this process runs the current job.
        self._simulator.add_testbench(self._work, background=True)
        self.step(0)

    async def _work(self, context: Any) -> None:
        while True:
            if self._job is not None:
                await self._job(context)
                self._job = None
            await context.delay(PAUSE_S)

    def _do(self, job: Job) -> None:
        self._job = job
        while self._job is not None:
            self._simulator.advance()

    def _signal(self, name: str) -> Value:
        member = self._design
        for part in name.split("__"):
            member = getattr(member, part)
        return Value.cast(member)

    def step(self, cycles: int = 1) -> None:
        async def job(context: Any) -> None:
            for _ in range(cycles):
                await context.tick()

        self._do(job)

    def _write(self, name: str, words: NDArray[np.uint32]) -> None:
        async def job(context: Any) -> None:
            context.set(self._signal(name), _integer(words))

        self._do(job)

    def _read(self, name: str) -> NDArray[np.uint32]:
        found = 0

        async def job(context: Any) -> None:
            nonlocal found
            found = context.get(self._signal(name))

        self._do(job)
        return _words(found, self.ports[name].word_count)

    def _run(
        self,
        feeds: dict[str, Feed],
        groups: list[StreamGroup],
        ready: dict[str, NDArray[np.uint8]],
        limit_cycles: int,
    ) -> RawRun:
        sources = {name: _Source(self._stream(name), feed) for name, feed in feeds.items()}
        wanted = [_Wanted(group.count) for group in groups]
        sinks = {
            name: _Sink(name, self._stream(name), shared, ready[name])
            for group, shared in zip(groups, wanted, strict=True)
            for name in group.names
        }
        ends: list[_Source | _Sink] = [*sources.values(), *sinks.values()]
        cycles = 0

        def broken() -> str:
            return next((sink.broken for sink in sinks.values() if sink.broken), "")

        async def job(context: Any) -> None:
            nonlocal cycles
            while cycles < limit_cycles and any(end.unfinished for end in ends) and not broken():
                for end in ends:
                    end.drive(context, cycles)
                for end in ends:
                    end.transfer(context, cycles)
                cycles += 1
                await context.tick()
            for end in ends:
                end.stop(context)

        self._do(job)
        if broken():
            raise StreamRuleError(broken())
        if any(end.unfinished for end in ends):
            progress = {
                name: (len(source.cycles), len(feeds[name].words)) for name, source in sources.items()
            }
            done = {
                group.names: (group.count - shared.left, group.count)
                for group, shared in zip(groups, wanted, strict=True)
            }
            raise SimulationStalledError(
                f"after {limit_cycles} cycles, transfers done and wanted: {progress}, {done}"
            )
        return RawRun(
            {name: self._packed(name, sink.items) for name, sink in sinks.items()},
            {name: np.array(source.cycles, np.int64) for name, source in sources.items()},
            {name: np.array(sink.cycles, np.int64) for name, sink in sinks.items()},
            cycles,
        )

    def _packed(self, name: str, items: list[int]) -> NDArray[np.uint32]:
        count = self.ports[name].word_count
        return np.array([_words(item, count) for item in items], np.uint32).reshape(-1, count)

    def _stream(self, name: str) -> tuple[Value, Value, Value]:
        return (
            self._signal(f"{name}__payload"),
            self._signal(f"{name}__valid"),
            self._signal(f"{name}__ready"),
        )


class _Source:
    """Offers the items of one input stream."""

    def __init__(self, stream: tuple[Value, Value, Value], feed: Feed) -> None:
        self._payload, self._valid, self._ready = stream
        self._items = [_integer(words) for words in feed.words]
        self._gaps = feed.gaps.tolist()
        self._wait = self._gaps[0] if self._gaps else 0
        self.cycles: list[int] = []

    @property
    def unfinished(self) -> bool:
        return len(self.cycles) < len(self._items)

    def drive(self, context: Any, cycle: int) -> None:
        offered = self.unfinished and self._wait == 0
        context.set(self._valid, int(offered))
        if offered:
            context.set(self._payload, self._items[len(self.cycles)])

    def transfer(self, context: Any, cycle: int) -> None:
        if not context.get(self._valid):
            self._wait = max(self._wait - 1, 0)
        elif context.get(self._ready):
            self.cycles.append(cycle)
            if self.unfinished:
                self._wait = self._gaps[len(self.cycles)]

    def stop(self, context: Any) -> None:
        context.set(self._valid, 0)


class _Wanted:
    """Number of items that a group of output streams has yet to deliver."""

    def __init__(self, count: int) -> None:
        self.left = count


class _Sink:
    """Takes the items of one output stream, and checks that an item stays until it is taken.

    Attributes:
        broken: what the stream did wrong; empty if nothing.
    """

    def __init__(
        self, name: str, stream: tuple[Value, Value, Value], wanted: _Wanted, pattern: NDArray[np.uint8]
    ) -> None:
        self._name = name
        self._payload, self._valid, self._ready = stream
        self._offered: int | None = None  # in the last cycle, and not taken
        self.broken = ""
        self._wanted = wanted
        self._pattern = pattern.tolist()
        self.items: list[int] = []
        self.cycles: list[int] = []

    @property
    def unfinished(self) -> bool:
        return self._wanted.left > 0

    def drive(self, context: Any, cycle: int) -> None:
        ready = self.unfinished and self._pattern[cycle % len(self._pattern)]
        context.set(self._ready, int(bool(ready)))

    def transfer(self, context: Any, cycle: int) -> None:
        item = context.get(self._payload) if context.get(self._valid) else None
        if self._offered is not None and item != self._offered:
            self.broken = broken_rule(self._name, cycle, withdrawn=item is None)
        taken = bool(context.get(self._ready))
        self._offered = None if taken else item
        if self.unfinished and item is not None and taken:
            self.items.append(item)
            self.cycles.append(cycle)
            self._wanted.left -= 1

    def stop(self, context: Any) -> None:
        context.set(self._ready, 0)


def _integer(words: NDArray[np.uint32]) -> int:
    return int.from_bytes(np.ascontiguousarray(words, "<u4").tobytes(), "little")


def _words(value: int, count: int) -> NDArray[np.uint32]:
    wrapped = int(value) % (1 << 32 * count)  # the value of a signed port may be negative
    return np.frombuffer(wrapped.to_bytes(4 * count, "little"), "<u4").astype(np.uint32)


Start = Callable[[Any], Simulation]
"""Starts a simulation of a design: `interpreted`, or `simulation.compiled`."""


def interpreted(design: Any) -> Simulation:
    """Return a simulation of `design`, after a reset, in Amaranth's own simulator."""
    return InterpretedSimulation(design)
