"""A store's rows as the rows of the report's tables (`content.py`)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from harness.compare.learning import BEST, END
from harness.core.provenance import Provenance, weakest
from harness.core.row import Measurement
from harness.mapping import DEFAULT_STRATEGY, VALIDATED, Loop
from harness.papers.evidence import detail, mapping_of, number, records, select
from harness.papers.number import Number, merge_rows, ratio
from harness.report.content import (
    Change,
    Choice,
    Comparison,
    Curve,
    Gap,
    HeatMap,
    Learning,
    Prediction,
    PrimitiveTime,
    TrainingResult,
)
from harness.runtime.compose import Fusion
from harness.store.diff import diff
from harness.validate.rows import HERE, WITH_SIMULATED

LAST_EPISODES = 10  # how many episodes the last return is a mean of


def optional_size(value: Any) -> int | None:
    """A batch size, or None for the frame's missing value."""
    return None if pd.isna(value) else int(value)


def _seed(row: Any) -> int | None:
    seed = detail(row, "seed")
    return None if seed is None else int(seed)


def whole_detail(row: Any, name: str) -> int | None:
    """A detail that is a whole number; None where an untrusted row has none."""
    value = detail(row, name)
    return value if isinstance(value, int) else None


def percent_above(a: Number, b: Number, quantity: str) -> Number:
    """How many percent a is above b."""
    over = ratio(quantity, a, b)
    low, high = (None if bound is None else 100 * (bound - 1) for bound in (over.low, over.high))
    return Number(quantity, 100 * (over.value - 1), "%", over.provenance, over.source, low, high, over.rows)


def predictions(frame: pd.DataFrame) -> Iterator[Prediction]:
    """Every prediction of a run, beside what was achieved: in trainings of its own, or in its validation.

    Only what was run as predicted is beside it: in a validation in the same loop, and of trainings those without
    options. Several rows, such as those of several seeds, are pooled.
    """
    yield from _predictions(frame, "run", "prediction", "gradient_steps_per_s")
    yield from _predictions(frame, "validation", "validation", "predicted_gradient_steps_per_s")


def heat_maps(found: Iterable[Prediction]) -> Iterator[HeatMap]:
    """One for each workload of which several mappings were run here, and one with the simulated ones beside them.

    Of a mapping that was run in several loops they show the one that the default strategy describes. What a validation
    ran and what trainings of their own did is never in one map; theirs are shown where no validation has any.
    """
    default_loop = str(VALIDATED[DEFAULT_STRATEGY].loop)
    by_workload: dict[str, list[Prediction]] = {}
    for prediction in found:
        if prediction.batch_size is not None:
            by_workload.setdefault(prediction.workload, []).append(prediction)
    for rows in by_workload.values():
        validated = [p for p in rows if p.loop == default_loop]
        # Trainings name no loop: what is beside the default strategy's predictions was run in its loop.
        trained = [p for p in rows if not p.loop and p.strategy == DEFAULT_STRATEGY]
        yield from list(_heat_maps(validated)) or _heat_maps(trained)


def _heat_maps(found: Sequence[Prediction]) -> Iterator[HeatMap]:
    """Of one workload's predictions, those of what was not run among them."""
    ran = [p for p in found if p.achieved]
    measured = [p for p in ran if p.achieved and p.achieved.provenance == Provenance.MEASURED]
    if heat_map := _heat_map(HERE, measured, found):
        yield heat_map
    if len(ran) > len(measured) and (heat_map := _heat_map(WITH_SIMULATED, ran, found)):
        yield heat_map


def _heat_map(devices: str, ran: Sequence[Prediction], choosing: Sequence[Prediction]) -> HeatMap | None:
    """Of the batch sizes that several mappings were run at; None without any.

    Args:
        devices: among which the choice is.
        ran: predictions of what was run under the same conditions.
        choosing: predictions of all that could be chosen.
    """
    reached = {(p.mapping, p.batch_size or 0): p.achieved for p in ran if p.achieved}
    mappings_at = Counter(size for _, size in reached)
    achieved = {place: one for place, one in reached.items() if mappings_at[place[1]] > 1}
    if not achieved:  # of a single mapping nothing is the best
        return None
    unsure = {(p.mapping, p.batch_size or 0) for p in ran if p.achieved_status == "too_noisy"}
    noisy = frozenset(unsure & achieved.keys())
    mappings = tuple(sorted({mapping for mapping, _ in achieved}))
    sizes = tuple(sorted({size for _, size in achieved}))
    ours = [p for p in choosing if devices in p.chosen_among and p.strategy == DEFAULT_STRATEGY]
    chosen = {p.batch_size: p.mapping for p in ours if p.batch_size in sizes}
    return HeatMap(ran[0].workload, devices, ran[0].loop, sizes, mappings, achieved, noisy, chosen)


