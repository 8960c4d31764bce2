import numpy as np
import pytest
from scipy import stats

from placerl.harness.measure import statistics
from placerl.harness.measure.statistics import (
    FEWEST_IN_ORDER,
    MOST_SAMPLES,
    PAIRS,
    Comparison,
    Ratio,
    Samples,
    compare,
    evenly_spread,
    faster_half,
    interval,
    lower_quartile,
    paired_ratio,
    ratio_interval,
    relative_width,
)


def noisy(rng, pairs, spread, bumps):
    """The machine's drift, and two series of times without it, each with one-sided jitter and bumps."""
    drift = np.exp(np.cumsum(rng.normal(0, 0.1 * spread, pairs)))

    def series():
        jitter = np.exp(np.abs(rng.normal(0, spread, pairs)))
        return jitter * np.where(rng.random(pairs) < bumps, 1 + rng.exponential(0.4, pairs), 1)

    return drift, series(), series()


def rate(verdict, change, *, pairs, spread, bumps, trials=150):
    rng = np.random.default_rng(20)
    found = 0
    for _ in range(trials):
        drift, a, b = noisy(rng, pairs, spread, bumps)
        *_, again = noisy(rng, pairs, spread, bumps)
        a, b, again = drift * a, drift * b, drift * again  # of the same rounds
        found += compare(a * change, b, None if change != 1 else again).verdict in verdict
    return found / trials


def test_statistics_of_a_few_samples_by_hand() -> None:
    assert lower_quartile([4.0, 0.0, 3.0, 1.0, 2.0]) == 1
    np.testing.assert_array_equal(lower_quartile([[2.0, 0.0, 4.0], [9.0, 7.0, 5.0]]), [1, 6])
    assert faster_half([5.0, 1.0, 2.0]) == 1.5
    assert faster_half([4.0, 1.0, 2.0, 9.0]) == 1.5
    np.testing.assert_allclose(faster_half([[5.0, 1.0, 2.0], [9.0, 9.0, 3.0]]), [1.5, 6.0])
    assert ratio_interval([7.0] * 5, [2.0] * 9) == (3.5, 3.5)


@pytest.mark.parametrize("count", [1, 2, 5, 30, 31])
@pytest.mark.parametrize("axis", [0, 1])
def test_medians_are_those_of_numpy_to_the_last_bit(count: int, axis: int) -> None:
    samples = np.random.default_rng(count).lognormal(size=(50, count) if axis else (count, 50))
    other = 1 / samples
    assert (statistics.median(samples, axis) == np.median(samples, axis)).all()
    expected = np.quantile(samples, 0.5, axis) / np.quantile(other, 0.5, axis)
    assert (statistics._ratio_of_medians(samples, other, axis) == expected).all()


@pytest.mark.parametrize(
    ("low", "high", "differs"),
    [(0.8, 0.9, True), (1.1, 1.2, True), (0.9, 1.1, False), (0.9, 1.0, False), (1.0, 1.1, False)],
)
def test_a_ratio_differs_where_its_interval_leaves_1_out(low: float, high: float, differs: bool) -> None:
    assert Ratio((low + high) / 2, low, high).differs is differs


@pytest.mark.parametrize(
    ("null", "reach"),
    [
        (None, 1),
        (Ratio(1.0, 0.5, 2.0), 1),
        (Ratio(1.5, 1.25, 2.0), 2),
        (Ratio(0.7, 0.5, 0.8), 2),
    ],
)
def test_a_case_reaches_as_far_as_it_differs_from_itself(null: Ratio | None, reach: float) -> None:
    assert Comparison(None, null, "no verdict", "", 15).reach == reach


