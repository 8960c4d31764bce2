"""PPO whose iterations are native calls: it trains as the loop in Python does, and says when it cannot."""

from typing import Any

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.measured_run import Extent, train
from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from tests.harness.old_form import details_of
from tests.harness.runtime.test_on_policy import PENDULUM, small
from tests.harness.runtime.trainings import started

NATIVE = Mapping.parse("native-native-cpu")
ASKED = Schedule()
BOTH = (Fusion.NONE, Fusion.ITERATION)


@pytest.mark.parametrize("environment", [("CartPole-v1", (4,), "discrete", 2), PENDULUM])
def test_it_trains_as_the_loop_in_python_does(environment: tuple[Any, ...]) -> None:
    """The actions of two iterations are equal, and the weights after them up to rounding."""
    item = small(environment, trajectory_length=32, target_kl=0.02)
    fused = started(item, NATIVE, seed=1, schedule=ASKED)
    stepwise = started(item, NATIVE, seed=1, schedule=Schedule(fusion=Fusion.NONE))
    assert isinstance(fused, NativeIterations)
    assert isinstance(stepwise, OnPolicyTraining)
    found, wanted = fused.advance(8), stepwise.advance(8)
    assert (found.gradient_steps, found.environment_steps) == (8, 64)
    assert (wanted.gradient_steps, wanted.environment_steps) == (8, 64)
    assert fused.gradient_steps == stepwise.gradient_steps == 16  # one iteration warms up
    assert fused.environment_steps == stepwise.environment_steps == 128
    expected = stepwise.learner.parameters()
    for name, value in fused.learner.parameters().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
    for mine, other in zip(found.episodes, wanted.episodes, strict=True):
        assert mine.environment_step == other.environment_step
        assert mine.episode_return == pytest.approx(other.episode_return, rel=1e-3)
    assert found.losses.keys() == wanted.losses.keys()
    assert found.terms_s.keys() == wanted.terms_s.keys()
    assert 0 < sum(found.terms_s.values()) <= found.wall_s
    fused.close()
    stepwise.close()


def test_the_same_seed_trains_the_same() -> None:
    runs = []
    for seed in (1, 1, 2):
        training = started(small(), NATIVE, seed=seed, schedule=ASKED)
        training.advance(16)
        runs.append(training.learner.parameters())
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any((value != runs[2][name]).any() for name, value in runs[0].items())


def test_a_measured_run_has_its_rows() -> None:
    rows = train(resolve(ASKED, small(), NATIVE, 16), 0, Extent(steps=24), silent)
    by_quantity = {row.quantity: row for row in rows}
    assert {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"} <= set(by_quantity)
    details = details_of(by_quantity["gradient_steps_per_s"])
    assert details["fusion"] == "iteration"
    assert details["gradient_steps"] == 24
    assert set(details["terms_s"]) == {"environment", "infer", "prepare", "learner"}
