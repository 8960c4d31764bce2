from dataclasses import replace

import pytest

from placerl.harness.loop.clock import ACTORS, HOST, RMM, STORAGE
from placerl.harness.loop.given_time import LINK, Call
from placerl.harness.loop.training_loop import TrainingLoop
from placerl.harness.mapping import scheduled_round
from placerl.harness.mapping.scheduled_round import ScheduledRound


def test_on_a_host_alone_a_round_is_the_sum_of_its_calls() -> None:
    calls = {name: Call(HOST, seconds) for name, seconds in zip(("act", "insert"), (3.0, 1.0), strict=True)}
    calls |= {"sample": Call(HOST, 2.0), "learn": Call(HOST, 10.0), "update": Call(HOST, 0.5)}
    assert ScheduledRound(**calls, gradient_steps=2, host_s=0.25).period_s == pytest.approx(4.25 + 2 * 12.5)


def test_actors_beside_the_rest_cost_what_they_take_longer() -> None:
    rest = {"insert": Call(HOST, 1.0), "learn": Call(HOST, 2.0), "gradient_steps": 4, "overlapped": True}
    assert ScheduledRound(act=Call(ACTORS, 3.0), **rest).period_s == pytest.approx(8 + 1)
    assert ScheduledRound(act=Call(ACTORS, 9.0), **rest).period_s == pytest.approx(9 + 1)


def test_a_device_s_priority_update_hides_behind_the_actor() -> None:
    """Only sampling waits for it; the host acts as soon as the learner has ended."""
    calls = {
        "act": Call(HOST, 5.0),
        "insert": Call("fpga", 1.0),
        "sample": Call("fpga", 2.0),
        "learn": Call("gpu", 10.0),
        "update": Call("fpga", 4.0),
    }
    assert ScheduledRound(**calls).period_s == pytest.approx(5 + 1 + 2 + 10)
    slow = calls | {"update": Call("fpga", 7.0)}
    assert ScheduledRound(**slow).period_s == pytest.approx(7 + 1 + 2 + 10)


def test_in_turn_the_actor_waits_for_the_weights_that_are_on_their_way() -> None:
    calls = {"act": Call(HOST, 5.0), "insert": Call(HOST, 1.0), "learn": Call("gpu", 10.0)}
    assert ScheduledRound(**calls, publish=Call(LINK, 3.0)).period_s == pytest.approx(10 + 3 + 5 + 1)
    assert ScheduledRound(**calls).period_s == pytest.approx(10 + 5 + 1)


def test_beside_actors_the_weights_are_handed_over_when_the_learner_has_ended() -> None:
    rest = {"insert": Call(HOST, 1.0), "learn": Call("gpu", 10.0), "overlapped": True}
    assert ScheduledRound(act=Call(ACTORS, 2.0), publish=Call(LINK, 3.0), **rest).period_s == pytest.approx(
        10 + 3 + 1
    )
    assert ScheduledRound(act=Call(ACTORS, 20.0), publish=Call(LINK, 3.0), **rest).period_s == pytest.approx(
        20 + 1
    )


@pytest.mark.parametrize("overlapped", [False, True])
def test_a_storage_apart_makes_the_host_wait_until_it_is_written(overlapped: bool) -> None:
    unit = ACTORS if overlapped else HOST
    made = ScheduledRound(
        act=Call(unit, 5.0),
        insert=Call(HOST, 1.0),
        write=Call(STORAGE, 4.0),
        learn=Call(HOST, 2.0),
        overlapped=overlapped,
    )
    assert made.period_s == pytest.approx((max(5, 2) if overlapped else 5 + 2) + 1 + 4)


def test_gathering_follows_sampling_and_comes_before_learning() -> None:
    calls = {"act": Call(HOST, 1.0), "insert": Call(HOST, 1.0), "learn": Call(HOST, 10.0)}
    replay = {"sample": Call("fpga", 2.0), "gather": Call(STORAGE, 3.0), "update": Call("fpga", 0.5)}
    assert ScheduledRound(**calls, **replay, gradient_steps=2).period_s == pytest.approx(
        1 + 1 + 2 * (2 + 3 + 10) + 0.5
    )


def test_a_unit_does_one_call_after_the_other() -> None:
    """Two gradient steps on a device that samples and updates: the second sampling waits for the update."""
    calls = {"act": Call(HOST, 1.0), "insert": Call(HOST, 1.0), "learn": Call(HOST, 10.0)}
    replay = {"sample": Call("fpga", 2.0), "update": Call("fpga", 6.0)}
    found = ScheduledRound(**calls, **replay, gradient_steps=2).period_s
    # The update of the second step hides behind acting and inserting for 2 s, and holds up the next sampling by 4.
    assert found == pytest.approx(1 + 1 + (2 + 10) + (6 + 2 + 10) + 4)


RELAXED = {"act": Call(ACTORS, 4.0), "insert": Call(HOST, 1.0), "gradient_steps": 4, "overlapped": True}


@pytest.mark.parametrize("ahead", [1, 5, 50])
def test_a_replay_manager_hides_behind_a_slower_learner(ahead: int) -> None:
    """While the learner takes 10 s, the manager updates the last batch and samples another: 5 s."""
    calls = {"sample": Call(RMM, 2.0), "learn": Call(HOST, 10.0), "update": Call(RMM, 3.0)}
    assert ScheduledRound(**RELAXED, **calls, ahead=ahead).period_s == pytest.approx(4 * 10 + 1)


def test_without_batches_ahead_learner_and_manager_take_turns() -> None:
    """Only the round's last update, of 3 s, hides: behind the insertion, of 1 s."""
    calls = {"sample": Call(RMM, 2.0), "learn": Call(HOST, 10.0), "update": Call(RMM, 3.0)}
    assert ScheduledRound(**RELAXED, **calls).period_s == pytest.approx(4 * (2 + 10 + 3) + 1 - 1)


def test_a_learner_hides_behind_a_slower_replay_manager() -> None:
    """The manager samples and updates for 13 s a step, without a pause: the insertion hides too."""
    calls = {"sample": Call(RMM, 6.0), "learn": Call(HOST, 10.0), "update": Call(RMM, 7.0)}
    assert ScheduledRound(**RELAXED, **calls, ahead=5).period_s == pytest.approx(4 * (6 + 7))


def test_the_loop_of_equal_rounds_is_run_once(monkeypatch):
    runs = []
    monkeypatch.setattr(
        scheduled_round, "TrainingLoop", lambda *given: runs.append(given) or TrainingLoop(*given)
    )
    made = ScheduledRound(act=Call(HOST, 0.123), insert=Call(HOST, 1.0), learn=Call(HOST, 2.0))
    again = replace(made, learn=Call(HOST, 2.0))
    assert made.period_s == again.period_s == pytest.approx(3.123)
    assert len(runs) == 1
    assert replace(made, learn=Call(HOST, 3.0)).period_s == pytest.approx(4.123)
    assert len(runs) == 2
