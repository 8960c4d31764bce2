import math

import pytest

from placerl.harness.mapping.metrics import (
    code_divergence,
    experiences_per_s,
    per_watt,
    portability,
    regret,
)


def test_experiences_are_gradient_steps_times_the_batch() -> None:
    """PRL 6.4: 7.9K EPS at batch 32 are 247 gradient steps a second."""
    assert experiences_per_s(247, 32) == 7904


def test_throughput_per_watt_is_that_of_the_papers() -> None:
    """FIX VI-C: 53826.8 IPS at 20.4 W, printed as 2638.0 IPS/W (the printed watts are rounded)."""
    assert per_watt(53826.8, 20.4) == pytest.approx(2638.0, rel=1e-3)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_power_is_above_0(bad: float) -> None:
    with pytest.raises(ValueError, match=f"watts: found {bad}; allowed: more than 0"):
        per_watt(1, bad)


def test_portability_is_the_harmonic_mean() -> None:
    assert portability([100.0, 50.0]) == pytest.approx(200 / 3)
    assert portability([7.0]) == 7
    assert portability([0.25, 0.25]) == pytest.approx(0.25)


@pytest.mark.parametrize("missing", [None, 0.0])
def test_one_choice_without_support_makes_it_zero(missing: float | None) -> None:
    """PRL 6.4: a library that cannot use the FPGA has a device portability of 0."""
    assert portability([100.0, missing, 50.0]) == 0


def test_portability_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="found none"):
        portability([])
    with pytest.raises(ValueError, match=r"found -1\.0; allowed: 0 or more"):
        portability([-1.0])
    with pytest.raises(ValueError, match=r"found -2\.0; allowed: 0 or more"):
        portability([3.0, None, -1.0, -2.0])


def test_code_divergence_counts_lines_that_are_not_shared() -> None:
    """PRL 6.5: 0 for a single source, 1 for two that share nothing."""
    source = ["a = 1", "", "  train(a)"]
    assert code_divergence(source, ["train(a)", "a = 1"]) == 0
    assert code_divergence(["a"], ["b"]) == 1
    assert code_divergence(["a", "b", "c"], ["a", "b", "d"]) == pytest.approx(1 - 2 / 4)
    assert code_divergence(["a"], []) == 1
    with pytest.raises(ValueError, match="found no line"):
        code_divergence([""], [])


def test_regret_is_what_the_best_would_have_added() -> None:
    assert regret(80, [80, 100, 10]) == pytest.approx(0.2)
    assert regret(100, [80, 100]) == 0
    assert regret(100, []) == 0