@pytest.mark.parametrize(
    ("a", "b", "again", "verdict"),
    [
        (1, 4, 1, "faster"),
        (1, 4, 2, "faster"),
        (1, 4, 4, "no verdict"),
        (4, 1, 4, "slower"),
        (4, 1, 2, "slower"),
        (4, 1, 1, "no verdict"),
        (1, 2, 0.5, "no verdict"),
        (2, 1, 4, "no verdict"),
        (1, 1, 1, "no verdict"),
        (1, 1, 2, "no verdict"),
    ],
)
def test_verdicts_with_a_second_a_where_there_is_no_noise(
    a: float, b: float, again: float, verdict: str
) -> None:
    found = compare(*([float(time)] * 15 for time in (a, b, again)))
    assert (found.verdict, found.pairs) == (verdict, 15)
    assert found.ratio == Ratio(a / b, a / b, a / b)
    assert found.null == Ratio(a / again, a / again, a / again)
    assert found.second == Ratio(again / b, again / b, again / b)
    reason = f"differs from itself by up to {max(a / again, again / a):.3f}x" if a != b else "holds 1"
    reason = reason if verdict == "no verdict" else ""
    assert reason in found.reason
    assert bool(found.reason) == bool(reason)


@pytest.mark.parametrize(("count", "low", "high"), [(5, 1, 5), (10, 2, 9), (17, 5, 13), (25, 8, 18)])
def test_the_relative_width_is_that_of_the_ranks_in_the_tables_of_the_sign_test(
    count: int, low: int, high: int
) -> None:
    """The median's interval of at least 95% goes from the 2nd of 10 to the 9th, from the 8th of 25 to the 18th."""
    samples = np.random.default_rng(0).permutation(np.arange(1.0, count + 1))
    assert relative_width(samples) == pytest.approx((high - low) / np.median(samples))


def test_the_median_of_a_series_that_drifts_is_known_no_better_than_between_its_extremes() -> None:
    assert relative_width(np.arange(1.0, 17.0)) == (16 - 1) / 8.5


def test_neighbours_that_agree_widen_an_interval_by_what_they_are_worth() -> None:
    """Of 60 signs in six runs of ten, 54 of 59 neighbours agree: r = 49/59, so that 60 are worth 60/10.8."""
    low, high = np.arange(1.0, 31.0), np.arange(31.0, 61.0)
    runs = np.concatenate([half[part] for part in np.arange(30).reshape(3, 10) for half in (low, high)])
    value, narrow, wide = np.median(runs), interval(runs), interval(runs, in_order=True)
    assert (np.array(wide) - value) / (np.array(narrow) - value) == pytest.approx(np.sqrt(10.8))


