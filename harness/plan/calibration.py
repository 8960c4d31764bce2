"""The calibration study: shows how far measurements of this machine can be trusted.

It counts how often 95% intervals contain the true value, how often slowdowns are found, and how many rows of the
primitive tables (the measured times of a workload's primitives) are too noisy. Intervals and verdicts are tested on
real primitives, timed as in every comparison. A primitive (A) is compared with itself, so that the true ratio is 1:
this shows whether the intervals hold, and how many false alarms there are. It is also compared with itself made 3%
slower by extra arithmetic: this shows how many slowdowns are found. Noisy rows are counted in the primitive tables of
one tier, once on the machine as it is and once while a process of this study keeps one core busy.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import binomtest

from placerl.harness import workloads
from placerl.harness.core.progress import Report, part
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import default_core, usable_cores
from placerl.harness.measure.protocol import Case, Protocol, Timing, compare_cases, measure
from placerl.harness.measure.statistics import Comparison
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.plan.tiers import Tier
from placerl.harness.profile import measured
from placerl.harness.profile.cases import primitive_cases
from placerl.harness.workloads import Workload

WORKLOAD, BATCH_SIZE = "cartpole-dqn", 256
PRIMITIVES = ("sum_tree.sample native", "storage.gather", "learner.step native", "environment.step")
PLANTED = PRIMITIVES[:3]
"""Primitives that are also timed with an added slowdown. A step of the environment takes 2 us, and 3% of that is too
short to be added by a loop.
"""
SLOWDOWN = 0.03
REPEAT_S = 0.35
"""Expected seconds of one comparison, for the progress bar."""
BUSY = "while True: pass"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class CalibrationFinding:
    """A result of the study: how many of a number of comparisons or rows have some property.

    Attributes:
        what: the property that is counted, in words.
        found, of: how many have it, and how many there are.
        low, high: bounds of the 95% interval of the share `found / of`, from 0 to 1 (Clopper and Pearson).
        goal: the range that the share should be in, as text; empty if there is none.
        met: whether the share is in that range; None without a goal.
    """

    what: str
    found: int
    of: int
    low: float
    high: float
    goal: str = ""
    met: bool | None = None

    @property
    def share(self) -> float:
        """Return the share of comparisons or rows that have the property: `found` divided by `of`; NaN if `of` is 0."""
        return self.found / self.of if self.of else float("nan")


def finding(what: str, found: int, of: int, goal: tuple[float, float] | None = None) -> CalibrationFinding:
    """Return a share with its 95% interval, and whether it meets its goal.

    Args:
        found, of: how many have the property, and how many there are, at least 1.
        goal: smallest and largest share allowed, from 0 to 1; None: there is no goal.
    """
    low, high = binomtest(found, of).proportion_ci(CONFIDENCE, method="exact")
    if goal is None:
        return CalibrationFinding(what, found, of, float(low), float(high))
    least, most = goal
    words = (
        f"at most {most:.0%}"
        if least == 0
        else f"at least {least:.0%}"
        if most == 1
        else f"{least:.0%} to {most:.0%}"
    )
    return CalibrationFinding(what, found, of, float(low), float(high), words, least <= found / of <= most)


@dataclass(frozen=True)
class Try:
    """One comparison of a primitive with itself, or with a slower or faster form of itself.

    Attributes:
        primitive: the primitive's name and the backend that runs it.
        first: the timing of A, the first of the two forms that are compared.
    """

    primitive: str
    comparison: Comparison
    first: Timing


def run(
    tier: Tier,
    repeats: int,
    tries: int,
    report: Report,
    *,
    tables: bool = True,
) -> list[CalibrationFinding]:
    """Run the calibration study, which shows how far this machine's intervals and verdicts can be trusted.

    Args:
        repeats: comparisons of each primitive with itself.
        tries: comparisons of each primitive of `PLANTED` with itself made slower by `SLOWDOWN`.
        tables: whether the primitive tables are measured, to count rows that are too noisy.

    Returns:
        The findings of the comparisons (see `summary`), then those of the tables (see `noisy_rows`). Those with one
        core busy are left out if the process may use only one core.
    """
    compared_s = REPEAT_S * (repeats * len(PRIMITIVES) + tries * len(PLANTED))
    tables_s = 2.0 * sum(tier.profile_s for _ in _cells(tier)) if tables else 0.0
    total_s = compared_s + tables_s
    findings = compared(repeats, tries, part(report, 0.0, compared_s, total_s, "comparisons"))
    if tables:
        each_s = tables_s / 2
        quiet = part(report, compared_s, each_s, total_s, "tables")
        findings += noisy_rows(tier, "as the machine is", 0.05, quiet)
        with busy_core() as busy:
            if busy:
                loud = part(report, compared_s + each_s, each_s, total_s, "tables, one core busy")
                findings += noisy_rows(tier, "with one core busy", 0.15, loud)
    return findings


def compared(repeats: int, tries: int, report: Report) -> list[CalibrationFinding]:
    """Compare each primitive with itself, and each of `PLANTED` also with itself made 3% slower.

    Returns:
        The findings of `summary`.
    """
    cases = {item.case.name: item for item in primitive_cases(workloads.load(WORKLOAD), BATCH_SIZE)}
    total = repeats * len(PRIMITIVES) + tries * len(PLANTED)
    same: list[Try] = []
    slower: list[Try] = []
    for name in PRIMITIVES:
        with _shared(cases[name]) as case:
            for _ in range(repeats):
                same.append(_compare(name, case, case))
                report(len(same) + len(slower), total, name)
            if name in PLANTED:
                plain, slow = planted(case, SLOWDOWN)
                for _ in range(tries):
                    slower.append(_compare(name, slow, plain))
                    report(len(same) + len(slower), total, f"{name}, {SLOWDOWN:.0%} slower")
    return summary(same, slower)


def summary(same: list[Try], slower: list[Try]) -> list[CalibrationFinding]:
    """Return how often intervals contained the true ratio, verdicts were false and slowdowns were found.

    Args:
        same: comparisons of a primitive with itself.
        slower: comparisons of a primitive, made slower by `SLOWDOWN`, with the primitive as it is.

    Returns:
        The findings for all primitives together, and for each primitive.
    """
    findings = [
        *_of_each("95% intervals of A/A that hold 1", same, _holds, (0.93, 0.97)),
        *_of_each("A/A with a verdict (false alarms)", same, _has_verdict, (0.0, 0.05)),
        *_of_each(f"slowdowns of {SLOWDOWN:.0%} that were found", slower, _is_slower, (0.8, 1.0)),
    ]
    timed = [one for one in same if one.first.status != "failed"]
    pairs = [(a, b) for a, b in pairwise(timed) if a.primitive == b.primitive]
    if pairs:
        held = sum(_hold(a.first, b.first) for a, b in pairs)
        findings.append(
            finding("intervals of A/A measured one after the other that hold 1", held, len(pairs))
        )
    return findings


def _of_each(
    what: str, tries: list[Try], counts: Callable[[Comparison], bool], goal: tuple[float, float]
) -> Iterator[CalibrationFinding]:
    """Yield the share over all tries, then that of each primitive; a comparison without a result counts as a
    miss.
    """
    if not tries:
        return
    yield finding(what, sum(counts(one.comparison) for one in tries), len(tries), goal)
    for name in dict.fromkeys(one.primitive for one in tries):
        own = [one for one in tries if one.primitive == name]
        yield finding(f"  {name}", sum(counts(one.comparison) for one in own), len(own))


def _holds(comparison: Comparison) -> bool:
    return comparison.ratio is not None and not comparison.ratio.differs


def _has_verdict(comparison: Comparison) -> bool:
    return comparison.verdict != "no verdict"


def _is_slower(comparison: Comparison) -> bool:
    return comparison.verdict == "slower"


def _hold(a: Timing, b: Timing) -> bool:
    low, high = statistics.ratio_interval(a.samples_s, b.samples_s)
    return low <= 1 <= high


def planted(case: Case[Any], slowdown: float) -> tuple[Case[Any], Case[Any]]:
    """Return two forms of a timed function (a case): one as fast as before, and one slower by a known fraction.

    Both do a sum over a range of numbers after each call: the range is empty in the first form, and in the second
    long enough to take the fraction of the call's time.

    Args:
        case: a case with calls of 10 us or more.
        slowdown: the fraction of a call's time that is added, such as 0.03.

    Returns:
        The form without the slowdown, and the slower one.
    """
    items = 1000
    added = _numbers(items)
    loop = Case("arithmetic", lambda: None, lambda _: None, lambda _, rng: None, lambda _, one: sum(added))
    timings = measure([_with_loop(case, 0), loop], _protocol())
    call_s, loop_s = (float(np.median(timings[name].samples_s)) for name in (case.name, loop.name))
    extra = max(1, round(slowdown * call_s / (loop_s / items)))
    return _with_loop(case, 0), _with_loop(case, extra)


def _numbers(items: int) -> range:
    """Return numbers that all take the same time: Python adds its cached small numbers twice as fast."""
    return range(10**6, 10**6 + items)


def _with_loop(case: Case[Any], items: int) -> Case[Any]:
    loop = _numbers(items)

    def call(state: Any, arguments: Any) -> None:
        case.call(state, arguments)
        sum(loop)

    return replace(case, call=call)


def _compare(name: str, a: Case[Any], b: Case[Any]) -> Try:
    comparison, timings = compare_cases(a, replace(b, name=f"{b.name} (other)"), _protocol())
    return Try(name, comparison, timings[a.name])


def _protocol() -> Protocol:
    return Protocol(warm_up_s=5e-3, threads=measured.THREADS, lead_in_calls=1, caller_core=default_core())


@contextmanager
def _shared(item: PrimitiveCase) -> Iterator[Case[Any]]:
    """Provide the case with one state for all comparisons, checked once."""
    case = item.case
    state = case.setup()
    try:
        case.check(state)
        yield replace(case, setup=lambda: state, check=lambda _: None, close=lambda _: None)
    finally:
        case.close(state)


@contextmanager
def busy_core() -> Iterator[bool]:
    """Keep one core busy with another process for the duration of the block; yields False if there is only one core."""
    if len(usable_cores()) < 2:
        yield False
        return
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        time.sleep(0.5)
        yield True
    finally:
        process.kill()
        process.wait()


def noisy_rows(tier: Tier, when: str, most: float, report: Report) -> list[CalibrationFinding]:
    """Measure a tier's primitive tables, and return how many of their rows are too noisy, in all and for each table.

    A primitive table holds the times of a workload's primitives at one batch size.

    Args:
        when: the machine's state in words, such as "with one core busy".
        most: largest share of noisy rows that meets the goal, from 0 to 1.
    """
    cells = list(_cells(tier))
    counts: dict[str, Counter[str]] = {}
    for number, (item, batch_size) in enumerate(cells):
        inner = part(report, number, 1, len(cells), f"{item.name}/{batch_size}")
        rows = measured.profile(item, batch_size, tier.profile_s, inner)
        counts[f"{item.name}/{batch_size}"] = Counter(row.status for row in rows)
    total = sum(counts.values(), Counter())
    what = f"rows too noisy, {when}"
    return [
        finding(what, total["too_noisy"], total.total(), (0.0, most)),
        *(finding(f"  {name}", found["too_noisy"], found.total()) for name, found in counts.items()),
    ]


def _cells(tier: Tier) -> Iterator[tuple[Workload, int]]:
    """Yield workload and batch size of a tier's tables."""
    for item in map(workloads.load, tier.workloads):
        for batch_size in sorted({*tier.batch_sizes, item.training.batch_size}):
            yield item, batch_size
