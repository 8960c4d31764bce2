"""Defines the types of the timing protocol (`harness.measure.protocol`).

They are functions to time (`Case`), how to time them (`Protocol`), and the results (`Timing`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.measure import statistics
from placerl.harness.measure.pace import Piece
from placerl.harness.measure.statistics import Samples

NOISE_LIMIT = 0.1
PART_LIMIT = 0.01
NO_SAMPLES = Samples(np.zeros(0), np.zeros(0))
EXPOSURE = "exposure"
"""Entry of `HowTimed.pace`: `Samples.exposure`, to three digits."""
S = TypeVar("S")
R = TypeVar("R", bound=Row)


def no_wait() -> None:
    """Do nothing; the default of `Case.synchronise`, because work on the host needs no synchronisation."""


@dataclass(frozen=True)
class Case(Generic[S]):
    """A function to time, with its set-up, its check and its arguments.

    The asv and pytest-benchmark suites time the same cases.

    Attributes:
        name: unique among the cases measured together.
        setup: creates the state; not timed.
        check: raises an exception with a message if the case computes something wrong.
        inputs: creates the arguments of one call from a random generator; not timed.
        call: the timed function.
        synchronise: waits until the device has finished everything requested.
        close: releases what `setup` took.
        block: for a case that times itself, such as in a process: makes a number of calls, each with new arguments,
            and returns the seconds they took. `inputs`, `call` and the untimed calls before a block are then unused.
        parts: for a case timed in parts: returns each part's seconds since the last call of `parts`, or its
            pieces since then (`Piece.calls` is the fraction of a call that a piece covers).
        empties_caches: whether each call empties the caches itself, so that no untimed calls before a block are needed.
        elsewhere: whether a device computes, or threads of its driver. It goes on while the calling thread waits for a
            core, so that such a wait is then part of the time.
    """

    name: str
    setup: Callable[[], S]
    check: Callable[[S], None]
    inputs: Callable[[S, np.random.Generator], Any]
    call: Callable[[S, Any], Any]
    synchronise: Callable[[], None] = no_wait
    close: Callable[[S], None] = lambda _: None
    block: Callable[[S, int], float] | None = None
    parts: Callable[[S], Mapping[str, float | Sequence[Piece]]] | None = None
    empties_caches: bool = False
    elsewhere: bool = False


NULL: Case[None] = Case("null", lambda: None, lambda _: None, lambda _, rng: None, lambda _, arguments: None)
"""A case that does nothing: what is measured is the harness."""


@dataclass(frozen=True)
class Protocol:
    """How long and under which conditions to time functions. A block is the calls of a function in one round.

    Attributes:
        rounds: samples of each case, at least 1. An interval needs 5, a comparison 15; the default is 45.
        block_s: least duration of a block of calls, > 0 s; should be thousands of times the clock's resolution.
        warm_up_s: least time of calls before a case's first sample, >= 0 s.
        warm_up_calls: calls of a case before the block length is determined, at least 0.
        budget_s: no further round begins after this many seconds, checks and warm-up included; None: no limit.
        ends_within: whether a round is left out if it is expected to end after the budget; otherwise a round is left
            out only if it would begin after the budget.
        fewest_rounds: rounds measured whatever the budget, at least 1.
        settle: whether the later rounds time only the cases whose intervals are still too wide. This begins after
            `statistics.FEWEST_PAIRS` rounds or half of the time for rounds, and ends for a case after `MOST_TURNS`
            times `rounds`. It may take `SETTLING_SHARE` of the budget even if the fewest rounds used it up. Needs a
            budget.
        resolve: run up to `MOST_TOGETHER` times as many rounds, until the 95% interval of each case's ratio to
            the first case is at most this wide, as a fraction of the ratio, > 0; None: only `rounds`.
        piece_s: length of the pieces that a block is divided into, > 0 s.
        lead_in_calls: untimed calls at the start of a block, which fill the caches again after another case's turn.
        rest_s: pause before a block, >= 0 s. Threads of the case before may keep a core busy after their work
            (OpenMP's do for milliseconds), and release it during the pause.
        long_block_s: a case whose block takes longer takes part only in every second or every fourth round; None:
            all take part in all. Rounds are not skipped if fewer than 5 samples would be left within the budget.
        largest_block: most calls of a block, at least 1; their arguments are in memory at the same time.
        noise_limit: widest interval of a case that is not "too_noisy", as a fraction of its median.
        part_limit: widest interval of a part of a case that is not "too_noisy", as a fraction of the time of all
            parts; `noise_limit` is enough too. So a part that takes 1% of the time need not be known exactly.
        caller_core: core to which the measuring thread is pinned once everything is warm, so that the threads of
            libraries keep theirs; None: not pinned.
        cores: cores to which this process is pinned; None: not pinned.
        threads: threads of PyTorch; None: unchanged.
        seed: seed of the arguments and of the order of the cases in each round.
    """

    rounds: int = statistics.PAIRS
    block_s: float = 1e-3
    piece_s: float = 0.25e-3
    warm_up_s: float = 20e-3
    warm_up_calls: int = 3
    budget_s: float | None = None
    ends_within: bool = False
    fewest_rounds: int = 1
    settle: bool = False
    resolve: float | None = None
    lead_in_calls: int = 0
    rest_s: float = 0.0
    long_block_s: float | None = None
    largest_block: int = 4096
    noise_limit: float = NOISE_LIMIT
    part_limit: float = PART_LIMIT
    caller_core: int | None = None
    cores: tuple[int, ...] | None = None
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
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
        for name in ("block_s", "piece_s", "noise_limit", "part_limit", "resolve"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: found {value}; allowed: more than 0")
        if self.settle and self.budget_s is None:
            raise ValueError("settle: found no budget_s; allowed: with a budget_s")


@dataclass(frozen=True)
class Timing:
    """The result of timing one function, a `Case`. A block is its calls in one round.

    Attributes:
        status: "ok", "too_noisy" or "failed".
        reason: why the status is not "ok"; empty otherwise.
        samples: seconds per call of each block that is used, corrected to full core speed.
        median_s: median of the samples; None if failed.
        low_s, high_s: bounds of the 95% interval of the median; None with fewer than 5 samples.
        calls: calls in each block.
        rounds: the round of each sample, counted from 0.
        clock_s: seconds per call of every block as read from the clock, without the correction.
        clock_rounds: the round of each of these blocks.
        details: protocol and conditions, as fields of `HowTimed`.
    """

    name: str
    status: Literal["ok", "too_noisy", "failed"]
    reason: str
    samples: Samples = NO_SAMPLES
    median_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    calls: int = 0
    rounds: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    clock_s: tuple[float, ...] = ()
    clock_rounds: tuple[int, ...] = ()

    @property
    def samples_s(self) -> tuple[float, ...]:
        """Return the samples as plain numbers: seconds per call, corrected to full core speed."""
        return tuple(map(float, self.samples.values))

    def measurement(self, kind: type[R], **fields: Any) -> R:
        """Return this timing as a row of the store, a measurement of quantity "time_per_call".

        It says which rounds the samples are from (`HowTimed.sample_rounds`), so that rows can be paired (`stored`).
        """
        return kind(
            quantity="time_per_call",
            provenance=Provenance.MEASURED,
            status=self.status,
            reason=self.reason,
            value=self.median_s,
            low=self.low_s,
            high=self.high_s,
            samples=self.samples_s,
            timed=HowTimed(**self.details, sample_rounds=_stretches(self.rounds)),
            **fields,
        )

    @classmethod
    def stored(cls, row: Any) -> "Timing":
        """Return what a row still says about a timing: its samples, and the rounds that they are from.

        `rounds` is empty if they are unknown. That is so in stores of earlier versions, which do not state them,
        if blocks were left out: such rows have fewer samples than "blocks". It is so, too, if samples were left out
        of the row later (`harness.store.reference`). Any other row has a sample of every round from the first on:
        earlier timings without losses, and results of `harness.measure.turns.in_rounds`.

        Args:
            row: a measurement of times, or one of `harness.papers.evidence.records`. A failed one has no samples.
        """
        count, pace = len(row.samples), row.timed.pace
        rounds: tuple[int, ...] = ()
        if stretches := row.timed.sample_rounds:
            rounds = tuple(number for first, last in stretches for number in range(first, last + 1))
        elif pace.get("blocks", count) == count:
            rounds = tuple(range(count))
        exposure, slope_error = pace.get(EXPOSURE, ()), pace.get("slope_error", 0.0)
        if len(exposure) != count:
            exposure, slope_error = np.zeros(count), 0.0
        samples = Samples(np.array(row.samples, float), np.array(exposure, float), slope_error)
        return cls("", row.status, row.reason, samples, rounds=rounds if len(rounds) == count else ())


def _stretches(rounds: Sequence[int]) -> list[list[int]]:
    """Return ascending numbers as [first, last] of each stretch without a gap: mostly a single one."""
    stretches: list[list[int]] = []
    for number in rounds:
        if stretches and number == stretches[-1][1] + 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    return stretches


def timing_status(
    median: float,
    low: float,
    high: float,
    noise_limit: float = NOISE_LIMIT,
    *,
    whole: float = 0.0,
    part_limit: float = PART_LIMIT,
) -> tuple[Literal["ok", "too_noisy"], str]:
    """Return whether a median's interval is narrow enough, as the status "ok" or "too_noisy", and why not.

    Args:
        median, low, high: the median and the bounds of its interval, in one unit, which is that of `whole` too.
        part_limit: widest interval allowed for a part, as a fraction of the whole.
    """
    if high - low <= max(noise_limit * median, part_limit * whole):
        return "ok", ""
    if median:
        reason = (
            f"the interval is {(high - low) / median:.1%} of the median, where {noise_limit:.0%} is the limit"
        )
    else:
        reason = f"the interval is {low:.3g} to {high:.3g}, where the median is 0"
    if whole:
        reason += f", and {(high - low) / whole:.1%} of all parts, where {part_limit:.0%} is"
    return "too_noisy", reason
