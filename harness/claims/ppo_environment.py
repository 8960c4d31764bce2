"""The check of PPO's statement about environment steps by way of processes (5.3.1)."""

from typing import Any

import pandas as pd

from harness import environment_steps
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import detail, paired, records, select

NEEDS_STEPS = "the experiment PPO-5.3.1-environment: environment steps here and in processes, tier standard"


def environment_step(frame: pd.DataFrame) -> Finding:
    """PPO 5.3.1: a step by way of processes over one in the process that asks for it."""
    found: dict[tuple[str, int, bool], Any] = {}
    for row in records(select(frame, suite="claim", primitive="environment.step")):
        if detail(row, "experiment") == environment_steps.EXPERIMENT:
            found[row.workload, int(detail(row, "agents")), bool(detail(row, "null"))] = row
    times = []
    for (name, agents, _), row in sorted(found.items(), key=lambda item: item[0]):
        if agents and {(name, 0, False), (name, 0, True)} <= found.keys():
            title = f"{name}: a step of {agents} in processes of their own over one here"
            times.append(paired(title, found[name, 0, False], found[name, 0, True], row))
    if not times:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_STEPS)
    words = [each.outcome.verdict for each in times]
    said = (
        f"Longer in {words.count('faster')} of {len(times)} comparisons, shorter in {words.count('slower')}. "
        "Gymnasium's AsyncVectorEnv stands in for OpenAI Baselines' SubprocVecEnv, and the step in one's own process "
        "for Spinning Up's: neither installs on Python 3.11. The paper does not say how many environments shared a "
        "core."
    )
    ours = tuple(each.gain for each in times)
    if all(word == "faster" for word in words):
        return Finding(Outcome.IN_KIND, ours, said)
    return Finding(Outcome.NOT_REPRODUCED if "slower" in words else Outcome.NO_VERDICT, ours, said)
