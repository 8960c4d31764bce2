"""Rows from raw samples and from ratios of times."""

from typing import Any

import numpy as np
import pytest

from harness.core.provenance import Provenance
from harness.measure import rows, statistics
from harness.measure.statistics import Ratio

FIELDS: dict[str, Any] = {"suite": "profile", "primitive": "learner.step", "quantity": "time_per_call"}


def test_a_row_of_samples_is_their_median_with_its_interval() -> None:
    samples = list(np.random.default_rng(0).permutation(np.linspace(1, 1.02, 30)))
    row = rows.summary_row(samples, **FIELDS, unit="s", batch_size=32)
    assert row.value == pytest.approx(1.01)
    assert (row.low, row.high) == statistics.interval(samples, in_order=True)
    assert (row.status, row.reason, row.provenance) == ("ok", "", Provenance.MEASURED)
    assert (row.samples, row.batch_size, row.unit) == (tuple(samples), 32, "s")


def test_what_neighbours_share_counts_in_a_row_s_interval() -> None:
    samples = np.repeat([1.0, 1.1, 1.02, 1.08], 8) + np.linspace(0, 0.001, 32)
    row = rows.summary_row(samples.tolist(), **FIELDS, unit="s")
    assert (row.low, row.high) == statistics.interval(samples, in_order=True)
    assert (row.low, row.high) != statistics.interval(samples)


def test_a_row_with_a_wide_interval_is_too_noisy() -> None:
    row = rows.summary_row([1.0, 2.0, 3.0, 4.0, 5.0], **FIELDS, unit="s")
    assert (row.status, row.value, row.low, row.high) == ("too_noisy", 3, 1, 5)
    assert row.reason


def test_a_row_of_too_few_samples_has_no_interval_and_is_too_noisy() -> None:
    row = rows.summary_row([1.0, 1.01, 1.02, 1.03], **FIELDS, unit="s")
    assert (row.value, row.low, row.high) == (pytest.approx(1.015), None, None)
    assert (row.status, row.reason) == ("too_noisy", "4 samples, where 5 are the fewest")
    assert row.samples == (1.0, 1.01, 1.02, 1.03)
    assert rows.summary_row([1.0] * 5, **FIELDS, unit="s").status == "ok"


def test_a_gain_is_the_inverse_of_a_ratio_of_times_bounds_and_all() -> None:
    times = Ratio(0.5, 0.4, 0.8)
    fields = FIELDS | {"quantity": "throughput_ratio"}
    row = rows.ratio(times, **fields)
    assert (row.value, row.low, row.high) == (0.5, 0.4, 0.8)
    assert (row.unit, row.provenance) == ("1", Provenance.MEASURED)
    gain = rows.gain(times, **fields)
    assert (gain.value, gain.low, gain.high) == pytest.approx((2, 1.25, 2.5))
    assert (gain.unit, gain.provenance) == ("1", Provenance.MEASURED)
