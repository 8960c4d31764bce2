"""Lists every decision that is worth trying for a training on this machine.

The papers' strategies choose devices, a mapping Learner-RMM-Storage (RMM: replay management), under the form of the
training loop that their model describes. A user also decides the loop, the batches sampled ahead, the learner's
precision and threads, and the number of actors and of their processes. With the native replay on the host, all of
these are combined. Elsewhere the mapping alone is tried, in the fused loop with one thread and the workload's own
actors, and whatever a strategy chooses under its own loop. The simulated FPGA has a space of its own, because its
seconds are of another clock.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from placerl.harness.loop.schedule import IN_PARALLEL, Fusion, is_on_policy
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.runtime.fusions import fusions
from placerl.harness.validate import tried
from placerl.harness.workloads import Workload
from placerl.primitives.quantization.precision import BFLOAT_16

PRECISIONS = (BFLOAT_16,)
"""Precisions of learners besides float32."""
MORE_ACTORS = 8
AHEAD = (Loop.RELAXED, Loop.CONCURRENT)
"""The loops in which batches are sampled ahead."""
FEW_AHEAD = 2
"""The smaller D of the relaxed loop; the larger one is that of `problem_of`."""
THREADED = ("native", "torch")
"""Learners whose number of threads is chosen; others have their own."""


class Setting(NamedTuple):
    """Everything besides the mapping (where learner, replay and storage run) that changes the times of a loop's calls.

    Attributes:
        threads: threads of the learner.
        actors: environments that are stepped together.
        processes: processes that step the environments of an on-policy iteration; 0: the learner's process steps
            them.
    """

    threads: int
    actors: int
    processes: int = 0


@dataclass(frozen=True)
class Decision:
    """One way to run a training: everything that a user decides.

    Attributes:
        mapping: backend of learner, replay and storage, and the learner's precision.
        loop: form of the training loop (the order of its calls), such as fused or relaxed.
        ahead: batches sampled ahead in the loops `AHEAD`; 0 in others.
        threads: threads of the learner.
        actors: environments that are stepped together.
        processes: processes that step the environments; 0: the learner's process steps them.
    """

    mapping: Mapping
    loop: Loop = Loop.FUSED
    ahead: int = 0
    threads: int = 1
    actors: int = 1
    processes: int = 0

    @property
    def setting(self) -> Setting:
        """Return the setting (threads, actors and processes) in which the calls of the decision's loop are timed.

        Off-policy, both kinds of actors, in the learner's process and in another one, are timed in each setting.
        """
        return Setting(self.threads, self.actors, self.processes if self.loop not in IN_PARALLEL else 0)

    def columns(self) -> dict[str, Any]:
        """Return the decision as columns of a row: as text in `choice`, and its parts by their names."""
        return asdict(self) | {"mapping": str(self.mapping), "loop": str(self.loop), "choice": str(self)}

    def __str__(self) -> str:
        more = [f"D = {self.ahead}"] if self.loop in AHEAD else []
        for count, name in (
            (self.threads, "threads"),
            (self.actors, "actors"),
            (self.processes, "processes"),
        ):
            if count > 1 or (count and name == "processes" and self.loop not in IN_PARALLEL):
                more.append(f"{count} {name}")
        return ", ".join([f"{self.mapping} {self.loop}", *more])


def under(item: Workload, mapping: Mapping, loop: Loop, ahead: int) -> Decision:
    """Return the decision that follows from a strategy's choice of a mapping.

    Such a strategy, a performance model, knows mappings alone: the learner has one thread, and the actors are the
    workload's.

    Args:
        mapping: the mapping that the strategy chose: backends of learner, replay and storage.
        loop: the form of the training loop that the strategy describes. If nothing can be fused, the strict loop is
            the same as the fused one, and the decision names the latter.
        ahead: batches sampled ahead; used only in the loops `AHEAD`.
    """
    if loop is Loop.STRICT and fusions(item, mapping, 0)[-1] is Fusion.NONE:
        loop = Loop.FUSED
    return Decision(
        mapping,
        loop,
        ahead if loop in AHEAD else 0,
        actors=item.training.actors,
        processes=int(loop in IN_PARALLEL),
    )


def space(item: Workload, batch_size: int, cores: int) -> list[Decision]:
    """Return every decision that is worth trying, each once.

    Args:
        cores: cores that the training may use; no learner has more threads, and no on-policy training more processes
            that step environments.
    """
    mappings = [one for one in tried.mappings(item, PRECISIONS) if tried.FPGA not in vars(one).values()]
    decisions = _on_policy if is_on_policy(item) else _off_policy
    return list(dict.fromkeys(decisions(item, batch_size, mappings, cores)))


def simulated_space(item: Workload, batch_size: int) -> list[Decision]:
    """Return every decision with the simulated FPGA: each of its mappings, in each loop that it can run in.

    Args:
        item: off-policy.
    """
    ahead = problem_of(item, batch_size).ahead
    return [
        under(item, mapping, loop, ahead)
        for mapping in tried.mappings(item)
        if tried.FPGA in (mapping.learner, mapping.rmm)
        for loop in tried.loops(item, mapping)
        if loop is not Loop.STRICT
    ]


def _on_policy(item: Workload, batch_size: int, mappings: list[Mapping], cores: int) -> Iterator[Decision]:
    actors = item.training.actors
    for mapping in mappings:
        for threads in _threads(mapping, cores):
            for processes in dict.fromkeys((0, min(cores, actors))):
                if processes != 1:  # one process would only be another place to wait for
                    yield Decision(mapping, threads=threads, actors=actors, processes=processes)


def _off_policy(item: Workload, batch_size: int, mappings: list[Mapping], cores: int) -> Iterator[Decision]:
    ahead = problem_of(item, batch_size).ahead
    for mapping in mappings:
        if mapping.rmm != NATIVE or mapping.storage != CPU:
            yield under(item, mapping, Loop.FUSED, ahead)
            continue
        for loop in tried.loops(item, mapping):
            plain = under(item, mapping, loop, ahead)
            yield plain
            if loop is Loop.STRICT:
                continue
            free = loop is Loop.CONCURRENT  # its learner has one thread, and it was timed with the larger D
            for threads in [1] if free else _threads(mapping, cores):
                for actors in dict.fromkeys((plain.actors, max(plain.actors, MORE_ACTORS))):
                    for depth in dict.fromkeys(
                        (plain.ahead if free else min(FEW_AHEAD, plain.ahead), plain.ahead)
                    ):
                        yield replace(plain, threads=threads, actors=actors, ahead=depth)


def _threads(mapping: Mapping, cores: int) -> list[int]:
    """Return the numbers of threads of a mapping's learner: powers of two, and all cores."""
    if mapping.learner.backend not in THREADED:
        return [1]
    return sorted({1, cores, *(2**power for power in range(cores.bit_length()) if 2**power <= cores)})
