"""Times an environment's step in the calling process and in separate processes (PPO 5.3.1).

Spinning Up steps its environment in the calling process, OpenAI Baselines uses `SubprocVecEnv`. Neither library can
be installed any more: Gymnasium's `AsyncVectorEnv` replaces `SubprocVecEnv`, without shared memory, as in the
original.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.environments import Seeded
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.papers.assumptions import both_outcomes
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.evidence import Paired, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.ppo.factors import IN_KIND, NEAR, factor_outcome
from placerl.harness.store.cell import Cell


@dataclass(frozen=True)
class Agents(Columns):
    """Columns of the rows: environments in processes (0: one in this process), and whether it shows the noise."""

    agents: int
    null: bool


EXPERIMENT = Experiment("PPO-5.3.1-environment", "steps here and in processes", "time_per_call", Agents)
WORKLOADS = ("hopper-ppo", "humanoid-ppo")
AGENTS = (1, 4, 8)
"""Environments that step together, each in its own process: one, and the two fewest numbers of PPO Table 2."""
TIERS = {"standard": 15.0, "full": 60.0}
CHECKED_STEPS = 5  # too few for an episode to end
NEEDS_STEPS = "the experiment PPO-5.3.1-environment: environment steps here and in processes, tier standard"


class _Here:
    """One environment in this process, reset when an episode ends."""

    def __init__(self, make: Seeded) -> None:
        self._environment = make()

    def step(self, action: npt.NDArray) -> tuple[Any, ...]:
        outcome = self._environment.step(action[0])
        _, _, terminated, truncated, _ = outcome
        if terminated or truncated:
            self._environment.reset()
        return outcome

    def close(self) -> None:
        self._environment.close()


def _environment(name: str, agents: int) -> Any:
    environment = workloads.load(name).environment
    if not agents:
        return _Here(Seeded(environment, 0))
    makers = [Seeded(environment, seed) for seed in range(agents)]
    processes = gymnasium.vector.AsyncVectorEnv(makers, shared_memory=False, context="forkserver")
    processes.reset(seed=0)
    return processes


def case(name: str, agents: int, title: str) -> Case[Any]:
    """Return the case (what the timing protocol sets up, checks and calls) of environment steps.

    A call steps some environments once, each in a separate process.

    Args:
        agents: number of environments; 0 means a single one in the calling process.
    """
    environment = workloads.load(name).environment
    number, size = max(agents, 1), environment.action_size

    def check(stepped: Any) -> None:
        """Raise AssertionError unless its observations equal those of environments in this process.

        These have the same seeds and take the same actions.
        """
        rng = np.random.default_rng(0)
        with ExitStack() as stack:
            twins = [Seeded(environment, seed)() for seed in range(number)]
            for twin in twins:
                stack.callback(twin.close)
            for _ in range(CHECKED_STEPS):
                actions = rng.uniform(-1, 1, (number, size)).astype(np.float32)
                wanted = [twin.step(action)[0] for twin, action in zip(twins, actions, strict=True)]
                np.testing.assert_array_equal(np.reshape(stepped.step(actions)[0], (number, -1)), wanted)

    return Case(
        title,
        partial(_environment, name, agents),
        check,
        lambda stepped, rng: rng.uniform(-1, 1, (number, size)).astype(np.float32),
        lambda stepped, action: stepped.step(action),
        close=lambda stepped: stepped.close(),
    )


def measured(budget_s: float, report: Report) -> Sequence[Row]:
    """Measure the seconds per environment step in the calling process and in separate processes.

    The configurations of a workload are timed in the same interleaved rounds.
    """
    sides = [(0, False), (0, True), *((agents, False) for agents in AGENTS)]
    rows = []
    for number, name in enumerate(WORKLOADS):
        report(number, len(WORKLOADS), f"{name}: environment steps")
        titles = {
            f"{name}, {agents} processes{' (null)' if null else ''}": (agents, null) for agents, null in sides
        }
        protocol = Protocol(rounds=statistics.PAIRS, block_s=20e-3, budget_s=budget_s)
        timings = measure([case(name, agents, title) for title, (agents, _) in titles.items()], protocol)
        rows += [
            EXPERIMENT.timing(
                timings[title],
                Agents(agents, null),
                workload=name,
                primitive="environment.step",
                backend=f"{agents} processes" if agents else "this process",
                device="cpu",
            )
            for title, (agents, null) in titles.items()
        ]
    return rows


FEWEST_AGENTS = 4
"""Fewest environments that step together in PPO Table 2; with fewer a time is listed and not judged."""


def _per_environment(row: Any, agents: int) -> Any:
    """Convert a row of calls that step `agents` environments to one environment's step."""
    samples = [each / agents for each in row.samples]
    return row._replace(value=row.value / agents, low=None, high=None, samples=samples)


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cell (a piece of the plan) that times environment steps; it takes too long for the quick tier."""
    if tier.name not in TIERS:
        return []
    budget_s = TIERS[tier.name]
    return [claim_cell(EXPERIMENT, len(WORKLOADS) * budget_s, partial(measured, budget_s))]


class EnvironmentStepsDiffer(Claim):
    """Checks PPO 5.3.1: an environment step in separate processes takes about 8 times as long as in the caller's.

    Here that is a call that steps the environments of all agents, or its share for one of them: the paper does not say
    which, nor how many they are. The outcome follows from all readings.
    """

    key, place, position = "PPO-5.3.1-environment", "5.3.1", 7
    statement = "An environment step of Baselines takes about 8 times as long as one of Spinning Up"
    published = from_text("PPO.subproc_step_slowdown")
    needs = NEEDS_STEPS
    decides = "8 environments in a call (`placerl reproduce --only PPO-5.3.1-environment --tier standard`)"
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_side: dict[tuple[str, int, bool], Any] = {}
        for row in rows_of(frame, EXPERIMENT, "time_per_call"):
            by_side[row.workload, row.parameters.agents, row.parameters.null] = row
        listed: list[Number] = []
        readings: dict[tuple[str, int], list[Paired]] = {}
        for (name, agents, _), row in sorted(by_side.items(), key=lambda item: item[0]):
            if agents and {(name, 0, False), (name, 0, True)} <= by_side.keys():
                here = by_side[name, 0, False], by_side[name, 0, True]
                where = f"{agents} in processes of their own, over one here"
                share = paired(
                    f"{name}: a step of an environment, {where}", *here, _per_environment(row, agents)
                )
                listed.append(share.judged)
                if agents < FEWEST_AGENTS:
                    continue
                call = paired(f"{name}: a call that steps {where}", *here, row)
                readings.setdefault(("share", agents), []).append(share)
                readings.setdefault(("call", agents), []).append(call)
                listed.append(call.judged)
        if not listed:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        if not readings:
            said = f"The paper steps at least {FEWEST_AGENTS} environments together."
            return Finding(Outcome.NOT_RUN, tuple(listed), said, needs=self.needs)
        (published,) = self.published
        stated = published.value
        said = (
            f"Reproduced: within a factor of {NEAR:g} of {stated:g}; in kind: at least {IN_KIND * stated:g} times as "
            "long, everywhere. Gymnasium's AsyncVectorEnv stands in for OpenAI Baselines' SubprocVecEnv, and the step "
            "in one's own process for Spinning Up's: neither installs on Python 3.11. The paper says neither how many "
            "environments shared a core nor whether a step is the call that steps all of them, or its share for one: "
            f"the outcome follows from every reading, of {FEWEST_AGENTS} environments and of more, as in its Table 2. "
            "A single environment is listed alone."
        )
        outcomes = [factor_outcome(times, stated) for times in readings.values()]
        return Finding(reduce(both_outcomes, outcomes), tuple(listed), said)
