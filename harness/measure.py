"""The one protocol by which everything is timed.

1. Each case is set up and checked: nothing is timed whose output was not just found right.
2. Each is warmed up, which also finds how many calls make a block long enough for the clock.
3. In each round, every case times one block, in an order drawn anew; each call of a block gets arguments of
   its own, made before the clock starts. The device is synchronised before the clock is read.
4. The time per call of each block is a sample. All are kept; the median stands for them, with a bootstrap
   interval of 95%; when that is wider than the noise limit, the case is "too_noisy".

Two cases are compared within the same rounds, beside one of them against itself (`compare_cases`).
The harness's own overhead, a loop step and a call, stays in the samples; `NULL` measures it.
"""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from harness import comparison
from harness.comparison import Comparison, compare
from harness.conditions import caller_pinned, conditions, pinned, torch_threads
from harness.measurement import Measurement
from harness.provenance import Provenance

__all__ = [
    "NULL",
    "Case",
    "Comparison",
    "Protocol",
    "Timing",
    "compare",
    "compare_cases",
    "measure",
    "overhead_s",
    "timing_status",
]

NOISE_LIMIT = 0.1
WARM_S = 0.5
"""Where long blocks are few: after so long in its first calls a case is warm, or in its check, if it makes blocks of
its own."""
S = TypeVar("S")
Clock = Callable[[], float]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Case(Generic[S]):
    """Something that can be timed. asv and pytest-benchmark time the same.

    Attributes:
        name: unique among the cases measured together.
        setup: makes the state; its time does not count.
        check: raises an exception, with a message, when what it computes is wrong.
        inputs: the arguments of one call, made afresh from a generator; its time does not count.
        call: what is timed.
        synchronise: waits until the device has done all that was asked of it.
        close: gives back what `setup` took.
        block: where the clock is elsewhere, as in another process: makes a number of calls, each with fresh
            arguments, and returns the seconds they took. `inputs`, `call` and lead-in calls are not used then.
        parts: of a case that is timed in parts: the seconds of each part since it was last asked.
    """

    name: str
    setup: Callable[[], S]
    check: Callable[[S], None]
    inputs: Callable[[S, np.random.Generator], Any]
    call: Callable[[S, Any], Any]
    synchronise: Callable[[], None] = lambda: None
    close: Callable[[S], None] = lambda _: None
    block: Callable[[S, int], float] | None = None
    parts: Callable[[S], dict[str, float]] | None = None


NULL: Case[None] = Case("null", lambda: None, lambda _: None, lambda _, rng: None, lambda _, arguments: None)
"""Does nothing: what is measured is the harness."""


