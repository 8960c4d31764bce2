"""What a report says: a store's rows arranged as the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the rows that it came from; the page shows no other.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness import claims
from harness.claims import Verdict
from harness.claims.evidence import detail, last_attempts, number, records, select
from harness.claims.number import Number, format_value, ratio
from harness.diff import diff
from harness.mapping import DEFAULT_STRATEGY
from harness.measurement import Measurement
from harness.provenance import Provenance
from harness.report.reference import Reference, beside
from harness.report.reference import last_attempts as last_measurements
from harness.store import RunRecord, Store

LAST_EPISODES = 10  # how many episodes the last return is a mean of


@dataclass(frozen=True)
class Prediction:
    """A predicted throughput, and the achieved one of the same mapping where it was run."""

    workload: str
    batch_size: int | None
    mapping: str
    strategy: str
    chosen: bool
    predicted: Number
    achieved: Number | None
    error: Number | None

    @property
    def shown(self) -> bool:
        """Whether it is of a mapping that was run, so that a reader sees it first."""
        return self.achieved is not None


@dataclass(frozen=True)
class HeatMap:
    """What every mapping achieved on one workload, over batch sizes (MAP Fig. 13, PRL Fig. 8).

    Attributes:
        workload: its name.
        batch_sizes: columns, rising.
        mappings: rows, by name.
        achieved: throughput by (mapping, batch size); what was not run is missing.
        chosen: by batch size, the mapping that the default strategy chose; it may not have been run.
    """

    workload: str
    batch_sizes: tuple[int, ...]
    mappings: tuple[str, ...]
    achieved: Mapping[tuple[str, int], Number]
    chosen: Mapping[int, str]

    def best(self, batch_size: int) -> str:
        """The mapping that achieved most at a batch size."""
        column = {mapping: n.value for (mapping, size), n in self.achieved.items() if size == batch_size}
        return max(column, key=column.__getitem__)


@dataclass(frozen=True)
class Choice:
    """The mapping that a strategy chose in a validation, and what it lost: 1 - its throughput / the best one's."""

    workload: str
    batch_size: int | None
    strategy: str
    mapping: str
    best: str
    regret: Number


@dataclass(frozen=True)
class Comparison:
    """This project beside a baseline on one workload; `verdict` is "faster", "slower", or why there is none."""

    workload: str
    batch_size: int | None
    baseline: str
    ratio: Number | None
    ours: Number | None
    theirs: Number | None
    null: Number | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class PrimitiveTime:
    """Time of one call of a primitive on one backend and device; `reason` says why there is none."""

    workload: str
    primitive: str
    backend: str
    device: str
    variant: str
    batch_size: int | None
    time: Number | None
    status: str
    reason: str


@dataclass(frozen=True)
class TrainingResult:
    """One quantity of a training run."""

    workload: str
    batch_size: int | None
    system: str
    seed: int | None
    result: Number


@dataclass(frozen=True)
class Curve:
    """Episode returns over environment steps of one training run; `last` is the mean of the last episodes."""

    workload: str
    system: str
    seed: int | None
    environment_steps: tuple[int, ...]
    returns: tuple[float, ...]
    last: Number


@dataclass(frozen=True)
class Gap:
    """What failed, was not run, or is too noisy for a verdict; `reason` is empty where each has its own."""

    workload: str
    suite: str
    batch_size: int | None
    status: str
    reason: str
    items: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """One quantity in the reference run and in this one; `verdict` is "better", "worse" or "no verdict"."""

    workload: str
    what: str
    batch_size: int | None
    before: Number | None
    after: Number | None
    ratio: Number | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Fact:
    """One fact about the machine or the versions, as measured or as the system states it."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class Content:
    """Everything that the page shows.

    Attributes:
        run: the run that it is about, the last of its machine; None when the store has none.
        runs: every run of the store.
        reference: the committed run that it is shown beside; None where there is none.
        changes: the quantities that both have.
        measurements: the rows of that run and of those of other tiers by the same code on the same machine, the last
            attempt of each cell; the index labels are those of the whole store's frame.
    """

    run: RunRecord | None
    runs: tuple[RunRecord, ...]
    measurements: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    predictions: tuple[Prediction, ...]
    choices: tuple[Choice, ...]
    comparisons: tuple[Comparison, ...]
    primitives: tuple[PrimitiveTime, ...]
    training: tuple[TrainingResult, ...]
    curves: tuple[Curve, ...]
    gaps: tuple[Gap, ...]
    facts: tuple[Fact, ...]
    noise: tuple[Number, ...]
    reference: "Reference | None" = None
    changes: tuple[Change, ...] = ()

    @property
    def slug(self) -> str:
        """A file's name for its machine, which a stranger's fingerprint may not choose."""
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]


def optional_size(value: Any) -> int | None:
    """A batch size, or None for the frame's missing value."""
    return None if pd.isna(value) else int(value)


