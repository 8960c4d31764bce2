"""Computes the rows of the report's tables (`content.py`) from stored measurements."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.compare.learning import BEST, END
from placerl.harness.compare.parts import judged_parts
from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import DEFAULT_STRATEGY, VALIDATED, Loop
from placerl.harness.papers.evidence import ERROR, error_of, mapping_of, number, records, select
from placerl.harness.papers.number import Number, merge_rows, ratio
from placerl.harness.report.names import people_s_name
from placerl.harness.report.rows.libraries import BaselineComparison, Learning
from placerl.harness.report.rows.mappings import Choice, HeatMap, PredictedThroughput
from placerl.harness.report.rows.primitives import PrimitiveTime
from placerl.harness.report.rows.runs import Change, Gap
from placerl.harness.report.rows.trainings import TrainingCurve, TrainingResult
from placerl.harness.store.diff import diff
from placerl.harness.validate.rows import HERE, WITH_SIMULATED

LAST_EPISODES = 10  # number of episodes in the mean of the last return


def optional_size(value: Any) -> int | None:
    """Return a batch size as an integer, or None if the measurement has none (NaN)."""
    return None if pd.isna(value) else int(value)


def percent_above(a: Number, b: Number, quantity: str) -> Number:
    """Return by how many percent a exceeds b, with an interval.

    Args:
        a, b: numbers in the same unit; b above 0.
    """
    over = ratio(quantity, a, b)
    low, high = (None if bound is None else 100 * (bound - 1) for bound in (over.low, over.high))
    return Number(quantity, 100 * (over.value - 1), "%", over.provenance, over.source, low, high, over.rows)


def predictions(frame: pd.DataFrame) -> Iterator[PredictedThroughput]:
    """Yield every prediction of a training throughput, with the throughput that the same mapping achieved.

    A training counts only if it is as predicted: in a validation (run to check predictions) with the same form
    of the training loop, or a training without options. Several trainings, such as those with several seeds, are
    pooled. A validation's prediction and its error are of the training's own rounds (`evidence.error_of`).
    """
    yield from _predictions(frame, Suite.RUN, Suite.PREDICTION, "gradient_steps_per_s")
    yield from _predictions(frame, Suite.VALIDATION, Suite.VALIDATION, "predicted_gradient_steps_per_s")
    # With `--precision`, float32 is also measured, but the suites above already contain it.
    suites = (Suite.RUN, Suite.PRECISION_PREDICTION, Suite.PRECISION_VALIDATION)
    fixed = _learners_in_fixed_point(frame[frame["suite"].isin(suites)], mapping_of)
    yield from _predictions(fixed, Suite.RUN, Suite.PRECISION_PREDICTION, "gradient_steps_per_s")
    yield from _predictions(
        fixed, Suite.PRECISION_VALIDATION, Suite.PRECISION_VALIDATION, "predicted_gradient_steps_per_s"
    )


def _learners_in_fixed_point(frame: pd.DataFrame, named: Callable[[Any], str]) -> pd.DataFrame:
    """Return the rows whose mapping or target, as `named` reads it, states a precision; float32 is not stated."""
    return frame[[("[" in named(row)) for row in records(frame)]] if len(frame) else frame


def heat_maps(throughputs: Iterable[PredictedThroughput]) -> Iterator[HeatMap]:
    """Yield the heat maps of training throughput by mapping and batch size.

    Each workload for which several mappings were run has one map of the measured ones, and one that adds the simulated
    ones. If mappings were run with several forms of the training loop, the form that the default performance model
    describes is shown. Validations (run to check predictions) and separate trainings are never combined in one map;
    trainings are shown only if the validations give no map. Learners in fixed point, whose validations are apart, are
    in none.
    """
    default_loop = str(VALIDATED[DEFAULT_STRATEGY].loop)
    by_workload: dict[str, list[PredictedThroughput]] = {}
    for prediction in throughputs:
        if prediction.batch_size is not None and prediction.in_floats:
            by_workload.setdefault(prediction.workload, []).append(prediction)
    for rows in by_workload.values():
        validated = [p for p in rows if p.loop == default_loop]
        # Trainings name no loop: those next to the default strategy's predictions were run in its loop.
        trained = [p for p in rows if not p.loop and p.strategy == DEFAULT_STRATEGY]
        yield from list(_heat_maps(validated)) or _heat_maps(trained)


def _heat_maps(throughputs: Sequence[PredictedThroughput]) -> Iterator[HeatMap]:
    """Yield the heat maps of one workload's predictions, including those of mappings that were not run."""
    ran = [p for p in throughputs if p.achieved]
    measured = [p for p in ran if p.achieved and p.achieved.provenance == Provenance.MEASURED]
    if heat_map := _heat_map(HERE, measured, throughputs):
        yield heat_map
    if len(ran) > len(measured) and (heat_map := _heat_map(WITH_SIMULATED, ran, throughputs)):
        yield heat_map


