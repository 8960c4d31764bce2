import json
import os
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from harness.measure import statistics
from harness.measure.case_runner import CaseRunner
from harness.measure.pace import Bracket, Pace, Piece, Readings
from harness.measure.protocol import (
    NULL,
    RESOLVED,
    Case,
    Protocol,
    _next_round,
    compare_cases,
    measure,
    overhead_s,
    timing_status,
)
from harness.measure.timed_case import NOISE_LIMIT


class World:
    """A machine with a clock of its own, which only the cases of a test move."""

    def __init__(self):
        self.now_s = 0.0
        self.log = []

    def clock(self):
        return self.now_s

    def case(self, name, time_s=1e-4, **change):
        """`time_s`: seconds a call, or a function of nothing that gives them."""

        def call(state, arguments):
            self.log.append(name)
            self.now_s += time_s() if callable(time_s) else time_s

        fields = {
            "setup": lambda: self.log.append(f"setup {name}"),
            "check": lambda state: self.log.append(f"check {name}"),
            "inputs": lambda state, rng: rng.random(),
            "call": call,
            "close": lambda state: self.log.append(f"close {name}"),
        }
        return Case(name, **fields | change)

    def measure(self, *cases, **protocol):
        return measure(cases, Protocol(**{"rounds": 7, "warm_up_s": 0.0} | protocol), clock=self.clock)


@pytest.fixture
def world():
    return World()


def test_time_per_call_is_what_the_clock_says(world):
    timings = world.measure(world.case("a", 1e-4), world.case("b", 3e-4))
    assert timings["a"].samples_s == pytest.approx([1e-4] * 7)
    assert timings["b"].median_s == pytest.approx(3e-4)
    assert timings["b"].low_s == pytest.approx(3e-4)
    assert [t.status for t in timings.values()] == ["ok", "ok"]


def test_check_comes_first_and_close_last(world):
    world.measure(world.case("a"))
    assert world.log[:3] == ["setup a", "check a", "a"]
    assert world.log[-1] == "close a"
    assert world.log.count("check a") == 1


def test_nothing_is_timed_that_is_wrong(world):
    def wrong(state):
        raise AssertionError("sum is 3, not 4")

    timings = world.measure(world.case("bad", check=wrong), world.case("good"))
    assert timings["bad"].status == "failed"
    assert timings["bad"].reason == "check: AssertionError: sum is 3, not 4"
    assert timings["bad"].samples_s == ()
    assert timings["bad"].median_s is None
    assert "bad" not in world.log
    assert "close bad" in world.log
    assert timings["good"].status == "ok"


@pytest.mark.parametrize("step", ["setup", "inputs", "call", "synchronise", "close"])
def test_a_step_that_fails_is_named_and_the_others_go_on(world, step):
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) > (3 if step in ("inputs", "call", "synchronise") else 0):
            raise MemoryError("no room")

    timings = world.measure(world.case("bad", **{step: fail}), world.case("good"))
    assert timings["bad"].status == "failed"
    assert "MemoryError: no room" in timings["bad"].reason
    assert timings["good"].status == "ok"
    assert ("close bad" in world.log) == (step not in ("setup", "close"))


