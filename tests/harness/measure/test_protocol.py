"""What `measure` times: which steps are on the clock, in which order, and what a timing says."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from placerl.harness.measure import statistics
from placerl.harness.measure.pace import Bracket, Pace, Piece
from placerl.harness.measure.protocol import NULL, Protocol, measure
from placerl.harness.store.rows import PieceTime
from tests.harness.measure.shared_core import KERNEL_S, SharedCore
from tests.harness.measure.world import World


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
    assert timings["bad"].calls == 0
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


@pytest.mark.parametrize(("elsewhere", "expected_s"), [(False, 0.25e-3), (True, 1e-3)])
def test_a_wait_for_a_core_is_part_of_the_time_where_a_device_computes(world, elsewhere, expected_s):
    bracket = Bracket(world.clock, waited=lambda: 0.75 * world.now_s)
    case = world.case("a", 1e-3, elsewhere=elsewhere)
    timing = measure([case], Protocol(rounds=7), clock=world.clock, bracket=bracket)["a"]
    assert timing.samples_s == pytest.approx([expected_s] * 7)
    assert timing.clock_s == pytest.approx([1e-3] * 7)


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


def test_progress_is_told(world):
    seen = []
    measure([world.case("a")], Protocol(rounds=3), progress=lambda *at: seen.append(at), clock=world.clock)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_names_are_unique(world):
    with pytest.raises(ValueError, match="each name once"):
        world.measure(world.case("a"), world.case("a"))


def test_a_timing_becomes_a_row(world):
    (timing,) = world.measure(world.case("a")).values()
    row = timing.measurement(PieceTime, suite="profile", primitive="p", batch_size=32, target="native")
    assert row.samples == timing.samples_s
    assert row.unit == "s"
    assert row.target == "native"
    assert row.timed.calls_per_block == timing.calls
    assert row.timed.conditions["versions"]
    json.dumps(row.to_json())
    (failed,) = world.measure(world.case("a", check=lambda s: 1 / 0)).values()
    assert failed.measurement(PieceTime, suite="profile", primitive="p").status == "failed"


def test_an_empty_function_takes_time_by_the_real_clock():
    (timing,) = measure([replace(NULL, name="n")], Protocol(rounds=5)).values()
    assert timing.status in ("ok", "too_noisy")
    assert min(timing.samples_s) > 0


def test_parts_are_told_in_seconds_or_in_pieces(world):
    told = {"sum": 3e-4, "pieces": [Piece(1e-4, 0.5), Piece(3e-4, 0.5)]}
    timings = world.measure(world.case("a", 2e-3, parts=lambda state: told))
    assert timings["a: sum"].median_s == pytest.approx(3e-4)
    assert timings["a: pieces"].median_s == pytest.approx(4e-4)
    assert len(timings["a: pieces"].samples_s) == 7


def test_a_call_s_length_is_that_of_the_least_disturbed_piece(world):
    disturbed = lambda: 5e-3 if world.log.count("a") % 30 == 29 else 1e-5  # noqa: E731
    (timing,) = world.measure(world.case("a", disturbed), block_s=1e-3).values()
    assert timing.calls >= 80


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


def test_the_details_say_whether_cores_were_pinned(world):
    core = min(os.sched_getaffinity(0))
    for pins in ({}, {"caller_core": core}, {"cores": (core,)}):
        (timing,) = world.measure(world.case("a"), **pins).values()
        assert timing.details["protocol"]["pinned"] is bool(pins)


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


def test_the_details_give_full_speed_exactly_where_it_was_read(world):
    (timing,) = world.measure(world.case("a")).values()
    assert timing.details["readings"] == {"count": 0}
    core = SharedCore(slowdown=1.0, steps=(1.0,))
    protocol = Protocol(rounds=7, warm_up_s=0.0)
    (timing,) = measure([core.case("a", 2e-5)], protocol, clock=core.clock, bracket=core.bracket()).values()
    readings = timing.details["readings"]
    assert set(readings) == {"count", "full_s"}
    assert readings["count"] >= 7, "at least one piece a block"
    assert readings["full_s"] == pytest.approx(KERNEL_S)
