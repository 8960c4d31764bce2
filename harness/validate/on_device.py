"""Runs the mappings with a part on one kind of device, and the native one, without the predictions of a validation.

A mapping says where learner, replay management and storage run. The rows are those of a validation (suite
`validation`). The native mapping is the fastest of the processor's: claims compare devices on one machine, and without
it the processor would have only mappings that wait for the other device.
"""

from collections.abc import Sequence
from contextlib import closing

from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import NATIVE, NATIVE_MAPPING, Target
from placerl.harness.measure import statistics
from placerl.harness.pieces.storage import fitted
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.training import TimedTraining, case_name, training_case
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from placerl.harness.validate import piece_times, tried
from placerl.harness.validate.rows import SUITE, achieved
from placerl.harness.workloads import Workload

LOOPS = (Loop.FUSED, Loop.OVERLAPPED)
FEWEST_ROUNDS = statistics.FEWEST_SAMPLES


def cell(item: Workload, batch_size: int, budget_s: float, kind: str) -> Cell:
    """Return the cell, a piece of the plan, that trains under the mappings of a kind of device (`mappings`)."""

    def measured(run: Run, report: Report) -> Sequence[Row]:
        return trained(item, batch_size, budget_s, report, mappings(item, kind))

    return Cell(f"{SUITE}/{item.name}/{batch_size}/on-{kind}", budget_s, measured, item.name)


def mappings(item: Workload, kind: str) -> list[Mapping]:
    """Return the mappings with a part on a kind of device and the other on the native backend, and the native one.

    If this machine has no such device, there is none.
    """

    def there(part: Target) -> bool:
        return part.device.partition(":")[0] == kind

    chosen = [
        mapping
        for mapping in tried.mappings(item)
        if not is_simulated(mapping)
        and (there(mapping.learner) or there(mapping.rmm))
        and all(there(part) or part == NATIVE for part in (mapping.learner, mapping.rmm))
    ]
    return [Mapping.parse(NATIVE_MAPPING), *chosen] if chosen else []


def trained(
    item: Workload, batch_size: int, budget_s: float, report: Report, chosen: Sequence[Mapping]
) -> Sequence[Row]:
    """Train under some mappings in interleaved rounds, each in the fused and in the overlapped loop.

    Args:
        budget_s: no further round begins after this time, seconds; but `FEWEST_ROUNDS` rounds always run.

    Returns:
        Gradient steps per second of each mapping and loop, of suite `validation`.

    Raises:
        ValueError: there is no mapping.
    """
    if not chosen:
        raise ValueError("mappings: found none with a part on such a device; allowed: at least one")
    problem, small = problem_of(item, batch_size), fitted(item)
    parts = SharedParts(small, problem)
    runs: dict[str, TimedTraining] = {}
    trainings = {
        (mapping, loop): training_case(small, problem, mapping, runs, loop, parts)
        for mapping in chosen
        for loop in LOOPS
    }
    with closing(parts):
        timings = piece_times.timed(
            [one.case for one in trainings.values()],
            report,
            warm_up_calls=piece_times.WARM_UP_CALLS,
            budget_s=budget_s,
            fewest_rounds=FEWEST_ROUNDS,
        )
    fields = {"workload": item.name, "batch_size": batch_size}
    return [
        achieved(
            fields,
            mapping,
            loop,
            timings,
            runs.get(case_name(mapping, loop)),
            replay_capacity=small.replay.capacity,
            clearly_slower_among=[],
        ).row
        for mapping, loop in trainings
    ]
