"""The interface of a clock: how the training loop makes its calls.

A unit is a part of a training that works by itself: the host, the actors, the learner, the replay management (RMM), the
storage. Training, its profile and its prediction run the same loop; its clock decides what a call means:

| clock | a call | for |
|---|---|---|
| `harness.loop.real_time.RealTime` | is made, and timed | training |
| `harness.loop.virtual_time.VirtualTime` | is made, and takes the seconds that its simulated device states | training |
| `harness.loop.recorder.Recorder` | is made, timed as a part of the round, and waited for | profiling |
| `harness.loop.given_time.GivenTime` | takes given seconds | predicting |
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

Value = TypeVar("Value")
NO_INPUTS: Mapping[str, int] = {}
HOST, ACTORS, LEARNER, RMM, STORAGE = "host", "actors", "learner", "rmm", "storage"


class Output(Generic[Value]):
    """The result of a call that the training loop makes, with the time at which it is ready.

    Attributes:
        value: what the call returned.
        ready_s: when the result is ready, in seconds of the clock.
    """

    __slots__ = ("_value", "ready_s")

    def __init__(self, value: Value, ready_s: float) -> None:
        self._value, self.ready_s = value, ready_s

    @property
    def value(self) -> Value:
        """Return the call's result."""
        return self._value


class Clock(Protocol):
    """The interface of a clock, which runs the loop's work, or predicts its time, and makes the host wait."""

    def now_s(self) -> float:
        """Return the seconds since an arbitrary start."""

    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        """Run work on the host whose inputs are ready, and return its result.

        Args:
            work: function to call with `argument`.
        """

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """Run the actors' turn on the host, and return its result; the actors count their own seconds.

        Args:
            work: function to call with `vector_steps`.
            vector_steps: number of vector steps to take.
        """

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Output[Value]:
        """Run work on a unit (such as the learner), and return its result with the time at which it is ready.

        Args:
            unit: the unit that does it; a unit unknown to the clock works on the host.
            work: function to call.
            after_s: when its inputs are ready, seconds of the clock.
            input_bytes: bytes of its inputs, by the unit that sends them.
        """

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Output[Value]:
        """Start work on a unit (such as the actors) that continues while the host does something else.

        Args:
            unit: the unit that does it, at the same time as the host.
            answer: waits for the result; called when the result is requested, or earlier.

        Returns:
            The result of the work, with the time at which it is ready.
        """

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        """Add the time of work that was done inside another unit's call, and return when this work ends.

        An example is gathering, which sampling does, but which belongs to the storage.

        Args:
            server: the unit that the work belongs to.
            after_s: when its inputs are ready, seconds of the clock.
            input_bytes: bytes of its inputs, by the unit that sends them.
        """

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """Bring the output of a unit (such as the learner's weights) to the host, and wait until it has arrived.

        Args:
            unit: the unit that made the output.
            term: the part of the loop that the link's seconds are added to.
            work: the host's work to hand it over.
            output_bytes: bytes of the output.
            after_s: when it was made, seconds of the clock.
        """

    def wait(self, ready_s: float) -> None:
        """Make the host wait until `ready_s`, seconds of the clock."""
