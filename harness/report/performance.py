"""Computes the report's tables of throughput and portability (`content.py`) from stored measurements."""

from collections.abc import Iterator, Mapping

import pandas as pd

from placerl.harness.compare.parts import OURS
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Loop
from placerl.harness.papers.evidence import last_attempts, mapping_of, noisy, number, records
from placerl.harness.papers.portability import beside_baselines
from placerl.harness.report.rows.trainings import Portability, Throughput
from placerl.harness.report.tables import optional_size
from placerl.harness.validate.portability import over_platforms

RATE, EXPERIENCES = "gradient_steps_per_s", "experiences_per_s"
SUITES = (Suite.RUN, Suite.VALIDATION, Suite.COMPARE)
"""Suites whose rates are those of a whole training, or of the part of a training that is compared."""


def throughputs(frame: pd.DataFrame) -> Iterator[Throughput]:
    """Yield the gradient steps per second of every training, validation and comparison, including failed ones.

    A validation is a training that was run to check a prediction; a comparison also ran another library.
    """
    rows = frame[(frame["quantity"] == RATE) & frame["suite"].isin(SUITES)]
    for row in records(rows.sort_values(["workload", "batch_size"], kind="stable")):
        compared = row.suite == Suite.COMPARE
        baseline = str(row.baseline or row.who) if compared else ""
        ours = not compared or row.part == "ours"
        options = row.options
        yield Throughput(
            row.workload,
            optional_size(row.batch_size),
            OURS if ours else baseline,
            mapping_of(row) if ours else "",
            row.suite,
            row.loop or "",
            baseline if ours else "",
            tuple(f"{k}={v}" for k, v in options.items()) if isinstance(options, Mapping) else (),
            row.seed,
            RATE,
            None if pd.isna(row.value) else number(row, "gradient steps a second"),
            row.status,
            row.reason,
        )


def portabilities(frame: pd.DataFrame, everywhere: pd.DataFrame) -> Iterator[Portability]:
    """Yield the performance portability of this project and of other libraries.

    It is PRL's harmonic mean of experiences per second, over the device assignments of one machine (a device for the
    learner and one for replay management) or over the machines of a merged store.
    """
    yield from _over_mappings(frame)
    for portability in over_platforms(everywhere):
        yield Portability(
            portability.workload,
            portability.batch_size,
            OURS,
            "machines",
            "best mapping of each",
            len(portability.best),
            portability.unsupported,
            EXPERIENCES,
            portability.mean,
            *_state(portability.noisy),
        )
    last = last_attempts(everywhere, of_any_code=True)
    for pair in beside_baselines(last):
        for system, mean in ((OURS, pair.ours), (pair.baseline, pair.theirs)):
            among = f"those with a comparison with {pair.baseline}"
            state = _state(noisy(last.loc[list(mean.rows)]))
            place = pair.workload, pair.batch_size, system, "machines", among
            yield Portability(*place, pair.machines, 0, EXPERIENCES, mean, *state)


def _over_mappings(frame: pd.DataFrame) -> Iterator[Portability]:
    """Yield the portabilities that validations stored; they cover the fused loop only."""
    rows = frame[(frame["suite"] == Suite.VALIDATION) & (frame["quantity"] == "portability")]
    unsure = _noisy_rates(frame)
    for row in records(rows.sort_values(["workload", "batch_size"], kind="stable")):
        size = optional_size(row.batch_size)
        mappings, lacking = row.mappings, row.lacking
        choices = row.choices or mappings
        rates = (mappings or ()) if row.system == OURS else (row.system,)
        status, reason = row.status, row.reason
        if status == "ok" and row.value and any((row.workload, size, rate) in unsure for rate in rates):
            status, reason = _state(True)
        yield Portability(
            row.workload,
            size,
            row.system,
            row.over or "mappings",
            row.devices or "",
            None if choices is None else len(choices),
            None if lacking is None else len(lacking),
            EXPERIENCES,
            None if pd.isna(row.value) else number(row, "portability"),
            status,
            reason,
        )


def _noisy_rates(frame: pd.DataFrame) -> set[tuple[str, int | None, str]]:
    """Return what is too noisy: workload, batch size, and mapping in the fused loop or baseline."""
    rows = frame[(frame["quantity"] == RATE) & (frame["status"] == "too_noisy")]
    return {
        (row.workload, optional_size(row.batch_size), mapping_of(row) if validated else row.system)
        for row in records(rows)
        if (validated := row.suite == Suite.VALIDATION and row.loop in (None, Loop.FUSED))
        or (row.suite == Suite.COMPARE and row.primitive == "training" and row.part == "theirs")
    }


def _state(too_noisy: bool) -> tuple[str, str]:
    """Return status and reason of a mean, given whether one of its rates is too noisy."""
    return ("too_noisy", "a rate in it is too noisy") if too_noisy else ("ok", "")
