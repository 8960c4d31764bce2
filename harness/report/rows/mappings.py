"""Defines the rows of a report about mappings: predicted and achieved throughputs, heat maps, and choices."""

from collections.abc import Mapping
from dataclasses import dataclass

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.number import Number


@dataclass(frozen=True)
class PredictedThroughput:
    """A predicted training throughput, with the throughput that was achieved if the training was run as predicted.

    Attributes:
        mapping: where learner, replay management and storage run, such as "torch-native-cpu".
        chosen_among: "here" (this machine's devices) or "here and simulated", once for each set of devices among
            which the strategy chose this mapping; empty if it chose another.
        loop: form of the training loop, such as "fused" (`harness.mapping.Loop`), that was run or predicted; empty
            for a training that was not run to check predictions.
        predicted, achieved: gradient steps per second. The achieved throughput is the median if there are several
            runs, for instance with several seeds. The prediction is from calls timed in the training's own rounds if
            it ran in a validation, and for a core at full speed otherwise.
        error: by how many percent the prediction is above the achieved throughput; in a validation, the median over
            rounds.
        predicted_status: "ok", or "too_noisy" if it was computed from times that are.
        achieved_status: "ok", "too_noisy" if one of its measurements is, or "not_run" if there is none.
        slower_among: sets of devices, as in `chosen_among`, with which the mapping is clearly slower than the fastest
            one (`harness.measure.elimination`), however noisy its throughput is.
    """

    workload: str
    batch_size: int | None
    mapping: str
    strategy: str
    chosen_among: tuple[str, ...]
    loop: str
    predicted: Number
    achieved: Number | None
    error: Number | None
    predicted_status: str
    achieved_status: str
    slower_among: tuple[str, ...] = ()

    @property
    def shown(self) -> bool:
        """Return whether the mapping was run; the page shows predictions of such mappings first."""
        return self.achieved is not None

    @property
    def in_floats(self) -> bool:
        """Return whether the learner is one in float32, whose precision a mapping does not state."""
        return "[" not in self.mapping


@dataclass(frozen=True)
class HeatMap:
    """The training throughput of every mapping on one workload over batch sizes (MAP Fig. 13, PRL Fig. 8).

    Attributes:
        devices: devices from which mappings are built: "here" (all of them measured), or "here and simulated".
        loop: form of the training loop of all mappings, such as "fused" (`harness.mapping.Loop`); empty if unknown.
        batch_sizes: columns, ascending: batch sizes at which at least two mappings were run, so that one is the best.
        mappings: rows, sorted by name.
        achieved: gradient steps per second by (mapping, batch size); missing if the mapping was not run.
        noisy: entries of `achieved` that are too noisy for a verdict.
        chosen: the mapping that the default performance model chose, by batch size; it may not have been run.
        slower: entries of `achieved` that are clearly slower than the fastest one, however noisy they are.
    """

    workload: str
    devices: str
    loop: str
    batch_sizes: tuple[int, ...]
    mappings: tuple[str, ...]
    achieved: Mapping[tuple[str, int], Number]
    noisy: frozenset[tuple[str, int]]
    chosen: Mapping[int, str]
    slower: frozenset[tuple[str, int]] = frozenset()

    def contenders(self, batch_size: int) -> set[str]:
        """Return the mappings that were not dropped as clearly slower; all of them if every one was."""
        ran = {mapping for mapping, size in self.achieved if size == batch_size}
        return {mapping for mapping in ran if (mapping, batch_size) not in self.slower} or ran

    def best(self, batch_size: int) -> str:
        """Return the contender with the highest throughput at a batch size, as text such as "torch-native-cpu".

        A mapping that was dropped was timed in the early rounds alone, in which all may have been faster.
        """
        return max(
            sorted(self.contenders(batch_size)), key=lambda mapping: self.achieved[mapping, batch_size].value
        )

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        """Return the provenances (measured, simulated or modelled) that occur among the map's throughputs."""
        occurring = {n.provenance for n in self.achieved.values()}
        return tuple(provenance for provenance in Provenance if provenance in occurring)


@dataclass(frozen=True)
class Choice:
    """The mapping that a performance model (strategy) chose, and how much throughput the choice lost.

    The mappings were run, so that the best one is known.

    Attributes:
        devices: the devices that it chose among: "here" or "here and simulated".
        loop: form of the training loop of all mappings, such as "fused" (`harness.mapping.Loop`).
        mapping, best: the chosen mapping, and the fastest of those that were run.
        regret: 1 - throughput of the chosen mapping / throughput of the best one.
        verdict: "best", "lost" or "no verdict".
        slow_links: what the choice would be with slow links, in words; empty if no link has an unknown latency.
    """

    workload: str
    batch_size: int | None
    strategy: str
    devices: str
    loop: str
    mapping: str
    best: str
    regret: Number
    verdict: str = ""
    slow_links: str = ""