def test_neighbours_count_from_the_fewest_samples_on_that_show_them() -> None:
    """15 samples in runs of 7 and 8 widen an interval, 14 in two runs of 7 say too little of their neighbours."""
    for count, widened in ((FEWEST_IN_ORDER, True), (FEWEST_IN_ORDER - 1, False)):
        runs = np.where(np.arange(count) < count // 2, 1.0, 2.0) + np.arange(count) * 1e-3
        assert (interval(runs, in_order=True) != interval(runs)) == widened, count


def test_neighbours_that_agree_widen_a_ratio_by_what_they_are_worth() -> None:
    """Of 16 signs in two runs of 8, 14 of 15 neighbours agree: r = 13/15, so that 16 are worth 16/14."""
    slow = np.sort(np.random.default_rng(13).lognormal(0, 0.05, 16))
    alternating = np.stack([slow[:8], slow[8:]], axis=1).ravel()

    def log_width(ratio: Ratio) -> float:
        return float(np.log(ratio.high / ratio.low))

    one_run, by_turns = (paired_ratio(times, np.ones(16)) for times in (slow, alternating))
    assert one_run.value == pytest.approx(by_turns.value)
    assert log_width(one_run) == pytest.approx(np.sqrt(14) * log_width(by_turns), rel=0.1)
    shared = np.linspace(1, 3, 16)
    order = np.random.default_rng(14).permutation(16)
    beside = paired_ratio(slow[order] * shared, shared)
    assert log_width(beside) < 2 * log_width(by_turns), "what both share widens nothing"


QUIET = {"spread": 0.05, "bumps": 0.05}  # 95th percentile 1.1 x median
LOUD = {"spread": 0.12, "bumps": 0.1}  # 1.3 x median


# With a true rate of 5%, 150 trials exceed 10% once in 200 tries; with one of 80%, fall below 70% as seldom.
@pytest.mark.parametrize("noise", [QUIET, LOUD])
@pytest.mark.parametrize("pairs", [15, PAIRS])
def test_false_alarms_are_rare(noise, pairs):
    assert rate(("faster", "slower"), 1, pairs=pairs, **noise) <= 0.1


@pytest.mark.parametrize(("noise", "pairs"), [(QUIET, 15), (QUIET, PAIRS), (LOUD, PAIRS)])
def test_a_difference_of_5_percent_is_found(noise, pairs):
    assert rate(("slower",), 1.05, pairs=pairs, **noise) >= 0.7
    assert rate(("faster",), 1 / 1.05, pairs=pairs, **noise) >= 0.7


def test_drift_does_not_pass_for_a_difference():
    rng = np.random.default_rng(1)
    drift = np.linspace(1, 2, PAIRS)
    a, b = (drift * rng.normal(1, 0.01, PAIRS) for _ in range(2))
    assert compare(a, b).verdict == "no verdict"
    assert compare(a * 1.05, b).verdict == "slower"


def test_a_case_that_differs_from_itself_needs_a_larger_difference():
    rng = np.random.default_rng(2)
    a, b, again = rng.normal(1, 0.005, (3, PAIRS))
    assert compare(a * 0.95, b).verdict == "faster"
    assert compare(a * 0.95, b, again * 0.95).verdict == "faster"
    doubtful = compare(a * 0.95, b, again)
    assert doubtful.verdict == "no verdict"
    assert "differs from itself" in doubtful.reason
    assert compare(a * 0.8, b, again * 0.84).verdict == "faster"


def test_few_pairs_give_no_verdict():
    comparison = compare([1.0] * 14, [2.0] * 14)
    assert comparison.verdict == "no verdict"
    assert comparison.ratio is None
    assert "15" in comparison.reason


def test_times_without_any_noise():
    assert compare([1.0] * 15, [2.0] * 15).verdict == "faster"
    assert compare([2.0] * 15, [1.0] * 15).verdict == "slower"
    assert compare([1.0] * 15, [1.0] * 15).verdict == "no verdict"
    assert interval([3.0] * 5) == (3.0, 3.0)


def test_interval_of_the_median_covers_it():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        low, high = interval(rng.lognormal(0, 0.2, 30))
        covered += low <= 1 <= high
    assert covered >= 176  # of 200 with a chance of 95%, fewer in 1 of 10,000 tries


def test_of_very_many_samples_some_evenly_spread_are_resampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million, all would take minutes and gigabytes."""
    resampled: list[np.ndarray] = []

    def bootstrap(data, *arguments, **options):
        resampled.extend(data)
        return original(data, *arguments, **options)

    original = stats.bootstrap
    monkeypatch.setattr(stats, "bootstrap", bootstrap)
    samples = np.arange(1.0, 2 * MOST_SAMPLES + 1)
    low, high = interval(samples)
    ratio_low, ratio_high = ratio_interval(samples, samples[:100])
    assert [len(some) for some in resampled] == [MOST_SAMPLES, MOST_SAMPLES, 100]
    assert (resampled[0][0], resampled[0][-1]) == (samples[0], samples[-1])
    assert low < np.median(samples) < high
    assert ratio_low < np.median(samples) / np.median(samples[:100]) < ratio_high


def test_evenly_spread_places() -> None:
    np.testing.assert_array_equal(evenly_spread(5, 3), [0, 2, 4])
    np.testing.assert_array_equal(evenly_spread(3, 5), [0, 1, 2])


def test_the_same_samples_give_the_same_interval():
    samples = np.random.default_rng(4).random(20)
    assert interval(samples) == interval(samples)
    low, high = interval(samples)
    assert low <= np.median(samples) <= high


@pytest.mark.parametrize("bad", [[1.0] * 4, [[1.0] * 5], [1.0, 2, 3, 4, np.nan], [1.0, 2, 3, 4, np.inf]])
def test_bad_samples_are_refused(bad):
    with pytest.raises(ValueError, match="samples") as refused:
        interval(bad)
    assert ("not all finite" in str(refused.value)) is not bool(np.isfinite(bad).all())


def test_bad_pairs_are_refused():
    with pytest.raises(ValueError, match="a, b"):
        paired_ratio([1.0] * 5, [1.0] * 6)
    for made in (paired_ratio, ratio_interval):
        for bad in (0.0, -1.0):
            with pytest.raises(ValueError, match=rf"a, b: .*{bad}"):
                made([1.0] * 5, [1.0] * 4 + [bad])
            with pytest.raises(ValueError, match=rf"a, b: .*{bad}"):
                made([1.0] * 4 + [bad], [1.0] * 5)
    with pytest.raises(ValueError, match="a, b"):
        compare([1.0] * 15, [0.0] * 15)


def test_intervals_of_a_ratio_cover_it_over_several_kinds_of_noise():
    """Of 200 intervals that hold with a chance of 95%, fewer than 179 or more than 198 do in 1 of 1,000 tries."""
    rng = np.random.default_rng(8)
    kinds = [
        lambda: rng.normal(1, 0.02, PAIRS),
        lambda: np.exp(np.abs(rng.normal(0, 0.03, PAIRS))),
        lambda: rng.choice([1, 1.067], PAIRS) * rng.normal(1, 0.005, PAIRS),
        lambda: 1 + rng.exponential(0.05, PAIRS),
    ]
    held = sum(not paired_ratio(make(), make()).differs for make in kinds for _ in range(50))
    assert 179 <= held <= 198


def correlated(rng, count, share):
    """Normal noise of which each sample takes over a share from the one before."""
    series = rng.normal(0, 1, count)
    for place in range(1, count):
        series[place] = share * series[place - 1] + np.sqrt(1 - share**2) * series[place]
    return 1 + 0.02 * series


def test_what_neighbours_share_widens_an_interval():
    rng = np.random.default_rng(9)
    widths, held = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for _ in range(100):
        samples = correlated(rng, 60, 0.7)
        for in_order in (True, False):
            low, high = interval(samples, in_order=in_order)
            widths[in_order] += high - low
            held[in_order] += low <= 1 <= high
    assert widths[True] > 1.4 * widths[False]
    assert held[True] >= 80 > held[False]


def test_independent_samples_are_seldom_widened():
    rng = np.random.default_rng(10)
    series = rng.normal(1, 0.02, (100, 40))
    widened = sum(interval(one, in_order=True) != interval(one) for one in series)
    assert widened <= 14  # of 100 with a chance of 5%, more in 1 of 1,000 tries


def test_a_wider_interval_stays_within_the_samples():
    samples = np.linspace(1, 2, 30)
    assert interval(samples, in_order=True) == (1.0, 2.0)


def test_the_relative_width_is_about_that_of_the_interval():
    rng = np.random.default_rng(11)
    assert relative_width([1.0] * 4) == float("inf")
    assert relative_width([2.0] * 5) == 0.0
    for count in (10, 45, 300):
        samples = rng.lognormal(0, 0.2, count)
        low, high = interval(samples)
        assert relative_width(samples) == pytest.approx((high - low) / np.median(samples), rel=0.5)


def test_a_second_a_has_to_confirm_a_difference():
    rng = np.random.default_rng(12)
    a, b, again = rng.normal(1, 0.005, (3, PAIRS))
    found = compare(a * 0.99, b, again * 0.995)
    assert found.verdict == "faster"
    assert found.second.value == pytest.approx(0.995, abs=0.005)
    # A differs from neither its second nor, clearly, from B.
    unsure = compare(a * 0.997, b, again * 0.999)
    assert unsure.ratio.differs
    assert not unsure.null.differs
    assert unsure.verdict == "no verdict"
    assert "does not confirm" in unsure.reason


def test_the_bounds_of_equal_samples_are_in_order_in_their_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = float(np.nextafter(1.0, 2.0)), 1.0  # as interpolation between equal resamples may round
    monkeypatch.setattr(statistics, "_bootstrap", lambda *_, **__: bounds)
    low, high = statistics.interval(np.ones(6), in_order=True)
    assert low <= high


def test_five_samples_have_a_width_which_the_correction_s_error_adds_to():
    exact, moved = np.zeros(5), np.full(5, 0.5)
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert Samples(values, exact).width == relative_width(values) < float("inf")
    assert Samples(values[:4], exact[:4]).width == float("inf")
    assert Samples(np.ones(5), moved, 0.1).width == pytest.approx(2 * 1.96 * 0.1 * 0.5)
    assert (Samples(values, exact).moved, Samples(values, moved).moved) == (False, True)
