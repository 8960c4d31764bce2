"""What a choice loses, judged by what every mapping reached under the strategy's loop."""

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.validate.regret import regrets
from placerl.harness.validate.rows import HERE, WITH_SIMULATED
from tests.harness.old_form import details_of, replace
from tests.harness.validate.achieved import NEVER_FUSED, PACE, choice, ran, regrets_of


def test_a_loss_is_seen_through_a_machine_that_changes_its_pace() -> None:
    slow = ran("torch-native-cpu", *(95 * pace for pace in PACE))
    fast = ran("native-native-cpu", *(100 * pace for pace in PACE))
    (row,) = regrets_of(choice("torch-native-cpu", HERE), slow, fast)
    assert row.value == pytest.approx(0.05)
    assert (row.low, row.high) == (pytest.approx(0.05), pytest.approx(0.05))
    assert (row.verdict, row.best) == ("lost", "native-native-cpu")


def test_inside_the_noise_there_is_no_verdict() -> None:
    wavering = (98, 103, 101, 99, 102, 97, 104, 96, 100, 101.5)
    (row,) = regrets_of(
        choice("torch-native-cpu", HERE),
        ran("torch-native-cpu", *([100.0] * 10)),
        ran("native-native-cpu", *wavering),
    )
    assert row.low is not None
    assert row.high is not None
    assert row.low < 0 < row.high
    assert row.verdict == "no verdict"
    assert "holds 0" in row.why_no_verdict


def test_a_loss_that_drifts_is_known_no_better_than_between_its_extremes() -> None:
    """Neighbouring rounds agree, so that 20 of them are worth few."""
    even = ran("torch-native-cpu", *([100.0] * 20))
    drifting = ran("native-native-cpu", *(101.0 + number for number in range(20)))
    (row,) = regrets_of(choice("torch-native-cpu", HERE), even, drifting)
    assert (row.low, row.high) == (pytest.approx(1 - 100 / 101), pytest.approx(1 - 100 / 120))


@pytest.mark.parametrize(("rounds", "verdict"), [(1, "no verdict"), (4, "no verdict"), (5, "best")])
def test_few_rounds_do_not_show_that_a_choice_is_the_best(rounds: int, verdict: str) -> None:
    ours, other = ran("native-native-cpu", *[100] * rounds), ran("torch-native-cpu", *[50] * rounds)
    (row,) = regrets_of(choice("native-native-cpu", HERE), ours, other)
    assert (row.value, row.verdict) == (0, verdict)
    assert row.why_no_verdict == ("" if verdict == "best" else f"{rounds} rounds")


FEW = (130.0, 130.0, 130.0)
"""Rounds in which the machine was fast."""
SLOWED = (131.0, 131.0, 131.0, *([100.0] * 7))
"""The same rounds of a faster mapping, and later ones in which the machine was slow."""


def test_a_mapping_that_the_race_dropped_is_not_the_best() -> None:
    """Its median is higher, from rounds in which the machine was fast."""
    ones = ran("native-native-cpu", *SLOWED), ran("torch-native-cpu", *FEW)
    asked, out = choice("native-native-cpu", HERE), {Mapping.parse("torch-native-cpu")}
    (row,) = regrets_of(asked, *ones)
    assert row.best == "torch-native-cpu"
    (row,) = regrets_of(asked, *ones, dropped={(Loop.FUSED, HERE): out})
    assert (row.value, row.best) == (0, "native-native-cpu")
    assert row.verdict == "best"


@pytest.mark.parametrize("race", [(Loop.FUSED, WITH_SIMULATED), (Loop.STRICT, HERE)])
def test_what_another_race_dropped_may_still_be_the_best(race: tuple[Loop, str]) -> None:
    """A race of another loop, even if this mapping ran fused there too, or of other devices."""
    ones = ran(NEVER_FUSED, *([200.0] * 5)), ran("torch-flat-cpu", *([100.0] * 5))
    (row,) = regrets_of(choice("torch-flat-cpu", HERE), *ones, dropped={race: {Mapping.parse(NEVER_FUSED)}})
    assert (row.value, row.best) == (0.5, NEVER_FUSED)


def test_a_mapping_that_a_strict_race_dropped_is_not_the_best_there_though_it_ran_fused() -> None:
    ones = ran(NEVER_FUSED, *([200.0] * 5)), ran("torch-flat-cpu", *([100.0] * 5))
    (row,) = regrets_of(
        choice("torch-flat-cpu", HERE, loop=Loop.STRICT),
        *ones,
        dropped={(Loop.STRICT, HERE): {Mapping.parse(NEVER_FUSED)}},
    )
    assert row.best == "torch-flat-cpu"


