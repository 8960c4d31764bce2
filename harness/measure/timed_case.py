"""What is timed, how, and what is found: the words of the timing protocol (`harness.measure.protocol`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.pace import Piece
from harness.measure.statistics import Samples

NOISE_LIMIT = 0.1
PART_LIMIT = 0.01
NO_SAMPLES = Samples(np.zeros(0), np.zeros(0))
S = TypeVar("S")


def no_wait() -> None:
    """What a case on the host has to wait for: nothing."""


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
        empties_caches: whether each call empties the caches itself, so that no call has to lead in.
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
        settle: after `statistics.FEWEST_PAIRS` rounds, or half of the time for rounds, measure the cases alone whose
            intervals are wide, up to `MOST_TURNS` times `rounds`. This may take `SETTLING_SHARE` of the budget even
            where the fewest rounds spent it all. Needs a budget.
        resolve: make up to `MOST_TOGETHER` times as many rounds, until the ratio of each case to the first is known to
            within so much: the width of its 95% interval, as a fraction of the ratio, > 0; None: as many as said.
        piece_s: length of the pieces that a block is cut into, > 0 s.
        lead_in_calls: calls of a block before its clock starts, so that a case finds the caches as it left them.
        rest_s: pause before a block, >= 0 s, so that threads that spin on after the last case's work, as OpenMP's do
            for milliseconds, have let go of their cores.
        long_block_s: a case whose block takes longer takes part in every second round only, or in every fourth;
            None: all take part in all. Blocks are never skipped so often that fewer than 5 samples would be left of
            the rounds that the budget holds.
        largest_block: most calls of a block, at least 1; their arguments are in memory together.
        noise_limit: widest interval of a case that is not "too_noisy", as a fraction of its median.
        part_limit: the same of a part, as a fraction of all parts of its case: a part that takes 1% of a round need not
            be known to a tenth of itself.
        caller_core: core to pin the measuring thread to once everything is warm, so that the threads of libraries
            keep theirs; None: as it is.
        cores: cores to pin this process to; None: as it is.
        threads: threads of PyTorch; None: as it is.
        seed: of arguments and orders.
    """

    rounds: int = statistics.PAIRS
    block_s: float = 1e-3
    piece_s: float = 0.25e-3
    warm_up_s: float = 20e-3
    warm_up_calls: int = 3
    budget_s: float | None = None
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
        for name in ("block_s", "piece_s", "noise_limit", "part_limit", "resolve"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: found {value}; allowed: more than 0")
        if self.settle and self.budget_s is None:
            raise ValueError("settle: found no budget_s; allowed: with a budget_s")


@dataclass(frozen=True)
class Timing:
    """What was measured of one case.

    Attributes:
        name: the case's.
        status: "ok", "too_noisy" or "failed".
        reason: why not "ok"; empty otherwise.
        samples: seconds a call at full speed, of the blocks that count, with what the slope leaves open.
        median_s: of the samples; None when failed.
        low_s, high_s: bounds of the 95% interval of the median; None with fewer than 5 samples.
        calls: calls in each block.
        rounds: number of the round of each sample, from 0.
        clock_s, clock_rounds: seconds a call of every block as the clock had them, at whatever speed; their rounds.
        details: protocol and conditions, as JSON.
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
        """Seconds a call at full speed."""
        return tuple(map(float, self.samples.values))

    def measurement(self, *, details: dict[str, Any] | None = None, **fields: Any) -> Measurement:
        """This timing as a row of the store.

        Args:
            details: added to the timing's own.
            fields: the row's other fields: suite, workload, primitive, backend, device, batch_size.
        """
        return Measurement(
            quantity="time_per_call",
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
    median: float,
    low: float,
    high: float,
    noise_limit: float = NOISE_LIMIT,
    *,
    whole: float = 0.0,
    part_limit: float = PART_LIMIT,
) -> tuple[Literal["ok", "too_noisy"], str]:
    """Whether a median's interval is narrow enough for a verdict to rest on it, and why not.

    Args:
        median, low, high: in any one unit.
        noise_limit: widest interval allowed, as a fraction of the median.
        whole: of a part, what all parts of its case take together; 0 for what is no part.
        part_limit: widest interval allowed of a part, as a fraction of the whole.
    """
    if high - low <= max(noise_limit * median, part_limit * whole):
        return "ok", ""
    width = f"the interval is {(high - low) / median:.0%} of the median"
    reason = f"{width}, where {noise_limit:.0%} is the limit"
    if whole:
        reason += f", and {(high - low) / whole:.1%} of all parts, where {part_limit:.0%} is"
    return "too_noisy", reason
