"""The clocks of a training: the machine's real time, or virtual time if a part of the machine is simulated.

The training loop (`harness.mapping.loop`) makes every call through a clock. The clock gets the unit that does the
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
from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingABC
from functools import partial
from time import perf_counter
from typing import Any, Generic, NamedTuple

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.base import Platform
from placerl.harness.mapping.loop import ACTORS, HOST, LEARNER, NO_INPUTS, RMM, STORAGE, Made, Value
from placerl.harness.measure.full_speed import own_time
from placerl.harness.runtime import time_provenance
from placerl.primitives.learner import Learner

_NO_LINKS: MappingABC[tuple[str, str], float] = {}
_ALL_AT_ONCE: MappingABC[str, int] = {}
_SENT = (
    (HOST, RMM),  # priorities of new items, and the items if the storage is there too
    (HOST, STORAGE),  # new items, if the storage is on a device without the replay management
    (HOST, LEARNER),  # on-policy samples
    (RMM, STORAGE),  # sampled indices
    (RMM, LEARNER),  # importance weights
    (STORAGE, LEARNER),  # sampled items
    (LEARNER, RMM),  # TD errors
    (LEARNER, HOST),  # the actors' weights
)
"""The units that send data to each other: (sender, receiver)."""


class Begun(Made[Value], Generic[Value]):
    """A request to a unit that runs in parallel with the host; its value waits for the result."""

    def __init__(self, answer: Callable[[], Value]) -> None:
        super().__init__(None, 0.0)  # type: ignore[arg-type]
        self._answer: Callable[[], Value] | None = answer

    @property
    def value(self) -> Value:
        """Return the result of the call."""
        if self._answer is not None:
            self._value, self._answer = self._answer(), None
        return self._value


class RealTime:
    """The wall clock: makes each call at once, and measures its seconds.

    Attributes:
        provenance: provenance of the seconds, "measured".
        terms_s: seconds spent so far, by term (the part of the loop that a call belongs to).
    """

    provenance = Provenance.MEASURED

    def __init__(self) -> None:
        self.terms_s: defaultdict[str, float] = defaultdict(float)

    def now_s(self) -> float:
        """Return the seconds since an arbitrary start."""
        return perf_counter()

    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        """Call `work` with `argument`, add its seconds to those of `term`, and return its result; see `Clock.run`.

        Args:
            term: name of the part of the loop, such as "insert".
            work: function to call.
            argument: its argument.
        """
        start_s = perf_counter()
        value = work(argument)
        self.terms_s[term] += perf_counter() - start_s
        return value

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """Let the actors take their vector steps, and return the result; the actors count their own seconds.

        Args:
            work: function to call with `vector_steps`.
            vector_steps: number of vector steps, each of which steps every environment once.
        """
        return work(vector_steps)

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """Call `work`, add its seconds to those of `term`, and return its result with the time at which it ended.

        Args:
            unit, after_s, input_bytes: ignored, because the call is made at once and its time is measured.
            term: name of the part of the loop, such as "learner".
            work: function to call.
        """
        start_s = perf_counter()
        value = work()
        end_s = perf_counter()
        self.terms_s[term] += end_s - start_s
        return Made(value, end_s)

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """Start work that runs in parallel with the host, and return an object that waits for the result.

        No seconds are added to a term, because such work counts its own seconds. See `Clock.begin`.

        Args:
            unit, term: ignored.
            ask: starts the work.
            answer: waits for the result; called when the `value` of the returned object is read.
        """
        ask()
        return Begun(answer)

    def is_simulated(self, unit: str) -> bool:
        """Return whether a part of the training, such as "learner", runs on a simulated device; here always False."""
        return False

    def link_s(self, source: str, unit: str, sent_bytes: int) -> float:
        """Return 0, because in real time sending bytes between parts of the training is part of the measured calls."""
        return 0.0

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> float:
        """Return `after_s` unchanged, because the seconds of this work were already measured as part of a call.

        The other arguments are ignored; `Clock.charge` describes them.
        """
        return after_s

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """Call `work`, which hands over a unit's output. Its seconds are wall time that no term includes.

        The other arguments are ignored; `Clock.deliver` describes them.
        """
        work()

    def wait(self, ready_s: float) -> None:
        """Do nothing: in real time every call has already ended when the host would wait for it."""

    def drain(self) -> None:
        """Make the host wait until all other parts of the training have done their work; here it does nothing."""

    def close(self) -> None:
        """End the threads that the clock has started, if any."""


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
            units on the host they do not count.
        streams: equal parts in which the inputs of a unit on a simulated device arrive, by the unit; it works on the
            first while the others are on their way (PRL 3.3.2). Others wait for their whole inputs.

    Raises:
        ValueError: a unit's inputs arrive in less than one part.
    """

    def __init__(
        self,
        devices: MappingABC[str, Device],
        links_bytes_per_s: MappingABC[tuple[str, str], float] = _NO_LINKS,
        provenance: Provenance = Provenance.SIMULATED,
        latencies_s: MappingABC[tuple[str, str], float] = _NO_LINKS,
        beside: Collection[str] = (),
        stored_s: Callable[[], float] = lambda: 0.0,
        streams: MappingABC[str, int] = _ALL_AT_ONCE,
    ) -> None:
        super().__init__()
        if any(parts < 1 for parts in streams.values()):
            raise ValueError(f"streams: found {dict(streams)}; allowed: at least 1 part")
        self.provenance = provenance
        self._streams = dict(streams)
        self._left_out = [stored_s]
        self._devices = dict(devices)
        self._beside = {ACTORS, *beside}
        self._links_bytes_per_s = dict(links_bytes_per_s)
        self._latencies_s = dict(latencies_s)
        self._ahead_s = 0.0  # offset to the wall clock: minus the time of simulating, plus the time waited
        self._free_s: defaultdict[str, float] = defaultdict(float)

    def is_simulated(self, unit: str) -> bool:
        """Return whether a part of the training, such as "learner", runs on a simulated device."""
        return unit in self._devices

    def now_s(self) -> float:
        """Return the current virtual time in seconds, since an arbitrary start."""
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

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """Let the actors take their vector steps on the host, in its real time without waiting for a core.

        Args:
            work: function to call with `vector_steps`.
            vector_steps: number of vector steps, each of which steps every environment once.
        """
        made_s = self.now_s()
        value, took_s = self._timed(partial(work, vector_steps))
        self._ahead_s = made_s + took_s - perf_counter()
        return value

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """Call `work` now, and return its result with the virtual time at which it ends.

        A call on the host takes its real time. A call on a simulated device takes the seconds that the device
        counts. Both also take the time of the links that bring their inputs.

        Args:
            unit: the unit that does the work, such as "learner".
            term: name of the part of the loop that the seconds are added to.
            work: function to call.
            after_s: when its inputs are ready, seconds of virtual time.
            input_bytes: bytes of its inputs, by the unit that sends them.

        Raises:
            RuntimeError: a device reports no time for a call.
        """
        made_s = self.now_s()
        device = self._devices.get(unit)
        links_s = sum(self.link_s(source, unit, sent) for source, sent in input_bytes.items())
        if device is None and unit not in self._beside:
            value, took_s = self._timed(work)
            self.terms_s[term] += links_s + took_s
            end_s = max(made_s, after_s) + links_s + took_s
            self._ahead_s = end_s - perf_counter()
            return Made(value, end_s)
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
        return Made(value, end_s)

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

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """Do the work at once, and return its result with the virtual time at which it ends.

        In virtual time it begins at the request, and runs in parallel with the host.

        Args:
            unit: the unit that does the work, such as the actors.
            term: name of the part of the loop that the seconds are added to.
            ask, answer: functions that start the work and return its result.
        """
        ask()
        return self.call(unit, term, answer)

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> float:
        """Add seconds of work to the schedule of a unit or device, and return when that work ends.

        The work begins as soon as its inputs are ready and the earlier work of the same unit is done.

        Args:
            server: the unit or device that the work belongs to.
            term: name of the part of the loop that the seconds are added to.
            seconds: duration of the work, without the links that bring its inputs.
            after_s: when its inputs are ready, seconds of virtual time.
            input_bytes: bytes of its inputs, by the unit that sends them.
        """
        now_s = self.now_s()
        seconds += sum(self.link_s(source, server, sent) for source, sent in input_bytes.items())
        end_s = max(after_s, self._free_s[server]) + seconds
        self._free_s[server] = end_s
        self.terms_s[term] += seconds
        self._ahead_s = now_s - perf_counter()
        return end_s

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """Bring a unit's output to the host over its device's link, and wait for it; see `Clock.deliver`.

        Args:
            unit: the unit that made the output, such as "learner".
            term: name of the part of the loop that the link's seconds are added to.
            work: the host's work to hand over the output.
            output_bytes: bytes of the output.
            after_s: when the output was made, seconds of virtual time.
        """
        made_s = self.now_s()
        _, took_s = self._timed(work)
        now_s, ready_s = made_s + took_s, after_s
        if device := self._devices.get(unit):
            seconds = self.link_s(unit, HOST, output_bytes)
            ready_s = self.charge(f"link of {device.name}", term, seconds, max(now_s, after_s))
        self._ahead_s = max(now_s, ready_s) - perf_counter()

    def wait(self, ready_s: float) -> None:
        """Move the host's virtual time forward to `ready_s`, unless it is already later."""
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


