from dataclasses import replace

import numpy as np
import pytest

from placerl.harness.measure import statistics
from placerl.harness.store.diff import DRIFT, diff
from placerl.harness.store.rows import PeakMemory
from tests.harness.old_form import details_of, row_of


def row(value=1.0, *, spread=0.01, samples=20, **change):
    drawn = np.random.default_rng(7).normal(1, spread, samples) * (value or 0)
    fields = {
        "suite": "profile",
        "primitive": "sum_tree.sample",
        "backend": "native",
        "quantity": "time_per_call",
        "unit": "s",
        "provenance": "measured",
        "value": float(np.median(drawn)) if samples else value,
        "samples": tuple(drawn),
    }
    return row_of(**fields | change)


@pytest.mark.parametrize(
    ("unit", "factor", "verdict"),
    [
        ("s", 1.3, "worse"),
        ("s", 0.7, "better"),
        ("1/s", 1.3, "better"),
        ("1/s", 0.7, "worse"),
        ("s", 1.0, "no verdict"),
        ("s", 1 + DRIFT / 2, "no verdict"),
        ("1/s", 1 - DRIFT / 2, "no verdict"),
        ("FLOP/s", 1.3, "better"),
        ("B/s", 0.7, "worse"),
        ("IPS", 1.3, "better"),
        ("IPS/W", 0.7, "worse"),
        ("furlong", 1.3, "no verdict"),
    ],
)
def test_better_and_worse_are_the_right_way_round(unit, factor, verdict):
    (found,) = diff([row(unit=unit)], [row(factor, unit=unit)])
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(factor, rel=0.02)
    assert found.low <= found.ratio <= found.high
    assert bool(found.reason) == (verdict == "no verdict")


@pytest.mark.parametrize(
    ("quantity", "verdict"),
    [
        ("regret", "worse"),
        ("runtime_overhead", "worse"),
        ("time_over_memory_floor", "worse"),
        ("throughput_ratio", "better"),
        ("final_return", "better"),
        ("null_ratio", "no verdict"),
        ("never heard of", "no verdict"),
    ],
)
def test_a_bare_number_is_judged_by_its_quantity(quantity, verdict):
    bare = {"quantity": quantity, "unit": "1"}
    (found,) = diff([row(**bare)], [row(1.3, **bare)])
    assert found.verdict == verdict
    assert bool(found.reason) == (verdict == "no verdict")


def test_wide_noise_gives_no_verdict():
    (found,) = diff([row(spread=0.5, samples=6)], [row(1.2, spread=0.5, samples=6)])
    assert found.verdict == "no verdict"


def test_a_noisy_row_gives_no_verdict():
    (found,) = diff([row(status="too_noisy", reason="wide")], [row(5.0)])
    assert found.verdict == "no verdict"
    assert found.ratio == pytest.approx(5, rel=0.05)


def test_what_only_one_run_has_is_shown_without_verdict():
    gone, new = diff([row(backend="a")], [row(backend="b")])
    assert (gone.key.who, gone.after, gone.verdict) == ("a", None, "no verdict")
    assert (new.key.who, new.before, new.verdict) == ("b", None, "no verdict")
    (failed,) = diff([row()], [row(None, samples=0, status="failed", reason="crash")])
    assert failed.after is None


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_values_without_a_ratio_or_samples_give_no_verdict(value):
    (found,) = diff([row(value, samples=0)], [row(samples=0)])
    assert found.verdict == "no verdict"
    (found,) = diff([row(1.0, samples=0)], [row(2.0, samples=0)])
    assert "no interval" in found.reason


def test_repeated_rows_are_taken_together():
    (found,) = diff([row(1.0), row(1.01)], [row(2.0), row(2.02)])
    assert found.verdict == "worse"
    assert found.ratio == pytest.approx(2, rel=0.02)


def test_other_batch_sizes_units_and_devices_are_other_quantities():
    rows = [row(), row(batch_size=32), row(unit="us"), row(device="cuda:0"), row(suite="run")]
    assert len(diff(rows, rows)) == 5


@pytest.mark.parametrize(
    "details",
    [
        {"capacity": 1000},
        {"fanout": 64},
        {"aligned": False},
        {"layout": "K=16"},
        {"part": "theirs"},
        {"rate": "environment_steps_per_s"},
        {"baseline": "sb3"},
        {"null": True},
        {"footprint_bytes": 2**20},
        {"precision": "bfloat16"},
        {"cluster": {"actors": 8, "shards": 1, "learners": 1}},
        {"options": {"overlap": 16}},
        {"options": {"replay_beside": True, "presampled_batches": 4}},
        {"sharing": "owner"},
        {"core": "plain", "process": "BW"},
        {"iteration": {"agents": 8}},
        {"nodes": 10, "use": "cells"},
        {"stepped_by": "native"},
    ],
)
def test_rows_of_other_parameters_are_other_quantities(details):
    first = row(details={"capacity": 10, "fanout": 16})
    second = row(2.0, details={**details_of(first), **details})
    found = diff([first, second], [first, second])
    assert [d.ratio for d in found] == [1.0, 1.0]
    assert len({d.key.parameters for d in found}) == 2


