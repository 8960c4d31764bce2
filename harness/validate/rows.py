"""Makes the rows of a validation: throughput of the mappings, their predictions, and portability.

A validation compares predicted with measured throughput of mappings, which say where learner, replay management and
storage run. Every sample belongs to a round of the measurement, and comparisons are made round by round. So if the
machine changes its speed, a run and the pieces from which it is predicted (calls of the loop, timed in the same
round) still had the same speed. The error of a prediction is the median over the rounds, with its interval.
"""

from collections.abc import Collection, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from placerl.harness.compare.registry import JUDGED_FOR_PORTABILITY, trains
from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import (
    Entry,
    Loop,
    Mapping,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Strategy,
    Target,
    predict,
)
from placerl.harness.mapping.assignments import CPU, CUDA, Assignment, baseline_supports
from placerl.harness.mapping.choices import HERE, WITH_SIMULATED
from placerl.harness.mapping.metrics import experiences_per_s, portability
from placerl.harness.mapping.table import Cell
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Timing
from placerl.harness.profile.cases.training import TimedTraining, case_name
from placerl.harness.runtime import simulated_parts
from placerl.harness.runtime.measured_run import placement_columns
from placerl.harness.store.rows import (
    AchievedRate,
    Overhead,
    PieceTime,
    Portability,
    PredictedRate,
)
from placerl.harness.validate.narrowing import Dropped

SUITE = Suite.VALIDATION
OVER_DEVICES = "device assignments"
"""What a portability is averaged over: pairs of a device for the learner and one for the replay management."""
COMPARED_ON = {CPU: "torch-native-cpu", CUDA: "torch:cuda-native-cpu"}
"""Mappings with which `placerl compare` puts a library's networks on a device, by the device."""

Rounds = MappingABC[int, float]
"""Values by number of the measurement's round."""
BaselineRates = MappingABC[tuple[str, str], float]
"""Gradient steps per second of other libraries, by name and by the device of their networks, "cpu" or "cuda"."""


@dataclass(frozen=True)
class Achieved:
    """The throughput that a mapping reached in a training loop.

    Attributes:
        mapping: where learner, replay management and storage ran.
        loop: form of the training loop, an order of its calls, such as fused or overlapped.
        row: the measurement of gradient steps per second.
        rounds: gradient steps per second by number of the round in which they were timed.
    """

    mapping: Mapping
    loop: Loop
    row: AchievedRate
    rounds: Rounds

    @property
    def measured(self) -> bool:
        """Return whether all devices of the mapping are real, none simulated."""
        return self.row.provenance is Provenance.MEASURED


def achieved(
    fields: MappingABC[str, Any],
    mapping: Mapping,
    loop: Loop,
    timings: MappingABC[str, Timing],
    run: TimedTraining | None,
    **columns: Any,
) -> Achieved:
    """Return the throughput of a mapping in a training loop, computed from the times of its calls.

    Args:
        fields: fields of the row to make: "workload" and "batch_size".
        timings: timings of everything that the validation timed, by name.
        run: the timed training; None if it could not be made.
    """
    steps = run.gradient_steps if run else 1
    whole = case_name(mapping, loop)
    timing = timings[whole]
    terms_s = {
        name.removeprefix(f"{whole}: "): part.median_s / steps
        for name, part in timings.items()
        if name.startswith(f"{whole}: ") and part.median_s is not None
    }
    stated: dict[str, Any] = {}
    if run:
        stated = simulated_parts.tree_columns(run.training) | placement_columns(run.training)
    row = AchievedRate(
        suite=SUITE,
        primitive="training",
        mapping=str(mapping),
        quantity="gradient_steps_per_s",
        provenance=simulated_parts.of_mapping(mapping),
        status=timing.status,
        reason=timing.reason,
        value=steps / timing.median_s if timing.median_s else None,
        low=steps / timing.high_s if timing.high_s else None,
        high=steps / timing.low_s if timing.low_s else None,
        samples=tuple(steps / sample for sample in timing.samples_s),
        loop=str(loop),
        gradient_steps_per_call=steps,
        fusion=str(run.training.fusion) if run else "",
        assignment=str(Assignment.of(mapping)),
        terms_s=terms_s,
        timed=HowTimed(**timing.details),
        **stated,
        **columns,
        **fields,
    )
    rounds = {number: steps / s for number, s in zip(timing.rounds, timing.samples_s, strict=True)}
    return Achieved(mapping, loop, row, rounds)