def _predictions(frame: pd.DataFrame, ran: str, suite: str, quantity: str) -> Iterator[Prediction]:
    by_place: dict[tuple[Any, ...], list[Any]] = {}
    for row in records(select(frame, suite=ran, quantity="gradient_steps_per_s")):
        by_place.setdefault(_place(row), []).append(row)
    for row in records(select(frame, suite=suite, quantity=quantity)):
        predicted = number(row, "predicted")
        reached, status = _achieved([one for one in by_place.get(_place(row), ()) if _as_predicted(one, row)])
        error = None if reached is None else percent_above(predicted, reached, "error of the prediction")
        among = detail(row, "chosen_among") or ([HERE] if detail(row, "chosen") else [])
        loop = str(detail(row, "ran") or detail(row, "loop") or "")
        yield Prediction(
            *_place(row), row.backend, tuple(among), loop, predicted, reached, error, row.status, status
        )


def _place(row: Any) -> tuple[str, int | None, str]:
    return row.workload, optional_size(row.batch_size), mapping_of(row)


def _as_predicted(ran: Any, predicted: Any) -> bool:
    """Whether a row of a validation or of a training was run as a prediction of the same mapping describes it."""
    if ran.suite == "validation":
        return bool(detail(ran, "loop") == detail(predicted, "ran"))
    options, fusion = detail(ran, "options"), detail(ran, "fusion")
    if options is None and fusion is None:
        return True  # an untrusted row, which does not say how it was run; every one of this program does
    # Without options as much is fused as can be: the fused loop, and where that is nothing the strict one too.
    loops = (Loop.FUSED, Loop.STRICT) if fusion == Fusion.NONE else (Loop.FUSED,)
    strategy = VALIDATED.get(predicted.backend)
    more = any(value != 1 for value in (detail(predicted, "settings") or {}).values())  # cores, streams
    return not options and not more and strategy is not None and strategy.loop in loops


def _achieved(rows: Sequence[Any]) -> tuple[Number | None, str]:
    """The median of what was run several times, with all that the intervals span, and its status."""
    if not rows:
        return None, "not_run"
    status = "too_noisy" if any(row.status == "too_noisy" for row in rows) else "ok"
    numbers = [number(row, "achieved") for row in rows]
    if len(numbers) == 1:
        return numbers[0], status
    lows = [n.low for n in numbers if n.low is not None]
    highs = [n.high for n in numbers if n.high is not None]
    all_have = len(lows) == len(numbers)
    pooled = Number(
        "achieved",
        float(np.median([n.value for n in numbers])),
        numbers[0].unit,
        weakest(*(n.provenance for n in numbers)),
        f"median of {len(numbers)} runs",
        min(lows) if all_have else None,
        max(highs) if all_have else None,
        merge_rows(numbers),
    )
    return pooled, status


def choices(frame: pd.DataFrame) -> Iterator[Choice]:
    """What every strategy chose in the validation of a run."""
    for row in records(select(frame, suite="validation", quantity="regret")):
        best = str(detail(row, "best"))
        size = optional_size(row.batch_size)
        regret, verdict = number(row, "regret"), str(detail(row, "verdict"))
        devices, loop = (str(detail(row, name) or "") for name in ("devices", "loop"))
        yield Choice(row.workload, size, row.backend, devices, loop, row.device, best, regret, verdict)


def primitives(frame: pd.DataFrame) -> Iterator[PrimitiveTime]:
    """The primitive table of a run, with the cells that failed or were not run."""
    rows = frame[(frame["suite"] == "profile") & (frame["quantity"] == "time_per_call")]
    rows = rows.sort_values(["workload", "primitive", "backend", "device", "batch_size"], kind="stable")
    for row in records(rows):
        fanout = detail(row, "fanout") if row.primitive.startswith("sum_tree") else None
        yield PrimitiveTime(
            row.workload,
            row.primitive,
            row.backend,
            row.device,
            "" if fanout is None else f"K={fanout}",
            optional_size(row.batch_size),
            None if pd.isna(row.value) else number(row, "time per call"),
            row.status,
            row.reason,
        )


def training(frame: pd.DataFrame) -> Iterator[TrainingResult]:
    """Throughput of every training run."""
    for row in records(select(frame, suite="run")):
        if row.quantity != "episode_return":
            result = number(row, row.quantity.replace("_", " "))
            yield TrainingResult(
                row.workload, optional_size(row.batch_size), mapping_of(row), _seed(row), result
            )


