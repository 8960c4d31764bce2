"""Given time: calls take the seconds that the test states, whatever the work itself takes."""

from placerl.harness.loop.clock import ACTORS, HOST, LEARNER, RMM
from placerl.harness.loop.given_time import LINK, Call, GivenTime


def test_a_call_that_is_not_given_takes_no_time() -> None:
    time = GivenTime({})
    assert time.run("step", lambda given: given, 7) == 7
    assert time.act(lambda steps: steps, 3) == 3
    time.deliver(LEARNER, "publish", lambda: None, 100, 0.0)
    assert time.now_s() == 0.0
    assert time.call(RMM, "sample", lambda: "batch").ready_s == 0.0
    assert time.begin(LEARNER, "learner", lambda: None, lambda: "loss").ready_s == 0.0
    assert time.charge(RMM, "gather", 5.0, 2.0) == 2.0, "when its inputs are ready"


def test_the_host_does_its_calls_and_another_unit_works_meanwhile() -> None:
    time = GivenTime({"step": Call(HOST, 3.0), "sample": Call(RMM, 2.0), "gather": Call(RMM, 0.5)})
    assert time.run("step", lambda given: given, "value") == "value"
    assert time.now_s() == 3.0
    sampled = time.call(RMM, "sample", lambda: "batch", 1.0, {HOST: 10**9})
    assert (sampled.value, sampled.ready_s, time.now_s()) == ("batch", 5.0, 3.0)
    assert time.call(RMM, "sample", lambda: "batch").ready_s == 7.0, "the unit was busy"
    assert time.call(RMM, "sample", lambda: "batch", 10.0).ready_s == 12.0, "its inputs were late"
    assert time.charge(RMM, "gather", 99.0, 0.0) == 12.5
    time.wait(5.0)
    assert time.now_s() == 5.0
    time.wait(4.0)
    assert time.now_s() == 5.0, "no clock runs backwards"


def test_a_call_of_the_host_waits_for_its_inputs() -> None:
    time = GivenTime({"insert": Call(HOST, 2.0)})
    assert time.call(HOST, "insert", lambda: None, 4.0).ready_s == time.now_s() == 6.0


def test_the_host_waits_for_what_it_delivers_and_for_its_actors() -> None:
    time, done = GivenTime({"publish": Call(LINK, 4.0), "act": Call(ACTORS, 1.0)}), []
    time.deliver(LEARNER, "publish", lambda: done.append("published"), 100, 2.0)
    assert (done, time.now_s()) == (["published"], 6.0)
    assert time.act(lambda steps: steps, 5) == 5
    assert time.now_s() == 7.0


def test_what_is_begun_is_ready_when_its_unit_has_ended() -> None:
    time, done = GivenTime({"learner": Call("gpu", 10.0)}), []
    begun = time.begin(LEARNER, "learner", lambda: done.append("asked"), lambda: "loss")
    assert (done, begun.value, begun.ready_s, time.now_s()) == (["asked"], "loss", 10.0, 0.0)
