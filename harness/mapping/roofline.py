"""Times that nobody measured: a roofline of a platform's published numbers, each with the inputs that it is made of.

A primitive takes the longest of its arithmetic at the device's peak, its memory traffic at the memory's bandwidth,
and what its kind of device adds:

| device | learner.step | sum_tree.sample, .update, .insert |
|---|---|---|
| cpu | 2 x MACs / peak, traffic / bandwidth | a cache line for each node group on the way, / bandwidth |
| gpu | the same, and a launch for each operation of the step | the same, and a launch |
| fpga | 2 x MACs / peak, traffic less a state that fits on chip / bandwidth | B/S x F, B/S cycles (MAP VI-A2) |

A peak of another type than the step's float32 numbers stands in for it and is marked: the U200's is one of int32.
What a platform does not say is not guessed: without it the time is refused, but a launch's time, a tree's pipelines
and cycles are left out of the longest of the others, and that is said. Real times are longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log

from harness.core.errors import UserError
from harness.core.provenance import Provenance
from harness.mapping.base import WORD_BYTES, Entry, Problem, Target
from harness.platforms import Device, Number, Platform

CACHE_LINE_BYTES = 64
_TARGETS = {
    "cpu": (Target("torch"), Target("native"), Target("cpu")),
    "gpu": (Target("torch", "cuda"), Target("cuda"), Target("cuda")),
    "fpga": (Target("fpga"), Target("fpga"), Target("fpga")),
}
"""By kind of device: what runs learner, replay management and storage there."""


@dataclass(frozen=True)
class Work:
    """What a workload asks of any device, counted from its traced gradient step.

    Attributes:
        macs: multiply-accumulates of a gradient step on a batch.
        state_bytes: parameters, moments and targets that a step reads and writes.
        batch_bytes: of its inputs.
        operations: of the step's graph: kernels, where each is launched.
        leaves: of the sum tree.
        fanout: K.
    """

    macs: int
    state_bytes: int
    batch_bytes: int
    operations: int
    leaves: int
    fanout: int

    @property
    def levels(self) -> int:
        """Node groups between root and leaf."""
        return max(1, ceil(log(self.leaves, self.fanout)))


@dataclass(frozen=True)
class Modelled:
    """A modelled time, and in words what it is made of.

    Attributes:
        entry: the cell of the performance table.
        formula: numbers and their sources.
    """

    entry: Entry
    formula: str


def modelled_times(platform: Platform, work: Work, problem: Problem) -> Iterator[Modelled]:
    """Every primitive that the workload has on every device of a platform.

    Raises:
        UserError: a device lacks a number that the roofline needs, or two devices are of one kind.
    """
    kinds = [device.kind for device in platform.device]
    for device in platform.device:
        if kinds.count(device.kind) > 1:
            raise UserError(
                platform.name, "device", f"two of kind {device.kind!r}", "one device of each kind"
            )
        learner, rmm, storage = _TARGETS[device.kind]
        on = _Roofline(platform.name, device, problem.batch_size)
        batch, row_bytes = problem.batch_size, problem.item_words * WORD_BYTES
        yield on.learner(learner, work)
        if problem.on_policy:  # learns from its own latest samples: there is no replay
            continue
        yield on.tree("sum_tree.sample", rmm, work, batch, work.fanout)
        yield on.tree("sum_tree.update", rmm, work, batch, 1)
        yield on.tree("sum_tree.insert", rmm, work, problem.actors, 1)
        yield on.copy("storage.gather", storage, batch, row_bytes)
        yield on.copy("storage.insert", storage, problem.actors, row_bytes)


class _Roofline:
    def __init__(self, platform: str, device: Device, batch_size: int) -> None:
        self._platform, self._device, self._batch_size = platform, device, batch_size

    def _number(self, field: str) -> Number:
        found: Number | None = getattr(self._device, field)
        if found is None:
            where = f"device {self._device.key!r}.{field}"
            raise UserError(
                self._platform, where, "nothing", "a number with its source, which a roofline needs"
            )
        return found

    def learner(self, target: Target, work: Work) -> Modelled:
        peak, kind = self._number("peak_tops"), self._device.peak_type
        unit = "TOPS" if kind == "fp32" else f"TOPS of {kind} in place of fp32"
        terms = {f"2 x {work.macs:,} MACs / {_said(peak, unit)}": 2 * work.macs / (peak.value * 1e12)}
        traffic, memory = self._learner_traffic_bytes(work), self._number("memory_gb_s")
        terms[f"{traffic:,} B / {_said(memory, 'GB/s')}"] = traffic / (memory.value * 1e9)
        launch = self._device.launch_us
        if launch is not None:
            terms[f"{work.operations} launches x {_said(launch, 'us')}"] = (
                work.operations * launch.value * 1e-6
            )
        return self._longest("learner.step", target, terms)

    def _learner_traffic_bytes(self, work: Work) -> int:
        """Of a step; an FPGA keeps a state that fits in the weight buffers on its chip (MAP Fig. 3)."""
        on_chip = self._device.kind == "fpga" and (
            work.state_bytes <= self._number("last_level_cache_mb").value * 1e6
        )
        return work.batch_bytes + (0 if on_chip else 2 * work.state_bytes)

    def tree(self, primitive: str, target: Target, work: Work, items: int, cycles: int) -> Modelled:
        pipelines, clock = self._device.tree_pipelines, self._device.clock_mhz
        if self._device.kind == "fpga" and clock is not None:
            # MAP VI-A2: one pipeline until the batch fills its stages, then as many as the resources allow.
            most = 1.0 if pipelines is None or items <= work.levels else pipelines.value
            used = min(most, max(1.0, items / work.levels))
            taken = items / used * cycles + work.levels
            said = f"{items}/{used:.3g} x {cycles} + {work.levels} cycles / {_said(clock, 'MHz')}"
            return self._longest(primitive, target, {said: taken / (clock.value * 1e6)})
        traffic, memory = items * work.levels * CACHE_LINE_BYTES, self._number("memory_gb_s")
        terms = {f"{traffic:,} B / {_said(memory, 'GB/s')}": traffic / (memory.value * 1e9)}
        return self._longest(primitive, target, terms | self._launch())

    def copy(self, primitive: str, target: Target, rows: int, row_bytes: int) -> Modelled:
        memory = self._number("memory_gb_s")
        traffic = 2 * rows * row_bytes
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


def _said(number: Number, unit: str) -> str:
    return f"{number.value:g} {unit} ({number.provenance}: {number.source})"
