"""Times functions, and compares their times, by one protocol for everything that this project times itself.

A case is a function to time, with its set-up, its check and its arguments.

1. Each case is set up and checked: a case is timed only if its output was just found correct.
2. Each case is warmed up. This also finds how many calls make a block long enough for the clock.
3. In each round every case times one block of calls, in a new random order of the cases. Each call of a block gets its
   own arguments, made before the clock starts. The device is synchronised before the clock is read. A block is
   divided into pieces, and a calibration kernel between them measures the speed of the core (`harness.measure.pace`).
4. The time of every piece is corrected to full core speed (`harness.measure.full_speed`). The mean time per call over
   a block's pieces is a sample. The value is the median of the samples, with a 95% bootstrap interval that includes
   the correction's uncertainty. If the interval is wider than the noise limit, the case is "too_noisy". A case may
   also be timed in parts; a part also passes if its interval is at most 1% of the time of all parts. The details hold
   the times as read from the clock.
5. With `narrow`, the caller says after each round which cases take part in the next one, for example without those
   that are clearly slower than others (`harness.measure.elimination`).
6. With `Protocol.settle`, the remaining time goes to cases whose intervals are too wide: to as many as are
   expected to reach the limit, in the order that completes the most cases per second.

Two cases are compared within the same rounds, together with a second copy of the first (`compare_cases`). What times
itself, such as another process, takes turns in the same loop (`harness.measure.turns`). The harness's own overhead,
a loop step and a call, is part of the samples; timing the empty case `NULL` measures it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from placerl.harness.measure import statistics
from placerl.harness.measure.case_runner import CaseRunner, Clock
from placerl.harness.measure.conditions import caller_pinned, conditions, pinned, torch_threads
from placerl.harness.measure.pace import Bracket, Readings
from placerl.harness.measure.statistics import Comparison, Samples, compare
from placerl.harness.measure.timed_case import NULL, Case, Protocol, Timing, timing_status
from placerl.harness.measure.turns import take_turns

__all__ = [
    "NULL",
    "Case",
    "Comparison",
    "Protocol",
    "Timing",
    "compare",
    "compare_cases",
    "measure",
    "paired",
    "timing_status",
]

SETTLING_SHARE = 0.25
"""Share of the budget by which `Protocol.settle` may exceed it: cases with short calls need only milliseconds more,
however long others took.
"""
MOST_TOGETHER = 5
"""Most rounds of a comparison whose ratios are not known well enough yet, in multiples of `Protocol.rounds`."""
JUDGED_EVERY = 45
RESOLVED = 0.025
"""Width of a comparison's intervals at which it ends: at this width a difference of 3% is found in 9 of 10 tries."""
Progress = Callable[[int, int], None]
Narrow = Callable[[Mapping[str, Mapping[int, float]], Mapping[str, float], float], Collection[str]]
"""Chooses the cases of the next round, by name; none of them ends the rounds. Arguments:

1. seconds per call as read from the clock, by the name of the case, or `<case>: <part>`, and the number of the round;
2. the seconds that each case adds to a round, by its name;
3. the remaining time for rounds, in seconds.
"""


def _progress(protocol: Protocol, done: int, spent_s: float) -> tuple[int, int]:
    """Return rounds done and to do; milliseconds if rounds settle cases until the budget is spent."""
    if not protocol.settle:
        return min(done, protocol.rounds), protocol.rounds
    total_s = protocol.budget_s or 0.0
    return round(1e3 * min(spent_s, total_s)), round(1e3 * total_s)


def _resolved(runners: Sequence[CaseRunner], width: float) -> bool:
    """Whether the ratio of each case to the first is known to within `width`, or cannot be known."""
    alive = [one.whole_timing() for one in runners if not one.failure]
    if len(alive) < len(runners):
        return True
    first, *others = alive
    return all(statistics.ratio_width(*paired(first, other)) <= width for other in others)


def _next_round(
    runners: Sequence[CaseRunner], protocol: Protocol, done: int, left_s: float, rounds_s: float
) -> list[CaseRunner]:
    """Return the cases of the next round; empty at the end.

    Args:
        left_s: remaining time for rounds, seconds.
        rounds_s: total time for rounds, after checks and warm-up, seconds.
    """
    if done < protocol.fewest_rounds:
        return list(runners)
    if left_s < (sum(one.round_s for one in runners) if protocol.ends_within else 0.0):
        return []
    alike = min(protocol.rounds, statistics.FEWEST_PAIRS)
    if not protocol.settle or (done < alike and left_s >= rounds_s / 2):
        more = done < protocol.rounds
        if not more and protocol.resolve and done < MOST_TOGETHER * protocol.rounds:
            more = done % JUDGED_EVERY != 0 or not _resolved(runners, protocol.resolve)
        return list(runners) if more else []
    able = [one for one in runners if not one.failure and one.round_s <= left_s]
    needs = [(one, *one.settling()) for one in able]
    # Cases come first whose intervals settle soonest per second.
    needs = sorted((need for need in needs if need[2]), key=lambda need: need[1] / need[2])
    if needs:
        waiting = [one for one, _, _ in needs]
        reach_s = np.cumsum([seconds for _, seconds, _ in needs])
        return waiting[: max(1, int(np.searchsorted(reach_s, left_s, side="right")))]
    return [one for one in able if len(one.whole.blocks) < protocol.rounds]


