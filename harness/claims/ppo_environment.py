"""The check of PPO's statement about environment steps by way of processes (5.3.1)."""

from typing import Any

import pandas as pd

from harness import environment_steps
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import Paired, detail, paired, records, select
from harness.claims.number import from_text

NEEDS_STEPS = "the experiment PPO-5.3.1-environment: environment steps here and in processes, tier standard"
NEAR = 1.25
"""Times more or less than "about 8 times": still that."""
IN_KIND = 0.5
"""Of the published factor: a longer step in kind."""


def _per_environment(row: Any, agents: int) -> Any:
    """A row of calls that step so many environments, as one of a single environment's step."""
    samples = [each / agents for each in row.samples]
    return row._replace(value=row.value / agents, low=None, high=None, samples=samples)


def _judged(times: list[Paired], stated: float) -> Outcome:
    """By every comparison's interval, widened by the noise; no verdict where one holds the least factor in kind."""
    intervals = [each.beyond_noise for each in times]
    known = [each for each in intervals if each is not None]
    if any(high < IN_KIND * stated for _, high in known):
        return Outcome.NOT_REPRODUCED
    if len(known) < len(intervals) or any(low < IN_KIND * stated for low, _ in known):
        return Outcome.NO_VERDICT
    near = all(stated / NEAR <= low and high <= NEAR * stated for low, high in known)
    return Outcome.REPRODUCED if near else Outcome.IN_KIND


def environment_step(frame: pd.DataFrame) -> Finding:
    """PPO 5.3.1: a step by way of processes over one in the process that asks for it, an environment each."""
    found: dict[tuple[str, int, bool], Any] = {}
    for row in records(select(frame, suite="claim", primitive="environment.step")):
        if detail(row, "experiment") == environment_steps.EXPERIMENT:
            found[row.workload, int(detail(row, "agents")), bool(detail(row, "null"))] = row
    times = []
    for (name, agents, _), row in sorted(found.items(), key=lambda item: item[0]):
        if agents and {(name, 0, False), (name, 0, True)} <= found.keys():
            title = f"{name}: a step of an environment, {agents} in processes of their own, over one here"
            step = _per_environment(row, agents)
            times.append(paired(title, found[name, 0, False], found[name, 0, True], step))
    if not times:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_STEPS)
    stated = from_text("PPO.subproc_step_slowdown")[0].value
    said = (
        f"Reproduced: within a factor of {NEAR:g} of {stated:g}; in kind: at least {IN_KIND * stated:g} times as long, "
        "everywhere. Gymnasium's AsyncVectorEnv stands in for OpenAI Baselines' SubprocVecEnv, and the step in one's "
        "own process for Spinning Up's: neither installs on Python 3.11. The paper does not say how many environments "
        "shared a core."
    )
    return Finding(_judged(times, stated), tuple(each.gain for each in times), said)
