"""The time that a training takes: the machine's own, or a virtual one where part of the machine is simulated.

The training loop (`harness.mapping.loop`) makes every call through a clock, which is given the unit that does the
work, the term that its time is counted in, and when its inputs are ready. Under `RealTime` that is the call itself.
Under `VirtualTime` the same calls compute the same data, but the clock is a discrete-event one:

- each simulated device, and each unit that runs beside the host, serves its calls in the order in which they are
  made: a call starts when it has been made, its inputs are there, and the unit is free;
- on a simulated device it takes the seconds that the device tells (its clock cycles) and what the links need to bring
  its inputs; the seconds that the simulation needs are taken out of the clock;
- on the host it takes as long as it takes, waits for its inputs first, and for the links that bring them from a device;
- the weights of a simulated learner come to the actors over its link to the host, whenever they are handed over.

What passes between two units on the host, a real device's driver included, is part of the time measured there.
"""

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Mapping as MappingABC
from time import perf_counter
from typing import Any, Generic, NamedTuple

from harness.core.provenance import Provenance, weakest
from harness.mapping import Mapping
from harness.mapping.base import Platform
from harness.mapping.loop import ACTORS, HOST, LEARNER, NO_INPUTS, RMM, STORAGE, Made, Value
from harness.runtime import time_provenance
from primitives.learner import Learner

_NO_LINKS: MappingABC[tuple[str, str], float] = {}
_SENT = (
    (HOST, RMM),  # priorities of new items, and the items where the storage is there too
    (HOST, LEARNER),  # on-policy samples
    (RMM, STORAGE),  # sampled indices
    (RMM, LEARNER),  # importance weights
    (STORAGE, LEARNER),  # sampled items
    (LEARNER, RMM),  # TD errors
    (LEARNER, HOST),  # the actors' weights
)
"""Which unit sends to which."""


class _Begun(Made[Value], Generic[Value]):
    """What a unit next to the host has been asked for; it is waited for when its value is."""

    def __init__(self, answer: Callable[[], Value]) -> None:
        super().__init__(None, 0.0)  # type: ignore[arg-type]
        self._answer: Callable[[], Value] | None = answer

    @property
    def value(self) -> Value:
        """What it returned."""
        if self._answer is not None:
            self._value, self._answer = self._answer(), None
        return self._value


class RealTime:
    """Wall clock.

    Attributes:
        provenance: of the seconds.
        terms_s: seconds spent so far, by term.
    """

    provenance = Provenance.MEASURED

    def __init__(self) -> None:
        self.terms_s: defaultdict[str, float] = defaultdict(float)

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""
        return perf_counter()

    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        """See `Clock.run`."""
        start_s = perf_counter()
        value = work(argument)
        self.terms_s[term] += perf_counter() - start_s
        return value

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """See `Clock.act`."""
        return work(vector_steps)

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """See `Clock.call`; a unit is a key of the simulated devices, `ACTORS`, or else the host."""
        start_s = perf_counter()
        value = work()
        end_s = perf_counter()
        self.terms_s[term] += end_s - start_s
        return Made(value, end_s)

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """See `Clock.begin`; what works next to the host counts its own seconds."""
        ask()
        return _Begun(answer)

    def is_simulated(self, unit: str) -> bool:
        """Whether a unit works in virtual time."""
        return False

    def link_s(self, source: str, unit: str, sent_bytes: int) -> float:
        """Seconds that a link needs from one unit to another: 0 where both are on the host."""
        return 0.0

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> float:
        """See `Clock.charge`; it was part of the call."""
        return after_s

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """See `Clock.deliver`; the hand-over is part of the wall's time, but of no term."""
        work()

    def wait(self, ready_s: float) -> None:
        """See `Clock.wait`; whatever was called has ended."""

    def drain(self) -> None:
        """Let the host go on no sooner than when every unit is free."""

    def close(self) -> None:
        """End what was started."""


class Device(NamedTuple):
    """A simulated unit.

    Attributes:
        simulated_s: tells the seconds that it has worked so far, by its own clock.
        name: of the device; units of one device work one after the other.
    """

    simulated_s: Callable[[], float]
    name: str