def test_a_choice_that_was_dropped_loses_what_it_lost_in_the_rounds_that_both_had() -> None:
    fast, slow = ran("native-native-cpu", *SLOWED), ran("torch-native-cpu", *FEW)
    dropped = {(Loop.FUSED, HERE): {slow.mapping}}
    (row,) = regrets_of(choice("torch-native-cpu", HERE), fast, slow, dropped=dropped)
    assert row.value == pytest.approx(1 - 130 / 131), "its median is higher"
    assert row.best == "native-native-cpu"
    assert (row.verdict, row.why_no_verdict) == ("no verdict", "3 rounds with both")
    (row,) = regrets_of(choice("torch-native-cpu", HERE), slow, dropped=dropped)
    assert (row.value, row.best) == (0, "torch-native-cpu"), "nothing else has a rate"


def test_a_choice_that_was_faster_in_the_rounds_that_both_had_loses_nothing() -> None:
    """The other one's median is better from rounds that the choice has not had."""
    often = ran("native-native-cpu", *([100.0] * 5), *([200.0] * 6))
    seldom = ran("torch-native-cpu", *([110.0] * 5))
    (row,) = regrets_of(choice("torch-native-cpu", HERE), often, seldom)
    assert (row.value, row.best) == (0, "native-native-cpu")
    assert row.high == pytest.approx(-0.1)
    assert row.why_no_verdict == "the interval, -10.0% to -10.0%, is below 0"


def test_without_a_round_that_both_had_a_loss_is_that_of_the_medians() -> None:
    fast = ran("native-native-cpu", *([100.0] * 5))
    fast = replace(fast, rounds={number + 5: gps for number, gps in fast.rounds.items()})
    (row,) = regrets_of(choice("torch-native-cpu", HERE), fast, ran("torch-native-cpu", 90, 80, 80, 70, 95))
    assert (row.value, row.low) == (pytest.approx(0.2), None)
    assert row.why_no_verdict == "0 rounds with both"


def test_a_choice_among_what_is_here_is_not_judged_by_a_simulated_device() -> None:
    found = [ran("native-native-cpu", *[10] * 5), ran("fpga-fpga-fpga", *[50] * 5, simulated=True)]
    here, there = regrets_of(choice("native-native-cpu", HERE, WITH_SIMULATED), *found)
    assert (here.value, here.provenance, here.verdict) == (0, Provenance.MEASURED, "best")
    assert there.value == pytest.approx(0.8)
    assert there.provenance is Provenance.SIMULATED


@pytest.mark.parametrize(
    ("chosen", "value", "verdict"), [(NEVER_FUSED, 0, "best"), ("native-native-cpu", 0.5, "lost")]
)
def test_a_strict_choice_is_judged_by_every_mapping_s_strict_loop(
    chosen: str, value: float, verdict: str
) -> None:
    """Of what cannot fuse, that is the fused loop; of what can, the one that was run unfused."""
    fused = ran("native-native-cpu", *([200.0] * 10))
    fused = replace(fused, row=replace(fused.row, fusion="step"))
    apart = ran("native-native-cpu", *([50.0] * 10), loop=Loop.STRICT)
    (row,) = regrets_of(
        choice(chosen, HERE, loop=Loop.STRICT), fused, apart, ran(NEVER_FUSED, *([100.0] * 10))
    )
    assert (row.value, row.verdict) == (pytest.approx(value), verdict)
    assert row.best == NEVER_FUSED


def test_a_strategy_whose_choice_was_not_run_under_its_loop_says_so() -> None:
    asked = choice(NEVER_FUSED, HERE, WITH_SIMULATED, loop=Loop.OVERLAPPED)
    here, there = regrets_of(
        asked, ran(NEVER_FUSED, 100.0), ran("native-native-cpu", 1.0, loop=Loop.OVERLAPPED)
    )
    assert [row.status for row in (here, there)] == ["not_run", "not_run"]
    assert here.reason == "needs: native-flat-cpu, which it chose, run under the overlapped loop"
    unable = replace(asked, value=None, status="not_run", reason="needs: links", details={"loop": "fused"})
    (row,) = regrets_of(unable)
    assert (row.status, row.reason, row.where) == ("not_run", "needs: links", "")


