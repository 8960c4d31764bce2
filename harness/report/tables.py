"""A store's rows as the rows of the report's tables (`content.py`)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from harness.claims.evidence import detail, mapping_of, number, records, select
from harness.claims.number import Number, ratio
from harness.diff import diff
from harness.learning import BEST, END
from harness.mapping import DEFAULT_STRATEGY, VALIDATED
from harness.measurement import Measurement
from harness.provenance import Provenance
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
from harness.validation_rows import HERE, WITH_SIMULATED

LAST_EPISODES = 10  # how many episodes the last return is a mean of


def optional_size(value: Any) -> int | None:
    """A batch size, or None for the frame's missing value."""
    return None if pd.isna(value) else int(value)


def _seed(row: Any) -> int | None:
    seed = detail(row, "seed")
    return None if seed is None else int(seed)


def whole_detail(row: Any, name: str) -> int | None:
    """A detail that is a whole number; None where a stranger's row has none."""
    value = detail(row, name)
    return value if isinstance(value, int) else None


def percent_above(a: Number, b: Number, quantity: str) -> Number:
    """How many percent a is above b."""
    over = ratio(quantity, a, b)
    low, high = (None if bound is None else 100 * (bound - 1) for bound in (over.low, over.high))
    return Number(quantity, 100 * (over.value - 1), "%", over.provenance, over.source, low, high, over.rows)


def predictions(frame: pd.DataFrame) -> Iterator[Prediction]:
    """Every prediction of a run, beside what was achieved: in a training of its own, or in its validation."""
    yield from _predictions(frame, "run", "prediction", "gradient_steps_per_s")
    yield from _predictions(frame, "validation", "validation", "predicted_gradient_steps_per_s")


def heat_maps(found: Iterable[Prediction]) -> Iterator[HeatMap]:
    """One for each workload of which several mappings were run here, and one with the simulated ones beside them.

    Of a mapping that was run in several loops they show the one that the default strategy describes.
    """
    default_loop = str(VALIDATED[DEFAULT_STRATEGY].loop)
    by_workload: dict[str, list[Prediction]] = {}
    for prediction in found:
        if prediction.batch_size is not None and prediction.loop in ("", default_loop):
            by_workload.setdefault(prediction.workload, []).append(prediction)
    for rows in by_workload.values():
        measured = [p for p in rows if p.achieved and p.achieved.provenance == Provenance.MEASURED]
        ran = [p for p in rows if p.achieved]
        if heat_map := _heat_map(HERE, measured, rows):
            yield heat_map
        if len(ran) > len(measured) and (heat_map := _heat_map(WITH_SIMULATED, ran, rows)):
            yield heat_map


def _heat_map(devices: str, ran: Sequence[Prediction], rows: Sequence[Prediction]) -> HeatMap | None:
    """Of the predictions that were run, with the choice among all of them; None of fewer than two mappings."""
    achieved = {(p.mapping, p.batch_size or 0): p.achieved for p in ran if p.achieved}
    noisy = frozenset((p.mapping, p.batch_size or 0) for p in ran if p.achieved_status == "too_noisy")
    mappings = tuple(sorted({mapping for mapping, _ in achieved}))
    if len(mappings) < 2:
        return None
    sizes = tuple(sorted({size for _, size in achieved}))
    ours = [p for p in rows if devices in p.chosen_among and p.strategy == DEFAULT_STRATEGY]
    chosen = {p.batch_size or 0: p.mapping for p in ours}
    return HeatMap(ran[0].workload, devices, ran[0].loop, sizes, mappings, achieved, noisy, chosen)


def _predictions(frame: pd.DataFrame, ran: str, suite: str, quantity: str) -> Iterator[Prediction]:
    achieved: dict[tuple[Any, ...], tuple[Number, str]] = {}
    for row in records(select(frame, suite=ran, quantity="gradient_steps_per_s")):
        key = (row.workload, optional_size(row.batch_size), mapping_of(row), detail(row, "loop"))
        achieved.setdefault(key, (number(row, "achieved"), row.status))
    for row in records(select(frame, suite=suite, quantity=quantity)):
        place = row.workload, optional_size(row.batch_size), mapping_of(row)
        predicted = number(row, "predicted")
        reached, status = achieved.get((*place, detail(row, "ran")), (None, "not_run"))
        error = None if reached is None else percent_above(predicted, reached, "error of the prediction")
        among = detail(row, "chosen_among") or ([HERE] if detail(row, "chosen") else [])
        loop = str(detail(row, "ran") or "")
        yield Prediction(
            *place, row.backend, tuple(among), loop, predicted, reached, error, row.status, status
        )


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
    """This project beside each baseline; a comparison that failed keeps its reason."""
    rows = frame[frame["suite"] == "compare"]
    keyed = [
        ((r.workload, optional_size(r.batch_size) or 0, str(detail(r, "baseline") or r.backend)), r)
        for r in records(rows)
    ]
    keyed.sort(key=lambda item: item[0])
    for (workload, batch_size, baseline), group in groupby(keyed, key=lambda item: item[0]):
        found: dict[str, Number] = {}
        verdict, reason = "", ""
        for _, row in group:
            part = str(detail(row, "part") or row.quantity)
            if not pd.isna(row.value):
                found[part] = number(row, part)
            if row.status != "ok":
                verdict, reason = row.status.replace("_", " "), row.reason
            elif part == "throughput_ratio":
                verdict = verdict or str(detail(row, "verdict") or "no verdict")
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
