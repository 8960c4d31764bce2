"""The contents of a report: the rows of the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the rows that it came from; the page shows no other numbers.
Throughputs and portabilities are only in the files.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers import Verdict
from harness.papers.number import Number
from harness.report.reference import Reference
from harness.store.store import RunRecord


@dataclass(frozen=True)
class PredictedThroughput:
    """A predicted throughput, and the achieved throughput of the same mapping if it was run as predicted.

    Attributes:
        chosen_among: the devices among which the strategy chose this mapping, as in `harness.validate.rows`.
        loop: the loop that was run in a validation, or is predicted there; empty for a separate training.
        achieved: the median if it was run several times, for instance with several seeds.
        predicted_status: "ok", or "too_noisy" if it was computed from times that are.
        achieved_status: "ok", "too_noisy" if one of its rows is, or "not_run" if there is none.
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

    @property
    def shown(self) -> bool:
        """Whether the mapping was run, so that the page shows it first."""
        return self.achieved is not None


@dataclass(frozen=True)
class HeatMap:
    """The throughput of every mapping on one workload in one loop, over batch sizes (MAP Fig. 13, PRL Fig. 8).

    Attributes:
        workload: its name.
        devices: the devices of the best and the chosen mapping, as in `harness.validate.rows`: those here, all
            measured, or also the simulated ones.
        loop: loop of all mappings; empty if the rows name none.
        batch_sizes: columns, ascending: batch sizes at which at least two mappings were run, so that one is the
            best.
        mappings: rows, by name.
        achieved: throughput by (mapping, batch size); missing for what was not run.
        noisy: the cells that are too noisy for a verdict.
        chosen: the mapping that the default strategy chose, by batch size; it may not have been run.
    """

    workload: str
    devices: str
    loop: str
    batch_sizes: tuple[int, ...]
    mappings: tuple[str, ...]
    achieved: Mapping[tuple[str, int], Number]
    noisy: frozenset[tuple[str, int]]
    chosen: Mapping[int, str]

    def best(self, batch_size: int) -> str:
        """Return the mapping with the highest throughput at a batch size."""
        column = {mapping: n.value for (mapping, size), n in self.achieved.items() if size == batch_size}
        return max(column, key=column.__getitem__)

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        """The provenances of its cells."""
        found = {n.provenance for n in self.achieved.values()}
        return tuple(provenance for provenance in Provenance if provenance in found)


