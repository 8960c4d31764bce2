"""Times threads that share one replay: with two locks, with one lock, and with an owner thread (PAL VI-D, Fig. 9).

Each thread repeats: insert 8 items, sample a batch, update its priorities. The threads are C++ threads, so that locks
are measured and not Python (`native/contention.hpp`). The ways of sharing a replay:

    two locks              `ConcurrentReplay`: lazy writing and two locks (PAL IV-D)
    one lock               the same sum tree and storage, one lock around every call, data included
    one lock, binary tree  PAL's baseline: the plain binary tree, one lock around every call, data included
    owner thread           one more thread makes all calls on the same sum tree and storage; the others request and wait
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.progress import Report, part
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import Paired, paired, rate, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import from_text
from placerl.harness.platforms import available_memory
from placerl.harness.store.rows import ClaimRow

PRIMITIVE = "replay.insert_sample_update"
TWO_LOCKS, ONE_LOCK, BINARY, OWNER = SHARINGS = (
    "two locks",
    "one lock",
    "one lock, binary tree",
    "owner thread",
)
THREADS = (1, 2, 4)
BATCH_SIZES = (64, 1024)
CAPACITY = 2**20
INSERTED = 8
FANOUT = 16
ROW_BYTES = (44, 12, 4, 44, 1)
"""Bytes of the columns of a transition of Hopper: observation, action, reward, next observation, terminated."""
TREE_BYTES = 16
"""Bytes per item in the largest tree, the binary one: two nodes of 4 bytes, rounded up."""
CHECK_CAPACITY = 256
CHECK_S = 0.2
SHORTEST_TURN_S = 2e-3
LONGEST_TURN_S = 0.1
NEEDS_CORES = "2 cores or more: threads that share a core never work at the same time"


@dataclass(frozen=True)
class LockedSide(Columns):
    """One configuration that is timed, threads that share one replay, and its row's columns.

    Attributes:
        sharing: how they share it: "two locks", "one lock", "one lock, binary tree" or "owner thread".
        null: whether it is the second, identical copy of a configuration, which shows the noise (the A/A null).
        cores: cores that this process may use.
        turn_s, seed: length of a turn, and the seed of turns and samples.
    """

    sharing: str
    threads: int
    null: bool = False
    cores: int = 0
    capacity: int = CAPACITY
    inserted: int = INSERTED
    row_bytes: int = sum(ROW_BYTES)
    turn_s: float = 0.0
    seed: int = 0


EXPERIMENT = Experiment("locks", "threads on one replay, by how they share it", "time_per_call", LockedSide)


def sides(threads: Sequence[int] = THREADS) -> list[LockedSide]:
    """Return the configurations to time: every way of sharing a replay with every number of threads.

    The configurations with two locks occur twice; the second copy shows the noise.
    """
    nulls = [LockedSide(TWO_LOCKS, count, null=True) for count in threads]
    return [LockedSide(sharing, count) for sharing in SHARINGS for count in threads] + nulls


def make(sharing: str, capacity: int) -> Any:
    """Return a full replay that threads share in the given way."""
    from placerl.harness._experiments import Contention

    return Contention(sharing, capacity, list(ROW_BYTES), FANOUT)


def check(sharing: str, threads: int = max(THREADS)) -> None:
    """Check every byte that threads sample from a shared replay, which is so small that they collide all the time.

    Raises:
        ValueError: a sampled item was incomplete, or had no valid weight.
    """
    replay = make(sharing, CHECK_CAPACITY)
    _, rounds, torn = replay.run(threads, 32, INSERTED, CHECK_S, 0, True)
    if torn or not rounds or replay.size != CHECK_CAPACITY:
        raise ValueError(
            f"{sharing}: of {32 * rounds} sampled items {torn} were not whole; {replay.size} held in the end"
        )


def measure(
    batch_sizes: Sequence[int],
    rounds: int,
    budget_s: float,
    report: Report,
    *,
    capacity: int = CAPACITY,
    threads: Sequence[int] = THREADS,
    seed: int = 0,
) -> Sequence[ClaimRow]:
    """Check every way in which threads can share a replay, then time all of them in interleaved turns.

    The ways are two locks, one lock, one lock with a binary tree, and an owner thread.

    Args:
        budget_s: seconds for all turns together; a turn takes between 0.002 and 0.1 s.

    Returns:
        One measurement per batch size and configuration: the wall-clock seconds of a turn divided by how often all
        threads together inserted, sampled and updated.

    Raises:
        NotEnoughMemory: the replays do not fit the memory that a measurement may take.
    """
    for sharing in SHARINGS:
        report(0, 1, f"checking {sharing}")
        check(sharing)
    every = sides(threads)
    shared = {(side.sharing, side.null) for side in every}
    available_memory.require(len(shared) * capacity * (sum(ROW_BYTES) + TREE_BYTES))
    turn_s = budget_s / (rounds * len(batch_sizes) * len(every))
    turn_s = min(max(turn_s, SHORTEST_TURN_S), LONGEST_TURN_S)
    replays = {(sharing, null): make(sharing, capacity) for sharing, null in shared}
    rows: list[ClaimRow] = []
    for number, batch_size in enumerate(batch_sizes):
        draws = np.random.default_rng((seed, number, 1))
        samples_s = in_rounds(
            {
                side: partial(
                    _turn, replays[side.sharing, side.null], side.threads, batch_size, turn_s, draws
                )
                for side in every
            },
            Rounds(rounds, warm_up=1, seed=(seed, number, 0)),
            report=part(report, number, 1, len(batch_sizes), f"batch size {batch_size}"),
        )
        shared_by: dict[str, Any] = {
            "cores": len(usable_cores()),
            "capacity": capacity,
            "turn_s": turn_s,
            "seed": seed,
        }
        rows += [
            EXPERIMENT.summary(
                samples_s[side],
                replace(side, **shared_by),
                primitive=PRIMITIVE,
                backend="binary" if side.sharing == BINARY else "native",
                device="cpu",
                batch_size=batch_size,
                quantity="time_per_call",
            )
            for side in every
        ]
    return rows


def _turn(replay: Any, threads: int, batch_size: int, turn_s: float, draws: np.random.Generator) -> float:
    """Return the seconds per round of insert, sample and update, over a turn of length `turn_s`."""
    wall_s, done, _ = replay.run(threads, batch_size, INSERTED, turn_s, int(draws.integers(2**32)), False)
    return float(wall_s / done)


def experiment(budget_s: float, report: Report) -> Sequence[ClaimRow]:
    """Time every way of sharing a replay in about `budget_s` seconds, and return the measurements (`measure`).

    With a budget of less than 60 s there are fewer rounds, because turns must not be shorter.
    """
    # Threads take time to start together, so a turn is never shortened in favour of more rounds.
    rounds = statistics.PAIRS if budget_s >= 60 else statistics.FEWEST_PAIRS
    return measure(BATCH_SIZES, rounds, budget_s, report)


Turns = dict[tuple[str, int, bool], Any]
"""The rows of one batch size by way of sharing, threads, and whether it is the copy that shows the noise."""


def _turns(frame: pd.DataFrame) -> dict[int, Turns]:
    by_size: dict[int, Turns] = {}
    for row in rows_of(frame, EXPERIMENT, "time_per_call"):
        side = row.parameters.sharing, row.parameters.threads, row.parameters.null
        by_size.setdefault(int(row.batch_size), {})[side] = row
    return by_size


def _over(size: int, rows: Turns, other: str, threads: int) -> Paired:
    name = f"batch size {size}, {threads} threads: two locks over {other}"
    two, null = rows[TWO_LOCKS, threads, False], rows[TWO_LOCKS, threads, True]
    return paired(name, two, null, rows[other, threads, False])


def _scaling(size: int, rows: Turns, sharing: str, threads: int) -> Paired:
    name = f"batch size {size}: {threads} threads over 1, {sharing}"
    many, one = rows[sharing, threads, False], rows[sharing, 1, False]
    return paired(name, many, rows.get((sharing, threads, True)), one, at_most=threads)


def _count(comparisons: list[Paired], verdict: str) -> int:
    return sum(c.outcome.verdict == verdict for c in comparisons)


class TwoLocksRunInParallel(Claim):
    """Checks PAL Fig. 9: with two locks and lazy writing, threads that share a replay are faster than with one lock.

    PAL has 4 threads; on fewer cores as many threads count as have a core each, and the outcome is at best in kind.
    PAL states no batch size: what one batch size contradicts and another does not is no verdict.
    """

    key, place, position = "PAL-F9-locks", "VI-D, Fig. 9", 4
    statement = "Two locks let 4 threads sample and update in parallel; one lock does not"
    published = from_text("PAL.threads", "PAL.tree_speedup_low")
    needs = "the experiment PAL-F9-locks: threads on one replay with two locks, one lock and an owner thread"
    decides = "the same order at every batch size, on 4 quiet cores or more: `placerl reproduce --only PAL-F9-locks`"
    measured_by = (experiment_cells("PAL-F9-locks", experiment),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        threads, at_least = self.published
        by_size = _turns(frame)
        cores = min((row.parameters.cores for rows in by_size.values() for row in rows.values()), default=0)
        if cores == 1:
            return Finding(Outcome.NOT_RUN, needs=NEEDS_CORES)
        most = max((count for count in THREADS if count <= min(cores, threads.value)), default=0)
        wanted = [(sharing, count, False) for sharing in SHARINGS for count in (1, most)]
        wanted.append((TWO_LOCKS, most, True))
        turns = {size: rows for size, rows in by_size.items() if all(side in rows for side in wanted)}
        if not turns:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        over_one, over_binary, over_owner = (
            [_over(size, rows, other, most) for size, rows in turns.items()]
            for other in (ONE_LOCK, BINARY, OWNER)
        )
        two_scale, one_scales = (
            [_scaling(size, rows, sharing, most) for size, rows in turns.items()]
            for sharing in (TWO_LOCKS, ONE_LOCK)
        )
        ours = [c.gain for c in (*over_one, *over_binary, *over_owner, *two_scale, *one_scales)]
        explanation = (
            "Beyond the noise (the difference between two timings of the same locks), "
            f"at {most} threads two locks are faster than one at {_count(over_one, 'faster')} of {len(turns)} batch "
            f"sizes, slower at {_count(over_one, 'slower')}; with two locks {most} threads do more than one at "
            f"{_count(two_scale, 'faster')} and less at {_count(two_scale, 'slower')}, with one lock more at "
            f"{_count(one_scales, 'faster')}. "
            f"Every thread has a core of its own; PAL has {threads.value:g} threads. Here a round also inserts "
            f"{INSERTED} items, and copies these and what is sampled outside of its two locks; the threads of Fig. 9 "
            "sample and update alone, and what Algorithm 3's locks let these two do is PAL-A3's."
        )
        faster = _count(over_one, "faster") == len(turns)
        scales = _count(two_scale, "faster") == len(turns)
        as_published = all(c.beyond_noise and c.beyond_noise[0] > at_least.value for c in over_binary)
        if faster and scales and not _count(one_scales, "faster"):
            reproduced = as_published and most == threads.value
            return Finding(Outcome.REPRODUCED if reproduced else Outcome.IN_KIND, tuple(ours), explanation)
        contradicted = [
            "slower" in (over.outcome.verdict, two.outcome.verdict) or one.outcome.verdict == "faster"
            for over, two, one in zip(over_one, two_scale, one_scales, strict=True)
        ]
        if all(contradicted):
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
        if any(contradicted):
            explanation += " Only some batch sizes contradict the paper, which does not state its own."
        return Finding(Outcome.NO_VERDICT, tuple(ours), explanation)

    def panels(self, frame: pd.DataFrame) -> Panels:
        return [
            Panel(
                "threads",
                "insert, sample and update (1/s)",
                [
                    charts.line(
                        sharing,
                        sorted(
                            (threads, rate(row, f"{sharing}, {threads} threads"))
                            for (shared, threads, null), row in rows.items()
                            if shared == sharing and not null
                        ),
                    )
                    for sharing in SHARINGS
                ],
                f"batch size {size}",
                log_y=True,
            )
            for size, rows in sorted(_turns(frame).items())
        ]