def _narrowed(
    runners: Sequence[CaseRunner], protocol: Protocol, done: int, left_s: float, narrow: Narrow
) -> list[CaseRunner]:
    """Return the cases of the next round as `narrow` chooses them; empty at the end."""
    if done >= protocol.rounds:
        return []
    able = {one.case.name: one for one in runners if not one.failure}
    seconds = {name: by for one in able.values() for name, by in one.clock_s_by_round().items()}
    chosen = set(narrow(seconds, {name: one.round_s for name, one in able.items()}, left_s))
    return [one for name, one in able.items() if name in chosen]


def measure(
    cases: Iterable[Case[Any]],
    protocol: Protocol | None = None,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    bracket: Bracket | None = None,
    narrow: Narrow | None = None,
) -> dict[str, Timing]:
    """Time several functions in interleaved rounds, by the protocol that this module describes.

    Args:
        cases: the functions, with different names.
        progress: called with the rounds done and the rounds to do; with `Protocol.settle`, with milliseconds.
        bracket: reads the core's speed between groups of calls (pieces); by default one that uses `clock`.
        narrow: chooses the cases of each round after `Protocol.fewest_rounds`, of which there are `Protocol.rounds` at
            most; None: every case takes part in every round, apart from what `protocol` says.

    Returns:
        A timing for each case, by name, in the order given; the timings of a case's parts follow it. A case that
        raises an exception in any step is "failed", with the step and the exception as reason, and has no
        samples; the other cases continue.

    Raises:
        ValueError: two cases have the same name, or this process may not use one of the cores.
    """
    protocol = protocol or Protocol()
    chosen = list(cases)
    if len({case.name for case in chosen}) < len(chosen):
        raise ValueError(f"cases: found {[case.name for case in chosen]}; allowed: each name once")
    begin_s = clock()
    order = np.random.default_rng((protocol.seed, 0))
    bracket = bracket or Bracket(clock)
    caller = protocol.caller_core
    cores = (caller,) if caller is not None else None if protocol.cores is None else tuple(protocol.cores)
    readings = Readings(earlier_s=bracket.full_s.get(cores, 0.0))
    runners = [
        CaseRunner(
            case, protocol, np.random.default_rng((protocol.seed, 1 + number)), clock, readings, bracket
        )
        for number, case in enumerate(chosen)
    ]
    with pinned(protocol.cores), torch_threads(protocol.threads):
        try:
            for runner in runners:
                runner.attempt("setup", runner.prepare)
                runner.attempt("check", runner.check)
                runner.attempt("warm-up", runner.warm_up)
            if protocol.resolve:
                for runner in runners[1:]:
                    runner.time_like(runners[0])
            rounds: float = protocol.rounds
            if protocol.budget_s is not None:
                round_s = sum(runner.round_s for runner in runners)
                rounds = min(rounds, (protocol.budget_s - (clock() - begin_s)) / max(round_s, 1e-9))
            for runner in runners:
                runner.set_stride(rounds)
            with caller_pinned(protocol.caller_core):
                start_s = clock()
                end_s = np.inf if protocol.budget_s is None else begin_s + protocol.budget_s

                def next_round(done: int) -> list[CaseRunner]:
                    nonlocal end_s
                    now_s = clock()
                    if progress and done:
                        progress(*_progress(protocol, done, now_s - begin_s))
                    if protocol.settle and protocol.budget_s and done == protocol.fewest_rounds:
                        end_s = max(end_s, now_s + SETTLING_SHARE * protocol.budget_s)
                    if narrow and done >= protocol.fewest_rounds:
                        return _narrowed(runners, protocol, done, end_s - now_s, narrow)
                    return _next_round(runners, protocol, done, end_s - now_s, end_s - start_s)

                for number, runner in take_turns(next_round, order):
                    runner.attempt("call", partial(runner.sample, number))
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
                "resolve": protocol.resolve,
                "noise_limit": protocol.noise_limit,
                "part_limit": protocol.part_limit,
                "pinned": protocol.cores is not None or protocol.caller_core is not None,
                "caller_core": protocol.caller_core,
                "seed": protocol.seed,
                "together_with": [case.name for case in chosen],
            },
            "conditions": conditions(),
            "readings": {"count": len(readings.seconds)}
            | ({"full_s": readings.full_s} if readings.seconds else {})
            | ({"earlier_full_s": readings.earlier_s} if readings.earlier_s else {}),
        }
        readings.remember(bracket.full_s, cores)
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
    """Compare A with B. Both are timed in the same rounds, together with a second copy of A, which shows the noise.

    Returns:
        The comparison, and the timings by name: A, B, and the copy `<A> (null)`. If one of the three failed, the
        comparison has no verdict, and its reason says which one failed and why.
    """
    null = replace(a, name=f"{a.name} (null)")
    protocol = protocol or Protocol()
    protocol = replace(protocol, resolve=protocol.resolve or RESOLVED)
    timings = measure([a, b, null], protocol, progress=progress, clock=clock, bracket=bracket)
    ours, theirs, again = (timings[case.name] for case in (a, b, null))
    for timing in (ours, theirs, again):
        if timing.status == "failed":
            reason = f"{timing.name}: {timing.reason}"
            return Comparison(None, None, "no verdict", reason, 0), timings
    return compare(*paired(ours, theirs, again)), timings


def paired(*timings: Timing) -> list[Samples]:
    """Return the samples of several timed functions, only from rounds in which every function has a sample.

    Args:
        timings: results of one call of `measure`; none has failed.

    Returns:
        The samples of each case, all of the same length: those at the same position belong to the same round.
    """
    places = [{number: place for place, number in enumerate(timing.rounds)} for timing in timings]
    shared = sorted(set.intersection(*map(set, places)))
    return [
        timing.samples.taken([at[number] for number in shared])
        for timing, at in zip(timings, places, strict=True)
    ]
