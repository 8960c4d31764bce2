"""A gradient step of PPO with a policy and a value network, and with one network that joins them (PPO 5.3.1).

Spinning Up trains two networks, OpenAI Baselines' PPO2 one whose hidden layers both share. Here both are the same
algorithm on the native learner, with as many samples a step, so that times of steps are to each other as those of
training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import workloads
from harness.core.progress import Report
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.measure.protocol import Case, Protocol, measure
from harness.papers.cells import Tier, claim_cell
from harness.profile.cases.learners import random_batch
from harness.store.cell import Cell
from harness.workloads import Workload
from harness.workloads.task import algorithm_of
from primitives import learner
from primitives.algorithms.networks import MLP, Network
from primitives.algorithms.ppo import PPO
from primitives.learner import Learner

EXPERIMENT = "PPO-5.3.1-shared"
BACKEND = "native"
ENDS = (64, 512)
"""The smallest and the largest mini-batch of PPO Table 2."""
TIERS = {
    "standard": (("hopper-ppo",), 20.0),
    "full": (("hopper-ppo", "humanoid-ppo"), 60.0),
}
"""Workloads, and the seconds of each; the quick tier has none to spare."""


@dataclass(frozen=True)
class SharedPPO(PPO):
    """PPO whose policy and value are two heads of one MLP's hidden layers."""

    @property
    def shared(self) -> bool:
        """They share a trunk."""
        return True

    @property
    def networks(self) -> dict[str, Network]:
        """The hidden layers, "trunk", and the two heads, "policy" and "value"."""
        hidden, activation = self.network.hidden, self.network.activation
        return {
            "trunk": MLP((*self.observation_shape, *hidden), activation, output_activation=activation),
            "policy": MLP((hidden[-1], self.action_size)),
            "value": MLP((hidden[-1], 1)),
        }


def algorithm(item: Workload, *, shared: bool) -> PPO:
    """A workload's PPO, as it is or with shared hidden layers."""
    found = algorithm_of(item)
    if not isinstance(found, PPO):
        raise ValueError(f"{item.name}: found {found.name}; allowed: a workload of PPO")
    return SharedPPO(**{f.name: getattr(found, f.name) for f in fields(found)}) if shared else found


def case(item: Workload, minibatch: int, title: str, *, shared: bool) -> Case[Learner]:
    """A gradient step on a minibatch."""
    made = partial(learner.create, algorithm(item, shared=shared), batch_size=minibatch, seed=0)

    def inputs(_: Learner, rng: np.random.Generator) -> Mapping[str, npt.NDArray]:
        return random_batch(item, minibatch, rng)

    def check(native: Learner) -> None:
        """Raises AssertionError where two steps are not those of PyTorch, which begins with the same weights."""
        oracle, rng = made(backend="torch"), np.random.default_rng(0)
        for _ in range(2):
            batch = inputs(native, rng)
            found, expected = native.step(batch), oracle.step(batch)
            np.testing.assert_allclose(found.td_errors, expected.td_errors, rtol=1e-3, atol=1e-3)
            for loss, value in expected.losses.items():
                np.testing.assert_allclose(found.losses[loss], value, rtol=1e-3, atol=1e-3, err_msg=loss)

    return Case(
        title,
        partial(made, backend=BACKEND),
        check,
        inputs,
        lambda native, batch: native.step(batch),
    )


def measured(
    names: tuple[str, ...], minibatches: tuple[int, ...], budget_s: float, report: Report
) -> list[Measurement]:
    """Rows of suite "claim": seconds of a gradient step, all of one workload in the same interleaved rounds.

    Args:
        names, minibatches: the workloads, and the samples of a step.
        budget_s: begin no further round of a workload after this time, seconds.
        report: called with the progress.
    """
    sides = [(size, *side) for size in minibatches for side in ((True, False), (True, True), (False, False))]
    rows = []
    for number, name in enumerate(names):
        report(number, len(names), f"{name}: gradient steps")
        item = workloads.load(name)
        cases = {
            (size, shared, null): case(item, size, f"{name}, {size}, {shared=}, {null=}", shared=shared)
            for size, shared, null in sides
        }
        protocol = Protocol(rounds=statistics.PAIRS, block_s=10e-3, budget_s=budget_s, threads=1)
        timings = measure(list(cases.values()), protocol)
        for (size, shared, null), one in cases.items():
            details: dict[str, Any] = {"experiment": EXPERIMENT, "shared": shared, "null": null}
            rows.append(
                timings[one.name].measurement(
                    suite="claim",
                    workload=name,
                    primitive="learner.step",
                    backend=BACKEND,
                    device="cpu",
                    batch_size=size,
                    details=details | {"conditions": conditions()},
                )
            )
    return rows


def cells(tier: Tier) -> list[Cell]:
    """One cell; none in a tier without a name."""
    if tier.name not in TIERS:
        return []
    names, budget_s = TIERS[tier.name]
    return [claim_cell(EXPERIMENT, len(names) * budget_s, partial(measured, names, ENDS, budget_s))]