@dataclass(frozen=True)
class Choice:
    """The mapping that a strategy chose in a validation, and its regret: 1 - its throughput / the best one's.

    `devices` are the devices that it chose among, `loop` the loop of all mappings; `verdict` is "best", "lost" or
    "no verdict".
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


@dataclass(frozen=True)
class BaselineComparison:
    """The comparison of this project with a baseline on one workload.

    Attributes:
        workload, batch_size, baseline: the configuration compared.
        ratio: this project's throughput over the baseline's.
        ours, theirs: gradient steps per second of both.
        null: this project's throughput over its own in the same rounds.
        verdict: "faster", "faster, but learns less", "faster; returns not compared", "slower" or "no verdict";
            for a comparison that failed or was not run, its status.
        reason: why it failed or was not run; empty otherwise.
        our_return, their_return: mean return of both after the same number of environment steps.
        returns: the result of comparing these returns, or why they are not compared.
    """

    workload: str
    batch_size: int | None
    baseline: str
    ratio: Number | None
    ours: Number | None
    theirs: Number | None
    null: Number | None
    verdict: str
    reason: str
    our_return: Number | None = None
    their_return: Number | None = None
    returns: str = ""


@dataclass(frozen=True)
class Throughput:
    """Gradient steps per second of this project under a mapping, or of a baseline.

    Attributes:
        system: "placerl" or the baseline.
        mapping: the mapping; empty for a baseline.
        suite: the purpose of its row: "run" (a training), "validation" (a check of a prediction) or "compare" (a
            comparison with a baseline).
        loop: in a validation, the form of the training loop, such as "fused"; empty otherwise.
        beside: in a comparison, the baseline that this project was timed with; empty otherwise.
        options: options of a run, each as name=value.
        value: None if it failed or was not run.
        status: status of its row; `reason` says why it is not "ok".
    """

    workload: str
    batch_size: int | None
    system: str
    mapping: str
    suite: str
    loop: str
    beside: str
    options: tuple[str, ...]
    seed: int | None
    quantity: str
    value: Number | None
    status: str
    reason: str


@dataclass(frozen=True)
class Portability:
    """PRL's performance portability: the harmonic mean of experiences per second over choices, 0 if one is
    missing.

    Attributes:
        system: "placerl" or a baseline.
        over: "device assignments" of one machine, or "machines"; "mappings" in rows of earlier versions.
        among: devices of the choices: with or without simulated devices, or what the machines ran.
        choices: number of choices; None if its row does not give it.
        unsupported: number of choices that it cannot run; None if it was not run.
        value: None if it was not run.
        status: "ok", "too_noisy" if one of its rates is, or "not_run".
    """

    workload: str
    batch_size: int | None
    system: str
    over: str
    among: str
    choices: int | None
    unsupported: int | None
    quantity: str
    value: Number | None
    status: str
    reason: str


@dataclass(frozen=True)
class PrimitiveTime:
    """Time of one call of a primitive on one backend and device; `reason` says why there is no time."""

    workload: str
    primitive: str
    backend: str
    device: str
    variant: str
    batch_size: int | None
    time: Number | None
    status: str
    reason: str


PEAK = "peak"
"""Name of a roof of arithmetic, as it begins."""


@dataclass(frozen=True)
class DeviceRoof:
    """An upper limit of a device's rate: its peak arithmetic or the bandwidth of a memory.

    Attributes:
        device: as in the primitive table.
        workloads: workloads to which it applies; empty for all.
        primitives: primitives to which it applies, by the beginning of their names; empty for all.
        name: "peak", "peak in bfloat16", or the memory in which the copy was made.
        footprint_bytes: largest footprint that this memory holds; None for the peak and for the only memory.
        rate: operations or bytes per second.
        status: status of its row: "ok" or "too_noisy".
        precision: precision of a peak's operations; empty for float32.
    """

    device: str
    workloads: tuple[str, ...]
    primitives: str
    name: str
    footprint_bytes: int | None
    rate: Number
    status: str
    precision: str = ""

    @property
    def is_peak(self) -> bool:
        """Return whether it is a limit of arithmetic, and not of a memory."""
        return self.name.startswith(PEAK)


@dataclass(frozen=True)
class RooflinePoint:
    """A primitive's rate and the roof of its device.

    Attributes:
        flops, traffic: operations and bytes of one call, counted from shapes.
        intensity: operations per byte; None if the primitive only moves data.
        achieved: operations per second, or bytes per second if it only moves data.
        roof: highest rate that its intensity and footprint allow, in the unit of `achieved`; None if the device's
            roofs were not measured.
        bound: name of that roof.
        share: achieved divided by roof.
        status: "ok", or "too_noisy" if the time or the roof is.
    """

    workload: str
    primitive: str
    backend: str
    device: str
    batch_size: int | None
    time: Number
    flops: Number
    traffic: Number
    intensity: Number | None
    achieved: Number
    roof: Number | None
    bound: str
    share: Number | None
    status: str


@dataclass(frozen=True)
class TrainingResult:
    """One quantity of a training run."""

    workload: str
    batch_size: int | None
    system: str
    seed: int | None
    result: Number


@dataclass(frozen=True)
class Learning:
    """What a system learnt on a workload, over seeds: the interquartile mean of its returns.

    Attributes:
        seeds: number of seeds trained to the end; None if its row does not give it.
        end: mean of the last fifth of training; None if every seed failed.
        best: mean of the best stretch of training; None if no stretch had an episode of every seed.
        best_step: environment steps at the end of that stretch.
        reason: why there is no `end`; empty otherwise.
    """

    workload: str
    system: str
    seeds: int | None
    end: Number | None
    best: Number | None
    best_step: int | None
    reason: str


@dataclass(frozen=True)
class TrainingCurve:
    """Episode returns over environment steps of one training run; `last` is the mean of the last episodes."""

    workload: str
    system: str
    seed: int | None
    environment_steps: tuple[int, ...]
    returns: tuple[float, ...]
    last: Number


@dataclass(frozen=True)
class Gap:
    """What failed, was not run, or is too noisy for a verdict; `reason` is empty if each has its own reason."""

    workload: str
    suite: str
    batch_size: int | None
    status: str
    reason: str
    items: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """One quantity in the reference run and in this one; `verdict` is "better", "worse" or "no verdict"."""

    workload: str
    what: str
    batch_size: int | None
    before: Number | None
    after: Number | None
    ratio: Number | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Fact:
    """One fact about the machine or the versions, as measured or as reported by the system."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class NoisyRows:
    """Number of timed rows of one kind that are too noisy for a verdict.

    Attributes:
        kind: kind of primitive, such as "round" or "learner"; "all" for the rows of every kind.
        timed: rows of the primitive tables that hold a measured time.
        noisy: timed rows that are too noisy.
        share: noisy rows in percent of the timed rows.
    """

    kind: str
    timed: Number
    noisy: Number
    share: Number


