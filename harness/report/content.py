"""What a report says: the rows of the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the rows that it came from; the page shows no other. The files
alone have throughputs and portabilities.
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
class Prediction:
    """A predicted throughput, and the achieved one of the same mapping where it was run as predicted.

    Attributes:
        chosen_among: the devices among which its strategy chose this mapping, of `harness.validate.rows`.
        loop: the one that was run in a validation, or is predicted there; empty of a training of its own.
        achieved: the median where it was run several times, as with several seeds.
        predicted_status: "ok", or "too_noisy": made from times that are.
        achieved_status: of its rows: "ok", "too_noisy" where one is, or "not_run" where there is none.
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
        """Whether it is of a mapping that was run, so that a reader sees it first."""
        return self.achieved is not None


@dataclass(frozen=True)
class HeatMap:
    """What every mapping achieved on one workload in one loop, over batch sizes (MAP Fig. 13, PRL Fig. 8).

    Attributes:
        workload: its name.
        devices: among which the best and the choice are, of `harness.validate.rows`: those here, all measured, or
            also the simulated ones.
        loop: that of all mappings; empty where the rows name none.
        batch_sizes: columns, rising: those that two mappings or more were run at, so that one is the best.
        mappings: rows, by name.
        achieved: throughput by (mapping, batch size); what was not run is missing.
        noisy: those of them that are too noisy for a verdict.
        chosen: by batch size of these, the mapping that the default strategy chose; it may not have been run.
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
        """The mapping that achieved most at a batch size."""
        column = {mapping: n.value for (mapping, size), n in self.achieved.items() if size == batch_size}
        return max(column, key=column.__getitem__)

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        """Those of its cells."""
        found = {n.provenance for n in self.achieved.values()}
        return tuple(provenance for provenance in Provenance if provenance in found)


@dataclass(frozen=True)
class Choice:
    """The mapping that a strategy chose in a validation, and what it lost: 1 - its throughput / the best one's.

    `devices` are those that it chose among, `loop` the one that all were run in; `verdict` is "best", "lost" or "no
    verdict".
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
class Comparison:
    """This project and a baseline on one workload.

    Attributes:
        workload, batch_size, baseline: what is compared.
        ratio: this project's throughput over the baseline's.
        ours, theirs: gradient steps a second of both.
        null: this project's throughput over its own, in the same rounds.
        verdict: "faster", "faster, but learns less", "faster; returns not compared", "slower" or "no verdict"; the
            status of a comparison that failed or was not run.
        reason: why it failed or was not run.
        our_return, their_return: mean return of both after the same number of environment steps.
        returns: what these returns say, or why they are not compared.
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
    """Gradient steps a second that this project reached under a mapping, or a baseline beside it.

    Attributes:
        system: "placerl" or the baseline.
        mapping: empty of a baseline.
        suite: what ran it: "run", "validation" or "compare".
        loop: of a validation.
        beside: of this project in a comparison, the baseline.
        options: of a run, each as name=value.
        value: None where it failed or was not run.
        status: of its row; `reason` says why it is not "ok".
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
    """PRL's performance portability: the harmonic mean of experiences a second over choices, 0 if it lacks one.

    Attributes:
        system: "placerl" or a baseline.
        over: "device assignments" of one machine, or "machines"; "mappings" in rows of earlier versions.
        among: which of them: with simulated devices or without, or what the machines ran.
        choices: how many; None where its row does not say.
        unsupported: how many of them it cannot run; None where it was not run.
        value: None where it was not run.
        status: "ok", "too_noisy" where a rate in it is, or "not_run".
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
    """Time of one call of a primitive on one backend and device; `reason` says why there is none."""

    workload: str
    primitive: str
    backend: str
    device: str
    variant: str
    batch_size: int | None
    time: Number | None
    status: str
    reason: str


@dataclass(frozen=True)
class Roof:
    """What a device does at most.

    Attributes:
        device: as in the primitive table.
        workloads: which it is of; empty for all.
        primitives: which of them it bounds, as their names begin; empty for all.
        name: "peak", or the memory that was copied in.
        footprint_bytes: largest footprint that this memory serves; None for the peak, and for the only memory.
        rate: operations or bytes a second.
        status: of its row: "ok", or "too_noisy".
    """

    device: str
    workloads: tuple[str, ...]
    primitives: str
    name: str
    footprint_bytes: int | None
    rate: Number
    status: str


@dataclass(frozen=True)
class RooflinePoint:
    """A primitive beside the roof of its device.

    Attributes:
        flops, traffic: of one call, counted from shapes.
        intensity: operations for each byte; None where it only moves data.
        achieved: operations a second, or bytes a second where it only moves data.
        roof: the most that its intensity and footprint allow there, in the unit of `achieved`; None where its device's
            roofs were not measured.
        bound: which roof that is.
        share: achieved over roof.
        status: "ok", or what the time or the roof is: "too_noisy".
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
    """What a system learnt of a workload, over seeds: the interquartile mean of its returns.

    Attributes:
        seeds: that were trained to the end; None where its row does not say.
        end: of the last fifth of training; None where every seed failed.
        best: of the stretch of training that was the best; None where no stretch had an episode of every seed.
        best_step: environment steps at its end.
        reason: why there is no `end`.
    """

    workload: str
    system: str
    seeds: int | None
    end: Number | None
    best: Number | None
    best_step: int | None
    reason: str