def _heat_map(
    devices: str, ran: Sequence[PredictedThroughput], choosing: Sequence[PredictedThroughput]
) -> HeatMap | None:
    """Return the heat map of the batch sizes at which several mappings were run; None if there are none."""
    reached = {(p.mapping, p.batch_size or 0): p.achieved for p in ran if p.achieved}
    mappings_at = Counter(size for _, size in reached)
    achieved = {place: one for place, one in reached.items() if mappings_at[place[1]] > 1}
    if not achieved:  # a single mapping is not the best of several
        return None
    unsure = {(p.mapping, p.batch_size or 0) for p in ran if p.achieved_status == "too_noisy"}
    noisy = frozenset(unsure & achieved.keys())
    mappings = tuple(sorted({mapping for mapping, _ in achieved}))
    sizes = tuple(sorted({size for _, size in achieved}))
    ours = [p for p in choosing if devices in p.chosen_among and p.strategy == DEFAULT_STRATEGY]
    chosen = {p.batch_size: p.mapping for p in ours if p.batch_size in sizes}
    slower = frozenset((p.mapping, p.batch_size or 0) for p in ran if devices in p.slower_among)
    return HeatMap(ran[0].workload, devices, ran[0].loop, sizes, mappings, achieved, noisy, chosen, slower)


def _predictions(frame: pd.DataFrame, ran: str, suite: str, quantity: str) -> Iterator[PredictedThroughput]:
    by_place: dict[tuple[Any, ...], list[Any]] = {}
    for row in records(select(frame, suite=ran, quantity="gradient_steps_per_s")):
        by_place.setdefault(_place(row), []).append(row)
    for row in records(select(frame, suite=suite, quantity=quantity)):
        predicted = number(row, "predicted")
        ran_so = [one for one in by_place.get(_place(row), ()) if _positive(one) and _as_predicted(one, row)]
        in_rounds = len(ran_so) == 1 and row.error is not None
        reached, status = _achieved(ran_so)
        slower = tuple(ran_so[0].clearly_slower_among or ()) if len(ran_so) == 1 else ()
        error = None
        if reached is not None and in_rounds:
            error = error_of(row, ran_so[0], ERROR)
            predicted = _at_the_same_speed(predicted, reached, error)
        elif reached is not None:
            error = percent_above(predicted, reached, ERROR)
        among = row.chosen_among or ([HERE] if row.chosen else [])
        loop = row.ran or row.loop or ""
        yield PredictedThroughput(
            *_place(row),
            row.strategy,
            tuple(among),
            loop,
            predicted,
            reached,
            error,
            row.status,
            status,
            slower,
        )


def _at_the_same_speed(predicted: Number, achieved: Number, error: Number) -> Number:
    """Return what the calls of a training's own rounds predict; the stored prediction is of a core at full speed."""
    value = achieved.value * (1 + error.value / 100)
    low, high = (
        None if bound is None else achieved.value * (1 + bound / 100) for bound in (error.low, error.high)
    )
    source = "from calls timed in the training's own rounds"
    return replace(predicted, value=value, source=source, low=low, high=high, rows=error.rows)


def _positive(row: Any) -> bool:
    """Return whether a rate is above 0, with its interval if it has one; a store of another program may hold others."""
    return bool(row.value > 0 and not row.low <= 0)


def _place(row: Any) -> tuple[str, int | None, str]:
    return row.workload, optional_size(row.batch_size), mapping_of(row)