class VirtualTime(RealTime):
    """A discrete-event clock; see the module's text.

    Args:
        devices: the simulated units, by the names that `call` uses.
        links_bytes_per_s: of the link from one unit to another, where not both are on the host.
        provenance: of the devices' seconds.
    """

    def __init__(
        self,
        devices: MappingABC[str, Device],
        links_bytes_per_s: MappingABC[tuple[str, str], float] = _NO_LINKS,
        provenance: Provenance = Provenance.SIMULATED,
    ) -> None:
        super().__init__()
        self.provenance = provenance
        self._devices = dict(devices)
        self._links_bytes_per_s = dict(links_bytes_per_s)
        self._ahead_s = 0.0  # of the wall clock: less what simulating took, and more what was waited for
        self._free_s: defaultdict[str, float] = defaultdict(float)

    def is_simulated(self, unit: str) -> bool:
        """See `RealTime.is_simulated`."""
        return unit in self._devices

    def now_s(self) -> float:
        """Seconds of virtual time."""
        return perf_counter() + self._ahead_s

    def link_s(self, source: str, unit: str, sent_bytes: int) -> float:
        """See `RealTime.link_s`."""
        bytes_per_s = self._links_bytes_per_s.get((source, unit))
        return sent_bytes / bytes_per_s if bytes_per_s else 0.0

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: MappingABC[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """See `Clock.call`."""
        device = self._devices.get(unit)
        links_s = sum(self.link_s(source, unit, sent) for source, sent in input_bytes.items())
        if device is None and unit != ACTORS:
            self.wait(max(self.now_s(), after_s) + links_s)
            self.terms_s[term] += links_s
            return Made(super().call(unit, term, work).value, self.now_s())
        made_s, start_s = self.now_s(), perf_counter()
        before_s = device.simulated_s() if device else 0.0
        value = work()
        if device:
            took_s = device.simulated_s() - before_s
            if not took_s > 0:
                raise RuntimeError(f"{unit}: device {device.name} told {took_s:g} s for a call")
            took_s += links_s
        else:
            took_s = perf_counter() - start_s
        self._ahead_s = made_s - perf_counter()  # the host has only made the call
        return Made(value, self.charge(device.name if device else unit, term, took_s, max(made_s, after_s)))

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """See `Clock.begin`: the work is done at once, and takes its seconds from when it was asked for."""
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
        """See `Clock.charge`: the server does it once its inputs are there and it is free."""
        seconds += sum(self.link_s(source, server, sent) for source, sent in input_bytes.items())
        end_s = max(after_s, self._free_s[server]) + seconds
        self._free_s[server] = end_s
        self.terms_s[term] += seconds
        return end_s

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """See `Clock.deliver`: over the device's link to the host."""
        work()
        if (device := self._devices.get(unit)) is None:
            self.wait(after_s)
            return
        seconds = self.link_s(unit, HOST, output_bytes)
        self.wait(self.charge(f"link of {device.name}", term, seconds, max(self.now_s(), after_s)))

    def wait(self, ready_s: float) -> None:
        """See `Clock.wait`."""
        self._ahead_s += max(0.0, ready_s - self.now_s())

    def drain(self) -> None:
        """See `RealTime.drain`."""
        self.wait(max(self._free_s.values(), default=0.0))


def time_of(mapping: Mapping, learner: Any, replay: Any, platform: Callable[[], Platform]) -> RealTime:
    """The time of a training: virtual as soon as one of its parts is simulated.

    Args:
        mapping: names the devices.
        learner, replay: the parts at work.
        platform: tells how fast links are, where that is needed.

    Raises:
        UserError: the platform does not know a link that the mapping needs.
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
    if mapping.storage.device != "cpu":
        places[STORAGE] = mapping.storage.device
    links = platform()
    return VirtualTime(
        devices,
        {
            (source, unit): links.bytes_per_s(places.get(source, "cpu"), places.get(unit, "cpu"))
            for source, unit in _SENT
            if source in places or unit in places
        },
        weakest(Provenance.SIMULATED, time_provenance.of_mapping(mapping)),
    )


def weights_bytes(time: RealTime, learner: Learner) -> int:
    """Bytes of a simulated learner's acting parameters, which actors on the host wait for; 0 where it is none."""
    return sum(value.nbytes for value in learner.parameters().values()) if time.is_simulated(LEARNER) else 0


def simulated_s(part: Any) -> Callable[[], float] | None:
    """How to ask a part for the seconds that its simulated device has worked so far; None where it has none.

    A part tells them as `simulated_s`, or as `cycles` at `clock_hz`; a replay's are its tree's, a learner's its
    executable's.
    """
    for owner in (part, getattr(part, "tree", None), getattr(part, "executable", None)):
        if hasattr(owner, "simulated_s"):
            return lambda owner=owner: float(owner.simulated_s)  # type: ignore[misc]
        if hasattr(owner, "cycles") and hasattr(owner, "clock_hz"):
            return lambda owner=owner: owner.cycles / owner.clock_hz  # type: ignore[misc]
    return None
