"""Reads the comparisons of this project with other libraries (the baselines) from the rows of a run."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.compare.equal_steps import FASTER, NOT_COMPARED
from harness.compare.rounds import ComparedPart
from harness.core.suites import Suite
from harness.papers.evidence import detail, number, records, select
from harness.papers.number import Number

RATIO = "throughput_ratio"


def beside(*baselines: str) -> tuple[str, ...]:
    """Return the cells (pieces of the plan) that compare this project with some baselines, for `Claim.reads`.

    Args:
        baselines: their names, such as "sb3".
    """
    return tuple(f"compare/*/{name}" for name in baselines)


@dataclass(frozen=True)
class Gain:
    """This project's throughput divided by a baseline's.

    Attributes:
        ratio: above 1 if this project is faster.
        verdict: "faster", "slower" or "no verdict". It depends on the ratio's interval and on how much this project
            differed from itself in the same rounds. A training is "faster" only if it was shown to learn no less.
    """

    ratio: Number
    verdict: str


def _verdict(row: Any) -> str:
    """Return the part of a comparison's verdict that a claim may use."""
    stored = str(detail(row, "verdict")) if row.status == "ok" else ""
    if (
        stored == NOT_COMPARED and row.primitive != ComparedPart.TRAINING
    ):  # of parts that train nothing there is no return
        return FASTER
    return stored if stored in (FASTER, "slower") else "no verdict"


def gains_on_gpu(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """Return those of `gains` that were measured with a CUDA device on both sides; arguments as for `gains`."""
    rows = records(select(frame, suite=Suite.COMPARE, quantity=RATIO))
    there = {int(row.Index) for row in rows if "cuda" in f"{row.device} {detail(row, 'mapping')}"}
    return tuple(gain for gain in gains(frame, *baselines) if there & set(gain.ratio.rows))


def gains(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """Return this project's throughput over that of the given baselines, one gain per workload and batch size.

    Args:
        frame: rows of a run.
        baselines: their names, such as "sb3".
    """
    rows = select(frame, suite=Suite.COMPARE, quantity=RATIO)
    return tuple(
        Gain(
            number(row, f"{row.workload}, batch size {row.batch_size}: gain over {baseline}"),
            _verdict(row),
        )
        for baseline in baselines
        for row in records(rows)
        if detail(row, "baseline") == baseline
    )