@dataclass(frozen=True)
class BaselineVersions:
    """One system with one set of versions and settings in the comparisons.

    Attributes:
        system: "placerl" or the baseline.
        tasks: parts that were compared: "training", "learner and replay" or "replay".
        workloads: workloads that ran with these versions and settings.
        versions: each as "package version"; empty if its rows give none.
        settings: each as "name: value": what the system reports as its own or as different from the workload.
        rows: indices of the rows that report these versions and settings.
    """

    system: str
    tasks: tuple[str, ...]
    workloads: tuple[str, ...]
    versions: tuple[str, ...]
    settings: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Content:
    """Everything that the page and the files show.

    Attributes:
        run: the run of the report, the last of its machine; None if the store has none.
        runs: every run of the store.
        reference: the committed run that is shown for comparison; None if there is none.
        changes: the quantities that both runs have.
        measurements: the rows of the run and of runs of other tiers with the same code on the same machine, only
            the last attempt of each cell; the index labels are those of the whole store's frame.
        core_speed: share of pieces at full speed; empty if no row states it.
        noisy_rows: noisy rows of each kind, then of all; empty if nothing was timed.
        memory: peak memory of these runs; empty if the store is older than such rows.
        everything: the whole store's frame, for verdicts that use several machines.
    """

    run: RunRecord | None
    runs: tuple[RunRecord, ...]
    measurements: pd.DataFrame
    everything: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    predictions: tuple[PredictedThroughput, ...]
    choices: tuple[Choice, ...]
    comparisons: tuple[BaselineComparison, ...]
    baseline_versions: tuple[BaselineVersions, ...]
    throughputs: tuple[Throughput, ...]
    portabilities: tuple[Portability, ...]
    primitives: tuple[PrimitiveTime, ...]
    roofs: tuple[DeviceRoof, ...]
    roofline: tuple[RooflinePoint, ...]
    training: tuple[TrainingResult, ...]
    learning: tuple[Learning, ...]
    curves: tuple[TrainingCurve, ...]
    gaps: tuple[Gap, ...]
    facts: tuple[Fact, ...]
    noise: tuple[Number, ...]
    reference: Reference | None = None
    changes: tuple[Change, ...] = ()
    core_speed: tuple[Number, ...] = ()
    noisy_rows: tuple[NoisyRows, ...] = ()
    memory: tuple[Number, ...] = ()

    @property
    def slug(self) -> str:
        """File name for its machine; an untrusted fingerprint must not choose it."""
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]