def test_an_interruption_is_no_failure_of_a_case(world):
    def interrupt(state, arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.measure(world.case("a", call=interrupt))
    assert "close a" in world.log


def test_arguments_are_fresh_and_made_outside_the_clock(world):
    seen = []

    def inputs(state, rng):
        world.now_s += 10.0
        return rng.random()

    def call(state, arguments):
        seen.append(arguments)
        world.now_s += 1e-3

    (timing,) = world.measure(world.case("a", inputs=inputs, call=call)).values()
    assert timing.median_s == pytest.approx(1e-3)
    assert len(set(seen)) == len(seen) >= 7


def test_setup_and_check_are_outside_the_clock(world):
    def slow(*_):
        world.now_s += 100.0

    (timing,) = world.measure(world.case("a", setup=slow, check=slow)).values()
    assert timing.samples_s == pytest.approx([1e-4] * 7)


def test_what_a_device_still_has_to_do_counts(world):
    pending = [0]

    def call(state, arguments):
        pending[0] += 1

    def synchronise():
        world.now_s += pending[0] * 2e-4
        pending[0] = 0

    (timing,) = world.measure(world.case("a", call=call, synchronise=synchronise)).values()
    assert timing.samples_s == pytest.approx([2e-4] * 7)


@pytest.mark.parametrize("time_s", [1e-8, 1e-6, 1e-4, 1.0])
def test_blocks_are_long_enough_for_the_clock(world, time_s):
    (timing,) = world.measure(world.case("a", time_s), block_s=1e-3, largest_block=1000).values()
    assert timing.calls <= 1000
    assert timing.calls == 1000 or timing.calls * time_s >= 1e-3
    assert timing.calls * time_s <= max(2e-3, 2 * time_s)


def test_a_rest_before_each_block_is_outside_the_clock(world, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: world.log.append(f"rest {seconds}"))
    timings = world.measure(world.case("a", 1e-2), block_s=1e-2, warm_up_calls=0, rest_s=0.5)
    assert world.log[2:-1] == ["rest 0.5", "a"] * 8  # one to warm up
    assert timings["a"].median_s == pytest.approx(1e-2)


def test_warm_up_lasts_its_time(world):
    world.measure(world.case("a", 1e-3), warm_up_s=0.5, rounds=1)
    assert world.log.count("a") >= 500


def test_a_slow_start_is_no_sample(world):
    times = iter([5.0, 2.0, 1.0])
    (timing,) = world.measure(world.case("a", lambda: next(times, 1e-3)), warm_up_s=10e-3).values()
    assert timing.samples_s == pytest.approx([1e-3] * 7)


def test_rounds_are_interleaved_in_changing_order(world):
    names = ["a", "b", "c"]
    world.measure(*(world.case(name, 2e-3) for name in names), rounds=20)
    calls = [entry for entry in world.log if entry in names]
    rounds = [tuple(calls[i : i + 3]) for i in range(len(calls) - 60, len(calls), 3)]
    assert all(sorted(order) == names for order in rounds)
    assert len(set(rounds)) > 3


def test_the_same_seed_gives_the_same_order_and_arguments():
    logs = []
    for _ in range(2):
        world = World()
        seen = []
        case = world.case("a", inputs=lambda state, rng, seen=seen: seen.append(rng.random()))
        world.measure(case, world.case("b"))
        logs.append((seen, world.log))
    assert logs[0] == logs[1]


def test_noise_above_the_limit_is_a_state(world):
    rng = np.random.default_rng(0)
    timings = world.measure(
        world.case("loud", lambda: 2e-3 * rng.lognormal(0, 0.5)),
        world.case("quiet", lambda: 2e-3 * rng.lognormal(0, 0.01)),
        rounds=30,
    )
    assert timings["loud"].status == "too_noisy"
    assert "limit" in timings["loud"].reason
    assert len(timings["loud"].samples_s) == 30
    assert timings["quiet"].status == "ok"


def test_too_few_samples_for_an_interval_is_a_state(world):
    (timing,) = world.measure(world.case("a"), rounds=4).values()
    assert timing.status == "too_noisy"
    assert timing.low_s is None
    assert timing.median_s == pytest.approx(1e-4)


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


def test_progress_is_told(world):
    seen = []
    measure([world.case("a")], Protocol(rounds=3), progress=lambda *at: seen.append(at), clock=world.clock)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_names_are_unique(world):
    with pytest.raises(ValueError, match="each name once"):
        world.measure(world.case("a"), world.case("a"))


@pytest.mark.parametrize(
    "bad",
    [{"rounds": 0}, {"block_s": 0}, {"warm_up_s": -1}, {"rest_s": -1}, {"noise_limit": float("nan")}],
)
def test_protocol_refuses_what_makes_no_sense(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Protocol(**bad)


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


def test_a_timing_becomes_a_row(world):
    (timing,) = world.measure(world.case("a")).values()
    row = timing.measurement(suite="profile", primitive="p", batch_size=32, details={"target": "native"})
    assert row.samples == timing.samples_s
    assert row.unit == "s"
    assert row.details["target"] == "native"
    assert row.details["calls_per_block"] == timing.calls
    assert row.details["conditions"]["versions"]
    json.dumps(row.details)
    (failed,) = world.measure(world.case("a", check=lambda s: 1 / 0)).values()
    assert failed.measurement(suite="profile", primitive="p").status == "failed"


def test_the_harness_costs_little_beside_a_microsecond():
    (timing,) = measure([replace(NULL, name="n")], Protocol(rounds=5)).values()
    assert timing.status in ("ok", "too_noisy")
    assert overhead_s(Protocol(rounds=5)) > 0


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
    calls = []

    def fail(state, arguments):
        calls.append(1)
        if len(calls) > 8:
            raise MemoryError("no room")
        world.now_s += 2e-3

    (timing,) = world.measure(world.case("a", call=fail), rounds=20, budget_s=1e6, settle=True).values()
    assert timing.status == "failed"


def test_settling_needs_a_budget():
    with pytest.raises(ValueError, match="settle"):
        Protocol(settle=True)


def test_slow_first_calls_are_warm_up_enough_where_cases_settle(world):
    world.measure(world.case("a", 1.0), rounds=5, budget_s=3.0, settle=True, fewest_rounds=5)
    assert world.log.count("a") == 2 + 5


def test_a_block_is_cut_into_pieces_unless_a_device_is_waited_for(world):
    waits = []
    world.measure(world.case("host", 1e-4), block_s=1e-3, piece_s=0.25e-3, rounds=1)
    world.measure(
        world.case("device", 1e-4, synchronise=lambda: waits.append(1)),
        block_s=1e-3,
        rounds=1,
        warm_up_calls=0,
    )
    calls = world.log.count("device")
    assert len(waits) < calls


def test_parts_are_told_in_seconds_or_in_pieces(world):
    told = {"sum": 3e-4, "pieces": [Piece(1e-4, 0.5), Piece(3e-4, 0.5)]}
    timings = world.measure(world.case("a", 2e-3, parts=lambda state: told))
    assert timings["a: sum"].median_s == pytest.approx(3e-4)
    assert timings["a: pieces"].median_s == pytest.approx(4e-4)
    assert len(timings["a: pieces"].samples_s) == 7


def test_a_comparison_ends_when_its_cases_fail(world):
    calls = []

    def fail(state, arguments):
        calls.append(1)
        if len(calls) > 30:
            raise MemoryError("no room")
        world.now_s += 2e-3

    found, _ = compare_cases(
        world.case("a", 2e-3), world.case("b", call=fail), Protocol(rounds=40), clock=world.clock
    )
    assert found.reason.startswith("b: call: MemoryError")
    assert world.log.count("a") + world.log.count("a (null)") < 150  # no rounds beyond the 40


@pytest.mark.parametrize(("time_s", "alike"), [(1.2e-4, True), (3e-4, False)])
def test_cases_that_are_compared_and_take_about_as_long_make_as_many_calls_a_block(world, time_s, alike):
    """The first calls of a piece are colder, so that two alike cases have to be cut alike."""
    _, timings = compare_cases(world.case("a", 1e-4), world.case("b", time_s), clock=world.clock)
    assert (timings["a"].calls == timings["b"].calls) is alike
    assert timings["a (null)"].calls == timings["a"].calls


def test_a_call_s_length_is_that_of_the_least_disturbed_piece(world):
    disturbed = lambda: 5e-3 if world.log.count("a") % 30 == 29 else 1e-5  # noqa: E731
    (timing,) = world.measure(world.case("a", disturbed), block_s=1e-3).values()
    assert timing.calls >= 80


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


def test_the_interval_is_that_of_samples_taken_one_after_another(world):
    """A case that drifts: what neighbours share widens its interval."""

    def time_s():
        return 1e-4 * (1 + 0.02 * np.sin(world.now_s / 0.02))

    (timing,) = world.measure(world.case("a", time_s), rounds=45).values()
    in_order, shuffled = (statistics.interval(timing.samples, in_order=each) for each in (True, False))
    assert (timing.low_s, timing.high_s) == in_order
    assert in_order != shuffled


def test_a_call_that_empties_the_caches_or_fills_them_itself_has_none_to_lead_in(world):
    def calls(**change):
        world.log.clear()
        world.measure(world.case("a", **change), rounds=1, block_s=0.9e-4, warm_up_calls=0, lead_in_calls=1)
        return world.log.count("a")

    warm = 1
    assert calls() == warm + 2
    assert calls(empties_caches=True) == warm + 1
    assert calls(time_s=1.0) == warm + 1


def test_a_part_is_known_well_enough_at_a_hundredth_of_all_parts(world):
    rng = np.random.default_rng(0)

    def measured(share):
        parts = lambda state: {"most": 1e-3, "loud": share * 1e-3 * rng.lognormal(0, 0.5)}  # noqa: E731
        return world.measure(world.case("a", 2e-3, parts=parts), rounds=30)["a: loud"]

    small, large = measured(0.01), measured(0.5)
    assert small.status == "ok"
    assert small.high_s - small.low_s > 0.1 * small.median_s
    assert large.status == "too_noisy"
    assert "of all parts, where 1% is" in large.reason
    assert small.details["all_parts_s"] == pytest.approx(1.01e-3, rel=0.01)


def test_a_block_grows_to_a_little_more_than_it_asks_for(world):
    (timing,) = world.measure(world.case("a", 0.9e-5), block_s=1e-3).values()
    assert timing.calls == 133


class Counted(Bracket):
    """Counts the pieces between its readings."""

    def __init__(self):
        super().__init__(lambda: 0.0)
        self.pieces = 0

    def close(self):
        self.pieces += 1
        return Pace()


@pytest.mark.parametrize(("synchronise", "pieces"), [(None, 5), (lambda: None, 1)])
def test_a_block_has_pieces_of_their_length_unless_a_device_is_waited_for(world, synchronise, pieces):
    counted, change = Counted(), {"synchronise": synchronise} if synchronise else {}
    found = []
    for rounds in (1, 2):
        # Powers of two, so that the clock adds up exactly.
        protocol = Protocol(rounds, block_s=2**-10, piece_s=2**-12, warm_up_s=0.0, warm_up_calls=0)
        before = counted.pieces
        case = world.case("a", 2**-13, **change)
        measure([case], protocol, clock=world.clock, bracket=counted)
        found.append(counted.pieces - before)
    assert found[1] - found[0] == pieces


def test_every_second_round_is_enough_for_a_block_somewhat_too_long(world):
    (timing,) = world.measure(world.case("a", 0.15), rounds=40, long_block_s=0.1).values()
    assert len(timing.samples_s) == 20


@pytest.mark.parametrize(("settle", "calls"), [(True, 1 + 5), (False, 3 + 1 + 5)])
def test_a_long_check_is_warm_up_enough_where_cases_settle(world, settle, calls, monkeypatch):
    def check(state):
        world.now_s += 0.2

    monkeypatch.setattr("harness.measure.case_runner.time.perf_counter", world.clock)
    world.measure(world.case("a", 1e-2, check=check), rounds=5, budget_s=100.0, settle=settle)
    assert world.log.count("a") == calls


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


def test_the_details_say_whether_cores_were_pinned(world):
    core = min(os.sched_getaffinity(0))
    for pins in ({}, {"caller_core": core}, {"cores": (core,)}):
        (timing,) = world.measure(world.case("a"), **pins).values()
        assert timing.details["protocol"]["pinned"] is bool(pins)


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


def test_the_caller_says_who_takes_part_in_each_round_and_when_they_end(world):
    asked = []

    def narrow(seconds, cost_s, left_s):
        asked.append(({name: dict(by) for name, by in seconds.items()}, dict(cost_s), left_s))
        return {"b"} if len(asked) < 3 else set()

    cases = [world.case("a", 1e-3), world.case("b", 2e-3), world.case("bad", check=lambda state: 1 / 0)]
    protocol = Protocol(rounds=7, warm_up_s=0.0, fewest_rounds=2)
    timings = measure(cases, protocol, clock=world.clock, narrow=narrow)
    assert timings["a"].rounds == (0, 1)
    assert timings["b"].rounds == (0, 1, 2, 3)
    assert [set(seconds) for seconds, _, _ in asked] == [{"a", "b"}] * 3
    assert asked[0][0]["a"] == pytest.approx({0: 1e-3, 1: 1e-3})
    assert list(asked[2][0]["b"]) == [0, 1, 2, 3]
    assert set(asked[0][1]) == {"a", "b"}
    assert all(cost > 0 for cost in asked[0][1].values())
    timings = measure(
        [world.case("a")], replace(protocol, rounds=3), clock=world.clock, narrow=lambda *_: {"a"}
    )
    assert timings["a"].rounds == (0, 1, 2), "no more than the protocol's"


def test_what_is_no_part_is_judged_by_its_own_interval_alone(world):
    status, reason = timing_status(1.0, 0.9, 1.1)
    assert status == "too_noisy"
    assert "of all parts" not in reason
    (failed,) = world.measure(world.case("a", check=lambda state: 1 / 0)).values()
    assert failed.calls == 0


def test_the_details_give_full_speed_exactly_where_it_was_read(world):
    (timing,) = world.measure(world.case("a")).values()
    readings = timing.details["readings"]
    assert ("full_s" in readings) == (readings["count"] > 0)


def test_a_ratio_is_resolved_more_finely_than_one_case_alone():
    assert 0 < RESOLVED < NOISE_LIMIT
