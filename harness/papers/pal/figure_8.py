"""Compares convergence over cores with RLlib's (PAL VI-C, Fig. 8)."""

import pandas as pd

from harness.compare.registry import RLLIB
from harness.papers.base import Finding, Outcome
from harness.papers.comparisons import gains

NEEDS_CONVERGENCE = (
    "a CUDA device; returns over wall time beside RLlib's, on several numbers of cores: comparisons with RLlib give "
    "throughput on one core, `placerl learn` returns by environment steps"
)


def convergence(frame: pd.DataFrame) -> Finding:
    """Check PAL Fig. 8: training converges faster than with RLlib.

    The outcome is always "not run", because only throughput is measured. The finding lists its gains.
    """
    ours = tuple(gain.ratio for gain in gains(frame, *RLLIB))
    return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_CONVERGENCE)
