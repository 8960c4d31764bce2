"""How cores that work in parallel slow each other down, and what they can do at most.

Busy cores share caches and memory, and so slow each other down. The native learner's steps are timed alone and while
the actors act (`beside_actors`), which shows by how much; what runs in parallel in processes and threads is predicted
to take longer by this factor (`BusyCores`).

A machine with fewer cores than busy threads does no more than its cores can (`least_s`). Where threads run free, each
bound to a core, the core with the most work sets the pace (`busiest_s`).
"""

from collections import defaultdict
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass

from placerl.harness.loop.placement import Placement, actor_threads
from placerl.harness.mapping.strategies.composed_loop.lookup import JOINT, fuses
from placerl.harness.mapping.table import Cell, PerformanceTable
from placerl.harness.mapping.target import CPU, Mapping

LEAST_ACTING = 0.1
"""Least share of the steps' seconds that acting takes where it shows by how much two busy cores slow each other down.

With Hopper's steps at B = 8192 acting took 0.5% of 150 ms: steps that happened to take 5% longer while the actors acted
gave a factor of 11.
"""
MOST_SLOWED = 2.0
"""Largest factor by which two busy cores slow each other down: they are then as slow as if they took turns."""


@dataclass(frozen=True)
class BusyCores:
    """The native learner's steps of an iteration, alone and while the actors act.

    Attributes:
        alone_s, beside_s: seconds of the steps.
        acting_s: seconds of the actors' work, alone, with the request and its answer.
        handing_s: seconds of the host for the request and the answer.
        cells: the entries of the table with these seconds.
    """

    alone_s: float
    beside_s: float
    acting_s: float
    handing_s: float
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, table: PerformanceTable, mapping: Mapping) -> "BusyCores | None":
        """Return what was timed with a mapping's learner; None if that is not all."""
        learner = mapping.learner
        acting = ("overlapped_round.collect", learner)
        if acting not in table:
            acting = ("overlapped_round.collect", CPU)
        beside = [(f"beside_actors.{part}", learner) for part in ("steps", "request", "receive")]
        cells = (("overlapped_round.steps", learner), acting, *beside)
        if not fuses(table, mapping) or not all(cell in table for cell in cells):
            return None
        alone_s, acting_s, beside_s, request_s, receive_s = (table.time_s(*cell) for cell in cells)
        return cls(alone_s, beside_s, acting_s, request_s + receive_s, cells)

    @property
    def factor(self) -> float:
        """Return by what factor two busy cores slow each other down, at least 1.

        While the shorter of steps and acting goes on, both take longer by this factor, so the steps take longer by
        (factor - 1) times the shorter one's seconds.
        """
        return 1 + max(0.0, self.beside_s - self.alone_s) / min(self.alone_s, self.acting_s)

    @property
    def factor_of_threads(self) -> float:
        """Return the factor by which learner and replay manager, two busy threads, slow each other down.

        It is taken from learner and actors. If acting is short next to the steps (`LEAST_ACTING`), what it adds to
        these is lost in their noise, and nothing is known of the factor, so that it is 1.
        """
        if self.acting_s < LEAST_ACTING * self.alone_s:
            return 1.0
        return min(MOST_SLOWED, self.factor)

    def slow_down(self, seconds: dict[str, float]) -> None:
        """Lengthen the terms of an iteration that run in parallel, and add what the host does for the actors.

        What is left of the longer one of steps and acting runs alone.

        Args:
            seconds: seconds of each term; changed.
        """
        here = [term for term in ("step", "learner", JOINT, "update") if term in seconds]
        shorter_s = min(sum(seconds[term] for term in here), seconds["actor"])
        if "step" in seconds:
            added_s = (self.factor - 1) * shorter_s
            seconds["step"] += added_s
        else:  # learner and replay manager are two threads, and nothing runs alone
            factor = self.factor_of_threads
            added_s = (factor - 1) * shorter_s
            for term in here:
                seconds[term] *= factor
        seconds["actor"] += added_s
        # Behind longer steps the actors' work is hidden, but not the host's part of it.
        if seconds.get("step", seconds.get("learner", 0.0)) > seconds["actor"]:
            seconds["loop"] += self.handing_s


def least_s(seconds: MappingABC[str, float], cores: int, *, threads: bool) -> float:
    """Return the least seconds of an iteration on a number of cores, of which each does one thing at a time.

    A learner's threads count as one, since its caller does the parts of those that have no core.

    Args:
        threads: whether learner and replay manager are two threads. The manager, which waits for the learner, is then
            taken to share the cores that the learner leaves to the actors, where the system's scheduler put it.
    """
    all_s = sum(seconds.values()) / cores
    if not threads or cores == 1:
        return all_s
    return max(all_s, sum(seconds.get(term, 0.0) for term in (JOINT, "update", "actor")) / (cores - 1))


def busiest_s(seconds: MappingABC[str, float], cores: int, actors: int) -> float:
    """Return the seconds of a round in the concurrent loop: the work of the core that has the most.

    Batches wait ahead of the learner, and environment steps ahead of their gradient steps, so that no thread waits for
    another one in the mean; the threads of a core take turns.

    Args:
        seconds: seconds of each term in a round; those of the actors are summed over their threads.
        cores: number of cores, at least 2.
        actors: number of environments.
    """
    threads = actor_threads(actors, cores, learners=1, managers=1)
    placed = Placement.of(range(cores), 1, 1, threads)
    busy_s: defaultdict[int, float] = defaultdict(float)
    busy_s[placed.learners[0]] += seconds["learner"]
    busy_s[placed.managers[0]] += seconds[JOINT] + seconds["update"]
    for core in placed.actors:
        busy_s[core] += seconds["actor"] / threads
    return max(busy_s.values())
