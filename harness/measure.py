"""The one protocol by which everything is timed.

1. Each case is set up and checked: nothing is timed whose output was not just found right.
2. Each is warmed up, which also finds how many calls make a block long enough for the clock.
3. In each round, every case times one block, in an order drawn anew; each call of a block gets arguments of
   its own, made before the clock starts. The device is synchronised before the clock is read. A block is cut into
   pieces, and a calibration kernel between them shows at which speed the core ran (`harness.pace`).
4. The mean time per call over a block's pieces at full speed is a sample. Where too few blocks have such a piece, all
   blocks count. The median of the samples is the value, with a bootstrap interval of 95%; when that is wider than the
   noise limit, the case is "too_noisy". The details say which blocks counted, and hold what the others took.
5. With `Protocol.settle`, the time that is left goes to the cases whose intervals are too wide: to as many as can be
   expected to settle in it, those first that need the least.

Two cases are compared within the same rounds, together with one of them against itself (`compare_cases`).
The harness's own overhead, a loop step and a call, stays in the samples; `NULL` measures it.
"""

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from harness import comparison
from harness.comparison import Comparison, compare
from harness.conditions import caller_pinned, conditions, pinned, torch_threads
from harness.measurement import Measurement
from harness.pace import FULL_SPEED, Bracket, Chosen, Piece, Readings, choose
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
SETTLED = 0.7
"""Of the noise limit: below this width an interval is expected to stay within the limit."""
SETTLING_SHARE = 0.25
"""Of the budget that settling may take beyond it: cheap cases need milliseconds, whatever the slow ones took."""
MOST_TOGETHER = 5
"""Of a comparison's rounds, in multiples of `Protocol.rounds`, until so many were at full speed."""
MOST_TURNS = 10
"""Of a case that does not settle, in multiples of `Protocol.rounds`: its samples are stored."""
WARM_S = 0.5
"""Where long blocks are few: after so long in its first calls a case is warm, or in its check, if it makes blocks of
its own."""
S = TypeVar("S")
Clock = Callable[[], float]


def _no_wait() -> None:
    """What a case on the host has to wait for: nothing."""


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
        parts: of a case that is timed in parts: the seconds of each part since it was last asked, or its pieces, each
            with the share of a call that it made.
    """

    name: str
    setup: Callable[[], S]
    check: Callable[[S], None]
    inputs: Callable[[S, np.random.Generator], Any]
    call: Callable[[S, Any], Any]
    synchronise: Callable[[], None] = _no_wait
    close: Callable[[S], None] = lambda _: None
    block: Callable[[S, int], float] | None = None
    parts: Callable[[S], Mapping[str, float | Sequence[Piece]]] | None = None


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
        fewest_rounds: measured whatever the budget, at least 1.
        settle: after `comparison.FEWEST_PAIRS` rounds, or half of the time for rounds, measure the cases alone whose
            intervals are wide, up to `MOST_TURNS` times `rounds`. This may take `SETTLING_SHARE` of the budget even
            where the fewest rounds spent it all. Needs a budget.
        together: count only those of the `rounds` in which every case had a piece at full speed, and make up to
            `MOST_TOGETHER` times as many; where pieces are too long for their speed to be read, count all.
        piece_s: length of the pieces that a block is cut into, > 0 s.
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
    piece_s: float = 0.25e-3
    warm_up_s: float = 20e-3
    warm_up_calls: int = 3
    budget_s: float | None = None
    fewest_rounds: int = 1
    settle: bool = False
    together: bool = False
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
            ("fewest_rounds", 1),
            ("largest_block", 1),
            ("warm_up_s", 0.0),
            ("warm_up_calls", 0),
            ("lead_in_calls", 0),
            ("rest_s", 0.0),
        ):
            if getattr(self, name) < low:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: at least {low}")
        for name in ("block_s", "piece_s", "noise_limit"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: more than 0")
        if self.settle and self.budget_s is None:
            raise ValueError("settle: found no budget_s; allowed: with a budget_s")


@dataclass(frozen=True)
class Timing:
    """What was measured of one case.

    Attributes:
        name: the case's.
        status: "ok", "too_noisy" or "failed".
        reason: why not "ok"; empty otherwise.
        samples_s: seconds a call, of the blocks that count: those at full speed, or all where these are too few.
        median_s: of the samples; None when failed.
        low_s, high_s: bounds of the 95% interval of the median; None with fewer than 5 samples.
        calls: calls in each block.
        rounds: number of the round of each sample, from 0.
        fast: whether the samples are those at full speed; otherwise all.
        all_samples_s, all_rounds: the same of every block, at whatever speed.
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
    fast: bool = False
    all_samples_s: tuple[float, ...] = ()
    all_rounds: tuple[int, ...] = ()

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


