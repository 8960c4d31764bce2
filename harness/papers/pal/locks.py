"""Threads on one replay: two locks beside one lock and beside an owner thread (PAL VI-D, Fig. 9).

Each thread goes round: insert 8 items, sample a batch, update its priorities. The threads are C++'s, so that locks are
measured and not Python (`primitives/replay/native/contention.hpp`). The ways to share a replay:

    two locks              `ConcurrentReplay`: lazy writing and two locks (PAL IV-D)
    one lock               the same sum tree and storage, one lock around every call, data included
    one lock, binary tree  PAL's baseline: the plain binary tree, one lock around every call, data included
    owner thread           one thread makes all calls on the same sum tree and storage; the others ask and wait
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from harness.core.progress import Report, part
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.measure.rows import sampled
from harness.measure.turns import Rounds, in_rounds
from harness.papers.cells import Tier, claim_cell
from harness.platforms import available_memory
from harness.store.cell import Cell

EXPERIMENT = "locks"
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
"""Hopper's: observation, action, reward, next observation, terminated."""
TREE_BYTES = 16
"""Of an item in the largest of the trees, the binary one: two nodes of 4 bytes, rounded up."""
CHECK_CAPACITY = 256
CHECK_S = 0.2
SHORTEST_TURN_S = 2e-3
LONGEST_TURN_S = 0.1


@dataclass(frozen=True)
class Side:
    """One line of the experiment.

    Attributes:
        sharing: one of `SHARINGS`.
        threads: that go round at once.
        null: the second measurement of an identical side.
    """

    sharing: str
    threads: int
    null: bool = False


def sides(threads: Sequence[int] = THREADS) -> list[Side]:
    """Every way of sharing at every number of threads, and the A/A null of two locks."""
    nulls = [Side(TWO_LOCKS, count, null=True) for count in threads]
    return [Side(sharing, count) for sharing in SHARINGS for count in threads] + nulls


def make(sharing: str, capacity: int) -> Any:
    """A full replay shared in that way."""
    from primitives._native import replay

    return replay.Contention(sharing, capacity, list(ROW_BYTES), FANOUT)


def check(sharing: str, threads: int = max(THREADS)) -> None:
    """Looks at every byte that threads sample out of a replay so small that they meet all the time.

    Raises:
        ValueError: an item was sampled that was not whole, or had no valid weight.
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
) -> list[Measurement]:
    """Checks every way of sharing, then times all of them in interleaved turns.

    Args:
        batch_sizes: items of a sample and of an update.
        rounds: turns of each side.
        budget_s: for all turns together, seconds; a turn takes between 0.002 and 0.1 s.
        report: called with the progress.
        capacity: items of the replay, which is full.
        threads: numbers of threads.
        seed: of orders and draws.

    Returns:
        Rows of suite "claim", `details["experiment"]` "locks": seconds a round of insert, sample and update, all
        threads together.

    Raises:
        ValueError: the check failed.
        NotEnoughMemory: the replays do not fit what a measurement may take.
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
    rows: list[Measurement] = []
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
        rows += [_row(side, samples_s[side], batch_size, capacity, turn_s, seed) for side in every]
    return rows


def _turn(replay: Any, threads: int, batch_size: int, turn_s: float, draws: np.random.Generator) -> float:
    """Seconds a round of insert, sample and update, over a turn that takes `turn_s`."""
    wall_s, done, _ = replay.run(threads, batch_size, INSERTED, turn_s, int(draws.integers(2**32)), False)
    return float(wall_s / done)


def _row(
    side: Side, samples_s: Sequence[float], batch_size: int, capacity: int, turn_s: float, seed: int
) -> Measurement:
    details = {
        "experiment": EXPERIMENT,
        "sharing": side.sharing,
        "threads": side.threads,
        "null": side.null,
        "cores": len(os.sched_getaffinity(0)),
        "capacity": capacity,
        "inserted": INSERTED,
        "row_bytes": sum(ROW_BYTES),
        "turn_s": turn_s,
        "seed": seed,
        "conditions": conditions(),
    }
    return sampled(
        samples_s,
        suite="claim",
        primitive=PRIMITIVE,
        backend="binary" if side.sharing == BINARY else "native",
        device="cpu",
        batch_size=batch_size,
        quantity="time_per_call",
        details=details,
    )


def experiment(budget_s: float, report: Report) -> list[Measurement]:
    """The rows of the claim, in about so many seconds."""
    # Threads take their time to meet: a turn is never shortened to make room for more rounds.
    rounds = statistics.PAIRS if budget_s >= 60 else statistics.FEWEST_PAIRS
    return measure(BATCH_SIZES, rounds, budget_s, report)


def cells(tier: Tier) -> list[Cell]:
    """Every way of sharing at every number of threads."""
    return [claim_cell("PAL-F9-locks", tier.experiment_s, partial(experiment, tier.experiment_s))]
