"""A step of an environment in the process that asks for it, and in processes of their own (PPO 5.3.1).

Spinning Up steps its environment itself, OpenAI Baselines by way of `SubprocVecEnv`. Neither installs any more:
Gymnasium's `AsyncVectorEnv` stands in for the latter, without shared memory, as that was.
"""

from contextlib import ExitStack
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from harness import workloads
from harness.core.progress import Report
from harness.core.row import Measurement
from harness.environments import Seeded
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.measure.protocol import Case, Protocol, measure
from harness.papers.cells import Tier, claim_cell
from harness.store.cell import Cell

EXPERIMENT = "PPO-5.3.1-environment"
WORKLOADS = ("hopper-ppo", "humanoid-ppo")
AGENTS = (1, 4)
"""Environments that are stepped together: the wrapper alone, and the fewest agents of PPO Table 2."""
TIERS = {"standard": 15.0, "full": 60.0}
CHECKED_STEPS = 5  # too few for an episode to end


class _Here:
    """One environment in this process, begun anew where an episode ends."""

    def __init__(self, make: Seeded) -> None:
        self._environment = make()

    def step(self, action: npt.NDArray) -> tuple[Any, ...]:
        made = self._environment.step(action[0])
        _, _, terminated, truncated, _ = made
        if terminated or truncated:
            self._environment.reset()
        return made

    def close(self) -> None:
        self._environment.close()


def _made(name: str, agents: int) -> Any:
    environment = workloads.load(name).environment
    if not agents:
        return _Here(Seeded(environment, 0))
    makers = [Seeded(environment, seed) for seed in range(agents)]
    made = gymnasium.vector.AsyncVectorEnv(makers, shared_memory=False, context="forkserver")
    made.reset(seed=0)
    return made


def case(name: str, agents: int, title: str) -> Case[Any]:
    """A step of so many environments in processes of their own; of one in this process where they are 0."""
    environment = workloads.load(name).environment
    number, size = max(agents, 1), environment.action_size

    def check(made: Any) -> None:
        """Raises AssertionError where it observes anything but what twins of the same seeds do, stepped here."""
        rng = np.random.default_rng(0)
        with ExitStack() as stack:
            twins = [Seeded(environment, seed)() for seed in range(number)]
            for twin in twins:
                stack.callback(twin.close)
            for _ in range(CHECKED_STEPS):
                actions = rng.uniform(-1, 1, (number, size)).astype(np.float32)
                wanted = [twin.step(action)[0] for twin, action in zip(twins, actions, strict=True)]
                np.testing.assert_array_equal(np.reshape(made.step(actions)[0], (number, -1)), wanted)

    return Case(
        title,
        partial(_made, name, agents),
        check,
        lambda made, rng: rng.uniform(-1, 1, (number, size)).astype(np.float32),
        lambda made, action: made.step(action),
        close=lambda made: made.close(),
    )


def measured(budget_s: float, report: Report) -> list[Measurement]:
    """Rows of suite "claim": seconds a step, all of one workload in the same interleaved rounds.

    Args:
        budget_s: begin no further round of a workload after this time, seconds.
        report: called with the progress.
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
            timings[title].measurement(
                suite="claim",
                workload=name,
                primitive="environment.step",
                backend=f"{agents} processes" if agents else "this process",
                device="cpu",
                details={
                    "experiment": EXPERIMENT,
                    "agents": agents,
                    "null": null,
                    "conditions": conditions(),
                },
            )
            for title, (agents, null) in titles.items()
        ]
    return rows


def cells(tier: Tier) -> list[Cell]:
    """One cell; none in the quick tier, where starting the processes takes too long."""
    if tier.name not in TIERS:
        return []
    budget_s = TIERS[tier.name]
    return [claim_cell(EXPERIMENT, len(WORKLOADS) * budget_s, partial(measured, budget_s))]
