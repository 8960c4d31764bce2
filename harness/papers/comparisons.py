"""Reads how this project compares with other libraries (the baselines) from stored measurements."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from placerl.harness.compare.equal_steps import FASTER, NOT_COMPARED
from placerl.harness.compare.parts import ComparedPart, label
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.assignments import CUDA
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number

RATIO = "throughput_ratio"


def beside(*baselines: str) -> tuple[str, ...]:
    """Return patterns of the cells (pieces of the plan) that compare this project with other libraries.

    Returns:
        One pattern per library, such as "compare/*/sb3", as `Claim.reads` takes them.
    """
    return tuple(f"compare/*/{name}" for name in baselines)


def beside_under_mappings(*baselines: str) -> tuple[str, ...]:
    """Return the same patterns for comparisons under a named mapping, such as one with its learner on a GPU."""
    return beside(*(f"{name}, this project with *" for name in baselines))


@dataclass(frozen=True)
class Gain:
    """This project's throughput divided by that of another library (a baseline).

    Attributes:
        ratio: above 1 if this project is faster.
        verdict: "faster", "slower" or "no verdict". It depends on the ratio's interval and on how much two timings of
            this project differed in the same rounds. A training is "faster" only if it does not clearly learn
            less.
    """

    ratio: Number
    verdict: str


def _verdict(row: Any) -> str:
    """Return the part of a comparison's verdict that a claim may use."""
    stored = str(row.verdict) if row.status == "ok" else ""
    if (
        stored == NOT_COMPARED and row.primitive != ComparedPart.TRAINING
    ):  # of parts that train nothing there is no return
        return FASTER
    return stored if stored in (FASTER, "slower") else "no verdict"


def gains_on_gpu(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """Return this project's gains over other libraries where both used a CUDA device.

    Its mapping is the one that the predictions chose, or one that was named: on a CPU that is faster than the device,
    the predictions choose no learner on the device.
    """
    rows = select(frame, suite=Suite.COMPARE, quantity=RATIO)
    return tuple(
        _gain(row, baseline)
        for baseline in baselines
        for row in records(rows)
        # That this project's mapping names the device says nothing of the other library.
        if row.device.startswith(CUDA)
        and row.baseline in (baseline, label(baseline, mapping=row.mapping or ""))
    )


def gains(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """Return this project's throughput over that of other libraries."""
    rows = select(frame, suite=Suite.COMPARE, quantity=RATIO)
    return tuple(
        _gain(row, baseline) for baseline in baselines for row in records(rows) if row.baseline == baseline
    )


def library(row: Any) -> str:
    """Return the library that a row of a comparison is about, without the comparison's conditions (`label`)."""
    return str(row.baseline).partition(",")[0]


def _gain(row: Any, baseline: str) -> Gain:
    name = f"{row.workload}, batch size {row.batch_size}: gain over {baseline}"
    return Gain(number(row, name), _verdict(row))