def time_of(
    mapping: Mapping,
    learner: Any,
    replay: Any,
    platform: Callable[[], Platform],
    beside: Collection[str] = (),
    streams: MappingABC[str, int] = _ALL_AT_ONCE,
) -> RealTime:
    """Return the clock of a training: virtual time if one of its parts is simulated, otherwise real time.

    Args:
        mapping: gives the devices.
        learner, replay: the parts of the training that may run on simulated devices.
        platform: returns the platform that states the links; called only if a part is simulated.
        beside: units on the host, such as the replay management, that work in parallel with the host's other work.
        streams: parts in which a simulated unit's inputs arrive (`VirtualTime`).

    Raises:
        UserError: the platform lacks a link that the mapping needs.
    """
    targets = {LEARNER: (learner, mapping.learner.device), RMM: (replay, mapping.rmm.device)}
    devices = {
        unit: Device(told, device)
        for unit, (part, device) in targets.items()
        if (told := simulated_s(part)) is not None
    }
    if not devices:
        return RealTime()
    places = {unit: device.name for unit, device in devices.items()}
    stored: dict[str, Callable[[], float]] = {}
    if mapping.storage.backend == "fpga":
        places[STORAGE] = mapping.storage.device
        stored["stored_s"] = lambda: replay.storage.gather_s + replay.storage.write_s
    links = platform()
    ends = {
        (source, unit): (places.get(source, "cpu"), places.get(unit, "cpu"))
        for source, unit in _SENT
        if source in places or unit in places
    }
    return VirtualTime(
        devices,
        {pair: links.bytes_per_s(*between) for pair, between in ends.items()},
        weakest(
            Provenance.MODELLED if streams else Provenance.SIMULATED, time_provenance.of_mapping(mapping)
        ),
        {pair: links.latency_s(*between) for pair, between in ends.items()},
        beside,
        streams=streams,
        **stored,
    )


def weights_bytes(time: RealTime, learner: Learner) -> int:
    """Return the bytes of the weights that a simulated learner sends to actors on the host; 0 if not simulated.

    Args:
        time: the training's clock, which knows whether the learner is simulated.
        learner: the learner.
    """
    return sum(value.nbytes for value in learner.parameters().values()) if time.is_simulated(LEARNER) else 0


def simulated_s(part: Any) -> Callable[[], float] | None:
    """Return a function that gives the seconds that a part's simulated device has worked so far; None if it has none.

    The device's time is the attribute `simulated_s`, or `cycles` divided by `clock_hz`. It is looked for on the part
    itself, on a replay's `tree` and on a learner's `executable`.
    """
    for owner in (part, getattr(part, "tree", None), getattr(part, "executable", None)):
        if hasattr(owner, "simulated_s"):
            return lambda owner=owner: float(owner.simulated_s)  # type: ignore[misc]
        if hasattr(owner, "cycles") and hasattr(owner, "clock_hz"):
            return lambda owner=owner: owner.cycles / owner.clock_hz  # type: ignore[misc]
    return None
