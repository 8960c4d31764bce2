"""Defines the contents of a report: the rows of the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the rows of the store that it came from; the page shows no other
numbers. Throughputs and portabilities are only in the files.
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

    A mapping names where learner, replay management and storage run, such as "torch-native-cpu".

    Attributes:
        strategy: the performance model that made the prediction.
        chosen_among: "here" or "here and simulated", once for each set of devices among which the strategy chose this
            mapping; empty if it chose another.
        loop: form of the training loop (`harness.mapping.Loop`) that a validation ran or predicted; empty for a
            separate training.
        achieved: the median if it was run several times, for instance with several seeds.
        error: by how many percent the prediction is above the achieved throughput.
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
        """Whether the mapping was run; the page shows these predictions first."""
        return self.achieved is not None


@dataclass(frozen=True)
class HeatMap:
    """The throughput of every mapping on one workload over batch sizes (MAP Fig. 13, PRL Fig. 8).

    A mapping names where learner, replay management and storage run, such as "torch-native-cpu".

    Attributes:
        workload: its name.
        devices: devices from which mappings are built: "here" (all of them measured), or "here and simulated".
        loop: form of the training loop (`harness.mapping.Loop`) of all mappings; empty if the rows name none.
        batch_sizes: columns, ascending: batch sizes at which at least two mappings were run, so that one is the best.
        mappings: rows, sorted by name.
        achieved: throughput by (mapping, batch size); missing for what was not run.
        noisy: entries of `achieved` that are too noisy for a verdict.
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
        """The provenances that occur among its throughputs."""
        found = {n.provenance for n in self.achieved.values()}
        return tuple(provenance for provenance in Provenance if provenance in found)


@dataclass(frozen=True)
class Choice:
    """The mapping that a strategy chose in a validation, and how much throughput the choice lost.

    Attributes:
        strategy: the performance model that chose.
        devices: the devices that it chose among: "here" or "here and simulated".
        loop: form of the training loop (`harness.mapping.Loop`) of all mappings.
        mapping, best: the chosen mapping, and the fastest of those that were run.
        regret: 1 - throughput of the chosen mapping / throughput of the best one.
        verdict: "best", "lost" or "no verdict".
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
        null: this project's throughput over its own in the same rounds, which shows the noise (the A/A null).
        verdict: "faster", "faster, but learns less", "faster; returns not compared", "slower" or "no verdict"; for a
            comparison that failed or was not run, its status.
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
        mapping: where learner, replay management and storage run, such as "torch-native-cpu"; empty for a baseline.
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
    """The performance portability of a system as PRL defines it: a harmonic mean of experiences per second.

    The mean is over choices, such as the machines on which the system ran. It is 0 if one of them is not supported.

    Attributes:
        system: "placerl" or a baseline.
        over: what the choices are: "device assignments" of one machine, or "machines"; "mappings" in rows
            of earlier versions.
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
    """The time of one call of a primitive, such as `sum_tree.sample`, on one backend and device.

    Attributes:
        variant: fanout of a sum tree, such as "K=16"; empty otherwise.
        time: None if it failed or was not run.
        status: status of its row; `reason` says why it is not "ok".
    """

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
"""Beginning of the name of a roof that limits arithmetic (`DeviceRoof.name`)."""


@dataclass(frozen=True)
class DeviceRoof:
    """An upper limit of a device's rate: its peak arithmetic, or the bandwidth of a memory.

    Attributes:
        device: name of the device, as for `PrimitiveTime`.
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
        """Return whether this is a limit of arithmetic; otherwise it is that of a memory."""
        return self.name.startswith(PEAK)


@dataclass(frozen=True)
class RooflinePoint:
    """The rate that a primitive achieves, and the upper limit of its device that applies to it.

    Attributes:
        flops, traffic: operations and bytes of one call, counted from shapes.
        intensity: operations per byte; None if the primitive only moves data.
        achieved: operations per second, or bytes per second if it only moves data.
        roof: highest rate that its intensity and footprint allow, in the unit of `achieved`; None if the device's
            roofs were not measured.
        bound: name of that roof.
        share: achieved divided by roof, percent.
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
    """One quantity of a training run, such as its gradient steps per second; `system` is the mapping."""

    workload: str
    batch_size: int | None
    system: str
    seed: int | None
    result: Number


@dataclass(frozen=True)
class Learning:
    """What a system learnt on a workload: the interquartile mean over seeds of its returns.

    Attributes:
        seeds: number of seeds trained to the end; None if its row does not give it.
        end: the mean for the last fifth of training; None if every seed failed.
        best: the mean for the best stretch of training; None if no stretch had an episode of every seed.
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
    """The episode returns of one training run over its environment steps.

    Attributes:
        system: the mapping of the run.
        environment_steps: environment steps at the end of each episode.
        returns: returns of the episodes.
        last: mean return of the last episodes.
    """

    workload: str
    system: str
    seed: int | None
    environment_steps: tuple[int, ...]
    returns: tuple[float, ...]
    last: Number


@dataclass(frozen=True)
class Gap:
    """Measurements that failed, were not run, or are too noisy for a verdict, of one workload and for one reason.

    Attributes:
        suite: the purpose of their rows, such as "profile".
        status: "failed", "not run" or "too noisy".
        reason: the reason that they share; empty if each item states its own.
        items: primitives with backend and device.
        rows: index labels of their rows.
    """

    workload: str
    suite: str
    batch_size: int | None
    status: str
    reason: str
    items: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """The change of one quantity from the reference run to this one.

    Attributes:
        what: primitive, backend, device and quantity.
        before, after: its value in the reference run and in this one.
        ratio: ratio of the two; None if they cannot be compared.
        verdict: "better", "worse" or "no verdict"; `reason` explains the last.
    """

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
    """One fact about the machine or about versions, in a named group of facts."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class NoisyRows:
    """How many timed rows of one kind of primitive are too noisy for a verdict.

    Attributes:
        kind: kind of primitive, such as "round" or "learner"; "all" for the rows of every kind.
        timed: number of rows of the primitive tables that hold a measured time.
        noisy: number of timed rows that are too noisy.
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
        tasks: what was compared: "training", "learner and replay" or "replay".
        workloads: workloads that ran with these versions and settings.
        versions: each as "package version"; empty if its rows give none.
        settings: each as "name: value"; the system reports those that are its own or differ from the workload's.
        rows: index labels of the rows that report these versions and settings.
    """

    system: str
    tasks: tuple[str, ...]
    workloads: tuple[str, ...]
    versions: tuple[str, ...]
    settings: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Content:
    """Everything that the page and the exported files show about one machine.

    Attributes:
        run: the run of the report, the last of its machine; None if the store has none.
        runs: every run of the store.
        reference: the committed run that is shown for comparison; None if there is none.
        changes: the quantities that both runs have.
        measurements: the rows of the run and of runs of other tiers with the same code on the same machine. Of
            what was measured several times, only the last attempt is kept. The index labels are those of the
            whole store's frame.
        core_speed: how much of the timed work ran at full core speed; empty if no row states it.
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
        """Name of the folder of its machine's pages and files.

        It is a hash, because an untrusted fingerprint must not choose a file name.
        """
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]
