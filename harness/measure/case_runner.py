"""Runs one case, a function that is timed: sets it up, checks it, warms it up, times it, and summarises the result."""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from placerl.harness.measure import statistics
from placerl.harness.measure.full_speed import FullSpeed, at_full_speed, own_s
from placerl.harness.measure.pace import Bracket, Piece, Readings
from placerl.harness.measure.timed_case import EXPOSURE, Case, Protocol, Timing, no_wait, timing_status

SETTLED = 0.7
"""Fraction of the noise limit: an interval narrower than this is expected to stay within the limit."""
MOST_TURNS = 10
"""Most blocks of a case whose interval stays too wide, in multiples of `Protocol.rounds`: all samples are stored."""
WARM_S = 0.1
"""Seconds of calls, with the check, after which a case with few long blocks counts as warm."""
LONG_CALL_S = 10e-3
ALIKE = 1.5
"""Cases whose call times differ by less than this factor use the same blocks and pieces."""
MOST_ARGUMENTS = 5
"""Longest time of a block and its arguments, in multiples of `Protocol.block_s`; used with `Protocol.settle` only."""
Clock = Callable[[], float]


class _Series:
    """The timed blocks of a case, or of one of its parts."""

    def __init__(self) -> None:
        self.blocks: list[list[Piece]] = []
        self.rounds: list[int] = []
        self._judged, self._median_and_width = 0, (float("nan"), float("inf"))

    def add(self, number: int, pieces: list[Piece]) -> None:
        self.blocks.append(pieces)
        self.rounds.append(number)

    def at_full_speed(self, readings: Readings) -> FullSpeed:
        return at_full_speed(self.blocks, readings.full_s)

    def clock_s_by_round(self) -> dict[int, float]:
        """Return the seconds per call of each block as read from the clock, by the number of its round."""
        return {
            number: sum(piece.seconds for piece in pieces) / sum(piece.calls for piece in pieces)
            for number, pieces in zip(self.rounds, self.blocks, strict=True)
        }

    def judged(self, readings: Readings) -> tuple[float, float]:
        """Return the median in seconds and the approximate relative width of its interval.

        Computed again when there are a quarter more blocks.
        """
        if len(self.blocks) >= 1.25 * self._judged:
            self._judged = len(self.blocks)
            samples = self.at_full_speed(readings).samples
            self._median_and_width = float(np.median(samples.values)), samples.width
        return self._median_and_width