def learning(frame: pd.DataFrame) -> Iterator[Learning]:
    """What each system learnt of each workload, at the end and at its best."""
    rows = frame[frame["suite"] == "learn"]
    best = {(r.workload, r.backend): r for r in records(select(rows, quantity=BEST))}
    for row in records(rows[rows["quantity"] == END]):
        top = best.get((row.workload, row.backend))
        yield Learning(
            row.workload,
            row.backend,
            whole_detail(row, "seeds"),
            None if pd.isna(row.value) else number(row, "return at the end"),
            top and number(top, "best return"),
            top and whole_detail(top, "environment_steps"),
            row.reason,
        )


def curves(frame: pd.DataFrame) -> Iterator[Curve]:
    """Learning curves: rows of `episode_return` whose details give the environment step of every sample."""
    rows = frame[(frame["suite"] == "run") & (frame["quantity"] == "episode_return")]
    for row in records(rows):
        steps = tuple(detail(row, "environment_step") or ())
        if not row.samples or len(steps) != len(row.samples):
            continue
        last = row.samples[-LAST_EPISODES:]
        mean = Number(
            f"mean return of the last {len(last)} episodes",
            float(np.mean(last)),
            row.unit,
            Provenance(row.provenance),
            rows=(int(row.Index),),
        )
        yield Curve(row.workload, mapping_of(row), _seed(row), steps, row.samples, mean)


def comparisons(frame: pd.DataFrame) -> Iterator[Comparison]:
    """This project and each baseline; a comparison that failed keeps its reason."""
    rows = frame[frame["suite"] == "compare"]
    keyed = [
        ((r.workload, optional_size(r.batch_size) or 0, str(detail(r, "baseline") or r.backend)), r)
        for r in records(rows)
    ]
    keyed.sort(key=lambda item: item[0])
    for (workload, batch_size, baseline), group in groupby(keyed, key=lambda item: item[0]):
        found: dict[str, Number] = {}
        verdict, reason, returns = "", "", ""
        for _, row in group:
            part = str(detail(row, "part") or row.quantity)
            if not pd.isna(row.value):
                found[part] = number(row, part)
            if row.status != "ok":
                verdict, reason = row.status.replace("_", " "), row.reason
            elif part == "throughput_ratio":
                verdict = verdict or str(detail(row, "verdict") or "no verdict")
                returns = str(detail(row, "returns") or "")
        yield Comparison(
            workload,
            batch_size or None,
            baseline,
            found.get("throughput_ratio"),
            found.get("ours"),
            found.get("theirs"),
            found.get("null_ratio"),
            verdict,
            reason,
            found.get("ours, return"),
            found.get("theirs, return"),
            returns,
        )


def gaps(frame: pd.DataFrame) -> Iterator[Gap]:
    """What failed, was not run, or is too noisy, in this order; what is of one kind and place stands together."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for status in ("failed", "not_run", "too_noisy"):
        for row in records(frame[frame["status"] == status]):
            # Each noisy time has a reason of its own, which would be a line each.
            shared = "" if status == "too_noisy" else row.reason
            place = row.workload, row.suite, optional_size(row.batch_size), status.replace("_", " "), shared
            found.setdefault(place, []).append(row)
    for (workload, suite, size, status, reason), rows in found.items():
        items = []
        for row in rows:
            where = " on ".join(filter(None, (row.backend, row.device)))
            items.append(f"{row.primitive} ({where})" + ("" if reason else f": {row.reason}"))
        labels = tuple(sorted(int(row.Index) for row in rows))
        yield Gap(workload, suite, size, status, reason, tuple(dict.fromkeys(items)), labels)


def changes(
    before: Iterable[Measurement], after: Iterable[Measurement], incomparable: str = ""
) -> Iterator[Change]:
    """What both runs have of times and throughputs; what changed for sure comes first. Arguments as of `diff`."""
    differences = diff(before, after, incomparable=incomparable)
    found = [d for d in differences if d.before is not None and d.after is not None]
    found.sort(key=lambda d: ("worse", "better", "no verdict").index(d.verdict))
    for d in found:
        where = " on ".join(filter(None, (d.key.backend, d.key.device)))
        quantity = d.key.quantity.replace("_", " ")
        old, new = (
            None if value is None else Number(name, value, d.key.unit, d.provenance)
            for name, value in (("reference", d.before), ("this run", d.after))
        )
        ratio = (
            None if d.ratio is None else Number("ratio", d.ratio, "ratio", d.provenance, "", d.low, d.high)
        )
        what = ", ".join(filter(None, (f"{d.key.primitive} ({where})", quantity, d.key.parameters)))
        yield Change(d.key.workload, what, d.key.batch_size, old, new, ratio, d.verdict, d.reason)
