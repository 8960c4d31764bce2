"""The primitive x device table: every primitive of a workload on every backend that runs here (MAP VI-A)."""

from collections.abc import Sequence
from dataclasses import asdict

from harness.core.progress import Report
from harness.core.row import Measurement
from harness.measure import protocol as measure
from harness.measure import statistics
from harness.measure.conditions import default_core
from harness.profile.cases import all_cases, distinct
from harness.workloads import Workload
from primitives.quantization.precision import FLOAT_32

PRECISION_SUITE = "precision_profile"
THREADS = 1  # of PyTorch; a mapping's other parts have cores of their own


def profile(
    workload: Workload, batch_size: int, budget_s: float, report: Report, precisions: Sequence[str] = ()
) -> list[Measurement]:
    """Time each primitive on each backend, all in the same interleaved rounds, then those alone that are still noisy.

    Args:
        workload: gives the sizes.
        batch_size: items in a call of a batched primitive.
        budget_s: begin no further round after this time, seconds; `statistics.FEWEST_SAMPLES` rounds are always made.
        report: called with the progress.
        precisions: of the learners, as well as float32.

    Returns:
        A row of suite `profile`, with more precisions `PRECISION_SUITE`, for each primitive and target, in seconds a
        call; what failed its check or raised is a row with status `failed` and the reason.
    """
    cases = all_cases(workload, batch_size, (FLOAT_32, *precisions))
    own = {"precisions": list(precisions)} if precisions else {}
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
            suite=PRECISION_SUITE if precisions else "profile",
            workload=workload.name,
            primitive=item.primitive,
            backend=item.target.kind,
            device=item.target.device,
            batch_size=batch_size,
            details={"target": str(item.target), "items_per_call": item.batch_size, **own, **item.details}
            | ({"work": asdict(item.work())} if item.work else {}),
        )
        for item in cases
    ]
