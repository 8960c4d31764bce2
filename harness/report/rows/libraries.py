"""Defines the rows of a report about other libraries: comparisons, returns, and the versions that were compared."""

from dataclasses import dataclass

from placerl.harness.papers.number import Number


@dataclass(frozen=True)
class BaselineComparison:
    """The comparison of this project with another library (a baseline) on one workload.

    Attributes:
        workload, batch_size: what both trained.
        ratio: this project's rate over the library's.
        ours, theirs: rates of this project and of the library, 1/s: those that the ratio compares (`rate`).
        null: ratio of two timings of this project in the same rounds, which shows the noise (the A/A null).
        verdict: "faster", "faster, but learns less", "faster; returns not compared", "slower" or "no verdict"; for a
            comparison that failed or was not run, its status.
        reason: why it failed or was not run; empty otherwise.
        our_return, their_return: mean return of both after the same number of environment steps.
        returns: the result of comparing these returns, or why they are not compared.
        noisy: which of them are too noisy: "ours", "theirs" (the rates) and other parts of the comparison.
        rate: what the rates count: "gradient steps", for PPO "environment steps", for a replay alone "replay cycles";
            empty if none is stored.
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
    noisy: tuple[str, ...] = ()
    rate: str = ""


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