def _as_predicted(ran: Any, predicted: Any) -> bool:
    """Whether a row of a validation or of a training was run as a prediction of the same mapping describes."""
    if ran.suite in (Suite.VALIDATION, Suite.PRECISION_VALIDATION):
        return bool(ran.loop == predicted.ran)
    options, fusion = ran.options, ran.fusion
    if options is None and fusion is None:
        return True  # an untrusted row that does not state it; every row of this program does
    # Without options everything possible is fused: this is the fused loop, which equals the strict one if nothing
    # fuses.
    loops = (Loop.FUSED, Loop.STRICT) if fusion == Fusion.NONE else (Loop.FUSED,)
    strategy = VALIDATED.get(predicted.strategy)
    more = any(value != 1 for value in (predicted.settings or {}).values())  # cores, streams
    return not options and not more and strategy is not None and strategy.loop in loops


def _achieved(rows: Sequence[Any]) -> tuple[Number | None, str]:
    """Return the median of several runs, with the range that their intervals span, and the status."""
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
    """Yield the mapping that each performance model (strategy) chose, with the throughput that the choice lost.

    The mappings were run to check the choice.
    """
    for row in records(select(frame, suite=Suite.VALIDATION, quantity="regret")):
        best = str(row.best)
        size = optional_size(row.batch_size)
        regret, verdict = number(row, "regret"), str(row.verdict)
        place = row.workload, size, row.strategy, row.devices or "", row.loop or "", row.mapping
        yield Choice(*place, best, regret, verdict, _with_slow_links(row))


def _with_slow_links(row: Any) -> str:
    """Return in words whether a choice depends on the latency of links, for a row that states it."""
    if row.slow_link_us is None:
        return ""
    same = "the same" if row.slow_chosen else "another"
    return f"{same} at {row.slow_link_us:,g} us a transfer"


def primitives(frame: pd.DataFrame) -> Iterator[PrimitiveTime]:
    """Yield the times of primitives, such as `sum_tree.sample`, including those that failed or were not run."""
    rows = frame[frame["quantity"] == "time_per_call"]
    apart = rows[rows["suite"] == Suite.PRECISION_PROFILE]
    fixed = _learners_in_fixed_point(apart, lambda row: str(row.backend))
    rows = pd.concat([rows[rows["suite"] == Suite.PROFILE], fixed])
    rows = rows.sort_values(["workload", "primitive", "backend", "device", "batch_size"], kind="stable")
    for row in records(rows):
        yield PrimitiveTime(
            row.workload,
            row.primitive,
            row.backend,
            row.device,
            optional_size(row.batch_size),
            None if pd.isna(row.value) else number(row, "time per call"),
            row.status,
            row.reason,
        )


def training(frame: pd.DataFrame) -> Iterator[TrainingResult]:
    """Yield the results of every training run, such as its throughput, except the returns of its episodes."""
    for row in records(select(frame, suite=Suite.RUN)):
        if row.quantity != "episode_return":
            result = number(row, row.quantity.replace("_", " "))
            yield TrainingResult(
                row.workload,
                optional_size(row.batch_size),
                mapping_of(row),
                row.seed,
                result,
            )


def learning(frame: pd.DataFrame) -> Iterator[Learning]:
    """Yield the return of each system on each workload at the end of training and at its best."""
    rows = frame[frame["suite"] == Suite.LEARN]
    best = {(r.workload, r.system): r for r in records(select(rows, quantity=BEST))}
    for row in records(rows[rows["quantity"] == END]):
        top = best.get((row.workload, row.system))
        yield Learning(
            row.workload,
            row.system,
            row.seeds_trained,
            None if pd.isna(row.value) else number(row, "return at the end"),
            top and number(top, "best return"),
            top and top.environment_steps,
            row.reason,
        )


def curves(frame: pd.DataFrame) -> Iterator[TrainingCurve]:
    """Yield the learning curve of each training run: the return of every episode over environment steps.

    Trainings whose measurement does not hold the environment step of every episode are left out.
    """
    rows = frame[(frame["suite"] == Suite.RUN) & (frame["quantity"] == "episode_return")]
    for row in records(rows):
        steps = tuple(row.episode_ends or ())
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
        yield TrainingCurve(row.workload, mapping_of(row), row.seed, steps, row.samples, mean)


