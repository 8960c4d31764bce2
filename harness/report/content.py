"""Defines the contents of a report: the rows of the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the stored measurements that it came from; the page shows no
other numbers. Throughputs and portabilities are only in the files.
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
    """A predicted training throughput, with the throughput that was achieved if the training was run as predicted.

    Attributes:
        mapping: where learner, replay management and storage run, such as "torch-native-cpu".
        strategy: the performance model that made the prediction.
        chosen_among: "here" (this machine's devices) or "here and simulated", once for each set of devices among
            which the strategy chose this mapping; empty if it chose another.
        loop: form of the training loop, such as "fused" (`harness.mapping.Loop`), that was run or predicted; empty
            for a training that was not run to check predictions.
        predicted, achieved: gradient steps per second. The achieved throughput is the median if there are several
            runs, for instance with several seeds.
        error: by how many percent the prediction is above the achieved throughput.
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


@dataclass(frozen=True)
class HeatMap:
    """The training throughput of every mapping on one workload over batch sizes (MAP Fig. 13, PRL Fig. 8).

    A mapping says where learner, replay management and storage run, such as "torch-native-cpu".

    Attributes:
        workload: name of the workload.
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

    def best(self, batch_size: int) -> str:
        """Return the mapping with the highest throughput at a batch size, as text such as "torch-native-cpu"."""
        column = {mapping: n.value for (mapping, size), n in self.achieved.items() if size == batch_size}
        return max(column, key=column.__getitem__)

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        """Return the provenances (measured, simulated or modelled) that occur among the map's throughputs."""
        found = {n.provenance for n in self.achieved.values()}
        return tuple(provenance for provenance in Provenance if provenance in found)


@dataclass(frozen=True)
class Choice:
    """The mapping that a performance model (strategy) chose, and how much throughput the choice lost.

    A mapping says where learner, replay management and storage run, such as "torch-native-cpu". The mappings were
    run, so that the best one is known.

    Attributes:
        strategy: the performance model that chose.
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


@dataclass(frozen=True)
class BaselineComparison:
    """The comparison of this project with another library (a baseline) on one workload.

    Attributes:
        workload, batch_size: what both trained.
        baseline: name of the library.
        ratio: this project's throughput over the library's.
        ours, theirs: gradient steps per second of this project and of the library.
        null: ratio of two timings of this project in the same rounds, which shows the noise (the A/A null).
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
    """Gradient steps per second of this project under a mapping, or of another library (a baseline).

    Attributes:
        system: "placerl" or the library's name.
        mapping: where learner, replay management and storage run, such as "torch-native-cpu"; empty for a library.
        suite: why it was measured: "run" (a training), "validation" (a check of a prediction) or "compare" (a
            comparison with a library).
        loop: in a validation, the form of the training loop, such as "fused"; empty otherwise.
        beside: in a comparison, the library that this project was timed with; empty otherwise.
        options: options of a training, each as name=value.
        value: None if it failed or was not run.
        status: "ok", "too_noisy", "failed" or "not_run"; `reason` says why it is not "ok".
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
        system: "placerl" or another library's name.
        over: what the choices are: "device assignments" of one machine, or "machines"; "mappings" in measurements of
            earlier versions.
        among: devices of the choices: with or without simulated devices, or what the machines ran.
        choices: number of choices; None if it was not stored.
        unsupported: number of choices that the system cannot run; None if it was not run.
        value: the portability; None if it was not run.
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
        backend: the implementation, such as "native" or "torch".
        device: the device, such as "cpu" or "cuda:0".
        variant: fanout of a sum tree, such as "K=16"; empty otherwise.
        time: None if it failed or was not run.
        status: "ok", "too_noisy", "failed" or "not_run"; `reason` says why it is not "ok".
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
        device: name of the device, such as "cpu" or "cuda:0".
        workloads: workloads to which the limit applies; empty for all.
        primitives: timed operations to which it applies, by the beginning of their names; empty for all.
        name: "peak", "peak in bfloat16", or the memory in which the copy was made.
        footprint_bytes: largest data that this memory holds, bytes; None for the peak and for the only memory.
        rate: operations or bytes per second.
        status: "ok" or "too_noisy".
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
        """Return whether this is a limit of arithmetic; otherwise it is the limit of a memory."""
        return self.name.startswith(PEAK)


@dataclass(frozen=True)
class RooflinePoint:
    """The rate that a primitive, such as `learner.step`, achieves, and its device's upper limit that applies to it.

    Attributes:
        flops, traffic: operations and bytes of one call, counted from shapes.
        intensity: operations per byte; None if the primitive only moves data.
        achieved: operations per second, or bytes per second if it only moves data.
        roof: highest rate that its intensity and the size of its data allow, in the unit of `achieved`; None if the
            device's limits were not measured.
        bound: name of the limit that gives `roof`.
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
    """One measured quantity of a training run.

    Attributes:
        system: the mapping: where learner, replay management and storage ran, such as "torch-native-cpu".
        seed: seed of the training; None if it was not stored.
        result: the quantity, such as gradient steps per second.
    """

    workload: str
    batch_size: int | None
    system: str
    seed: int | None
    result: Number


@dataclass(frozen=True)
class Learning:
    """The returns that a system (this project or another library) reached on a workload.

    Each is an interquartile mean over seeds.

    Attributes:
        seeds: number of seeds trained to the end; None if it was not stored.
        end: the mean for the last fifth of training; None if every seed failed.
        best: the mean for the best stretch of training; None if no stretch had an episode of every seed.
        best_step: environment steps at the end of the best stretch.
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
        system: the mapping: where learner, replay management and storage ran, such as "torch-native-cpu".
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
        suite: what they were measured for, such as "profile".
        status: "failed", "not run" or "too noisy".
        reason: the reason that they share; empty if each item states its own.
        items: the measured operations, each with backend and device.
        rows: index labels of the stored measurements.
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
        what: names of the primitive (a timed operation), its backend and device, and the quantity.
        before, after: value of the quantity in the reference run and in this one.
        ratio: ratio of the two; None if they cannot be compared.
        verdict: "better", "worse" or "no verdict"; `reason` says why there is no verdict.
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
    """One fact about the machine or about versions, such as the processor's model.

    Attributes:
        group: heading under which the page lists the fact, such as "cpu".
        name: name of the fact, such as "model".
        value: the fact as text, in a readable unit.
    """

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class NoisyRows:
    """The share of time measurements of one kind that are too noisy for a verdict.

    Attributes:
        kind: first part of the name of the timed operation, such as "learner" of "learner.step"; "all" for all kinds.
        timed: number of measured times of this kind in the tables of primitives.
        noisy: number of these times that are too noisy.
        share: noisy times in percent of the measured times.
    """

    kind: str
    timed: Number
    noisy: Number
    share: Number


@dataclass(frozen=True)
class BaselineVersions:
    """A system (this project or another library) with one set of versions and settings in the comparisons.

    Attributes:
        system: "placerl" or the library's name.
        tasks: what was compared: "training", "learner and replay" or "replay".
        workloads: workloads that ran with these versions and settings.
        versions: each as "package version"; empty if none were stored.
        settings: each as "name: value". The system reports settings that only it has and settings that differ from
            the workload's.
        rows: index labels of the stored measurements that report these versions and settings.
    """

    system: str
    tasks: tuple[str, ...]
    workloads: tuple[str, ...]
    versions: tuple[str, ...]
    settings: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Content:
    """The contents of a report on one machine, which the page and the exported files show.

    The attributes that are not listed here hold the rows of the report's tables, such as `primitives`.

    Attributes:
        run: the run of the report, the last one of its machine; None if the store has none.
        runs: every run of the store.
        reference: the committed run that is shown for comparison; None if there is none.
        changes: changes of the quantities that the run and the reference both have.
        measurements: the measurements of the run and of runs of other tiers with the same code on the same machine,
            one per row. If something was measured several times, only the last attempt is kept. The index labels are
            those of the frame with the whole store.
        core_speed: how much of the timed work ran at full core speed; empty if no measurement states it.
        noisy_rows: numbers of noisy measurements of each kind, then of all; empty if nothing was timed.
        memory: peak memory of these runs; empty if the store is too old to hold it.
        everything: the measurements of the whole store, for verdicts that use several machines.
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
        """Return the name of the folder that holds the pages and files of the machine.

        It is a hash, because an untrusted fingerprint must not choose a file name.
        """
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]