class _Series:
    """The blocks of a case, or of one of its parts."""

    def __init__(self) -> None:
        self.blocks: list[list[Piece]] = []
        self.rounds: list[int] = []
        self._judged, self._width = 0, float("inf")

    def add(self, number: int, pieces: list[Piece]) -> None:
        self.blocks.append(pieces)
        self.rounds.append(number)

    def chosen(self, readings: Readings) -> Chosen:
        return choose(self.blocks, readings.limit_s, comparison.FEWEST_SAMPLES)

    def width(self, readings: Readings) -> float:
        """Of the interval of the median, as a fraction of it; judged again when there are a tenth more blocks."""
        if len(self.blocks) >= 1.1 * self._judged:
            self._judged = len(self.blocks)
            self._width = comparison.relative_width(self.chosen(readings).samples_s)
        return self._width


class _Runner:
    """One case while it is measured."""

    def __init__(
        self,
        case: Case[Any],
        protocol: Protocol,
        rng: np.random.Generator,
        clock: Clock,
        readings: Readings,
        bracket: Bracket,
    ) -> None:
        self.case, self.protocol, self.rng, self.clock = case, protocol, rng, clock
        self.readings = readings
        self.whole = _Series()
        self.parts: dict[str, _Series] = {}
        self.every = 1
        self._bracket = bracket
        self._checked_s = 0.0
        self._block_s = 0.0
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
        slow = self.protocol.long_block_s is not None or self.protocol.settle
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

    def block(self) -> list[Piece]:
        """One block of calls, each with fresh arguments, in pieces."""
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
                return [Piece(self.case.block(state, self.calls), self.calls)]
            for one in arguments[:lead_in]:
                call(state, one)
            self.case.synchronise()
            if self.case.parts:
                self.case.parts(state)  # what the lead-in took is none of the block's
            del arguments[:lead_in]
            return self._pieces(arguments)
        finally:
            if collects:
                gc.enable()

    def _pieces(self, arguments: list[Any]) -> list[Piece]:
        state, call, synchronise, clock = self.state, self.case.call, self.case.synchronise, self.clock
        found, size = [], self._piece_calls
        self._bracket.open()
        for first in range(0, len(arguments), size):
            some = arguments[first : first + size]
            start_s = clock()
            for one in some:
                call(state, one)
            synchronise()
            seconds = clock() - start_s
            found.append(Piece(seconds, len(some), self._bracket.close()))
        return found

    @property
    def _piece_calls(self) -> int:
        """Calls of a piece; a device that is waited for is not made to wait within a block."""
        if self.case.synchronise is not _no_wait:
            return self.calls
        return max(1, round(self.calls * self.protocol.piece_s / self.protocol.block_s))

    def _walled_block(self) -> float:
        """Seconds of a block, on the wall's clock where the case's own is slower: a simulation takes its time."""
        start_s = time.perf_counter()
        pieces = self.block()
        told_s = sum(piece.seconds for piece in pieces)
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
        pieces = self.block()
        self.readings.add(pieces)
        self.whole.add(number, pieces)
        if self.case.parts:
            for name, told in self.case.parts(self.state).items():
                found = [Piece(told, self.calls)] if isinstance(told, float | int) else list(told)
                self.readings.add(found)
                self.parts.setdefault(name, _Series()).add(number, found)

    def settling_s(self) -> float:
        """Seconds until its intervals, and those of its parts, can be expected to be narrow; 0 when they are."""
        limit = SETTLED * self.protocol.noise_limit
        done = len(self.whole.blocks)
        if self.failure or done >= MOST_TURNS * self.protocol.rounds:
            return 0.0
        series = self.parts.values() or [self.whole]
        width = max(one.width(self.readings) for one in series)
        if width <= limit:
            return 0.0
        # An interval narrows with the square root of the number of samples.
        more = done * ((width / limit) ** 2 - 1) if np.isfinite(width) else done
        return float(max(1, more) * self.round_s)

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
        if self.failure:
            names = [self.case.name, *(f"{self.case.name}: {part}" for part in self.parts)]
            return [Timing(name, "failed", self.failure, details=details) for name in names]
        parts = [
            self._timing(f"{self.case.name}: {part}", series, details) for part, series in self.parts.items()
        ]
        return [self._timing(self.case.name, self.whole, details), *parts]

    def _timing(self, name: str, series: _Series, details: dict[str, Any]) -> Timing:
        chosen = series.chosen(self.readings)
        samples_s = tuple(map(float, chosen.samples_s))
        median_s = float(np.median(samples_s))
        rounds = tuple(series.rounds[place] for place in chosen.places)
        details = {**details, "pace": _pace_details(chosen)}
        timing = Timing(
            name,
            "ok",
            "",
            samples_s,
            median_s,
            calls=self.calls,
            rounds=rounds,
            details=details,
            fast=chosen.fast,
            all_samples_s=tuple(map(float, chosen.all_s)),
            all_rounds=tuple(series.rounds),
        )
        fewest, limit = comparison.FEWEST_SAMPLES, self.protocol.noise_limit
        if len(samples_s) < fewest:
            reason = f"{len(samples_s)} samples in the time given, where {fewest} are the fewest"
            return replace(timing, status="too_noisy", reason=reason)
        low_s, high_s = comparison.interval(samples_s, in_order=True)
        timing = replace(timing, low_s=low_s, high_s=high_s)
        status, reason = timing_status(median_s, low_s, high_s, limit)
        return replace(timing, status=status, reason=reason)


