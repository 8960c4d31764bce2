"""Two cases that are compared in the same rounds, together with a copy of the first."""

import numpy as np
import pytest

from placerl.harness.measure.protocol import Protocol, compare_cases


def test_a_comparison_runs_beside_its_null(world):
    rng = np.random.default_rng(1)
    a = world.case("a", lambda: 2e-3 * rng.lognormal(0, 0.02))
    b = world.case("b", lambda: 2.2e-3 * rng.lognormal(0, 0.02))
    comparison, timings = compare_cases(a, b, Protocol(), clock=world.clock)
    assert comparison.verdict == "faster"
    assert comparison.ratio.value == pytest.approx(1 / 1.1, rel=0.02)
    assert comparison.null.value == pytest.approx(1, rel=0.02)
    assert set(timings) == {"a", "b", "a (null)"}


def test_a_comparison_with_a_failure_has_no_verdict(world):
    comparison, _ = compare_cases(
        world.case("a"), world.case("b", check=lambda s: 1 / 0), Protocol(rounds=15), clock=world.clock
    )
    assert comparison.verdict == "no verdict"
    assert comparison.reason.startswith("b: check: ZeroDivisionError")


def test_a_comparison_ends_when_its_cases_fail(world):
    failing = world.case("b", call=world.failing_after(30))
    found, _ = compare_cases(world.case("a", 2e-3), failing, Protocol(rounds=40), clock=world.clock)
    assert found.reason.startswith("b: call: MemoryError")
    assert world.log.count("a") + world.log.count("a (null)") < 150  # no rounds beyond the 40


@pytest.mark.parametrize(("time_s", "alike"), [(1.2e-4, True), (3e-4, False)])
def test_cases_that_are_compared_and_take_about_as_long_make_as_many_calls_a_block(world, time_s, alike):
    """The first calls of a piece are colder, so that two alike cases have to be cut alike."""
    _, timings = compare_cases(world.case("a", 1e-4), world.case("b", time_s), clock=world.clock)
    assert (timings["a"].calls == timings["b"].calls) is alike
    assert timings["a (null)"].calls == timings["a"].calls