def test_seeds_are_repetitions_of_one_quantity():
    (found,) = diff([row(details={"seed": 0}), row(details={"seed": 1})], [row(details={"seed": 2})])
    assert found.key.parameters == ""


def test_what_cannot_be_compared_has_no_verdict_and_says_why():
    (found,) = diff([row()], [row(5.0)], incomparable="another machine")
    assert (found.verdict, found.reason) == ("no verdict", "another machine")
    assert found.ratio == pytest.approx(5, rel=0.05)


def test_provenance_is_the_weaker_one():
    (found,) = diff([row(provenance="simulated")], [row(provenance="modelled")])
    assert found.provenance == "modelled"


def test_a_strict_run_is_one_whether_or_not_its_row_has_options():
    (found,) = diff([row()], [row(details={"options": {}})])
    assert found.key.parameters == ""


def test_a_row_that_does_not_state_its_environments_had_gymnasiums():
    (found,) = diff([row()], [row(details={"stepped_by": "gymnasium"})])
    assert found.key.parameters == ""


COUNTED = {"samples": 0, "provenance": "simulated"}
AT_A_CLOCK = {"cycles": 45, "clock_mhz": 285.0}


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"quantity": "cycles", "unit": "cycles"}, "worse"),
        ({"unit": "s", "details": AT_A_CLOCK}, "worse"),
        ({"quantity": "learner_inferences_per_s", "unit": "IPS", "details": AT_A_CLOCK}, "better"),
        ({"quantity": "peak", "unit": "FLOP/s", "provenance": "modelled", "details": AT_A_CLOCK}, "better"),
    ],
)
def test_what_is_counted_is_judged_by_its_values(fields, verdict):
    (found,) = diff([row(1.0, **COUNTED | fields)], [row(1.02, **COUNTED | fields)])
    assert (found.verdict, found.reason) == (verdict, "")
    (found,) = diff([row(1.0, **COUNTED | fields)], [row(1.0, **COUNTED | fields)])
    assert (found.verdict, found.reason) == ("no verdict", "the same in both runs")


def test_what_follows_from_published_numbers_is_judged_also_from_0():
    fields = {"samples": 0, "provenance": "modelled", "quantity": "as_printed", "unit": "1"}
    (found,) = diff([row(0.0, **fields)], [row(1.0, **fields)])
    assert (found.verdict, found.ratio) == ("better", None)


@pytest.mark.parametrize("provenance", ["simulated", "modelled"])
def test_what_is_calculated_from_measured_times_without_an_interval_gives_no_verdict(provenance):
    fields = {"samples": 0, "provenance": provenance, "unit": "1/s", "details": {"service": {"insert_s": 1}}}
    (found,) = diff([row(1.0, **fields)], [row(2.0, **fields)])
    assert found.verdict == "no verdict"
    assert "calculated from measured times" in found.reason


def test_several_counts_that_nothing_tells_apart_give_no_verdict():
    fields = COUNTED | {"unit": "cycles"}
    (found,) = diff([row(1.0, **fields), row(3.0, **fields)], [row(9.0, **fields)])
    assert found.verdict == "no verdict"
    assert "several values" in found.reason


@pytest.mark.parametrize(("after", "verdict"), [(4.0, "better"), (1.0, "worse"), (2.1, "no verdict")])
def test_stored_intervals_judge_what_has_no_samples(after, verdict):
    def stored(value):
        fields = {"quantity": "throughput_ratio", "unit": "1", "samples": 0}
        return row(value, low=0.95 * value, high=1.05 * value, **fields)

    (found,) = diff([stored(2.0)], [stored(after)])
    assert found.verdict == verdict
    assert found.low == pytest.approx(after / 2 * 0.95 / 1.05)
    assert found.high == pytest.approx(after / 2 * 1.05 / 0.95)


def test_seeds_with_stored_intervals_are_judged_by_all_that_these_span():
    fields = {"unit": "1/s", "samples": 0}
    olds = [row(1.0, low=0.9, high=1.1, **fields), row(3.0, low=2.9, high=3.1, **fields)]
    (found,) = diff(olds, [row(2.9, low=2.8, high=3.0, **fields)])
    assert (found.verdict, found.low) == ("no verdict", pytest.approx(2.8 / 3.1))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(-1000, -200, "better"), (-200, -1000, "worse"), (-200, -195, "no verdict"), (-100, 50, "better")],
)
def test_returns_below_0_are_judged_by_their_difference(before, after, verdict):
    fields = {"quantity": "evaluation_return", "unit": "1"}
    (found,) = diff([row(before, **fields)], [row(after, **fields)])
    assert (found.verdict, found.ratio, found.low) == (verdict, None, None)
    assert bool(found.reason) == (verdict == "no verdict")


