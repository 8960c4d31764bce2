"""Assigns the threads of a training to cores: which thread runs where, and which share a core."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Placement:
    """Numbers of cores, one for each thread.

    Attributes:
        learners: of the learners' threads.
        managers: of their replay managers' threads.
        actors: of the actors' threads.
    """

    learners: Sequence[int]
    managers: Sequence[int] = ()
    actors: Sequence[int] = ()

    @classmethod
    def of(cls, cores: Sequence[int], learners: int, managers: int, actors: int) -> "Placement":
        """Give each thread a core of its own, as far as there are any: to learners first, then managers, then actors.

        Threads for which no core is left share those that no learner has; if learners have all, they share all.

        Args:
            cores: numbers of the cores that the process may use, at least one.
            learners, managers, actors: numbers of threads.
        """
        shared = cores[learners:] or cores
        threads = learners + managers + actors
        every = [*cores[:threads], *(shared[i % len(shared)] for i in range(threads - len(cores)))]
        return cls(every[:learners], every[learners : learners + managers], every[learners + managers :])

    def columns(self) -> dict[str, Sequence[int]]:
        """Return the cores of each kind of thread, as rows hold them."""
        return {kind: cores for kind, cores in asdict(self).items() if cores}

    def text(self) -> str:
        """Return which threads each core has, in words."""
        threads = defaultdict(list)
        for kind, cores in self.columns().items():
            for number, core in enumerate(cores):
                threads[core].append(f"{kind.removesuffix('s')} {number}")
        shown = (
            f"core {core}: {', '.join(names)}{' (shared)' if len(names) > 1 else ''}"
            for core, names in sorted(threads.items())
        )
        return "; ".join(shown)


def actor_threads(environments: int, cores: int, *, learners: int, managers: int) -> int:
    """Return the number of actor threads, or processes, beside others: one a free core, at least one.

    Args:
        environments: number of environments, of which each thread has one at least.
        cores: number of cores of all.
        learners, managers: number of threads of learners, and of their replay managers.
    """
    return min(environments, max(1, cores - learners - managers))