def _seed(row: Any) -> int | None:
    seed = detail(row, "seed")
    return None if seed is None else int(seed)


def percent_above(a: Number, b: Number, quantity: str) -> Number:
    """How many percent a is above b."""
    over = ratio(quantity, a, b)
    low, high = (None if bound is None else 100 * (bound - 1) for bound in (over.low, over.high))
    return Number(quantity, 100 * (over.value - 1), "%", over.provenance, over.source, low, high, over.rows)


def mapping_of(row: Any) -> str:
    """The mapping that a row of a prediction or a training run is about."""
    return str(detail(row, "mapping") or row.device or row.backend)


def predictions(frame: pd.DataFrame) -> Iterator[Prediction]:
    """Every prediction of a run, beside what was achieved: in a training of its own, or in its validation."""
    yield from _predictions(frame, "run", "prediction", "gradient_steps_per_s")
    yield from _predictions(frame, "validation", "validation", "predicted_gradient_steps_per_s")


def heat_maps(found: Iterable[Prediction]) -> Iterator[HeatMap]:
    """One for each workload of which several mappings were run."""
    by_workload: dict[str, list[Prediction]] = {}
    for prediction in found:
        if prediction.batch_size is not None:
            by_workload.setdefault(prediction.workload, []).append(prediction)
    for workload, rows in by_workload.items():
        achieved = {(p.mapping, p.batch_size or 0): p.achieved for p in rows if p.achieved is not None}
        mappings = tuple(sorted({mapping for mapping, _ in achieved}))
        if len(mappings) < 2:
            continue
        sizes = tuple(sorted({size for _, size in achieved}))
        ours = [p for p in rows if p.chosen and p.strategy == DEFAULT_STRATEGY]
        yield HeatMap(workload, sizes, mappings, achieved, {p.batch_size or 0: p.mapping for p in ours})


def _predictions(frame: pd.DataFrame, ran: str, suite: str, quantity: str) -> Iterator[Prediction]:
    achieved: dict[tuple[Any, ...], Number] = {}
    for row in records(select(frame, suite=ran, quantity="gradient_steps_per_s")):
        place = row.workload, optional_size(row.batch_size), mapping_of(row)
        achieved.setdefault(place, number(row, "achieved"))
    for row in records(select(frame, suite=suite, quantity=quantity)):
        place = row.workload, optional_size(row.batch_size), mapping_of(row)
        predicted, reached = number(row, "predicted"), achieved.get(place)
        error = None if reached is None else percent_above(predicted, reached, "error of the prediction")
        yield Prediction(*place, row.backend, bool(detail(row, "chosen")), predicted, reached, error)


def choices(frame: pd.DataFrame) -> Iterator[Choice]:
    """What every strategy chose in the validation of a run."""
    for row in records(select(frame, suite="validation", quantity="regret")):
        best = str(detail(row, "best"))
        size = optional_size(row.batch_size)
        yield Choice(row.workload, size, row.backend, row.device, best, number(row, "regret"))


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


UNITS = {"_bytes_per_s": (1e9, "GB/s"), "_mhz": (1.0, "MHz"), "_bytes": (0.0, "")}


def readable(name: str, value: Any) -> tuple[str, str]:
    """A fact's name without the unit that it ends with, and its value in that unit, scaled for a reader."""
    if isinstance(value, bool):
        return name.replace("_", " "), "yes" if value else "no"
    if isinstance(value, list):
        return name.replace("_", " "), ", ".join(map(str, value)) or "none"
    for suffix, (scale, unit) in UNITS.items():
        if isinstance(value, int | float) and f"_{name}".endswith(suffix):
            if not scale:
                power = max(p for p in range(4) if p == 0 or value >= 1024**p)
                scale, unit = 1024.0**power, ("B", "KiB", "MiB", "GiB")[power]
            label = f"_{name}".removesuffix(suffix).strip("_") or "speed"
            return label.replace("_", " "), f"{format_value(value / scale)} {unit}"
    text = format_value(value) if isinstance(value, int | float) else str(value)
    return name.replace("_", " "), text