@dataclass(frozen=True)
class Curve:
    """Episode returns over environment steps of one training run; `last` is the mean of the last episodes."""

    workload: str
    system: str
    seed: int | None
    environment_steps: tuple[int, ...]
    returns: tuple[float, ...]
    last: Number


@dataclass(frozen=True)
class Gap:
    """What failed, was not run, or is too noisy for a verdict; `reason` is empty where each has its own."""

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
    """One fact about the machine or the versions, as measured or as the system states it."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class NoisyRows:
    """How many timed rows of one kind are too noisy for a verdict.

    Attributes:
        kind: of primitive: "round", "learner"; "all" for the rows of every kind.
        timed: rows of the primitive tables that hold a measured time.
        noisy: those of them that are too noisy.
        share: noisy rows, in percent of the timed ones.
    """

    kind: str
    timed: Number
    noisy: Number
    share: Number


@dataclass(frozen=True)
class BaselineVersions:
    """A system beside others, where it had the same versions and the same settings.

    Attributes:
        system: "placerl" or the baseline.
        tasks: what of it was compared: "training", "learner and replay" or "replay".
        workloads: where it had these versions and settings.
        versions: each as "package version"; none where its rows do not say.
        settings: each as "name: value"; its own, and in what it departs from the workload.
        rows: that name them.
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
        run: the run that it is about, the last of its machine; None when the store has none.
        runs: every run of the store.
        reference: the committed run that it is shown beside; None where there is none.
        changes: the quantities that both have.
        measurements: the rows of that run and of those of other tiers by the same code on the same machine, the last
            attempt of each cell; the index labels are those of the whole store's frame.
        core_speed: how many pieces ran at full speed; none where no row states it.
        noisy_rows: those of each kind, then all; none where nothing was timed.
        memory: peaks of those runs; none where a store is older than their rows.
        everything: that frame, in which verdicts about several machines have rows.
    """

    run: RunRecord | None
    runs: tuple[RunRecord, ...]
    measurements: pd.DataFrame
    everything: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    predictions: tuple[Prediction, ...]
    choices: tuple[Choice, ...]
    comparisons: tuple[Comparison, ...]
    baseline_versions: tuple[BaselineVersions, ...]
    throughputs: tuple[Throughput, ...]
    portabilities: tuple[Portability, ...]
    primitives: tuple[PrimitiveTime, ...]
    roofs: tuple[Roof, ...]
    roofline: tuple[RooflinePoint, ...]
    training: tuple[TrainingResult, ...]
    learning: tuple[Learning, ...]
    curves: tuple[Curve, ...]
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
        """A file's name for its machine, which an untrusted fingerprint may not choose."""
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]