def test_wide_returns_below_0_give_no_verdict():
    fields = {"quantity": "evaluation_return", "unit": "1", "spread": 0.5, "samples": 6}
    (found,) = diff([row(-200, **fields)], [row(-150, **fields)])
    assert found.verdict == "no verdict"
    assert "difference" in found.reason


def with_interval(value, width, **fields):
    return row(value, samples=0, low=value - width, high=value + width, **fields)


@pytest.mark.parametrize(
    ("suite", "quantity"),
    [("prediction", "gradient_steps_per_s"), ("validation", "predicted_gradient_steps_per_s")],
)
def test_a_prediction_is_not_better_for_promising_more(suite, quantity):
    fields = {"suite": suite, "quantity": quantity, "unit": "1/s", "provenance": "modelled"}
    (found,) = diff([with_interval(100, 5, **fields)], [with_interval(400, 5, **fields)])
    assert found.verdict == "no verdict"
    assert "promising" in found.reason


@pytest.mark.parametrize("quantity", ["regret", "runtime_overhead"])
@pytest.mark.parametrize(("after", "verdict"), [(0.02, "no verdict"), (0.1, "no verdict"), (0.5, "worse")])
def test_a_small_loss_that_doubles_is_within_the_drift_of_the_whole(quantity, after, verdict):
    fields = {"quantity": quantity, "unit": "1"}
    (found,) = diff([with_interval(0.01, 0.004, **fields)], [with_interval(after, 0.004, **fields)])
    assert found.verdict == verdict


def test_a_seed_with_many_short_episodes_does_not_outweigh_the_others():
    """Put together, their samples gave a ratio of medians that the interval beside it left out."""
    fields = {"suite": "run", "quantity": "episode_return", "unit": "1"}
    before = [row(100.0, **fields)]
    after = [row(value, samples=count, **fields) for value, count in ((10.0, 5000), (27.0, 60), (200.0, 30))]
    (found,) = diff(before, after)
    assert found.after == pytest.approx(27, rel=0.02)
    assert found.low < 0.1 < found.ratio < 2 < found.high
    assert found.verdict == "no verdict"


def exactly(value, **fields):
    """A row whose stored interval is its value."""
    return with_interval(value, 0, **fields)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (1 + DRIFT, "no verdict"),
        ((1 + DRIFT) * 1.001, "better"),
        (1 / (1 + DRIFT), "no verdict"),
        (1 / (1 + DRIFT) / 1.001, "worse"),
    ],
)
def test_a_ratio_counts_only_beyond_the_drift_in_either_direction(after, verdict):
    (found,) = diff([exactly(1.0, unit="1/s")], [exactly(after, unit="1/s")])
    assert (found.verdict, found.low, found.high) == (verdict, after, after)


RETURN = {"quantity": "evaluation_return", "unit": "1"}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (-10.0, -9.0, "no verdict"),  # a tenth of the larger one
        (-10.0, -8.99, "better"),
        (-9.0, -10.0, "no verdict"),
        (-9.0, -10.01, "worse"),
        (0.5, -0.3, "worse"),  # though the difference is smaller than 1
        (-0.3, 0.5, "better"),
        (0.0, 0.0, "no verdict"),
        (0.0, 1.0, "better"),
        (-1.0, 0.0, "better"),
    ],
)
def test_a_difference_counts_only_beyond_a_tenth_of_the_larger_value(before, after, verdict):
    (found,) = diff([exactly(before, **RETURN)], [exactly(after, **RETURN)])
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("after", "verdict"), [(0.1, "no verdict"), (0.101, "worse"), (-0.1, "no verdict"), (-0.101, "better")]
)
def test_a_loss_counts_only_beyond_a_tenth_of_the_whole(after, verdict):
    (found,) = diff(
        [exactly(0.0, quantity="regret", unit="1")], [exactly(after, quantity="regret", unit="1")]
    )
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        (2.0, 1.0, 0.5),
        (0.5, 0.25, 0.5),
        (2.0, 0.0, 0.0),
        (0.0, 1.0, None),
        (-1.0, 1.0, None),
        (1.0, -0.5, None),
    ],
)
def test_a_ratio_is_told_where_it_means_something(before, after, ratio):
    (found,) = diff([exactly(before, **RETURN)], [exactly(after, **RETURN)])
    assert found.ratio == ratio


def with_samples(values):
    return replace(row(float(np.median(values)), samples=0, unit="1/s"), samples=tuple(values))


