"""Measures the primitive table: the time of every primitive of a workload on every backend here (MAP VI-A)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.measure import protocol as measure
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import default_core
from placerl.harness.pieces.learners import TRAINED
from placerl.harness.profile.cases import PrimitiveCase, all_cases, distinct, primitive_cases
from placerl.harness.profile.cases.trained import profiled_start
from placerl.harness.store.rows import PieceTime
from placerl.harness.workloads import Workload
from placerl.primitives.quantization.precision import FLOAT_32

THREADS = 1  # of PyTorch; a mapping's other parts have cores of their own


def profile(
    workload: Workload,
    batch_size: int,
    budget_s: float,
    report: Report,
    precisions: Sequence[str] = (),
    *,
    pieces: bool = True,
) -> list[PieceTime]:
    """Time each primitive on each backend, all in the same interleaved rounds; then time noisy ones further.

    Args:
        budget_s: no further round begins after this time, seconds; but `statistics.FEWEST_SAMPLES` rounds
            always run.
        precisions: precisions of the learners in addition to float32.
        pieces: whether the training loop's pieces are timed too, from which throughput is predicted. Without them a
            cell takes a fraction of the time; the reference backends, which no claim judges, are then left out too.

    Returns:
        A row for each primitive and target (backend and device), in seconds per call. Their suite is `profile`, or
        `Suite.PRECISION_PROFILE` with more precisions. A primitive that failed its check or raised has a row with
        status `failed` and the reason.
    """
    every = (FLOAT_32, *precisions)
    if pieces:
        cases = all_cases(workload, batch_size, every)
    else:
        cases = [
            one
            for one in primitive_cases(workload, batch_size, every)
            if one.target.backend not in COMPARED_ONLY
        ]
    protocol = measure.Protocol(
        budget_s=budget_s,
        fewest_rounds=statistics.FEWEST_SAMPLES,
        settle=True,
        threads=THREADS,
        lead_in_calls=1,
        caller_core=default_core(),
    )
    timings = measure.measure(
        distinct(cases),
        protocol,
        progress=lambda done, total: report(done, total, "interleaved rounds"),
    )
    return [
        item.timing(timings).measurement(
            PieceTime,
            suite=Suite.PRECISION_PROFILE if precisions else Suite.PROFILE,
            workload=workload.name,
            primitive=item.primitive,
            backend=item.target.kind,
            device=item.target.device,
            batch_size=batch_size,
            target=str(item.target),
            items_per_call=item.batch_size,
            precisions=tuple(precisions),
            trained_steps=_trained_steps(workload, item, timings),
            work=asdict(item.work()) if item.work else None,
            **item.columns,
        )
        for item in cases
    ]


def _trained_steps(
    workload: Workload, item: PrimitiveCase, timings: Mapping[str, measure.Timing]
) -> int | None:
    """Return the gradient steps before the state that a learner's row was timed from; None for other rows."""
    if item.columns.get("state") != TRAINED or item.timing(timings).median_s is None:
        return None
    return profiled_start(workload).steps