def test_a_regret_is_of_its_strategy_and_cell_and_says_under_which_loop() -> None:
    found = ran("native-native-cpu", *([100.0] * 10)), ran(NEVER_FUSED, *([50.0] * 10))
    (row,) = regrets_of(choice(NEVER_FUSED, HERE, loop=Loop.STRICT), *found)
    assert (row.suite, row.workload, row.batch_size) == ("validation", "hopper-ddpg", 32)
    assert (row.quantity, row.unit, row.primitive) == ("regret", "1", "training")
    assert (row.who, row.where) == ("a strategy", NEVER_FUSED)
    assert details_of(row) == {
        "chosen": NEVER_FUSED,
        "best": "native-native-cpu",
        "loop": "strict",
        "ran": "fused",
        "devices": HERE,
        "verdict": "lost",
        "why_no_verdict": "",
    }


def test_what_was_seldom_run_together_has_no_verdict() -> None:
    """Ten rounds each, of which four, or five, are the same."""
    slow = ran("torch-native-cpu", *([50.0] * 10))
    for shared, verdict in ((4, "no verdict"), (5, "lost")):
        fast = ran("native-native-cpu", *([100.0] * 10))
        fast = replace(fast, rounds={number + 10 - shared: gps for number, gps in fast.rounds.items()})
        (row,) = regrets_of(choice("torch-native-cpu", HERE), slow, fast)
        assert (row.value, row.verdict) == (0.5, verdict)
        assert row.low == (None if shared == 4 else 0.5)
        assert row.why_no_verdict == ("4 rounds with both" if shared == 4 else "")


def test_a_loss_of_which_the_interval_begins_at_0_is_not_told() -> None:
    even = ran("torch-native-cpu", *([100.0] * 11))
    often = ran("native-native-cpu", *([100.0] * 5), *([200.0] * 6))
    (row,) = regrets_of(choice("torch-native-cpu", HERE), even, often)
    assert (row.value, row.low, row.high) == (0.5, 0, 0.5)
    assert row.why_no_verdict == "the interval, 0.0% to 50.0%, holds 0"


def test_a_mapping_that_failed_is_no_rival_and_a_choice_that_failed_has_no_regret() -> None:
    lost = ran("native-native-cpu", 1.0)
    lost = replace(lost, row=replace(lost.row, value=None, status="failed", reason="no memory"))
    (row,) = regrets_of(choice(NEVER_FUSED, HERE), ran(NEVER_FUSED, *[100.0] * 5), lost)
    assert (row.value, row.verdict, row.best) == (0, "best", NEVER_FUSED)
    (row,) = regrets_of(choice("native-native-cpu", HERE), ran(NEVER_FUSED, 100.0), lost)
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason == ("needs: native-native-cpu, which it chose, run under the fused loop: no memory")
    assert details_of(row) == {"chosen": "native-native-cpu", "loop": "fused", "devices": HERE}


def test_a_strategy_that_chose_here_alone_says_so_where_others_chose_with_the_simulated_device() -> None:
    """A strategy has a row for each mapping; one of them is its choice."""
    both, here = (
        choice(NEVER_FUSED, HERE, WITH_SIMULATED),
        replace(choice(NEVER_FUSED, HERE), backend="other"),
    )
    among_none = replace(choice("torch-flat-cpu"), backend="other")
    found = {(NEVER_FUSED, Loop.FUSED): ran(NEVER_FUSED, 100.0)}
    rows = regrets([among_none, both, here], found, {})
    assert [(row.who, row.devices, row.status) for row in rows] == [
        ("other", HERE, "ok"),
        ("a strategy", HERE, "ok"),
        ("other", WITH_SIMULATED, "not_run"),
        ("a strategy", WITH_SIMULATED, "ok"),
    ]
    assert rows[2].reason == f"needs: a mapping chosen among those {WITH_SIMULATED}"


@pytest.mark.parametrize("stays", [True, False])
def test_a_verdict_with_the_simulated_device_says_whether_a_slow_link_changes_the_choice(stays: bool) -> None:
    asked = choice("native-fpga-fpga", HERE, WITH_SIMULATED)
    asked = replace(asked, slow_link_us=1000, slow_gps=3.0, slow_chosen=stays)
    found = ran("native-fpga-fpga", *PACE, simulated=True), ran("native-native-cpu", *PACE)
    here, simulated = regrets_of(asked, *found)
    assert (here.slow_link_us, here.slow_chosen) == (None, None)
    assert (simulated.slow_link_us, simulated.slow_chosen) == (1000, stays)
