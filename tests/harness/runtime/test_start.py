"""A task is trained by the class of its kind."""

from contextlib import closing
from typing import Any

import pytest

from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import Kind, resolve
from placerl.harness.runtime.start import start
from placerl.harness.runtime.training import Training
from tests.harness.runtime.short_workloads import short

NATIVE = Mapping.parse("native-native-cpu")


@pytest.mark.parametrize(
    ("name", "options", "kind", "expected", "fusion"),
    [
        ("cartpole-dqn", {}, Kind.REPLAY, Training, Fusion.STEP),
        ("cartpole-dqn", {"threads_native": True}, Kind.THREADS, ThreadedTraining, Fusion.REPLAY),
        ("cartpole-ppo", {}, Kind.ON_POLICY, OnPolicyTraining, Fusion.NONE),
        (
            "cartpole-ppo",
            {"native_environments": True},
            Kind.ITERATIONS,
            NativeIterations,
            Fusion.ITERATION,
        ),
    ],
)
def test_each_kind_of_training_has_its_class(
    name: str, options: dict[str, Any], kind: Kind, expected: type, fusion: Fusion
) -> None:
    resolved = resolve(Schedule(**options), short(name), NATIVE)
    assert (resolved.kind, resolved.fusion) == (kind, fusion)
    with closing(start(resolved, 3)) as training:
        assert type(training) is expected
        assert training.fusion == fusion
        training.warm_up()
        assert training.gradient_steps > 0
