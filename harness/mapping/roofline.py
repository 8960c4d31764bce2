"""Models the times of primitives by a roofline, from a platform's published numbers; each time lists its inputs.

The time of a primitive is the largest of three: its arithmetic at the device's peak, its memory traffic at the
memory's bandwidth, and a term for the kind of device:

| device | learner.step | sum_tree.sample, .update, .insert |
|---|---|---|
| cpu | 2 x MACs / peak, traffic / bandwidth, a dispatch per operation | a cache line per node group / bandwidth |
| gpu | the same, and a launch for each operation of the step | the same, and a launch |
| fpga | 2 x MACs / peak, traffic less a state that fits on chip / bandwidth | B/S x F, B/S cycles (MAP VI-A2) |

B is the batch size, S the number of the tree's pipelines, F the children of a node. If an FPGA states
`learner_pipeline`, its learner is MAP's pipelines, which take T_pipeline + T_WU cycles (MAP VI-A2), instead of
the roofline. A tree whose sums do not fit in an FPGA's memory on chip also takes the traffic of its external memory,
as on a processor.

`storage.gather` and `storage.insert` take the traffic of their rows, in the bytes that are stored: frames are bytes. A
row is read and written; on an FPGA it crosses the memory's port once, because a gather streams rows to the learner,
and an insertion stores what a link brings. An insertion is of one transition, in the storage and in the tree, as in a
profile, unless more are asked for.

If a platform gives a peak of another type than float32, that peak is used and marked: the U200's peak is for int32.
Missing numbers are not guessed. Without a peak or a bandwidth no time is modelled; without a launch time, or a
tree's pipelines and cycles, only that term is omitted, and the formula says so. Real times are longer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.problem import WORD_BYTES, Problem
from placerl.harness.mapping.table import Entry
from placerl.harness.mapping.target import Target
from placerl.harness.platforms import THIS_MACHINE, PlatformDevice, PlatformFile, SourcedNumber, load, names
from placerl.primitives.sum_tree.levels import levels_of

CACHE_LINE_BYTES = 64
_TARGETS = {
    "cpu": (Target("torch"), Target("native"), Target("cpu")),
    "gpu": (Target("torch", "cuda"), Target("cuda"), Target("cuda")),
    "fpga": (Target("fpga"), Target("fpga"), Target("fpga")),
}
"""Backends of learner, replay management and storage, by kind of device."""


@dataclass(frozen=True)
class CountedWork:
    """The arithmetic and memory traffic of a workload on any device, counted from its traced gradient step.

    Attributes:
        macs: multiply-accumulates of a gradient step on one batch.
        state_bytes: bytes of the parameters, moments and target networks that a step reads and writes.
        batch_bytes: bytes of a step's inputs.
        operations: operations of the step's graph. On a GPU each is a kernel that must be launched.
        fanout: K, children of a node of the sum tree.
    """

    macs: int
    state_bytes: int
    batch_bytes: int
    operations: int
    leaves: int
    fanout: int

    @property
    def levels(self) -> int:
        """Return the number of node groups (siblings read together) from the root of the sum tree to a leaf."""
        return levels_of(self.leaves, self.fanout)

    @property
    def tree_bytes(self) -> int:
        """Return the bytes of the sum tree's sums and leaves, in words of 4 bytes."""
        total, nodes = self.leaves, self.leaves
        while nodes > 1:
            nodes = -(-nodes // self.fanout)
            total += nodes
        return WORD_BYTES * total


@dataclass(frozen=True)
class Modelled:
    """A modelled time, with the formula that gave it.

    Attributes:
        entry: the time, as an entry of the performance table.
        formula: the numbers that it was computed from, with their sources, as text.
    """

    entry: Entry
    formula: str


@dataclass(frozen=True)
class Refused:
    """A primitive that a device cannot compute.

    Attributes:
        primitive, target: as in `Entry`.
        reason: what the device lacks.
    """

    primitive: str
    target: Target
    reason: str


@dataclass(frozen=True)
class PipelineCycles:
    """Cycles of a gradient step on MAP's learner pipelines.

    Attributes:
        cycles: T_learner = T_pipeline + T_WU (MAP VI-A2).
        pipelines, samples: DP, the number of pipelines, and PI, the samples per pipeline, as the design space
            exploration chose them.
    """

    cycles: int
    pipelines: int
    samples: int


@dataclass(frozen=True)
class OnFpga:
    """What an exploration found for an FPGA.

    Attributes:
        pipeline: the gradient step on MAP's learner pipelines; None if the roofline gives its time.
        learner_lacks, replay_lacks: what the FPGA lacks for a learner and for a replay; empty if it holds it.
    """

    pipeline: PipelineCycles | None = None
    learner_lacks: str = ""
    replay_lacks: str = ""


def _unexplored(device: PlatformDevice) -> OnFpga:
    unknown = device.own_fpga is not None and device.peak_tops is None
    return OnFpga(learner_lacks="peak_tops" if unknown else "")


def modelled_times(
    platform: PlatformFile,
    work: CountedWork,
    problem: Problem,
    explored: Callable[[PlatformDevice], OnFpga] = _unexplored,
    inserted: int = 1,
) -> Iterator[Modelled | Refused]:
    """Yield the modelled time of every primitive of a workload on every device of a platform.

    Args:
        explored: returns what an exploration of learner and replay found for a device.
        inserted: transitions that a call inserts.

    Yields:
        Times, and what a device cannot compute.

    Raises:
        UserError: a device lacks a number that the roofline needs, or two devices have the same kind.
    """
    kinds = [device.kind for device in platform.device]
    for device in platform.device:
        if kinds.count(device.kind) > 1:
            raise UserError(
                platform.name, "device", f"two of kind {device.kind!r}", "one device of each kind"
            )
        learner, rmm, storage = _TARGETS[device.kind]
        on = _Roofline(platform.name, device, problem.batch_size)
        batch, row_bytes = problem.batch_size, problem.item_bytes
        found = explored(device)
        if found.learner_lacks:
            yield Refused("learner.step", learner, found.learner_lacks)
        else:
            yield on.pipeline(learner, found.pipeline) if found.pipeline else on.learner(learner, work)
        if problem.on_policy:  # an on-policy algorithm has no replay
            continue
        for primitive, items, cycles in (
            ("sum_tree.sample", batch, work.fanout),
            ("sum_tree.update", batch, 1),
            ("sum_tree.insert", inserted, 1),
        ):
            if found.replay_lacks:
                yield Refused(primitive, rmm, found.replay_lacks)
            else:
                yield on.tree(primitive, rmm, work, items, cycles)
        yield on.copy("storage.gather", storage, batch, row_bytes)
        yield on.copy("storage.insert", storage, inserted, row_bytes)


class _Roofline:
    def __init__(self, platform: str, device: PlatformDevice, batch_size: int) -> None:
        self._platform, self._device, self._batch_size = platform, device, batch_size

    def _number(self, field: str) -> SourcedNumber:
        number: SourcedNumber | None = getattr(self._device, field)
        if number is None:
            where = f"device {self._device.key!r}.{field}"
            raise UserError(
                self._platform, where, "nothing", "a number with its source, which a roofline needs"
            )
        return number

    def learner(self, target: Target, work: CountedWork) -> Modelled:
        peak, kind = self._number("peak_tops"), self._device.peak_type
        unit = "TOPS" if kind == "fp32" else f"TOPS of {kind} in place of fp32"
        terms = {f"2 x {work.macs:,} MACs / {_said(peak, unit)}": 2 * work.macs / (peak.value * 1e12)}
        traffic, memory = self._learner_traffic_bytes(work), self._number("memory_gb_s")
        terms[f"{traffic:,} B / {_said(memory, 'GB/s')}"] = traffic / (memory.value * 1e9)
        for said, cost in (("launches", self._device.launch_us), ("dispatches", self._device.dispatch_us)):
            if cost is not None:
                terms[f"{work.operations} {said} x {_said(cost, 'us')}"] = work.operations * cost.value * 1e-6
        return self._longest("learner.step", target, terms)

    def pipeline(self, target: Target, pipeline: PipelineCycles) -> Modelled:
        clock = self._number("clock_mhz")
        said = f"{pipeline.cycles:,} cycles, DP = {pipeline.pipelines}, PI = {pipeline.samples} (MAP VI-A2)"
        said += f" / {_said(clock, 'MHz')}"
        return self._longest("learner.step", target, {said: pipeline.cycles / (clock.value * 1e6)})

    def _learner_traffic_bytes(self, work: CountedWork) -> int:
        """Return the traffic of a step; an FPGA keeps a state that fits in its weight buffers on the chip (MAP
        Fig. 3).
        """
        on_chip = self._device.kind == "fpga" and (
            work.state_bytes <= self._number("last_level_cache_mb").value * 1e6
        )
        return work.batch_bytes + (0 if on_chip else 2 * work.state_bytes)

    def tree(self, primitive: str, target: Target, work: CountedWork, items: int, cycles: int) -> Modelled:
        pipelines, clock = self._device.tree_pipelines, self._device.clock_mhz
        if self._device.kind == "fpga" and clock is not None:
            # MAP VI-A2: one pipeline until the batch fills its stages, then as many as the resources allow.
            most = 1.0 if pipelines is None or items <= work.levels else pipelines.value
            used = min(most, max(1.0, items / work.levels))
            taken = items / used * cycles + work.levels
            said = f"{items}/{used:.3g} x {cycles} + {work.levels} cycles / {_said(clock, 'MHz')}"
            terms = {said: taken / (clock.value * 1e6)}
            on_chip = self._device.last_level_cache_mb
            if on_chip is None or work.tree_bytes <= on_chip.value * 1e6:
                return self._longest(primitive, target, terms)
            return self._longest(primitive, target, terms | self._tree_traffic(work, items))
        return self._longest(primitive, target, self._tree_traffic(work, items) | self._launch())

    def _tree_traffic(self, work: CountedWork, items: int) -> dict[str, float]:
        """Return the seconds of reading a cache line of each level of a tree in the device's memory, by formula."""
        traffic, memory = items * work.levels * CACHE_LINE_BYTES, self._number("memory_gb_s")
        return {f"{traffic:,} B / {_said(memory, 'GB/s')}": traffic / (memory.value * 1e9)}

    def copy(self, primitive: str, target: Target, rows: int, row_bytes: int) -> Modelled:
        memory = self._number("memory_gb_s")
        crossings = 1 if self._device.kind == "fpga" else 2  # an FPGA streams rows, others copy them
        traffic = crossings * rows * row_bytes
        terms = {f"{traffic:,} B / {_said(memory, 'GB/s')}": traffic / (memory.value * 1e9)}
        return self._longest(primitive, target, terms | self._launch())

    def _launch(self) -> dict[str, float]:
        launch = self._device.launch_us
        return {} if launch is None else {f"a launch of {_said(launch, 'us')}": launch.value * 1e-6}

    def _longest(self, primitive: str, target: Target, terms: dict[str, float]) -> Modelled:
        said = max(terms, key=lambda term: terms[term])
        seconds = terms[said]
        entry = Entry(primitive, target, self._batch_size, seconds, seconds, seconds, Provenance.MODELLED)
        return Modelled(entry, said)


def _said(number: SourcedNumber, unit: str) -> str:
    return f"{number.value:g} {unit} ({number.provenance}: {number.source})"


def platforms() -> tuple[str, ...]:
    """Return the names of this machine and of those shipped platforms that state enough numbers to be modelled."""
    work = CountedWork(macs=1, state_bytes=1, batch_bytes=1, operations=1, leaves=2, fanout=2)
    problem = Problem(batch_size=1, item_words=1, actors=1)

    def suffices(name: str) -> bool:
        try:
            list(modelled_times(load(name), work, problem))
        except UserError:
            return False
        return True

    return (THIS_MACHINE, *(name for name in names() if name != THIS_MACHINE and suffices(name)))
