"""What the store holds of this project beside another library."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.compare.equal_steps import FASTER, NOT_COMPARED
from harness.compare.rounds import Part
from harness.papers.evidence import detail, number, records, select
from harness.papers.number import Number

RATIO = "throughput_ratio"


def beside(*baselines: str) -> tuple[str, ...]:
    """What the keys of the cells begin with that train beside these baselines, for `Claim.reads`."""
    return tuple(f"compare/*/{name}" for name in baselines)


@dataclass(frozen=True)
class Gain:
    """This project's throughput over a baseline's.

    Attributes:
        ratio: above 1 where this project is faster.
        verdict: "faster", "slower" or "no verdict". The interval alone does not tell: the comparison also knows by how
            much this project differed from itself. A training is "faster" only where it was shown to learn no less.
    """

    ratio: Number
    verdict: str


def _verdict(row: Any) -> str:
    """What a claim may rest on of a comparison's verdict."""
    stored = str(detail(row, "verdict")) if row.status == "ok" else ""
    if (
        stored == NOT_COMPARED and row.primitive != Part.TRAINING
    ):  # of parts that train nothing there is no return
        return FASTER
    return stored if stored in (FASTER, "slower") else "no verdict"


def gains_on_gpu(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """As `gains` of some baselines, where both sides had a CUDA device."""
    rows = records(select(frame, suite="compare", quantity=RATIO))
    there = {int(row.Index) for row in rows if "cuda" in f"{row.device} {detail(row, 'mapping')}"}
    return tuple(gain for gain in gains(frame, *baselines) if there & set(gain.ratio.rows))


def gains(frame: pd.DataFrame, *baselines: str) -> tuple[Gain, ...]:
    """This project's throughput over some baselines', a gain for each workload and batch size.

    Args:
        frame: rows of a run.
        baselines: their names, such as "sb3".
    """
    rows = select(frame, suite="compare", quantity=RATIO)
    return tuple(
        Gain(
            number(row, f"{row.workload}, batch size {row.batch_size}: gain over {baseline}"),
            _verdict(row),
        )
        for baseline in baselines
        for row in records(rows)
        if detail(row, "baseline") == baseline
    )
