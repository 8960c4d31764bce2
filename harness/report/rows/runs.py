"""Defines the rows of a report about the run and its machine: gaps, changes, facts, and noise."""

from dataclasses import dataclass

from placerl.harness.papers.number import Number


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