def test_two_rows_with_samples_are_judged_by_the_interval_of_their_ratio():
    """Of samples below 1, too: what matters is that they are above 0."""
    before, after = ([value * (1 + n / 100) for n in range(5)] for value in (0.2, 0.5))
    (found,) = diff([with_samples(before)], [with_samples(after)])
    assert (found.low, found.high) == statistics.ratio_interval(after, before)
    assert found.verdict == "better"


def test_samples_that_are_not_all_above_0_have_no_ratio_but_their_intervals_may():
    """The median of the ones is above 0 whichever are drawn; that of as many zeros is not."""
    after = [9.0, 9.1, 9.2, 9.3, 9.4]
    mostly = [0.0, *[1.0] * 30]
    (found,) = diff([with_samples(mostly)], [with_samples(after)])
    old, new = statistics.interval(mostly), statistics.interval(after)
    assert (found.low, found.high) == (min(new[0], 9.2) / old[1], max(new[1], 9.2) / old[0])
    (found,) = diff([with_samples([0.0] * 5)], [with_samples(after)])
    assert (found.low, found.high, found.verdict) == (None, None, "better")


@pytest.mark.parametrize("reaching", ["before", "after"])
def test_an_interval_that_reaches_0_has_no_ratio_but_a_difference(reaching):
    wide, far = with_interval(1.0, 1.0, unit="1/s"), exactly(90.0, unit="1/s")
    (found,) = diff(*(([wide], [far]) if reaching == "before" else ([far], [wide])))
    assert (found.low, found.high) == (None, None)
    assert found.verdict == ("better" if reaching == "before" else "worse")


@pytest.mark.parametrize(("number", "verdict"), [(4, "no verdict"), (5, "better")])
def test_fewer_than_five_samples_are_no_interval(number, verdict):
    (found,) = diff([with_samples([1.0] * number)], [with_samples([2.0] * 5)])
    assert found.verdict == verdict
    assert ("fewer than 5 samples" in found.reason) == (number < 5)


def test_a_value_outside_its_interval_widens_it():
    wide = row(4.0, samples=0, low=1.9, high=2.1, unit="1/s")
    (found,) = diff([exactly(1.0, unit="1/s")], [wide])
    assert (found.low, found.high) == (1.9, 4.0)


@pytest.mark.parametrize(
    "noisy",
    [
        {"provenance": "measured", "samples": 0},
        {"provenance": "simulated", "samples": 6, "spread": 0.5},
        {"provenance": "simulated", "samples": 0, "low": 0.5, "high": 2.0},
    ],
)
def test_what_has_noise_is_not_judged_by_its_value_though_it_is_cycles(noisy):
    fields = {"quantity": "cycles", "unit": "cycles", **noisy}
    (found,) = diff([row(1.0, **fields)], [row(1.02, **fields)])
    assert found.verdict == "no verdict"


def test_equal_counts_in_several_rows_are_one_count():
    fields = COUNTED | {"unit": "cycles"}
    (found,) = diff([row(2.0, **fields)] * 2, [row(3.0, **fields)] * 3)
    assert (found.verdict, found.ratio) == ("worse", 1.5)


def test_counts_that_differ_by_rounding_are_the_same():
    fields = COUNTED | {"unit": "cycles"}
    (found,) = diff([row(0.1 + 0.2, **fields)], [row(0.3, **fields)])
    assert found.reason == "the same in both runs"


def test_why_there_is_no_interval_is_told_by_whether_all_was_measured():
    fields = {"samples": 0, "unit": "1/s"}
    (found,) = diff([row(1.0, **fields)], [row(2.0, **fields)])
    assert "fewer than 5 samples and none stored" in found.reason
    (found,) = diff([row(1.0, provenance="simulated", **fields)], [row(2.0, **fields)])
    assert "it may be calculated from measured times" in found.reason


def test_what_has_a_reason_of_its_own_keeps_it_among_what_cannot_be_compared():
    (found,) = diff(
        [row()], [row(None, samples=0, status="failed", reason="crash")], incomparable="another machine"
    )
    assert found.reason == "no value in one of the runs"


def test_differences_come_in_the_order_of_the_first_run_and_new_ones_after_them():
    found = diff([row(backend="b"), row(backend="a")], [row(backend="c"), row(backend="a"), row(backend="b")])
    assert [one.key.who for one in found] == ["b", "a", "c"]


def test_peak_memories_of_different_cells_are_different_quantities():
    cells = [
        PeakMemory(
            suite="memory",
            primitive="largest process",
            quantity="peak_memory",
            provenance="measured",
            value=1.0,
            of_cell=cell,
        )
        for cell in ("a", "b")
    ]
    assert len(diff(cells, cells)) == 2
