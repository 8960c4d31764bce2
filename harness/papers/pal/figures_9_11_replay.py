"""Checks of PAL's claims about its replay: two locks (VI-D), and the buffer plugged into other libraries (VI-F)."""

from typing import Any

import pandas as pd

from harness.compare import adapters
from harness.papers.base import Finding, Outcome
from harness.papers.evidence import Paired, detail, number, paired, records, select
from harness.papers.number import from_text
from harness.papers.pal.locks import BINARY, EXPERIMENT, ONE_LOCK, OWNER, SHARINGS, TWO_LOCKS

NEEDS_ADAPTERS = "`placerl bench adapters`: training in other libraries with this replay and with their own"
NEEDS_LOCKS = (
    "the experiment PAL-F9-locks: threads on one replay with two locks, one lock and an owner thread"
)

LEAST_GAIN = "tianshou"  # whose replay is compiled (PAL VI-F)

Turns = dict[tuple[str, int, bool], Any]
"""Rows of one batch size by sharing, threads, and whether it is the A/A null."""


def _turns(frame: pd.DataFrame) -> dict[int, Turns]:
    found: dict[int, Turns] = {}
    for row in records(select(frame, suite="claim", quantity="time_per_call")):
        if detail(row, "experiment") == EXPERIMENT:
            side = str(detail(row, "sharing")), int(detail(row, "threads")), bool(detail(row, "null"))
            found.setdefault(int(row.batch_size), {})[side] = row
    return found


def two_locks(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 9: what two locks and lazy writing bring to threads that share one replay."""
    threads, at_least = from_text("PAL.threads", "PAL.tree_speedup_low")
    most = int(threads.value)
    wanted = [(sharing, count, False) for sharing in SHARINGS for count in (1, most)]
    wanted.append((TWO_LOCKS, most, True))
    turns = {size: rows for size, rows in _turns(frame).items() if all(side in rows for side in wanted)}
    if not turns:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_LOCKS)
    over_one, over_binary, over_owner = (
        [_over(size, rows, other, most) for size, rows in turns.items()]
        for other in (ONE_LOCK, BINARY, OWNER)
    )
    two_scale, one_scales = (
        [_scaling(size, rows, sharing, most) for size, rows in turns.items()]
        for sharing in (TWO_LOCKS, ONE_LOCK)
    )
    ours = [c.gain for c in (*over_one, *over_binary, *over_owner, *two_scale, *one_scales)]
    cores = sorted({int(detail(row, "cores")) for rows in turns.values() for row in rows.values()})
    explanation = (
        f"At {most} threads two locks are faster than one at {_count(over_one, 'faster')} of {len(turns)} batch sizes, "
        f"slower at {_count(over_one, 'slower')}; with two locks {most} threads do more than one at "
        f"{_count(two_scale, 'faster')}, with one lock at {_count(one_scales, 'faster')}. "
        f"Measured on {' and '.join(map(str, cores))} cores, which bound what {most} threads can gain."
    )
    faster = _count(over_one, "faster") == len(turns)
    scales = _count(two_scale, "faster") == len(turns)
    as_published = all(c.beyond_noise and c.beyond_noise[0] > at_least.value for c in over_binary)
    if faster and scales and not _count(one_scales, "faster"):
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(ours), explanation)
    if _count(over_one, "slower") or _count(one_scales, "faster") == len(turns):
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
    if _count(two_scale, "slower") and min(cores) >= most:
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
    return Finding(Outcome.NO_VERDICT, tuple(ours), explanation)


def _over(size: int, rows: Turns, other: str, threads: int) -> Paired:
    name = f"batch size {size}, {threads} threads: two locks over {other}"
    two, null = rows[TWO_LOCKS, threads, False], rows[TWO_LOCKS, threads, True]
    return paired(name, two, null, rows[other, threads, False])


def _scaling(size: int, rows: Turns, sharing: str, threads: int) -> Paired:
    name = f"batch size {size}: {threads} threads over 1, {sharing}"
    many, one = rows[sharing, threads, False], rows[sharing, 1, False]
    return paired(name, many, None, one, at_most=min(threads, int(detail(many, "cores"))))


def plugged_in(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 11: training in other libraries with this project's replay in the place of their own."""
    at_least, at_most = from_text("PAL.plugin_speedup_low", "PAL.plugin_speedup_high")
    rows = records(select(frame, suite=adapters.SUITE, quantity=adapters.GAIN))
    last = {row.workload: row for row in rows}
    ours = [number(row, f"{name}: gain over its own replay") for name, row in last.items()]
    counted = {name: row for name, row in last.items() if detail(row, "own_is_prioritised")}
    missing = [pair.name for pair in adapters.PAIRS if pair.name not in last and not pair.missing]
    if not counted:
        lacking = f" ({', '.join(missing)})" if last else ""
        return Finding(Outcome.NOT_RUN, tuple(ours), needs=f"{NEEDS_ADAPTERS}{lacking}")
    verdicts = [detail(row, "verdict") for row in counted.values()]
    faster, slower = verdicts.count("faster"), verdicts.count("slower")
    explanation = (
        f"Of {len(counted)} trainings with a prioritised replay of the library's own, {faster} are faster with this "
        f"project's and {slower} slower, all of acting and learning included: {', '.join(counted)}."
    )
    if len(last) > len(counted):
        explanation += (
            " Stable-Baselines3 has a uniform replay alone, which does less: its gain does not count."
        )
    if missing:
        explanation += f" Not measured: {', '.join(missing)}."
    if faster == len(counted):
        as_published = all(
            at_least.value <= row.low and row.high <= at_most.value for row in counted.values()
        )
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(ours), explanation)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, tuple(ours), explanation)


def order_of_gains(frame: pd.DataFrame) -> Finding:
    """PAL VI-F: the gain falls where the algorithm computes more, and is the least in tianshou."""
    rows = records(select(frame, suite=adapters.SUITE, quantity=adapters.GAIN))
    last = {row.workload: row for row in rows if detail(row, "own_is_prioritised")}
    by_library: dict[str, list[Any]] = {}
    for pair in adapters.PAIRS:
        if pair.name in last:
            by_library.setdefault(pair.library, []).append(last[pair.name])
    # (the larger gain, the smaller one): continuous actions take a second network.
    wanted = [(some[0], some[1]) for some in by_library.values() if len(some) == 2]
    others = {library: some[0] for library, some in by_library.items() if library != LEAST_GAIN}
    if LEAST_GAIN in by_library:
        wanted += [(row, by_library[LEAST_GAIN][0]) for row in others.values()]
    if not wanted:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_ADAPTERS} (two algorithms, or two libraries)")
    shown = sum(more.low > less.high for more, less in wanted)
    refuted = sum(more.high < less.low for more, less in wanted)
    ours = tuple(number(row, f"{name}: gain over its own replay") for name, row in last.items())
    said = f"Of {len(wanted)} pairs of gains {shown} are in the stated order, {refuted} in the other."
    if shown == len(wanted):
        return Finding(Outcome.IN_KIND, ours, said)
    return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, ours, said)


def _count(comparisons: list[Paired], verdict: str) -> int:
    return sum(c.outcome.verdict == verdict for c in comparisons)
