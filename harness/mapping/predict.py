"""Predicts throughputs from measured times of primitives: reads rows of the store and returns rows for the store."""

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from typing import Any

from placerl.harness.core.errors import NotRunError, UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import (
    DEFAULT_STRATEGY,
    STRATEGIES,
    Entry,
    Mapping,
    PerformanceTable,
    Platform,
    Problem,
    Strategy,
    Target,
)
from placerl.harness.mapping.candidates import candidates
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import TIMED_WHERE_THEY_RUN, composed_candidates
from placerl.harness.platforms import PlatformFile, SourcedNumber, load
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.workloads import Workload

WITH_SLOW_LINKS = ("slow_link_us", "slow_gps", "slow_chosen")
"""Columns of a prediction that `with_slow_links` adds."""
_DESIGN = re.compile(r"(?<=\.)(pipeline|banked)_")
"""In the name of a primitive, the design of a simulated device that computes it."""


def used_times(rows: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Return the last time of each primitive on each target, as mappings use it, by primitive and target.

    A simulated device may have several designs of a primitive. That which mappings use (`PieceTime.mapped`) also gets
    the name of the primitive itself.

    Args:
        rows: rows of times of one workload and batch size, or records of a frame with them; those without a time are
            left out.
    """
    timed = [row for row in rows if row.quantity == "time_per_call" and row.value is not None]
    by_piece = {(row.primitive, row.target or ""): row for row in timed}
    return by_piece | {(_DESIGN.sub("", row.primitive), row.target): row for row in timed if row.mapped}


def table_from(
    profile: Iterable[PieceTime],
    batch_size: int,
    time_of: Callable[[Entry], float] = lambda entry: entry.time_s,
) -> PerformanceTable:
    """Return the performance table, the times of primitives by target, from rows of a profile.

    Args:
        time_of: returns the time to use, such as a bound of the interval; the median by default.
    """
    entries = [
        Entry(
            primitive=primitive,
            target=Target.parse(target),
            batch_size=batch_size,
            time_s=row.value,
            low_s=row.value if row.low is None else row.low,
            high_s=row.value if row.high is None else row.high,
            provenance=row.provenance,
        )
        for (primitive, target), row in used_times(profile).items()
    ]
    return PerformanceTable(replace(entry, time_s=time_of(entry)) for entry in entries)


def measurements(
    workload: Workload,
    batch_size: int,
    profile: Sequence[PieceTime],
    platform: Platform,
    strategies: MappingABC[str, Strategy] = STRATEGIES,
    problem: Problem | None = None,
) -> list[PredictedRate]:
    """Return the predictions of every strategy for every mapping that the profiled times allow.

    Args:
        platform: the links and cores of the machine that was profiled.
        problem: the properties that the strategies see of the workload; by default its own (`problem_of`).

    Returns:
        Rows of suite `prediction`. `low` and `high` are the predictions if every time is at its slow or at its fast
        bound; a model that uses differences of times may swap them. A prediction from a time that is too noisy is
        marked too noisy. If the table or the platform lacks something that a strategy needs, the strategy's row is
        "not_run" and names it. Where the concurrent or the resident loop was not profiled, because it cannot run, it
        has no row.
    """
    rows: list[PredictedRate] = []
    for strategy in strategies.values():
        prefix = TIMED_WHERE_THEY_RUN.get(strategy.name)
        if prefix and not any(row.primitive.startswith(prefix) for row in profile):
            continue
        try:
            rows += _predictions(strategy, workload, batch_size, profile, platform, problem)
        except (ValueError, UserError) as error:
            rows.append(_not_run(strategy, workload, batch_size, str(error)))
    return rows


LONGEST_STEP_S = 10e-3
"""Longest gradient step under a CPU quota whose times are those of a thread that runs.

A period is 100 ms: a longer call is often stopped while it is timed, so that its time holds a part of the quota.
"""


def under_load(row: PredictedRate, share: float, lacking: str) -> PredictedRate:
    """Return a prediction as a CPU quota and other processes leave it.

    Args:
        share: share of a core's time that a quota leaves to a thread; the predicted rate is multiplied by it.
        lacking: says which processes leave less than a core; if it is not empty, the prediction is too noisy.
    """
    if row.value is None:
        return row
    if share < 1:
        if 1 / row.value > LONGEST_STEP_S:
            step_ms = 1e3 / row.value
            stopped = f"a gradient step of {step_ms:,.0f} ms is stopped while it is timed"
            lacking = lacking or f"under a quota of {share:g} cores {stopped}"
        ends = {
            name: end * share
            for name in ("value", "low", "high", "slow_gps")
            if (end := getattr(row, name)) is not None
        }
        terms_s = {term: seconds / share for term, seconds in (row.terms_s or {}).items()}
        row = replace(row, **ends, terms_s=terms_s)
    if lacking and row.status == "ok":
        row = replace(row, status="too_noisy", reason=lacking)
    return row


def slow_link() -> SourcedNumber:
    """Return the latency that is assumed where a source states none: 1 ms, as PRL's authors list for another board."""
    stated = next(
        link for link in load("pearl24-authors").link if set(link.between) == {"cpu", "fpga"}
    ).latency_us
    assert stated is not None, "platform pearl24-authors states it"
    return stated


def with_slow_links(
    workload: Workload,
    batch_size: int,
    profile: Sequence[PieceTime],
    platform: PlatformFile,
    strategies: MappingABC[str, Strategy] = STRATEGIES,
    problem: Problem | None = None,
) -> list[PredictedRate]:
    """Return the predictions for a platform, and how each would change if links had a latency.

    MAP states no latency for its link, and then a transfer only takes the time of its bytes. If a link
    states none, each row has `slow_link_us`, the latency then assumed for every such link, `slow_gps`, the prediction
    in gradient steps per second with it, and `slow_chosen`, whether the mapping would then be chosen.
    """
    rows = measurements(workload, batch_size, profile, platform, strategies, problem)
    latency = slow_link()
    slow = platform.with_latency(latency)
    if slow == platform:
        return rows
    slowed = measurements(workload, batch_size, profile, slow, strategies, problem)
    others = {(row.strategy, row.mapping): row for row in slowed}
    with_slow = []
    for row in rows:
        other = others.get((row.strategy, row.mapping))
        if row.value is not None and other is not None:
            row = replace(row, slow_link_us=latency.value, slow_gps=other.value, slow_chosen=other.chosen)
        with_slow.append(row)
    return with_slow


def _predictions(
    strategy: Strategy,
    workload: Workload,
    batch_size: int,
    profile: Sequence[PieceTime],
    platform: Platform,
    problem: Problem | None,
) -> list[PredictedRate]:
    problem = problem or problem_of(workload, batch_size)
    table = table_from(profile, batch_size)
    fast = table_from(profile, batch_size, lambda entry: entry.low_s)
    slow = table_from(profile, batch_size, lambda entry: entry.high_s)
    noisy = {(row.primitive, row.target) for row in profile if row.status == "too_noisy"}
    chosen = strategy.choose(table, problem, platform).mapping
    rows: list[PredictedRate] = []
    for mapping in sorted({chosen, *candidates(table), *composed_candidates(table)}):
        try:
            prediction = strategy.predict(table, problem, platform, mapping)
        except KeyError:  # a term of this mapping was not profiled
            continue
        ends = [strategy.predict(times, problem, platform, mapping).gps for times in (slow, fast)]
        unsure = [f"{name} {target}" for name, target in prediction.cells if (name, str(target)) in noisy]
        rows.append(
            PredictedRate(
                suite=Suite.PREDICTION,
                workload=workload.name,
                primitive="training",
                strategy=strategy.name,
                mapping=str(mapping),
                batch_size=batch_size,
                quantity="gradient_steps_per_s",
                provenance=prediction.provenance,
                status="too_noisy" if unsure else "ok",
                reason=f"made from times that are too noisy: {', '.join(unsure)}" if unsure else "",
                value=prediction.gps,
                low=min(ends),
                high=max(ends),
                platform=platform.name,
                chosen=mapping == chosen,
                terms_s=dict(prediction.terms_s),
                settings=dict(prediction.settings),
                inputs=prediction.inputs,
            )
        )
    return rows


def _not_run(strategy: Strategy, workload: Workload, batch_size: int, needs: str) -> PredictedRate:
    return PredictedRate(
        suite=Suite.PREDICTION,
        workload=workload.name,
        primitive="training",
        strategy=strategy.name,
        batch_size=batch_size,
        quantity="prediction",
        provenance=Provenance.MODELLED,
        status="not_run",
        reason=f"needs: {needs}",
    )


class NothingChosenError(NotRunError, LookupError):
    """Raised if a strategy chose no mapping, with the reason that its rows state."""


def chosen_mapping(rows: Iterable[PredictedRate], strategy: str = DEFAULT_STRATEGY) -> Mapping:
    """Return the mapping that a strategy chose, from its prediction rows.

    Raises:
        NothingChosenError: it chose none.
    """
    why = f"no prediction of strategy {strategy} is stored"
    for row in rows:
        if row.strategy == strategy and row.chosen:
            return Mapping.parse(row.mapping)
        if row.strategy == strategy and row.status == "not_run":
            why = f"{strategy} {row.reason.removeprefix('not run: ')}"
    raise NothingChosenError(why)