class CaseRunner:
    """Carries out the steps of the timing protocol for one case, a function to time, and keeps the samples.

    Args:
        readings: readings of the core's speed, shared by all cases of a run.
        bracket: reads the core's speed between groups of calls (pieces).
    """

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
        self._call_s = 0.0  # 0 until the case is warm
        self._turn_s = 0.0
        self.calls = 1
        self.failure = ""
        self._open = False

    def attempt(self, step: str, action: Callable[[], None]) -> None:
        """Run one step of the timing protocol, unless an earlier step failed for the function that is timed.

        Args:
            action: does the step. Its exception is stored in `failure` and not raised.
        """
        if self.failure:
            return
        try:
            action()
        except Exception as error:  # an exception of a backend fails this case alone
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
        """Call the function without using the times until it is warm, and find how many calls make a block.

        A block is the calls that are timed in one round. It gets more calls until it takes `Protocol.block_s`.
        """
        # The first calls compile, allocate and load, so their times do not predict those of later calls.
        slow = self.protocol.long_block_s is not None or self.protocol.settle
        spent_s = self._checked_s if slow else 0.0
        if slow and self.case.block is not None and self._checked_s > self.protocol.block_s:
            # The check has warmed the case up; its time stands for a block's until the first block.
            self._block_s = self._turn_s = self._checked_s
            return
        for _ in range(self.protocol.warm_up_calls):
            if not slow or spent_s < WARM_S:
                spent_s += self._walled_block()
        while True:
            block_s = self._walled_block()
            spent_s += block_s
            grown = block_s >= self.protocol.block_s or self.calls >= self.protocol.largest_block
            if grown and spent_s >= self.protocol.warm_up_s:
                break
            if not grown:
                # Aim slightly above the required length, so that jitter rarely causes another turn.
                wanted = 1.2 * self.calls * self.protocol.block_s / max(block_s, 1e-9)
                larger = max(self.calls + 1, int(min(wanted, 10 * self.calls)))
                self.calls = min(self.protocol.largest_block, larger)
        self._call_s = self._block_s / self.calls
        if self.protocol.settle and not self.case.block:
            # If making arguments takes far longer than the calls, more and shorter blocks give more samples.
            longest_s = MOST_ARGUMENTS * self.protocol.block_s
            self.calls = max(1, round(self.calls * min(1.0, longest_s / max(self._turn_s, 1e-9))))

    def block(self) -> list[Piece]:
        """Time one block, the calls of one round, and return its pieces: groups of a few calls with their seconds.

        Each call has arguments of its own, which are made before.
        """
        state, call = self.state, self.case.call
        lead_in = self._lead_in_calls
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
                self.case.parts(state)  # discards the parts' times of the lead-in calls
            del arguments[:lead_in]
            return self._pieces(arguments)
        finally:
            if collects:
                gc.enable()

    def _pieces(self, arguments: list[Any]) -> list[Piece]:
        state, call, synchronise, clock = self.state, self.case.call, self.case.synchronise, self.clock
        pieces, size = [], self._piece_calls
        self._bracket.open()
        for first in range(0, len(arguments), size):
            some = arguments[first : first + size]
            start_s = clock()
            for one in some:
                call(state, one)
            synchronise()
            seconds = clock() - start_s
            pace = self._bracket.close()
            pieces.append(
                Piece(seconds, len(some), pace._replace(waited_s=0.0) if self.case.elsewhere else pace)
            )
        return pieces

    @property
    def _lead_in_calls(self) -> int:
        """Return the number of lead-in calls; 0 if the caches do not matter.

        The caches do not matter if a call empties them, or is so long that it fills them itself, and during
        warm-up.
        """
        alone = self.case.block is not None or self.case.empties_caches
        return self.protocol.lead_in_calls if 0 < self._call_s <= LONG_CALL_S and not alone else 0

    @property
    def _piece_calls(self) -> int:
        """Return the calls of a piece; a device that must be waited for gets one piece per block."""
        if self.case.synchronise is not no_wait:
            return self.calls
        call_s = self._call_s or self.protocol.block_s / self.calls
        return max(1, round(self.protocol.piece_s / call_s))

    def _walled_block(self) -> float:
        """Return seconds of an undisturbed block, by the wall clock where the case's own is slower, as in a
        simulation.
        """
        # The fastest piece is used for all pieces: the number of calls must not depend on disturbances.
        call_s = min(own_s(piece) / piece.calls for piece in self._turn())
        self._block_s = self._turn_s if self.case.block else call_s * self.calls
        return self._block_s

    def _turn(self) -> list[Piece]:
        """Time a block; record how long all of it took, including arguments and readings of the kernel."""
        own_s, wall_s = self.clock(), time.perf_counter()
        pieces = self.block()
        told_s = sum(piece.seconds for piece in pieces)
        self._turn_s = max(told_s, self.clock() - own_s, time.perf_counter() - wall_s)
        return pieces

    @property
    def round_s(self) -> float:
        """Return the seconds that this case adds to a round: those of its last calls and of making their arguments."""
        return 0.0 if self.failure else self._turn_s

    def time_like(self, other: "CaseRunner") -> None:
        """Time as many calls per round as another case does, if one call of each takes about as long.

        Two copies of one case then have equally long blocks (calls per round), although the first was warmed up with
        colder caches.

        Args:
            other: a case that is warm; ignored if the times of a call differ by a factor of `ALIKE` or more.
        """
        if (
            not self.failure
            and not other.failure
            and max(self._call_s, other._call_s) < ALIKE * min(self._call_s, other._call_s)
        ):
            self.calls, self._call_s = other.calls, other._call_s

    def set_stride(self, rounds: float) -> None:
        """Let a case with long blocks take part only in every second or fourth round (`Protocol.long_block_s`).

        Args:
            rounds: expected number of rounds. The case keeps enough of them for an interval.
        """
        if (longest_s := self.protocol.long_block_s) is None:
            return
        fewest = 2 * statistics.FEWEST_SAMPLES
        while self._block_s > longest_s * self.every and rounds >= fewest * self.every and self.every < 4:
            self.every *= 2

    def sample(self, number: int) -> None:
        if number % self.every:
            return
        pieces = self._turn()
        self.readings.add(pieces)
        self.whole.add(number, pieces)
        if self.case.parts:
            for name, told in self.case.parts(self.state).items():
                some = [Piece(told, self.calls)] if isinstance(told, float | int) else list(told)
                self.readings.add(some)
                self.parts.setdefault(name, _Series()).add(number, some)

    def settling(self) -> tuple[float, int]:
        """Return how much longer this case must be timed until its intervals are narrow enough.

        Returns:
            The expected seconds, and the number of intervals (the case's, or those of its parts) that are still too
            wide. Both are 0 if no interval is too wide, if the case failed, or if it has had `MOST_TURNS` times the
            rounds.
        """
        done = len(self.whole.blocks)
        if self.failure or done >= MOST_TURNS * self.protocol.rounds:
            return 0.0, 0
        wide = [excess for excess in self._excesses() if excess > 1]
        if not wide:
            return 0.0, 0
        # An interval narrows with the square root of the number of samples.
        more = done * (max(wide) ** 2 - 1) if np.isfinite(max(wide)) else done
        return float(max(1, more) * self.round_s), len(wide)

    def _excesses(self) -> list[float]:
        """Return by what factor each interval is wider than the limit."""
        judged = [one.judged(self.readings) for one in self.parts.values() or [self.whole]]
        whole_s = self._whole_s(median_s for median_s, _ in judged)
        limits = [
            SETTLED
            * max(self.protocol.noise_limit, self.protocol.part_limit * whole_s / max(median_s, 1e-12))
            for median_s, _ in judged
        ]
        return [width / limit for (_, width), limit in zip(judged, limits, strict=True)]

    def _whole_s(self, parts_s: Iterable[float]) -> float:
        """Return seconds of all parts of a call together; 0 if the case is not timed in parts."""
        return sum(parts_s) if self.parts else 0.0

    def clock_s_by_round(self) -> dict[str, dict[int, float]]:
        """Return the seconds per call so far, by round: of this case by its name, of a part by `<case>: <part>`."""
        named = {self.case.name: self.whole} | {
            f"{self.case.name}: {part}": series for part, series in self.parts.items()
        }
        return {name: series.clock_s_by_round() for name, series in named.items()}

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self.case.close(self.state)
            except Exception as error:
                self._fail("close", error)

    def whole_timing(self) -> Timing:
        """Return the timing of whole calls so far, without an interval, also if parts of a call are timed."""
        return self._timing(self.whole, {})

    def timings(self, details: dict[str, Any]) -> list[Timing]:
        """Return the timing of the case, then those of its parts, which are named `<case>: <part>`.

        Args:
            details: protocol and conditions, which are added to the details of each timing.
        """
        details = {**details, "calls_per_block": self.calls}
        if self.failure:
            names = [self.case.name, *(f"{self.case.name}: {part}" for part in self.parts)]
            return [Timing(name, "failed", self.failure, details=details) for name in names]
        parts = {
            f"{self.case.name}: {part}": self._timing(series, details) for part, series in self.parts.items()
        }
        whole_s = self._whole_s(timing.median_s or 0.0 for timing in parts.values())
        return [
            self._judged(replace(self._timing(self.whole, details), name=self.case.name), 0.0),
            *(self._judged(replace(timing, name=name), whole_s) for name, timing in parts.items()),
        ]

    def _timing(self, series: _Series, details: dict[str, Any]) -> Timing:
        full_speed = series.at_full_speed(self.readings)
        return Timing(
            "",
            "ok",
            "",
            full_speed.samples,
            float(np.median(full_speed.samples.values)),
            calls=self.calls,
            rounds=tuple(series.rounds[place] for place in full_speed.places),
            details={**details, "pace": _pace_details(full_speed)},
            clock_s=tuple(map(float, full_speed.clock_s)),
            clock_rounds=tuple(series.rounds),
        )

    def _judged(self, timing: Timing, whole_s: float) -> Timing:
        """Return the timing with interval and status; `whole_s`: seconds of all parts, 0 if this is not a part."""
        fewest, protocol = statistics.FEWEST_SAMPLES, self.protocol
        if len(timing.samples) < fewest:
            reason = f"{len(timing.samples)} samples in the time given, where {fewest} are the fewest"
            return replace(timing, status="too_noisy", reason=reason)
        median_s = timing.median_s or 0.0
        low_s, high_s = statistics.interval(timing.samples, in_order=True)
        status, reason = timing_status(
            median_s, low_s, high_s, protocol.noise_limit, whole=whole_s, part_limit=protocol.part_limit
        )
        details = timing.details | ({"all_parts_s": whole_s} if whole_s else {})
        return replace(timing, status=status, reason=reason, low_s=low_s, high_s=high_s, details=details)


def _pace_details(full_speed: FullSpeed) -> dict[str, Any]:
    """Return how the blocks were moved to full speed, and their times before that."""
    details: dict[str, Any] = {"known": full_speed.known, "blocks": len(full_speed.clock_s)}
    if full_speed.known:
        details |= {
            "slope": full_speed.slope,
            "slope_error": full_speed.samples.slope_error,
            EXPOSURE: [float(f"{one:.3g}") for one in full_speed.samples.exposure],
            "full_speed_share": full_speed.share,
            "median_on_the_clock_s": float(np.median(full_speed.clock_s)),
            "clock_s": [float(f"{one:.4g}") for one in full_speed.clock_s],
        }
    return details
