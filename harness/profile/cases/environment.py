"""Defines how the step of an environment is timed."""

from typing import Any

from harness import environments
from harness.measure.protocol import Case
from harness.profile.cases.base import CPU, PrimitiveCase, expect_equal
from harness.workloads import Workload


def environment_case(workload: Workload) -> PrimitiveCase:
    """Return the benchmark case of `environment.step` with random actions; a reset follows the end of an episode."""

    def setup() -> Any:
        environment = environments.make(workload.environment, 0)
        environment.reset(seed=0)
        environment.action_space.seed(0)
        return environment

    def check(environment: Any) -> None:
        twin = setup()
        for _ in range(10):
            action = environment.action_space.sample()
            found, expected = environment.step(action), twin.step(action)
            expect_equal(found[0], expected[0], "observation")
            if found[1:4] != expected[1:4]:
                raise AssertionError(f"step: found {found[1:4]}; expected {expected[1:4]}")
            if found[2] or found[3]:
                break
        twin.close()
        environment.reset(seed=0)

    def call(environment: Any, action: Any) -> None:
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset()

    return PrimitiveCase(
        "environment.step",
        CPU,
        1,
        Case(
            name="environment.step",
            setup=setup,
            check=check,
            inputs=lambda environment, rng: environment.action_space.sample(),
            call=call,
        ),
    )
