"""PPO whose iterations are native calls: it trains as the loop in Python does, and says when it cannot."""

from typing import Any

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import check_options
from placerl.harness.runtime.measured_run import Extent, train
from placerl.harness.runtime.native_iterations import NativeIterations, chosen_fusion, fusions
from placerl.harness.runtime.on_policy import OnPolicyTraining, start
from placerl.harness.workloads import Workload
from tests.harness.runtime.test_on_policy import PENDULUM, small

NATIVE = Mapping.parse("native-native-cpu")
ASKED = Schedule(native_environments=True)
BOTH = (Fusion.NONE, Fusion.ITERATION)


@pytest.mark.parametrize("environment", [("CartPole-v1", (4,), "discrete", 2), PENDULUM])
def test_it_trains_as_the_loop_in_python_does(environment: tuple[Any, ...]) -> None:
    """The actions of two iterations are equal, and the weights after them up to rounding."""
    item = small(environment, trajectory_length=32, target_kl=0.02)
    fused = start(item, NATIVE, seed=1, schedule=ASKED)
    stepwise = start(item, NATIVE, seed=1, schedule=Schedule(native_environments=True, fusion=Fusion.NONE))
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
        training = NativeIterations(small(), NATIVE, seed=seed, schedule=ASKED)
        training.advance(16)
        runs.append(training.learner.parameters())
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any((value != runs[2][name]).any() for name, value in runs[0].items())


@pytest.mark.parametrize(
    ("options", "mapping", "allowed"),
    [
        ({}, "native-native-cpu", BOTH),
        ({"native_environments": False}, "native-native-cpu", BOTH[:1]),
        ({}, "torch-native-cpu", BOTH[:1]),
        ({}, "native[fixed32]-native-cpu", BOTH[:1]),
        ({"processes": 1}, "native-native-cpu", BOTH[:1]),
        ({"processes": 0, "threads": 2}, "native-native-cpu", BOTH),
        ({"threads": 2}, "native-native-cpu", BOTH[:1]),  # one process a thread
    ],
)
def test_iterations_fuse_where_all_is_native_and_in_one_process(
    options: dict[str, Any], mapping: str, allowed: tuple[Fusion, ...]
) -> None:
    asked = Schedule(**{"native_environments": True, **options})
    assert fusions(small(), Mapping.parse(mapping), asked) == allowed
    assert chosen_fusion(small(), Mapping.parse(mapping), asked) is allowed[-1]


def test_what_cannot_be_fused_is_refused_before_anything_starts() -> None:
    def check(item: Workload, **options: Any) -> None:
        check_options.check(Schedule(**options), item, NATIVE, item.training.batch_size)

    check(small(), native_environments=True, fusion=Fusion.ITERATION)
    check(small(), native_environments=True, fusion=Fusion.NONE)
    check(small(), fusion=Fusion.NONE)
    with pytest.raises(
        UserError, match="fusion: found iteration; allowed: none; iteration with --native-env"
    ):
        check(small(), fusion=Fusion.ITERATION)
    with pytest.raises(UserError, match="fusion: found step; allowed: none, iteration"):
        check(small(), native_environments=True, fusion=Fusion.STEP)
    assert fusions(workloads.load("pong-ppo"), NATIVE, ASKED) == BOTH[:1]
    with pytest.raises(UserError, match="native_environments: found envpool too"):
        NativeIterations(small(), NATIVE, schedule=Schedule(native_environments=True, envpool=True))
    with pytest.raises(UserError, match="batch_size: found 65; allowed: 1 to actors"):
        NativeIterations(small(), NATIVE, batch_size=65, schedule=ASKED)


def test_a_measured_run_has_its_rows() -> None:
    rows = train(small(), NATIVE, 16, 0, Extent(steps=24), silent, ASKED)
    by_quantity = {row.quantity: row for row in rows}
    assert {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"} <= set(by_quantity)
    details = by_quantity["gradient_steps_per_s"].details
    assert details["fusion"] == "iteration"
    assert details["gradient_steps"] == 24
    assert set(details["terms_s"]) == {"environment", "infer", "prepare", "learner"}
