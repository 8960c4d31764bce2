"""From a measured primitive table to predictions: rows of the store in, rows of the store out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from harness.errors import UserError
from harness.mapping import (
    Entry,
    Mapping,
    MapTpds23,
    PerformanceTable,
    Problem,
    StrictLoop,
    Target,
)
from harness.mapping.base import candidates
from harness.store import Measurement
from harness.workload import Workload

STRATEGIES: dict[str, MapTpds23 | StrictLoop] = {
    strategy.name: strategy for strategy in (MapTpds23(), StrictLoop())
}
DEFAULT_STRATEGY = MapTpds23.name


def require_replay(workload: Workload) -> None:
    """Refuse a workload that the models say nothing about: they all describe prioritised replay.

    Raises:
        UserError: on-policy, or uniform replay.
    """
    if workload.algorithm.name == "ppo":
        found, field = workload.algorithm.name, "algorithm.name"
    elif not workload.replay.prioritized:
        found, field = "false", "replay.prioritized"
    else:
        return
    allowed = (
        "prioritised replay, which every mapping model describes; others run under a --mapping of your own"
    )
    raise UserError(workload.name, field, found, allowed)


def table_from(
    profile: Iterable[Measurement],
    batch_size: int,
    time_of: Callable[[Entry], float] = lambda entry: entry.time_s,
) -> PerformanceTable:
    """The performance table of the profile rows that have a time; failed and missing cells are left out.

    Args:
        profile: rows of suite `profile`.
        batch_size: theirs.
        time_of: the time to calculate with, such as an end of the interval; the median by default.
    """
    entries = [
        Entry(
            primitive=row.primitive,
            target=Target.parse(row.details["target"]),
            batch_size=batch_size,
            time_s=row.value,
            low_s=row.value if row.low is None else row.low,
            high_s=row.value if row.high is None else row.high,
            provenance=row.provenance,
        )
        for row in profile
        if row.quantity == "time_per_call" and row.value is not None
    ]
    return PerformanceTable(replace(entry, time_s=time_of(entry)) for entry in entries)


def problem_of(workload: Workload, batch_size: int) -> Problem:
    """What a strategy must know of a workload."""
    return Problem(
        batch_size=batch_size,
        item_words=workload.item_words,
        actors=workload.training.actors,
        update_interval=workload.training.update_interval,
    )


def measurements(workload: Workload, batch_size: int, profile: Sequence[Measurement]) -> list[Measurement]:
    """The predictions of every model for every mapping of the primitive table.

    Args:
        workload, batch_size: what is predicted.
        profile: rows of suite `profile` for them.

    Returns:
        Rows of suite `prediction`; `low` and `high` are the predictions with every time at the slow and the
        fast end of its interval. One made from a time that is too noisy is too noisy itself.

    Raises:
        ValueError: the table holds no complete mapping.
    """
    problem = problem_of(workload, batch_size)
    table = table_from(profile, batch_size)
    fast = table_from(profile, batch_size, lambda entry: entry.low_s)
    slow = table_from(profile, batch_size, lambda entry: entry.high_s)
    noisy = {(row.primitive, row.details["target"]) for row in profile if row.status == "too_noisy"}
    rows: list[Measurement] = []
    for strategy in STRATEGIES.values():
        chosen = strategy.choose(table, problem).mapping
        for mapping in sorted({chosen, *candidates(table)}):
            prediction = strategy.predict(table, problem, mapping)
            unsure = [f"{name} {target}" for name, target in prediction.cells if (name, str(target)) in noisy]
            rows.append(
                Measurement(
                    suite="prediction",
                    workload=workload.name,
                    primitive="training",
                    backend=strategy.name,
                    device=str(mapping),
                    batch_size=batch_size,
                    quantity="gradient_steps_per_s",
                    unit="1/s",
                    provenance=prediction.provenance,
                    status="too_noisy" if unsure else "ok",
                    reason=f"made from times that are too noisy: {', '.join(unsure)}" if unsure else "",
                    value=prediction.gps,
                    low=strategy.predict(slow, problem, mapping).gps,
                    high=strategy.predict(fast, problem, mapping).gps,
                    details={
                        "mapping": str(mapping),
                        "model": strategy.name,
                        "chosen": mapping == chosen,
                        "terms_s": dict(prediction.terms_s),
                        "inputs": prediction.inputs,
                    },
                )
            )
    return rows


def chosen_mapping(rows: Iterable[Measurement], strategy: str = DEFAULT_STRATEGY) -> Mapping:
    """The mapping that a strategy chose, from its prediction rows."""
    for row in rows:
        if row.backend == strategy and row.details["chosen"]:
            return Mapping.parse(row.details["mapping"])
    raise LookupError(f"no prediction of strategy {strategy} is stored")
