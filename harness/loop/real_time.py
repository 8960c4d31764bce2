"""The clock of a training on this machine: it makes each call at once, and measures its seconds."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Generic

from typing_extensions import override

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import NO_INPUTS, Clock, Output, Value


class Begun(Output[Value], Generic[Value]):
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


class RealTime(Clock):
    """The wall clock: makes each call at once, and measures its seconds.

    Attributes:
        provenance: provenance of the seconds, "measured".
        terms_s: seconds spent so far, by term (the part of the loop that a call belongs to).
    """

    provenance = Provenance.MEASURED

    def __init__(self) -> None:
        self.terms_s: defaultdict[str, float] = defaultdict(float)

    @override
    def now_s(self) -> float:
        return perf_counter()

    @override
    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        start_s = perf_counter()
        value = work(argument)
        self.terms_s[term] += perf_counter() - start_s
        return value

    @override
    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        return work(vector_steps)

    @override
    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Output[Value]:
        start_s = perf_counter()
        value = work()
        end_s = perf_counter()
        self.terms_s[term] += end_s - start_s
        return Output(value, end_s)

    @override
    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Output[Value]:
        # No seconds are added to a term: such work counts its own.
        ask()
        return Begun(answer)

    def is_simulated(self, unit: str) -> bool:
        """Return whether a part of the training, such as "learner", runs on a simulated device; here always False."""
        return False

    def link_s(self, source: str, unit: str, sent_bytes: int) -> float:
        """Return 0, because in real time sending bytes between parts of the training is part of the measured calls."""
        return 0.0

    @override
    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        # The seconds were already measured as part of a call.
        return after_s

    @override
    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        # These seconds are wall time that no term includes.
        work()

    @override
    def wait(self, ready_s: float) -> None:
        # Every call has already ended when the host would wait for it.
        pass

    def drain(self) -> None:
        """Make the host wait until all other parts of the training have done their work; here it does nothing."""

    def close(self) -> None:
        """End the threads that the clock has started, if any."""