class Profile:
    """The times per call from which throughput is predicted, as they were in each round of the measurement.

    Args:
        rows: the times of suite `validation`, one per timed call.
        rounds: for each row, its seconds by number of the round; empty if the value is the same in every round.
    """

    def __init__(self, rows: Sequence[PieceTime], rounds: Sequence[Rounds], batch_size: int) -> None:
        by_row = {id(row): by for row, by in zip(rows, rounds, strict=True)}
        self._times = {
            (primitive, Target.parse(target)): (row, by_row[id(row)])
            for (primitive, target), row in predict.used_times(rows).items()
        }
        self._batch_size = batch_size
        self._by_round: dict[int, PerformanceTable] = {}

    def at(self, number: int) -> PerformanceTable:
        """Return the performance table, the input of predictions, with the times of one round.

        A call that was not timed in that round has its time of the last round before it, or else of its first round.
        """
        if number not in self._by_round:
            entries = []
            for (primitive, target), (row, by) in self._times.items():
                s = _at(by, number, float(row.value or 0))
                entries.append(Entry(primitive, target, self._batch_size, s, s, s, row.provenance))
            self._by_round[number] = PerformanceTable(entries)
        return self._by_round[number]

    def rounds(self, cell: Cell) -> float:
        """Return the number of rounds in which a call was timed; infinite if its time is the same in every round.

        Args:
            cell: the call's primitive and its target (backend and device).
        """
        _, by = self._times.get(cell, (None, {}))
        return len(by) or inf


def _at(rounds: Rounds, number: int, otherwise: float) -> float:
    if not rounds:
        return otherwise
    before = [measured for measured in rounds if measured <= number]
    return rounds[max(before) if before else min(rounds)]


def beside(
    predicted: PredictedRate,
    strategy: Strategy,
    ran: MappingABC[tuple[str, Loop], Achieved],
    profile: Profile,
    problem: Problem,
    platform: Platform,
) -> PredictedRate:
    """Return the row of a prediction, with the prediction's error if the mapping was also run.

    The error is known if the mapping ran in the form of the training loop that the prediction is for. It has an
    interval, and can be judged, if the mapping and every call from which it was predicted were timed in enough rounds.

    Args:
        predicted: a row of predicted throughput, from `predict.measurements`.
    """
    columns: dict[str, Any] = {"loop": str(strategy.loop)}
    if predicted.value is None:
        return replace(predicted, suite=SUITE, **columns)
    run = under(strategy.loop, predicted.mapping, ran)
    if run is not None and run.row.value is not None:
        mapping = Mapping.parse(predicted.mapping)
        by_round = {
            number: strategy.predict(profile.at(number), problem, platform, mapping) for number in run.rounds
        }
        ratios = [by_round[number].gps / gps for number, gps in run.rounds.items()]
        cells = {cell for one in by_round.values() for cell in one.cells}
        rounds = min([len(ratios), *map(profile.rounds, cells)])
        columns |= {
            "achieved": run.row.value,
            "error_rounds": rounds,
            "error": float(np.median(ratios)) - 1,
            "term_errors": term_errors(_median_terms(list(by_round.values())), run.row.terms_s or {}),
            "ran": str(run.loop),
            "achieved_provenance": str(run.row.provenance),
        }
        if rounds >= statistics.FEWEST_SAMPLES:
            low, high = statistics.interval(ratios, in_order=True)
            columns |= {"error_low": low - 1, "error_high": high - 1}
    return replace(predicted, suite=SUITE, quantity=f"predicted_{predicted.quantity}", **columns)