def _pace_details(chosen: Chosen) -> dict[str, Any]:
    """Which blocks count, and what the others took."""
    if not chosen.known:
        return {"counted": "all blocks", "blocks": len(chosen.all_s)}
    others = np.setdiff1d(np.arange(len(chosen.all_s)), chosen.places)
    return {
        "counted": FULL_SPEED if chosen.fast else "all blocks",
        "fast_share": chosen.fast_share,
        "blocks": len(chosen.all_s),
        "median_of_all_s": float(np.median(chosen.all_s)),
        "other_samples_s": [float(chosen.all_s[place]) for place in others],
    }


def _progress(protocol: Protocol, done: int, spent_s: float) -> tuple[int, int]:
    """Rounds done and to do; where rounds settle cases until the budget is spent, milliseconds."""
    if not protocol.settle:
        return min(done, protocol.rounds), protocol.rounds
    total_s = protocol.budget_s or 0.0
    return round(1e3 * min(spent_s, total_s)), round(1e3 * total_s)


def _rounds_together(runners: Sequence[_Runner]) -> int:
    """In how many rounds every case had a piece at full speed; all, where that cannot be read."""
    if not runners:
        return 0
    limit_s, shared = min(runners[0].readings.limit_s, 1e300), []
    for runner in runners:
        chosen = runner.whole.chosen(runner.readings)
        if not chosen.readable:
            return len(runner.whole.blocks)
        rounds = zip(runner.whole.rounds, runner.whole.blocks, strict=True)
        shared.append(
            {number for number, pieces in rounds if any(piece.reading_s <= limit_s for piece in pieces)}
        )
    return len(set.intersection(*shared))


def _next_round(
    runners: Sequence[_Runner], protocol: Protocol, done: int, left_s: float, rounds_s: float
) -> list[_Runner]:
    """The cases of the next round; none at the end.

    Args:
        runners: of all cases.
        protocol: says how many rounds.
        done: rounds that were measured.
        left_s: of the time for rounds.
        rounds_s: the time for rounds, after checks and warm-up.
    """
    if done < protocol.fewest_rounds:
        return list(runners)
    if left_s < 0:
        return []
    alike = min(protocol.rounds, comparison.FEWEST_PAIRS)
    if not protocol.settle or (done < alike and left_s >= rounds_s / 2):
        counted = done
        if protocol.together and protocol.rounds <= done < MOST_TOGETHER * protocol.rounds:
            counted = _rounds_together([one for one in runners if not one.failure])
        return list(runners) if counted < protocol.rounds else []
    able = [one for one in runners if not one.failure and one.round_s <= left_s]
    needs_s = {one.case.name: one.settling_s() for one in able}
    waiting = sorted((one for one in able if needs_s[one.case.name]), key=lambda one: needs_s[one.case.name])
    if waiting:
        reach_s = np.cumsum([needs_s[one.case.name] for one in waiting])
        return waiting[: max(1, int(np.searchsorted(reach_s, left_s, side="right")))]
    return [one for one in able if len(one.whole.blocks) < protocol.rounds]


