"""Defines the rows of a report about trainings: throughputs, portabilities, results, and learning curves."""

from dataclasses import dataclass

from placerl.harness.papers.number import Number


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
