"""The clock of a training a part of which is simulated: virtual time, that of a machine with the simulated devices.

The training loop (`harness.loop.training_loop`) makes every call through a clock. The clock gets the unit that does the
work (the host, the learner, ...), the term (the part of the loop) that its seconds are added to, and when its inputs
are ready. `RealTime` just makes the call. `VirtualTime` makes the same calls with the same data, but is a
discrete-event clock:

- each simulated device, and each unit that runs in parallel with the host, serves its calls in the order in which
  they are made: a call starts when it has been made, its inputs are ready, and the unit is free;
- a call on a simulated device takes the seconds that the device reports (its clock cycles), plus the links' time
  (latency and bytes) to bring its inputs; the time of the simulation itself does not count;
- the clock's own work, such as finding out when a call ends, takes no time;
- a call on the host takes its real time, without the time for which its thread waited for a core that others used,
  after waiting for its inputs and for the links that bring them from a device;
- the weights of a simulated learner go to the actors over its link to the host, whenever they are handed over.

Transfers between two units on the host, including a real device's driver, are part of the time measured there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import perf_counter
from typing import NamedTuple

from typing_extensions import override

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import ACTORS, HOST, NO_INPUTS, Output, Value
from placerl.harness.loop.real_time import RealTime
from placerl.harness.measure.full_speed import own_time

_NO_LINKS: Mapping[tuple[str, str], float] = {}
ALL_AT_ONCE: Mapping[str, int] = {}
"""No unit whose inputs arrive in parts."""


class Device(NamedTuple):
    """The simulated device that a unit of the training loop (the learner, the replay management) runs on.

    Attributes:
        simulated_s: returns the seconds that the device has worked so far, by its own clock.
        name: name of the device; units with the same device work one after another.
    """

    simulated_s: Callable[[], float]
    name: str


class VirtualTime(RealTime):
    """A discrete-event clock for trainings with simulated devices; the module's docstring describes it.

    Args:
        devices: the simulated devices, by the unit (the part of the loop, such as "learner") that runs on them.
        links_bytes_per_s: bandwidth of the link from one unit to another; two units on the host need none.
        latencies_s: seconds of a transfer over such a link before its first byte; 0 for a pair that is missing.
        provenance: provenance of the devices' seconds.
        beside: units on the host, in addition to the actors, that work in parallel with the host's other work, each on
            a core of its own. The calls of these units take their real time.
        stored_s: returns the seconds that the host has worked so far in place of a simulated storage; within calls of
            units on the host they do not count; None if storage is not simulated.
        streams: equal parts in which the inputs of a unit on a simulated device arrive, by the unit; it works on the
            first while the others are on their way (PRL 3.3.2). Others wait for their whole inputs.

    Raises:
        ValueError: a unit's inputs arrive in less than one part.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        links_bytes_per_s: Mapping[tuple[str, str], float] = _NO_LINKS,
        provenance: Provenance = Provenance.SIMULATED,
        latencies_s: Mapping[tuple[str, str], float] = _NO_LINKS,
        beside: Collection[str] = (),
        stored_s: Callable[[], float] | None = None,
        streams: Mapping[str, int] = ALL_AT_ONCE,
    ) -> None:
        super().__init__()
        if any(parts < 1 for parts in streams.values()):
            raise ValueError(f"streams: found {dict(streams)}; allowed: at least 1 part")
        self.provenance = provenance
        self._streams = dict(streams)
        self._left_out = [stored_s] if stored_s else []
        self._devices = dict(devices)
        self._beside = {ACTORS, *beside}
        self._links_bytes_per_s = dict(links_bytes_per_s)
        self._latencies_s = dict(latencies_s)
        self._ahead_s = 0.0  # offset to the wall clock: minus the time of simulating, plus the time waited
        self._free_s: defaultdict[str, float] = defaultdict(float)

    def is_simulated(self, unit: str) -> bool:
        """Return whether a part of the training, such as "learner", runs on a simulated device."""
        return unit in self._devices

    @override
    def now_s(self) -> float:
        return perf_counter() + self._ahead_s

    def link_s(self, source: str, unit: str, sent_bytes: int) -> float:
        """Return the seconds to send bytes over a link: the latency, and the bytes divided by the bandwidth.

        Args:
            source, unit: the parts of the training that send and receive, such as "learner"; 0 s without a link.
            sent_bytes: bytes to send; 0 bytes take no time.
        """
        bytes_per_s = self._links_bytes_per_s.get((source, unit))
        if not bytes_per_s or not sent_bytes:
            return 0.0
        return self._latencies_s.get((source, unit), 0.0) + sent_bytes / bytes_per_s

    @override
    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        # On the host, in its real time without waiting for a core.
        made_s = self.now_s()
        value, took_s = self._timed(partial(work, vector_steps))
        self._ahead_s = made_s + took_s - perf_counter()
        return value

    @override
    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Output[Value]:
        # A call on the host takes its real time, one on a simulated device the seconds that the device counts. Both
        # also take the time of the links that bring their inputs.
        made_s = self.now_s()
        device = self._devices.get(unit)
        links_s = sum(self.link_s(source, unit, sent) for source, sent in input_bytes.items())
        if device is None and unit not in self._beside:
            value, took_s = self._timed(work)
            self.terms_s[term] += links_s + took_s
            end_s = max(made_s, after_s) + links_s + took_s
            self._ahead_s = end_s - perf_counter()
            return Output(value, end_s)
        if device:
            before_s = device.simulated_s()
            value = work()
            took_s = device.simulated_s() - before_s
            if not took_s > 0:
                raise RuntimeError(f"{unit}: device {device.name} told {took_s:g} s for a call")
            took_s = streamed_s(links_s, took_s, self._streams.get(unit, 1))
        else:
            value, took_s = self._timed(work)
            took_s += links_s
        end_s = self.charge(device.name if device else unit, term, took_s, max(made_s, after_s))
        self._ahead_s = made_s - perf_counter()  # the host has only made the call
        return Output(value, end_s)

    def _timed(self, work: Callable[[], Value]) -> tuple[Value, float]:
        """Call `work`; return its result and the host's seconds, without waiting or a board's storage."""
        left_out_s = self._left_out_s()
        value, took_s = own_time(work)
        return value, max(0.0, took_s - (self._left_out_s() - left_out_s))

    def _left_out_s(self) -> float:
        return sum(seconds() for seconds in self._left_out)

    def leave_out(self, seconds: Callable[[], float]) -> None:
        """Leave work out of the time of calls of units on the host, such as actors that work in parallel elsewhere.

        Args:
            seconds: returns the seconds that the host has worked on it so far.
        """
        self._left_out.append(seconds)

    @override
    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Output[Value]:
        # The work is done at once, and begins in virtual time at the request.
        ask()
        return self.call(unit, term, answer)

    @override
    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        # The work begins as soon as its inputs are ready and the earlier work of the same unit is done.
        now_s = self.now_s()
        seconds += sum(self.link_s(source, server, sent) for source, sent in input_bytes.items())
        end_s = max(after_s, self._free_s[server]) + seconds
        self._free_s[server] = end_s
        self.terms_s[term] += seconds
        self._ahead_s = now_s - perf_counter()
        return end_s

    @override
    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        made_s = self.now_s()
        _, took_s = self._timed(work)
        now_s, ready_s = made_s + took_s, after_s
        if device := self._devices.get(unit):
            seconds = self.link_s(unit, HOST, output_bytes)
            ready_s = self.charge(f"link of {device.name}", term, seconds, max(now_s, after_s))
        self._ahead_s = max(now_s, ready_s) - perf_counter()

    @override
    def wait(self, ready_s: float) -> None:
        now_s = self.now_s()
        self._ahead_s = max(now_s, ready_s) - perf_counter()

    def turn_back(self, seconds: float) -> None:
        """Move the host's virtual time back by seconds of work that it did in place of a device.

        Args:
            seconds: what that work took, since the last call on the host.
        """
        self._ahead_s -= seconds

    def drain(self) -> None:
        """Move the host's virtual time forward to when all other parts of the training have done their work."""
        self.wait(max(self._free_s.values(), default=0.0))


def streamed_s(links_s: float, work_s: float, parts: int) -> float:
    """Return the seconds to receive inputs in equal parts and to work on each as soon as it is there.

    The transfer of each part goes on during the work on the one before it (PRL 3.3.2), as in a pipeline of two
    stages.

    Args:
        links_s: seconds to receive all parts.
        work_s: seconds of the work on all parts.
        parts: number of parts, at least 1; with 1 the work begins when everything is there.
    """
    return (links_s + work_s + (parts - 1) * max(links_s, work_s)) / parts