def measure(
    cases: Iterable[Case[Any]],
    protocol: Protocol | None = None,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    bracket: Bracket | None = None,
) -> dict[str, Timing]:
    """Times cases in interleaved rounds.

    Args:
        cases: with names of their own.
        protocol: how; the default one is meant for comparisons.
        progress: called with the rounds done and the rounds to do.
        clock: seconds from some moment, never going back.
        bracket: reads the core's speed between pieces; by default with that clock.

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
    readings, bracket = Readings(), bracket or Bracket(clock)
    runners = [
        _Runner(case, protocol, np.random.default_rng((protocol.seed, 1 + number)), clock, readings, bracket)
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
                done, start_s = 0, clock()
                end_s = np.inf if protocol.budget_s is None else begin_s + protocol.budget_s
                while True:
                    now_s = clock()
                    if protocol.settle and protocol.budget_s and done == protocol.fewest_rounds:
                        end_s = max(end_s, now_s + SETTLING_SHARE * protocol.budget_s)
                    turn = _next_round(runners, protocol, done, end_s - now_s, end_s - start_s)
                    if not turn:
                        break
                    for number in order.permutation(len(turn)):
                        turn[number].attempt("call", partial(turn[number].sample, done))
                    done += 1
                    if progress:
                        progress(*_progress(protocol, done, clock() - begin_s))
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
                "fewest_rounds": protocol.fewest_rounds,
                "settle": protocol.settle,
                "piece_s": protocol.piece_s,
                "together": protocol.together,
                "noise_limit": protocol.noise_limit,
                "pinned": protocol.cores is not None or protocol.caller_core is not None,
                "caller_core": protocol.caller_core,
                "seed": protocol.seed,
                "together_with": [case.name for case in chosen],
            },
            "conditions": conditions(),
            "readings": {"count": len(readings.seconds)}
            | ({"limit_s": readings.limit_s} if readings.seconds else {}),
        }
    return {timing.name: timing for runner in runners for timing in runner.timings(details)}


def compare_cases(
    a: Case[Any],
    b: Case[Any],
    protocol: Protocol | None = None,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    bracket: Bracket | None = None,
) -> tuple[Comparison, dict[str, Timing]]:
    """Whether A is faster than B, measured in the same rounds together with a second A.

    Args:
        a: one case.
        b: the other.
        protocol, progress, clock, bracket: as `measure` takes them.

    Returns:
        The comparison, and the timings of A, B and `<A> (null)`. When one failed there is no verdict, and the
        reason is its.
    """
    null = replace(a, name=f"{a.name} (null)")
    protocol = replace(protocol or Protocol(), together=True)
    timings = measure([a, b, null], protocol, progress=progress, clock=clock, bracket=bracket)
    ours, theirs, again = (timings[case.name] for case in (a, b, null))
    for timing in (ours, theirs, again):
        if timing.status == "failed":
            reason = f"{timing.name}: {timing.reason}"
            return Comparison(None, None, "no verdict", reason, 0), timings
    return compare(*paired(ours, theirs, again)), timings


def paired(*timings: Timing) -> list[tuple[float, ...]]:
    """The samples of several cases in the rounds that they share.

    Args:
        timings: of one `measure`, none failed.

    Returns:
        Of each the samples at full speed in the rounds in which all have one; where these rounds are fewer than
        `comparison.FEWEST_PAIRS`, or a case was seldom at full speed, the samples of all rounds.
    """
    fast = [dict(zip(timing.rounds, timing.samples_s, strict=True)) for timing in timings]
    shared = sorted(set.intersection(*map(set, fast)))
    if not all(timing.fast for timing in timings) or len(shared) < comparison.FEWEST_PAIRS:
        fast = [dict(zip(timing.all_rounds, timing.all_samples_s, strict=True)) for timing in timings]
        shared = sorted(set.intersection(*map(set, fast)))
    return [tuple(samples_s[number] for number in shared) for samples_s in fast]


def overhead_s(protocol: Protocol | None = None) -> float:
    """The harness's own time per call, median seconds."""
    timing = measure([NULL], protocol or Protocol(rounds=comparison.FEWEST_PAIRS))[NULL.name]
    return float(np.median(timing.samples_s))
