"""How long `measure` goes on: the budget, and the cases that what is left of it goes to."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness.measure.case_runner import CaseRunner
from placerl.harness.measure.pace import Bracket, Readings
from placerl.harness.measure.protocol import Protocol, _next_round, measure


def test_the_budget_ends_the_rounds(world):
    (timing,) = world.measure(world.case("a", 1.0), rounds=1000, budget_s=10.0).values()
    assert 5 <= len(timing.samples_s) <= 12
    (timing,) = world.measure(world.case("a", 100.0), rounds=1000, budget_s=10.0).values()
    assert len(timing.samples_s) == 1


@pytest.mark.parametrize(("within", "most_s"), [(False, 15.0), (True, 10.0)])
def test_a_round_that_would_end_after_the_budget_begins_only_if_that_is_allowed(world, within, most_s):
    """A round of both cases takes 4 s, of which the budget of 10 s has no whole number."""
    cases = (world.case("a", 1.5), world.case("b", 2.5))
    begin_s = world.now_s
    timings = world.measure(*cases, rounds=50, budget_s=10.0, warm_up_calls=0, ends_within=within)
    taken = len(timings["a"].samples_s)
    assert taken == (1 if within else 2)
    assert world.now_s - begin_s <= most_s


@pytest.mark.parametrize(("budget_s", "fewest", "most"), [(None, 10, 10), (8.0, 5, 7), (24.0, 5, 15)])
def test_long_blocks_take_part_in_fewer_rounds_but_in_enough_of_those_that_the_budget_holds(
    world, budget_s, fewest, most
):
    short, long = world.case("short", 1e-3), world.case("long", 1.0)
    timings = world.measure(short, long, rounds=40, budget_s=budget_s, long_block_s=0.1)
    assert fewest <= len(timings["long"].samples_s) <= most
    assert len(timings["short"].samples_s) >= len(timings["long"].samples_s)


def test_every_second_round_is_enough_for_a_block_somewhat_too_long(world):
    (timing,) = world.measure(world.case("a", 0.15), rounds=40, long_block_s=0.1).values()
    assert len(timing.samples_s) == 20


def test_fewest_rounds_are_made_whatever_the_budget(world):
    (timing,) = world.measure(world.case("a", 100.0), rounds=1000, budget_s=10.0, fewest_rounds=5).values()
    assert len(timing.samples_s) == 5


def test_what_is_left_of_the_budget_goes_to_the_noisy_cases(world):
    rng = np.random.default_rng(5)
    timings = world.measure(
        world.case("quiet", 2e-3),
        world.case("loud", lambda: 2e-3 * rng.lognormal(0, 0.25)),
        rounds=20,
        budget_s=2.0,
        settle=True,
    )
    assert len(timings["loud"].samples_s) > 60
    assert len(timings["quiet"].samples_s) == 20
    assert timings["loud"].status == "ok"


def test_a_case_that_cannot_settle_does_not_starve_one_that_can(world):
    rng = np.random.default_rng(6)
    timings = world.measure(
        world.case("hopeless", lambda: 0.1 * rng.lognormal(0, 1.5)),
        world.case("loud", lambda: 2e-3 * rng.lognormal(0, 0.25)),
        rounds=20,
        budget_s=10.0,
        settle=True,
    )
    assert timings["loud"].status == "ok"
    assert timings["hopeless"].status == "too_noisy"
    assert world.now_s < 15.0


def test_cheap_cases_settle_where_slow_ones_spend_the_budget(world):
    rng = np.random.default_rng(8)
    timings = world.measure(
        world.case("slow", 10.0),
        world.case("loud", lambda: 2e-3 * rng.lognormal(0, 0.2)),
        rounds=20,
        budget_s=10.0,
        fewest_rounds=5,
        settle=True,
    )
    assert len(timings["slow"].samples_s) == 5
    assert timings["loud"].status == "ok"


def test_settling_ends_when_all_cases_have_their_rounds(world):
    world.measure(world.case("a", 2e-3), rounds=20, budget_s=100.0, settle=True)
    assert world.log.count("a") < 40


def test_settling_ends_for_a_case_that_has_enough_samples(world):
    rng = np.random.default_rng(7)
    case = world.case("hopeless", lambda: 2e-3 * rng.lognormal(0, 3))
    (timing,) = world.measure(case, rounds=5, budget_s=1e6, settle=True).values()
    assert len(timing.samples_s) == 10 * 5


def test_settling_ends_when_every_case_failed(world):
    failing = world.case("a", call=world.failing_after(8))
    (timing,) = world.measure(failing, rounds=20, budget_s=1e6, settle=True).values()
    assert timing.status == "failed"


def test_slow_first_calls_are_warm_up_enough_where_cases_settle(world):
    world.measure(world.case("a", 1.0), rounds=5, budget_s=3.0, settle=True, fewest_rounds=5)
    assert world.log.count("a") == 2 + 5


@pytest.mark.parametrize(("settle", "calls"), [(True, 1 + 5), (False, 3 + 1 + 5)])
def test_a_long_check_is_warm_up_enough_where_cases_settle(world, settle, calls, monkeypatch):
    def check(state):
        world.now_s += 0.2

    monkeypatch.setattr("placerl.harness.measure.case_runner.time.perf_counter", world.clock)
    world.measure(world.case("a", 1e-2, check=check), rounds=5, budget_s=100.0, settle=settle)
    assert world.log.count("a") == calls


def test_blocks_whose_arguments_take_far_longer_than_their_calls_are_shorter(world):
    def inputs(state, rng):
        world.now_s += 1e-3

    case = world.case("a", 1e-4, inputs=inputs)
    (settled,) = world.measure(case, budget_s=10.0, settle=True).values()
    (plain,) = world.measure(case).values()
    assert plain.calls >= 10
    assert 1 <= settled.calls < plain.calls


def test_a_turn_that_settles_takes_five_blocks_with_its_arguments(world):
    """A call takes 10 us, its arguments 100 us: 45 of both take 5 ms, five blocks of 1 ms."""

    def inputs(state, rng):
        world.now_s += 1e-4

    (settled,) = world.measure(world.case("a", 1e-5, inputs=inputs), budget_s=10.0, settle=True).values()
    assert settled.calls == pytest.approx(45, abs=2)


def test_what_settling_takes_grows_with_the_square_of_the_width(world):
    def runner(*times):
        told = iter(times)
        made = CaseRunner(
            world.case("a", lambda: next(told, 1.0)),
            Protocol(rounds=100, warm_up_s=0.0, warm_up_calls=0),
            np.random.default_rng(0),
            world.clock,
            Readings(),
            Bracket(world.clock),
        )
        made.prepare()
        made.warm_up()
        for number in range(5):
            made.sample(number)
        return made

    seconds, wide = runner(1.0, 1.0, 1.1, 1.2, 1.3, 1.4).settling()
    # Of 5 samples the interval goes from the least to the most; it has settled at 7% of the median.
    assert seconds == pytest.approx(5 * ((0.4 / 1.2 / 0.07) ** 2 - 1) * 1.4, rel=1e-6)
    assert wide == 1
    assert runner(1.0, 1.0, 1.0, 1.0, 1.01, 1.0).settling() == (0.0, 0)


def test_a_part_of_no_account_needs_no_settling(world):
    rng = np.random.default_rng(0)
    parts = lambda state: {"most": 1e-3, "loud": 5e-6 * rng.lognormal(0, 0.5), "none": 0.0}  # noqa: E731
    timings = world.measure(world.case("a", 2e-3, parts=parts), rounds=20, budget_s=10.0, settle=True)
    assert len(timings["a: loud"].samples_s) == 20
    assert timings["a: most"].details["all_parts_s"] == pytest.approx(1.005e-3, rel=1e-2)


def test_a_case_that_cannot_settle_has_what_is_left(world):
    rng = np.random.default_rng(0)
    case = world.case("hopeless", lambda: 0.1 * rng.lognormal(0, 1.5))
    world.measure(case, rounds=20, budget_s=30.0, settle=True)
    assert world.now_s > 25.0


def test_progress_where_cases_settle_is_told_in_milliseconds(world):
    told = []
    rng = np.random.default_rng(0)
    case = world.case("a", lambda: 0.1 * rng.lognormal(0, 1.5))
    protocol = Protocol(rounds=20, budget_s=10.0, settle=True)
    measure([case], protocol, progress=lambda *at: told.append(at), clock=world.clock)
    done, totals = zip(*told, strict=True)
    assert set(totals) == {10_000}
    assert list(done) == sorted(done)
    assert 100 < done[1] < done[-1] == 10_000


def test_time_goes_first_where_a_second_settles_the_most_intervals():
    def runner(seconds, wide):
        case = SimpleNamespace(failure="", round_s=0.1, whole=SimpleNamespace(blocks=[0] * 20))
        case.settling = lambda: (seconds, wide)
        return case

    one, many, done = runner(2.0, 1), runner(3.0, 3), runner(0.0, 0)
    protocol = Protocol(rounds=20, settle=True, budget_s=100.0)
    next_round = partial(_next_round, [one, done, many], protocol, 20, rounds_s=10.0)
    assert next_round(left_s=4.0) == [many]
    assert next_round(left_s=5.5) == [many, one]
    assert next_round(left_s=0.5) == [many]
    assert next_round(left_s=-0.5) == []
