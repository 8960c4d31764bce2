"""Gains of PPO's iterations in virtual time."""

import numpy as np
import pytest

from placerl.harness.papers.ppo.judged_iterations import bands, gain_of, gain_over


def test_iterations_of_different_runs_are_not_paired() -> None:
    """Paired, times that vary alike would have a gain without any noise."""
    varies_s = np.linspace(1.0, 2.0, 20)
    gain = gain_of("gain", varies_s, varies_s, 2 * varies_s, (1, 2))
    assert [number.value for number in gain] == pytest.approx([1.0, 0.5])
    assert gain.quick.low is not None
    assert gain.quick.high is not None
    assert gain.quick.low < 0.9 < 1.1 < gain.quick.high
    assert gain.quick.rows == (1, 2)
    over = gain_over("over", gain, gain)
    assert over.quick.value == pytest.approx(1.0)
    assert over.quick.low == pytest.approx(gain.quick.low / gain.quick.high)


def test_a_statement_holds_where_the_whole_interval_is_above_one() -> None:
    constant_s = np.full(6, 1.0)
    gain = gain_of("gain", 3 * constant_s, constant_s, 4 * constant_s, ())
    found = bands([gain], [gain_over("pair", gain, gain)])
    assert (list(found.hold), list(found.hold_slow)) == ([True, False], [False, False])
    assert (found.pairs, len(found.numbers)) == (1, 4)
    few = bands([gain_of("gain", 3 * constant_s[:2], constant_s, constant_s, ())], [])
    assert (list(few.hold), few.numbers[0].low) == ([False], None)
