"""Training of a network that policy and value share, timed beside that of two (PPO 5.3.1)."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo import shared_trunk
from tests.harness.old_form import details_of, row_of
from tests.harness.papers.rows import verdict


def test_shared_networks_are_one_body_with_two_heads() -> None:
    item = workloads.load("hopper-ppo")
    shared, separate = (shared_trunk.algorithm(item, shared=each) for each in (True, False))
    sizes = {name: [layer.weight_shape for layer in one.layers] for name, one in shared.networks.items()}
    assert sizes == {"trunk": [(64, 11), (64, 64)], "policy": [(3, 64)], "value": [(1, 64)]}
    assert shared.hyperparameters == separate.hyperparameters
    assert (shared.variants, separate.variants) == (("full",), ("full", "value"))
    with pytest.raises(ValueError, match="a workload of PPO"):
        shared_trunk.algorithm(workloads.load("cartpole-dqn"), shared=True)


def test_the_heads_stand_on_the_last_of_the_shared_layers() -> None:
    shared = shared_trunk.algorithm(workloads.load("hopper-ppo"), shared=True)
    narrowing = replace(shared, network=replace(shared.network, hidden=(32, 16)))
    sizes = {name: [layer.weight_shape for layer in one.layers] for name, one in narrowing.networks.items()}
    assert sizes == {"trunk": [(32, 11), (16, 32)], "policy": [(3, 16)], "value": [(1, 16)]}


@pytest.mark.parametrize("shared", [True, False])
def test_a_step_is_checked_against_pytorch(shared: bool) -> None:
    item = workloads.load("hopper-ppo")
    case = shared_trunk.case(item, 64, "step", shared=shared)
    made = case.setup()
    case.check(made)
    with pytest.raises(AssertionError):
        case.check(made)  # which has learnt, where PyTorch begins anew
    nothing = SimpleNamespace(step=lambda batch: SimpleNamespace(td_errors=np.zeros(64), losses={}))
    with pytest.raises(AssertionError):
        case.check(nothing)  # type: ignore[arg-type]
    case.close(made)


@pytest.mark.parametrize(("td_error", "loss"), [(0.01, 0.0), (0.0, 0.01)])
def test_a_step_that_is_off_by_a_hundredth_is_refused(td_error: float, loss: float) -> None:
    case = shared_trunk.case(workloads.load("hopper-ppo"), 64, "step", shared=True)
    native = case.setup()

    def step(batch: Any) -> SimpleNamespace:
        found = native.step(batch)
        losses = {name: value + loss * (1 + abs(value)) for name, value in found.losses.items()}
        return SimpleNamespace(
            td_errors=found.td_errors + td_error * (1 + abs(found.td_errors)), losses=losses
        )

    with pytest.raises(AssertionError):
        case.check(SimpleNamespace(step=step))  # type: ignore[arg-type]
    case.close(native)


def test_every_side_is_timed() -> None:
    made = shared_trunk.measured(("hopper-ppo",), (64,), 0.0, lambda *_: None)
    told = [(details_of(row)["shared"], details_of(row)["null"]) for row in made]
    assert told == [(True, False), (True, True), (False, False)]
    assert all(row.status in ("ok", "too_noisy") for row in made), [row.reason for row in made]


def gradient_steps(separate_s: float, null_s: float = 1.0, batch_size: int = 512) -> list[Row]:
    """Steps of separate networks, where one of shared layers takes a second."""
    sides = (((True, False), 1.0, 7), ((True, True), null_s, 11), ((False, False), separate_s, 13))
    return [
        row_of(
            suite="claim",
            workload="hopper-ppo",
            primitive="learner.step",
            backend="native",
            device="cpu",
            batch_size=batch_size,
            quantity="time_per_call",
            unit="s",
            provenance=Provenance.MEASURED,
            value=time_s,
            samples=tuple(time_s * (1 + 0.01 * (pace * i % 30) / 30) for i in range(30)),
            details={"experiment": shared_trunk.EXPERIMENT, "shared": shared, "null": null},
        )
        for (shared, null), time_s, pace in sides
    ]


@pytest.mark.parametrize(
    ("separate_s", "null_s", "outcome"),
    [
        (2.0, 1.0, Outcome.REPRODUCED),
        (1.7, 1.0, Outcome.REPRODUCED),
        (1.4, 1.0, Outcome.IN_KIND),
        (1.65, 1.0, Outcome.REPRODUCED),  # a quarter less than twice, and more
        (1.55, 1.0, Outcome.IN_KIND),
        (2.4, 1.0, Outcome.REPRODUCED),
        (2.6, 1.0, Outcome.IN_KIND),
        (1.04, 1.0, Outcome.IN_KIND),  # any gain
        (0.96, 1.0, Outcome.NOT_REPRODUCED),
        (3.0, 1.0, Outcome.IN_KIND),
        (1.0, 1.0, Outcome.NO_VERDICT),
        (1.4, 1.5, Outcome.NO_VERDICT),  # the same network differs from itself by more
        (0.8, 1.0, Outcome.NOT_REPRODUCED),
    ],
)
def test_separate_networks_over_shared_ones(
    separate_s: float, null_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PPO-5.3.1-shared", tmp_path, *gradient_steps(separate_s, null_s))
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(separate_s, rel=0.02)
    assert (found.provenance, found.rows) == ("measured", (0, 1, 2))
    assert found.finding.explanation.endswith(
        "Timed: the networks of hopper-ppo. Not timed, of PPO's robots: humanoid-ppo."
    )


def test_one_mini_batch_on_which_sharing_is_slower_refutes_it(tmp_path: Path) -> None:
    made = gradient_steps(2.0) + gradient_steps(0.8, batch_size=64)
    assert verdict("PPO-5.3.1-shared", tmp_path, *made).finding.outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize("lacking", range(3))
def test_shared_layers_are_not_judged_without_all_three_rows(lacking: int, tmp_path: Path) -> None:
    made = gradient_steps(2.0)
    del made[lacking]
    assert verdict("PPO-5.3.1-shared", tmp_path, *made).needs == shared_trunk.NEEDS_NETWORKS