@dataclass(frozen=True)
class Protocol:
    """How long and under which conditions to measure.

    Attributes:
        rounds: samples of each case, at least 1; intervals take 5, comparisons 15, usually 45.
        block_s: shortest time between two readings of the clock, > 0 s; thousands of its resolution.
        warm_up_s: shortest time of calls before the first sample of a case, >= 0 s.
        warm_up_calls: calls of a case before the length of its blocks is sought, at least 0.
        budget_s: begin no further round after this many seconds, checks and warm-up included; None: no limit.
            The first round is always measured.
        lead_in_calls: calls of a block before its clock starts, so that a case finds the caches as it left them.
        rest_s: pause before a block, >= 0 s, so that threads that spin on after the last case's work, as OpenMP's do
            for milliseconds, have let go of their cores.
        long_block_s: a case whose block takes longer takes part in every second round only, or in every fourth;
            None: all take part in all. Blocks are never skipped so often that fewer than 5 samples would be left of
            the rounds that the budget holds.
        largest_block: most calls of a block, at least 1; their arguments are in memory together.
        noise_limit: widest interval of a case that is not "too_noisy", as a fraction of its median.
        caller_core: core to pin the measuring thread to once everything is warm, so that the threads of libraries
            keep theirs; None: as it is.
        cores: cores to pin this process to; None: as it is.
        threads: threads of PyTorch; None: as it is.
        seed: of arguments and orders.
    """

    rounds: int = comparison.PAIRS
    block_s: float = 1e-3
    warm_up_s: float = 20e-3
    warm_up_calls: int = 3
    budget_s: float | None = None
    lead_in_calls: int = 0
    rest_s: float = 0.0
    long_block_s: float | None = None
    largest_block: int = 4096
    noise_limit: float = NOISE_LIMIT
    caller_core: int | None = None
    cores: tuple[int, ...] | None = None
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a value out of range."""
        for name, low in (
            ("rounds", 1),
            ("largest_block", 1),
            ("warm_up_s", 0.0),
            ("warm_up_calls", 0),
            ("lead_in_calls", 0),
            ("rest_s", 0.0),
        ):
            if getattr(self, name) < low:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: at least {low}")
        for name in ("block_s", "noise_limit"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: more than 0")


@dataclass(frozen=True)
class Timing:
    """What was measured of one case.

    Attributes:
        name: the case's.
        status: "ok", "too_noisy" or "failed".
        reason: why not "ok"; empty otherwise.
        samples_s: seconds a call, a sample each round.
        median_s: None when failed.
        low_s, high_s: bounds of the 95% interval of the median; None with fewer than 5 samples.
        calls: calls in each block.
        rounds: number of the round of each sample, from 0.
        details: protocol and conditions, as JSON.
    """

    name: str
    status: Literal["ok", "too_noisy", "failed"]
    reason: str
    samples_s: tuple[float, ...] = ()
    median_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    calls: int = 0
    rounds: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def measurement(self, *, details: dict[str, Any] | None = None, **fields: Any) -> Measurement:
        """This timing as a row of the store.

        Args:
            details: added to the timing's own.
            fields: the row's other fields: suite, workload, primitive, backend, device, batch_size.
        """
        return Measurement(
            quantity="time_per_call",
            unit="s",
            provenance=Provenance.MEASURED,
            status=self.status,
            reason=self.reason,
            value=self.median_s,
            low=self.low_s,
            high=self.high_s,
            samples=self.samples_s,
            details={**self.details, **(details or {})},
            **fields,
        )


def timing_status(
    median: float, low: float, high: float, noise_limit: float = NOISE_LIMIT
) -> tuple[Literal["ok", "too_noisy"], str]:
    """Whether a median's interval is narrow enough for a verdict to rest on it, and why not.

    Args:
        median, low, high: in any one unit.
        noise_limit: widest interval allowed, as a fraction of the median.
    """
    if high - low <= noise_limit * median:
        return "ok", ""
    width = f"the interval is {(high - low) / median:.0%} of the median"
    return "too_noisy", f"{width}, where {noise_limit:.0%} is the limit"


class _Runner:
    """One case while it is measured."""

    def __init__(self, case: Case[Any], protocol: Protocol, rng: np.random.Generator, clock: Clock) -> None:
        self.case, self.protocol, self.rng, self.clock = case, protocol, rng, clock
        self.samples_s: list[float] = []
        self.rounds: list[int] = []
        self.every = 1
        self._checked_s = 0.0
        self._block_s = 0.0
        self.part_samples_s: dict[str, list[float]] = {}
        self.calls = 1
        self.failure = ""
        self._open = False

    def attempt(self, step: str, action: Callable[[], None]) -> None:
        """Does one step of the protocol; a case that fails takes no part in what follows."""
        if self.failure:
            return
        try:
            action()
        except Exception as error:  # whatever a backend raises is that case's failure alone
            self._fail(step, error)

    def _fail(self, step: str, error: Exception) -> None:
        self.failure = self.failure or f"{step}: {type(error).__name__}: {error}"
        self.samples_s.clear()
        self.rounds.clear()

    def prepare(self) -> None:
        self.state = self.case.setup()
        self._open = True

    def check(self) -> None:
        start_s = time.perf_counter()
        self.case.check(self.state)
        self._checked_s = time.perf_counter() - start_s

    def warm_up(self) -> None:
        """Calls until warm, in blocks that grow until one is long enough."""
        # The first calls compile, allocate and load: how long they take says nothing about the others.
        spent_s = 0.0
        slow = self.protocol.long_block_s is not None
        if slow and self.case.block is not None and self._checked_s > WARM_S:
            self._block_s = self._checked_s  # warm already; a block takes no longer than the check did
            return
        for _ in range(self.protocol.warm_up_calls):
            if not slow or spent_s < WARM_S:
                spent_s += self._walled_block()
        while True:
            block_s = self._walled_block()
            spent_s += block_s
            grown = block_s >= self.protocol.block_s or self.calls >= self.protocol.largest_block
            if grown and spent_s >= self.protocol.warm_up_s:
                return
            if not grown:
                # A little more than the block asks for, so that jitter seldom takes another turn.
                wanted = 1.2 * self.calls * self.protocol.block_s / max(block_s, 1e-9)
                larger = max(self.calls + 1, int(min(wanted, 10 * self.calls)))
                self.calls = min(self.protocol.largest_block, larger)

    def block(self) -> float:
        """Seconds of one block of calls, each with fresh arguments."""
        state, call = self.state, self.case.call
        lead_in = self.protocol.lead_in_calls
        arguments = []
        if not self.case.block:
            arguments = [self.case.inputs(state, self.rng) for _ in range(lead_in + self.calls)]
        if self.protocol.rest_s:
            time.sleep(self.protocol.rest_s)
        collects = gc.isenabled()
        gc.disable()
        try:
            if self.case.block:
                return self.case.block(state, self.calls)
            for one in arguments[:lead_in]:
                call(state, one)
            self.case.synchronise()
            if self.case.parts:
                self.case.parts(state)  # what the lead-in took is none of the block's
            start_s = self.clock()
            for one in arguments[lead_in:]:
                call(state, one)
            self.case.synchronise()
            return self.clock() - start_s
        finally:
            if collects:
                gc.enable()

    def _walled_block(self) -> float:
        """Seconds of a block, on the wall's clock where the case's own is slower: a simulation takes its time."""
        start_s = time.perf_counter()
        told_s = self.block()
        self._block_s = max(told_s, time.perf_counter() - start_s) if self.case.block else told_s
        return self._block_s

    @property
    def round_s(self) -> float:
        """Seconds that it takes of a round in which it takes part, judging by how long the last block took."""
        lead_in = 0 if self.case.block else self.protocol.lead_in_calls
        return 0.0 if self.failure else self._block_s * (1 + lead_in / self.calls)

    def set_stride(self, rounds: float) -> None:
        """In which rounds it takes part, where there will be so many."""
        if (longest_s := self.protocol.long_block_s) is None:
            return
        fewest = 2 * comparison.FEWEST_SAMPLES
        while self._block_s > longest_s * self.every and rounds >= fewest * self.every and self.every < 4:
            self.every *= 2

    def sample(self, number: int) -> None:
        if number % self.every:
            return
        self.samples_s.append(self.block() / self.calls)
        self.rounds.append(number)
        if self.case.parts:
            for name, seconds in self.case.parts(self.state).items():
                self.part_samples_s.setdefault(name, []).append(seconds / self.calls)

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self.case.close(self.state)
            except Exception as error:
                self._fail("close", error)

    def timings(self, details: dict[str, Any]) -> list[Timing]:
        """That of the case, then those of its parts, `<case>: <part>`."""
        details = {**details, "calls_per_block": self.calls}
        parts = [
            self._timing(f"{self.case.name}: {part}", samples_s, details)
            for part, samples_s in self.part_samples_s.items()
        ]
        return [self._timing(self.case.name, self.samples_s, details), *parts]

    def _timing(self, name: str, samples: list[float], details: dict[str, Any]) -> Timing:
        if self.failure:
            return Timing(name, "failed", self.failure, details=details)
        samples_s = tuple(samples)
        median_s = float(np.median(samples_s))
        rounds = tuple(self.rounds)
        timing = Timing(name, "ok", "", samples_s, median_s, None, None, self.calls, rounds, details)
        fewest, limit = comparison.FEWEST_SAMPLES, self.protocol.noise_limit
        if len(samples_s) < fewest:
            reason = f"{len(samples_s)} samples in the time given, where {fewest} are the fewest"
            return replace(timing, status="too_noisy", reason=reason)
        low_s, high_s = comparison.interval(samples_s)
        timing = replace(timing, low_s=low_s, high_s=high_s)
        status, reason = timing_status(median_s, low_s, high_s, limit)
        return replace(timing, status=status, reason=reason)


def measure(
    cases: Iterable[Case[Any]],
    protocol: Protocol | None = None,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Times cases in interleaved rounds.

    Args:
        cases: with names of their own.
        protocol: how; the default one is meant for comparisons.
        progress: called with the rounds done and the rounds to do.
        clock: seconds from some moment, never going back.

    Returns:
        A timing for each case, by name, in the order given, and after a case those of its parts. A case that
        raises an exception in any step is "failed", with the step and the exception as reason, and has no samples;
        the others go on.

    Raises:
        ValueError: two cases of one name, or cores that this process may not use.
    """
    protocol = protocol or Protocol()
    chosen = list(cases)
    if len({case.name for case in chosen}) < len(chosen):
        raise ValueError(f"cases: found {[case.name for case in chosen]}; allowed: each name once")
    begin_s = clock()
    order = np.random.default_rng((protocol.seed, 0))
    runners = [
        _Runner(case, protocol, np.random.default_rng((protocol.seed, 1 + number)), clock)
        for number, case in enumerate(chosen)
    ]
    with pinned(protocol.cores), torch_threads(protocol.threads):
        try:
            for runner in runners:
                runner.attempt("setup", runner.prepare)
                runner.attempt("check", runner.check)
                runner.attempt("warm-up", runner.warm_up)
            rounds: float = protocol.rounds
            if protocol.budget_s is not None:
                round_s = sum(runner.round_s for runner in runners)
                rounds = min(rounds, (protocol.budget_s - (clock() - begin_s)) / max(round_s, 1e-9))
            for runner in runners:
                runner.set_stride(rounds)
            with caller_pinned(protocol.caller_core):
                for done in range(protocol.rounds):
                    if done and protocol.budget_s is not None and clock() - begin_s > protocol.budget_s:
                        break
                    for number in order.permutation(len(runners)):
                        runners[number].attempt("call", partial(runners[number].sample, done))
                    if progress:
                        progress(done + 1, protocol.rounds)
        finally:
            for runner in runners:
                runner.close()
        details = {
            "protocol": {
                "rounds": protocol.rounds,
                "block_s": protocol.block_s,
                "warm_up_s": protocol.warm_up_s,
                "lead_in_calls": protocol.lead_in_calls,
                "rest_s": protocol.rest_s,
                "budget_s": protocol.budget_s,
                "noise_limit": protocol.noise_limit,
                "pinned": protocol.cores is not None or protocol.caller_core is not None,
                "caller_core": protocol.caller_core,
                "seed": protocol.seed,
                "together_with": [case.name for case in chosen],
            },
            "conditions": conditions(),
        }
    return {timing.name: timing for runner in runners for timing in runner.timings(details)}


def compare_cases(
    a: Case[Any],
    b: Case[Any],
    protocol: Protocol | None = None,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
) -> tuple[Comparison, dict[str, Timing]]:
    """Whether A is faster than B, measured in the same rounds beside a second A.

    Args:
        a: one case.
        b: the other.
        protocol, progress, clock: as `measure` takes them.

    Returns:
        The comparison, and the timings of A, B and `<A> (null)`. When one failed there is no verdict, and the
        reason is its.
    """
    null = replace(a, name=f"{a.name} (null)")
    timings = measure([a, b, null], protocol, progress=progress, clock=clock)
    ours, theirs, again = (timings[case.name] for case in (a, b, null))
    for timing in (ours, theirs, again):
        if timing.status == "failed":
            reason = f"{timing.name}: {timing.reason}"
            return Comparison(None, None, "no verdict", reason, 0), timings
    return compare(ours.samples_s, theirs.samples_s, again.samples_s), timings


def overhead_s(protocol: Protocol | None = None) -> float:
    """The harness's own time per call, median seconds."""
    timing = measure([NULL], protocol or Protocol(rounds=comparison.FEWEST_PAIRS))[NULL.name]
    return float(np.median(timing.samples_s))