def comparisons(frame: pd.DataFrame) -> Iterator[BaselineComparison]:
    """Yield the comparison of this project with each other library, per workload and batch size.

    A comparison that failed or was not run is included, with the reason. If there are several with one library, such
    as one that also ran the library with subnormal numbers flushed, only the last is shown.
    """
    rows = frame[frame["suite"] == Suite.COMPARE]
    keyed = [((r.workload, optional_size(r.batch_size) or 0, r.baseline or r.who), r) for r in records(rows)]
    keyed.sort(key=lambda item: item[0])
    for (workload, batch_size, baseline), group in groupby(keyed, key=lambda item: item[0]):
        by_part: dict[str, Number] = {}
        noisy: set[str] = set()
        judged = judged_parts(None)
        verdict, reason, returns = "", "", ""
        for row in _last_comparison([row for _, row in group]):
            part = _part(row)
            if not pd.isna(row.value):
                by_part[part] = number(row, row.quantity.removesuffix("_per_s").replace("_", " "))
            if row.status == "too_noisy":
                noisy.add(part)
            if pd.isna(row.value):  # a noisy rate leaves the verdict on the ratio as it is
                verdict, reason = row.status.replace("_", " "), row.reason
            elif part == "throughput_ratio":
                judged = judged_parts(row.rate)
                verdict = verdict or row.verdict or "no verdict"
                returns = row.returns or ""
        ours, theirs = (by_part.get(part) for part in judged)
        rate = ours or theirs
        yield BaselineComparison(
            workload,
            batch_size or None,
            baseline,
            by_part.get("throughput_ratio"),
            ours,
            theirs,
            by_part.get("null_ratio"),
            verdict,
            reason,
            by_part.get("ours, return"),
            by_part.get("theirs, return"),
            returns,
            tuple(sorted(_noisy_sides(noisy, judged))),
            rate.quantity if rate else "",
        )


def _noisy_sides(noisy: set[str], judged: tuple[str, str]) -> set[str]:
    """Return the noisy parts, with the judged rates as "ours" and "theirs" in place of other rates of these names."""
    sides = dict(zip(judged, judged_parts(None), strict=True))
    return {sides.get(part, part) for part in noisy if part in sides or part not in sides.values()}


def _part(row: Any) -> str:
    return str(row.part or row.quantity)


def _last_comparison(rows: Sequence[Any]) -> list[Any]:
    """Return the rows without those of earlier comparisons: of cells with another ratio or failure than the last."""
    judged = [(row.run, row.cell) for row in rows if pd.isna(row.value) or _part(row) == "throughput_ratio"]
    earlier = {cell for cell in judged if cell != judged[-1]}
    return [row for row in rows if (row.run, row.cell) not in earlier]


def gaps(frame: pd.DataFrame) -> Iterator[Gap]:
    """Yield the measurements that failed, then those that were not run, then those too noisy for a verdict.

    Measurements of one workload, purpose (suite), batch size and reason are one entry.
    """
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for status in ("failed", "not_run", "too_noisy"):
        for row in records(frame[frame["status"] == status]):
            # Each noisy time has its own reason, which would take one line each.
            shared = "" if status == "too_noisy" else row.reason
            place = row.workload, row.suite, optional_size(row.batch_size), status.replace("_", " "), shared
            groups.setdefault(place, []).append(row)
    for (workload, suite, size, status, reason), rows in groups.items():
        items = []
        for row in rows:
            where = " on ".join(filter(None, (row.who, row.where)))
            items.append(f"{people_s_name(row.primitive)} ({where})" + ("" if reason else f": {row.reason}"))
        labels = tuple(sorted(int(row.Index) for row in rows))
        yield Gap(workload, suite, size, status, reason, tuple(dict.fromkeys(items)), labels)


def changes(before: Iterable[Row], after: Iterable[Row], incomparable: str = "") -> Iterator[Change]:
    """Yield the changes of times and throughputs that two runs share: first the worse, then the better, then the rest.

    Args:
        incomparable: why the two runs cannot be compared, so that there is no verdict; empty if they can.
    """
    differences = diff(before, after, incomparable=incomparable)
    comparable = [d for d in differences if d.before is not None and d.after is not None]
    comparable.sort(key=lambda d: ("worse", "better", "no verdict").index(d.verdict))
    for d in comparable:
        where = " on ".join(filter(None, (d.key.who, d.key.where)))
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