def facts(machine: Mapping[str, Any], group: str = "machine") -> Iterator[Fact]:
    """A machine's description, flattened: a nested table is a group; in a list of tables each is one fact."""
    for name, value in machine.items():
        place = f"{group}, {name}" if group != "machine" else str(name)
        if isinstance(value, Mapping):
            yield from facts(value, place)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for item in value:
                yield _one_fact(place, item)
        elif value not in (None, "", []):
            yield Fact(group, *readable(str(name), value))


def _one_fact(group: str, item: Mapping[str, Any]) -> Fact:
    """A small table as one fact: the first two of its values that can name it do, the others are its value."""
    items = list(item.items())
    names = 2 if len(items) > 1 and not isinstance(items[1][1], bool) else 1
    words = [": ".join(readable(name, v)) for name, v in items[names:] if v not in (None, "", [])]
    return Fact(group, " ".join(str(v) for _, v in items[:names]), "; ".join(words) or "yes")


def noise(frame: pd.DataFrame) -> Iterator[Number]:
    """How noisy the machine was during a run."""
    timed = select(frame, suite="profile", quantity="time_per_call")
    if len(timed):
        widths = 100 * ((timed["high"] - timed["low"]) / timed["value"]).dropna()
        rows = tuple(map(int, timed.index))
        measured = Provenance.MEASURED
        yield Number("profiled times", len(timed), "count", measured, rows=rows)
        noisy = int((timed["status"] == "too_noisy").sum())
        yield Number("of them too noisy for a verdict", noisy, "count", measured, rows=rows)
        if len(widths):
            yield Number("median width of their 95% intervals", widths.median(), "%", measured, rows=rows)
    for row in records(select(frame, suite="compare", quantity="null_ratio")):
        yield number(row, f"A/A null, {row.workload} beside {detail(row, 'baseline')}")


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


def platforms(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """The last run of each machine, the machine of the very last run first."""
    last = {run.fingerprint: run for run in runs}
    return sorted(last.values(), key=lambda run: run.id, reverse=True)


def read_all(path: Path, references: "Iterable[Reference]" = ()) -> list[Content]:
    """The content of a report on a store: one for each machine, that of the last run first.

    Args:
        path: the store.
        references: committed runs; the one that fits a machine's last run best is shown beside it.

    Raises:
        UserError: there is no such store, or it is none of this version.
    """
    references = list(references)
    with Store.open(path, read_only=True) as store:
        runs, frame = tuple(store.runs()), store.frame()
        chosen = platforms(runs)
        contents = [arrange(frame, runs, run) for run in chosen] or [arrange(frame, runs, None)]
        return [_beside_reference(store, content, references) for content in contents]


def read(path: Path, references: "Iterable[Reference]" = ()) -> Content:
    """`read_all` of the machine of the last run alone."""
    return read_all(path, references)[0]


def _beside_reference(store: Store, content: Content, references: "Iterable[Reference]") -> Content:
    run = content.run
    reference = beside(run, references) if run else None
    if run is None or reference is None:
        return content
    mine = [row for r in content.runs if _same_code(r, run) for row in last_measurements(store, r.id)]
    same = reference.run.fingerprint == run.fingerprint
    why_not = "" if same else "the reference was measured on another machine"
    return replace(
        content, reference=reference, changes=tuple(changes(reference.measurements, mine, why_not))
    )


def _same_code(one: RunRecord, other: RunRecord) -> bool:
    return (one.revision, one.fingerprint) == (other.revision, other.fingerprint)


def arrange(frame: pd.DataFrame, runs: tuple[RunRecord, ...], run: RunRecord | None) -> Content:
    """The content of a report on one run and the others, of other tiers, by the same code on the same machine.

    Args:
        frame: the whole store's frame.
        runs: every run of the store.
        run: the one that it is about; None where there is none.
    """
    together = [r.id for r in runs if run and _same_code(r, run)]
    mine = last_attempts(frame[frame["run"].isin(together)])
    return Content(
        run=run,
        runs=runs,
        measurements=mine,
        verdicts=tuple(claims.evaluate(mine)),
        predictions=tuple(predictions(mine)),
        choices=tuple(choices(mine)),
        comparisons=tuple(comparisons(mine)),
        primitives=tuple(primitives(mine)),
        training=tuple(training(mine)),
        curves=tuple(curves(mine)),
        gaps=tuple(gaps(mine)),
        facts=tuple(facts(run.machine)) if run else (),
        noise=tuple(noise(mine)),
    )
