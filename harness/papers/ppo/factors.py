"""Checks of the factors that PPO gives in passing (5.3.1): steps by way of processes, networks that share layers."""

from typing import Any

import pandas as pd

from harness.papers.base import Finding, Outcome
from harness.papers.evidence import Paired, detail, paired, records, select
from harness.papers.number import from_text
from harness.papers.ppo import environment_steps, shared_trunk

NEEDS_STEPS = "the experiment PPO-5.3.1-environment: environment steps here and in processes, tier standard"
NEEDS_NETWORKS = (
    "the experiment PPO-5.3.1-shared: gradient steps of shared and of separate networks, tier standard"
)
NEAR = 1.25
"""Times more or less than "about" so many times: still that."""
IN_KIND = 0.5
"""Of the published factor: still in kind."""


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
    (published,) = from_text("PPO.subproc_step_slowdown")
    stated = published.value
    said = (
        f"Reproduced: within a factor of {NEAR:g} of {stated:g}; in kind: at least {IN_KIND * stated:g} times as long, "
        "everywhere. Gymnasium's AsyncVectorEnv stands in for OpenAI Baselines' SubprocVecEnv, and the step in one's "
        "own process for Spinning Up's: neither installs on Python 3.11. The paper does not say how many environments "
        "shared a core."
    )
    return Finding(_judged(times, stated), tuple(each.gain for each in times), said)


def shared_networks_train_faster(frame: pd.DataFrame) -> Finding:
    """PPO 5.3.1: a gradient step of separate policy and value networks over one of a network that joins them."""
    found: dict[tuple[str, int], dict[tuple[bool, bool], Any]] = {}
    for row in records(select(frame, suite="claim", primitive="learner.step")):
        if detail(row, "experiment") == shared_trunk.EXPERIMENT:
            sides = found.setdefault((row.workload, int(row.batch_size)), {})
            sides[bool(detail(row, "shared")), bool(detail(row, "null"))] = row
    times = [
        paired(
            f"{name}, mini-batch {size}: a gradient step of separate networks over one of shared layers",
            sides[True, False],
            sides[True, True],
            sides[False, False],
        )
        for (name, size), sides in sorted(found.items())
        if len(sides) == 3
    ]
    if not times:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_NETWORKS)
    (published,) = from_text("PPO.shared_network_gain")
    stated = published.value
    said = (
        f"Reproduced: within a factor of {NEAR:g} of {stated:g} everywhere; in kind: shared layers are faster "
        "everywhere. Both train on the native learner, where the paper compares two libraries."
    )
    return Finding(_judged(times, stated), tuple(each.gain for each in times), said)