def _median_terms(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Return the median seconds of each term over rounds, by the same clock as those of the trainings."""
    return {
        term: float(np.median([one.terms_s[term] for one in predictions])) for term in predictions[0].terms_s
    }


def under(loop: Loop, mapping: str, ran: MappingABC[tuple[str, Loop], Achieved]) -> Achieved | None:
    """Return the measured throughput of a mapping in one form of the training loop; None if it did not run.

    If nothing can be fused, the strict and the fused loop are the same, and only the fused loop runs; its throughput
    is then also that of the strict loop.

    Args:
        mapping: where learner, replay management and storage run, as text such as "torch-native-cpu".
    """
    run = ran.get((mapping, loop))
    if run is None and loop is Loop.STRICT:
        run = ran.get((mapping, Loop.FUSED))
        if run is not None and run.row.fusion not in (None, "", Fusion.NONE):
            return None  # it has not run unfused
    return run


def term_errors(predicted_s: MappingABC[str, float], achieved_s: MappingABC[str, float]) -> dict[str, float]:
    """Return the error of each term (part of a gradient step's time) of a prediction: predicted / achieved - 1.

    Terms that the runtime does not report are left out.

    Args:
        predicted_s: predicted seconds per gradient step by term, such as "learner" or "sample and gather".
        achieved_s: measured seconds per gradient step by term (`Progress.terms_s`), and those of "loop".
    """
    counted = dict(achieved_s)
    for joint, parts in {
        "actor": ("environment", "infer"),
        "sample and gather": ("sample", "gather"),
    }.items():
        if parts[0] in counted:
            counted[joint] = sum(counted.get(part, 0.0) for part in parts)
    return {
        term: seconds / counted[term] - 1 for term, seconds in predicted_s.items() if counted.get(term, 0) > 0
    }


def overheads(
    predicted: Sequence[PredictedRate],
    ran: MappingABC[tuple[str, Loop], Achieved],
    strategy: Strategy,
    profile: Profile,
    problem: Problem,
    platform: Platform,
) -> list[Overhead]:
    """Return rows of the overhead of trainings whose actors run in a separate process.

    There the actors and the host's work for gradient steps run in parallel, so a training should take as long as the
    slower of the two. The overhead is the time of the training divided by the slower one's time, minus 1. Its value
    is the median over the rounds, which also says which of the two is slower. Where the strategy knows by how much the
    two slow each other down (a learner that is fused with its replay), their times contain this, so that it is no part
    of the overhead.

    Args:
        strategy: the performance model that gives the time of actors and of gradient steps.
    """
    rows = []
    for row in predicted:
        run = ran.get((row.mapping, Loop.OVERLAPPED))
        if row.strategy != strategy.name or run is None or not run.measured or run.row.value is None:
            continue
        mapping = run.mapping
        over: list[float] = []
        actors_longer_s: list[float] = []
        for number, gps in run.rounds.items():
            terms_s = strategy.predict(profile.at(number), problem, platform, mapping).terms_s
            host_s = sum(
                s for term, s in terms_s.items() if term not in ("actor", "insert", "publish", "loop")
            )
            over.append(1 / gps / max(terms_s["actor"], host_s) - 1)
            actors_longer_s.append(terms_s["actor"] - host_s)
        enough = len(over) >= statistics.FEWEST_SAMPLES
        low, high = statistics.interval(over, in_order=True) if enough else (None, None)
        rows.append(
            Overhead(
                suite=SUITE,
                workload=row.workload,
                primitive="training",
                batch_size=row.batch_size,
                quantity="runtime_overhead",
                provenance=run.row.provenance,
                status=run.row.status,
                reason=run.row.reason,
                value=float(np.median(over)),
                low=low,
                high=high,
                samples=tuple(over),
                mapping=row.mapping,
                loop=str(Loop.OVERLAPPED),
                slowest="actors" if np.median(actors_longer_s) > 0 else "gradient steps",
            )
        )
    return rows


def portabilities(
    fields: MappingABC[str, Any],
    ran: Sequence[Achieved],
    baselines: BaselineRates,
    algorithm: str,
    dropped: Dropped,
    unsupported: Sequence[Mapping] = (),
) -> list[Portability]:
    """Return rows of PRL's performance portability over device assignments, of this project and of other libraries.

    A device assignment is a device for the learner and one for the replay management; several backends of one device
    are one assignment. Each system counts with the experiences per second of its best mapping (backends of learner,
    replay management and storage) under each assignment. It is not one that was dropped, unless all of them were: a
    dropped mapping has few rounds, and its median may be better only because the machine was faster in them.

    Args:
        fields: fields of the rows to make: "workload" and "batch_size".
        ran: measured throughputs of this project's mappings in the fused loop.
        baselines: rates of other libraries that ran on this workload and batch size. Each counts for the assignments
            with the learner on its device. A library that lacks an assignment has a portability of 0, whatever it
            reaches on the others; one that did not run, or lacks none and did not run on each device, has a row
            "not_run".
        algorithm: the workload's algorithm; libraries that do not have it are left out.
        unsupported: mappings of this machine that this project cannot run; an assignment with only such mappings
            counts as not supported.
    """
    rows, batch_size = [], fields["batch_size"]
    for devices, mine in ((HERE, [one for one in ran if one.measured]), (WITH_SIMULATED, list(ran))):
        if devices == WITH_SIMULATED and all(one.measured for one in ran):
            continue
        best = _best_of_each(mine, unsupported, [dropped.get((Loop.FUSED, of), ()) for of in {HERE, devices}])
        if not best:
            continue
        columns = {
            "mappings": [str(one.mapping) for one in best.values() if one],
            "choices": [str(choice) for choice in best],
            "over": OVER_DEVICES,
            "devices": devices,
        }
        reached = [None if one is None else one.row.value for one in best.values()]
        eps = [None if gps is None else experiences_per_s(gps, batch_size) for gps in reached]
        lacks = {
            "lacking": [str(choice) for choice, one in best.items() if one is None or one.row.value is None]
        }
        provenance = weakest(Provenance.MEASURED, *(one.row.provenance for one in mine))
        rows.append(_portability(fields, "placerl", columns | lacks, provenance, value=portability(eps)))
        rows += [
            _of_baseline(fields, baseline, baselines, list(best), columns, provenance)
            for baseline in JUDGED_FOR_PORTABILITY
            if trains(baseline, algorithm)
        ]
    return rows


def _of_baseline(
    fields: MappingABC[str, Any],
    baseline: str,
    baselines: BaselineRates,
    choices: Sequence[Assignment],
    columns: dict[str, Any],
    provenance: Provenance,
) -> Portability:
    """Return the row of another library's portability over some device assignments (`portabilities`)."""
    theirs = {
        device: experiences_per_s(gps, fields["batch_size"])
        for (name, device), gps in baselines.items()
        if name == baseline
    }
    lacking = [choice for choice in choices if not baseline_supports(choice)]
    learners = dict.fromkeys(choice.learner for choice in choices if choice not in lacking)
    missing = [] if lacking else [device for device in learners if device not in theirs]
    if missing or not theirs:
        why = _compared_before(fields, baseline, missing if len(learners) > 1 else [])
        return _portability(fields, baseline, columns, provenance, status="not_run", reason=why)
    eps = [None if choice in lacking else theirs.get(choice.learner) for choice in choices]
    lacks = {"lacking": [str(choice) for choice in lacking]}
    return _portability(fields, baseline, columns | lacks, provenance, value=portability(eps))


def _compared_before(fields: MappingABC[str, Any], baseline: str, devices: Sequence[str]) -> str:
    """Return which comparisons a library's portability needs.

    Args:
        fields: "workload" and "batch_size".
        devices: the devices on which it has no rate; empty: any will do.
    """
    command = (
        f"placerl compare {fields['workload']} --baselines {baseline} --batch-size {fields['batch_size']}"
    )
    on = [f" --mapping {COMPARED_ON[device]}" for device in devices] or [""]
    return "needs: " + " and ".join(f"`{command}{mapping}`" for mapping in on) + " before it"


def _best_of_each(
    ran: Sequence[Achieved], unsupported: Sequence[Mapping], dropped: Sequence[Collection[Mapping]]
) -> dict[Assignment, Achieved | None]:
    """Return the fastest mapping that ran under each assignment; None if none of them ran.

    Where a simulated device is the fastest, its race may drop everything that is real; what the race of the real
    devices kept still comes first.
    """

    def rank(one: Achieved) -> tuple[int, float]:
        return -sum(one.mapping in slower for slower in dropped), one.row.value or 0.0

    best: dict[Assignment, Achieved | None] = {}
    for one in ran:
        choice = Assignment.of(one.mapping)
        known = best.setdefault(choice, None)
        if one.row.value is not None and (known is None or rank(one) > rank(known)):
            best[choice] = one
    return best | {choice: None for choice in map(Assignment.of, unsupported) if choice not in best}


def _portability(
    fields: MappingABC[str, Any],
    system: str,
    columns: dict[str, Any],
    provenance: Provenance,
    **outcome: Any,
) -> Portability:
    return Portability(
        suite=SUITE,
        primitive="training",
        system=system,
        quantity="portability",
        provenance=provenance,
        **columns,
        **fields,
        **outcome,
    )
