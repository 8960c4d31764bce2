"""Times a gradient step of PPO with separate policy and value networks, and with one joint network (PPO 5.3.1).

Spinning Up trains two networks; OpenAI Baselines' PPO2 trains one, whose hidden layers serve both. Here both
are the same algorithm on the native learner, with equal samples per step, so the ratio of step times is that
of training times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.evidence import paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import from_text
from placerl.harness.papers.ppo.factors import NEAR, factor_outcome
from placerl.harness.pieces.learners import random_batch
from placerl.harness.store.cell import Cell
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.algorithms.networks import MLP, Network
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.learner import Learner


@dataclass(frozen=True)
class Sharing(Columns):
    """Columns of the rows: whether layers are shared, and whether it is the copy that shows the noise."""

    shared: bool
    null: bool


EXPERIMENT = Experiment(
    "PPO-5.3.1-shared", "gradient steps of shared and of separate networks", "time_per_call", Sharing
)
BACKEND = "native"
ENDS = (64, 512)
"""The smallest and the largest mini-batch of PPO Table 2."""
TIERS = {
    "standard": (("hopper-ppo", "humanoid-ppo"), 20.0),
    "full": (("hopper-ppo", "humanoid-ppo"), 60.0),
}
"""Workloads, and the seconds for each, by tier; the quick tier has no time for them."""
NEEDS_NETWORKS = (
    "the experiment PPO-5.3.1-shared: gradient steps of shared and of separate networks, tier standard"
)


@dataclass(frozen=True)
class SharedPPO(PPO):
    """PPO whose policy and value are two heads on the hidden layers of one MLP."""

    @property
    def shared(self) -> bool:
        """Return True, because policy and value share their hidden layers."""
        return True

    @property
    def networks(self) -> dict[str, Network]:
        """Return the networks by name: "trunk", the hidden layers, and the two heads "policy" and "value"."""
        hidden, activation = self.network.hidden, self.network.activation
        return {
            "trunk": MLP((*self.observation_shape, *hidden), activation, output_activation=activation),
            "policy": MLP((hidden[-1], self.action_size)),
            "value": MLP((hidden[-1], 1)),
        }


def algorithm(item: Workload, *, shared: bool) -> PPO:
    """Return the PPO algorithm of a workload, unchanged or with shared hidden layers.

    Raises:
        ValueError: the workload has another algorithm.
    """
    base = algorithm_of(item)
    if not isinstance(base, PPO):
        raise ValueError(f"{item.name}: found {base.name}; allowed: a workload of PPO")
    return SharedPPO(**{f.name: getattr(base, f.name) for f in fields(base)}) if shared else base


def case(item: Workload, minibatch: int, title: str, *, shared: bool) -> Case[Learner]:
    """Return the case (what the timing protocol sets up, checks and calls) of a gradient step of PPO."""
    create = partial(learner.create, algorithm(item, shared=shared), batch_size=minibatch, seed=0)

    def inputs(_: Learner, rng: np.random.Generator) -> Mapping[str, npt.NDArray]:
        return random_batch(item, minibatch, rng)

    def check(native: Learner) -> None:
        """Raise AssertionError if two steps differ from those of the PyTorch learner with the same initial weights."""
        oracle, rng = create(backend="torch"), np.random.default_rng(0)
        for _ in range(2):
            batch = inputs(native, rng)
            actual, expected = native.step(batch), oracle.step(batch)
            np.testing.assert_allclose(actual.td_errors, expected.td_errors, rtol=1e-3, atol=1e-3)
            for loss, value in expected.losses.items():
                np.testing.assert_allclose(actual.losses[loss], value, rtol=1e-3, atol=1e-3, err_msg=loss)

    return Case(
        title,
        partial(create, backend=BACKEND),
        check,
        inputs,
        lambda native, batch: native.step(batch),
    )


def measured(
    names: tuple[str, ...], minibatches: tuple[int, ...], budget_s: float, report: Report
) -> Sequence[Row]:
    """Measure the seconds per gradient step of PPO with shared and with separate networks.

    The configurations of a workload are timed in the same interleaved rounds.
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
            rows.append(
                EXPERIMENT.timing(
                    timings[one.name],
                    Sharing(shared, null),
                    workload=name,
                    primitive="learner.step",
                    backend=BACKEND,
                    device="cpu",
                    batch_size=size,
                )
            )
    return rows


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cell (a piece of the plan) that times shared and separate networks; the quick tier has none."""
    if tier.name not in TIERS:
        return []
    names, budget_s = TIERS[tier.name]
    return [claim_cell(EXPERIMENT, len(names) * budget_s, partial(measured, names, ENDS, budget_s))]


class SharedNetworksTrainFaster(Claim):
    """Checks PPO 5.3.1: networks that share their layers train about twice as fast as separate ones.

    The check compares the times of a gradient step.
    """

    key, place, position = "PPO-5.3.1-shared", "5.3.1", 6
    statement = "Networks that share their layers train about twice as fast"
    published = from_text("PPO.shared_network_gain")
    needs = NEEDS_NETWORKS
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_place: dict[tuple[str, int], dict[tuple[bool, bool], Any]] = {}
        for row in rows_of(frame, EXPERIMENT, "time_per_call"):
            sides = by_place.setdefault((row.workload, int(row.batch_size)), {})
            sides[row.parameters.shared, row.parameters.null] = row
        times = [
            paired(
                f"{name}, mini-batch {size}: a gradient step of separate networks over one of shared layers",
                sides[True, False],
                sides[True, True],
                sides[False, False],
            )
            for (name, size), sides in sorted(by_place.items())
            if len(sides) == 3
        ]
        if not times:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        (published,) = self.published
        stated = published.value
        said = (
            f"Reproduced: within a factor of {NEAR:g} of {stated:g} everywhere; in kind: shared layers are faster "
            "everywhere. Both train on the native learner, where the paper compares two libraries."
        )
        timed = {name for (name, _), sides in by_place.items() if len(sides) == 3}
        said += f" Timed: the networks of {' and '.join(sorted(timed))}."
        if missing := [name for name in TIERS["full"][0] if name not in timed]:
            said += f" Not timed, of PPO's robots: {', '.join(missing)}."
        return Finding(factor_outcome(times, stated), tuple(each.judged for each in times), said)
