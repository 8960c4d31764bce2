"""Virtual time, by hand: what moves it is said by the test alone."""

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop import virtual_time
from placerl.harness.loop.clock import ACTORS, HOST, LEARNER, RMM, STORAGE
from placerl.harness.loop.real_time import RealTime
from placerl.harness.loop.virtual_time import Device, VirtualTime
from tests.harness.loop.hand_clock import virtual


def test_a_transfer_costs_its_latency_and_its_bytes(clock):
    devices = {LEARNER: Device(lambda: clock.told_s[LEARNER], "gpu")}
    links = {(HOST, LEARNER): 10.0, (RMM, LEARNER): 10.0}
    time = VirtualTime(devices, links, latencies_s={(HOST, LEARNER): 3.0})
    assert time.link_s(HOST, LEARNER, 50) == 3 + 5
    assert time.link_s(RMM, LEARNER, 50) == 5
    assert time.link_s(HOST, LEARNER, 0) == 0, "nothing is sent"
    output = time.call(LEARNER, "learner", clock.work(0.0, **{LEARNER: 2.0}), input_bytes={HOST: 50})
    assert output.ready_s == pytest.approx(time.now_s() + 2 + 8)


@pytest.mark.parametrize(
    ("links_s", "work_s", "parts", "expected_s"),
    [
        (8.0, 2.0, 1, 10.0),  # all at once: one after the other
        (8.0, 2.0, 4, 8.5),  # bound by the link; the work on the last quarter follows it
        (2.0, 8.0, 4, 8.5),  # bound by the work, which begins with the first quarter
        (4.0, 4.0, 4, 5.0),
    ],
)
def test_streamed_inputs_arrive_during_the_work(clock, links_s, work_s, parts, expected_s):
    assert virtual_time.streamed_s(links_s, work_s, parts) == pytest.approx(expected_s)
    devices = {LEARNER: Device(lambda: clock.told_s[LEARNER], "gpu")}
    time = VirtualTime(devices, {(HOST, LEARNER): 10.0}, streams={LEARNER: parts})
    sent = {HOST: int(10 * links_s)}
    output = time.call(LEARNER, "learner", clock.work(0.0, **{LEARNER: work_s}), input_bytes=sent)
    assert output.ready_s == pytest.approx(time.now_s() + expected_s)
    with pytest.raises(ValueError, match="at least 1 part"):
        VirtualTime(devices, streams={LEARNER: 0})


def test_on_the_host_a_call_waits_for_its_inputs_and_for_their_links(clock):
    time = virtual(clock, {(LEARNER, HOST): 10.0, (RMM, HOST): 100.0})
    output = time.call(HOST, "insert", clock.work(2), after_s=1005, input_bytes={LEARNER: 30, RMM: 100})
    assert output.ready_s == time.now_s() == 1005 + 3 + 1 + 2
    assert time.terms_s["insert"] == 4 + 2
    output = time.call(HOST, "insert", clock.work(2), after_s=1005)
    assert output.ready_s == time.now_s() == 1013, "inputs that are there already are not waited for"


@pytest.mark.parametrize("unit", [HOST, ACTORS])
def test_what_a_call_waited_for_a_core_is_no_part_of_its_time(clock, unit):
    time = virtual(clock)
    output = time.call(unit, "work", clock.work(2.0, waited_s=30.0))
    assert output.ready_s == pytest.approx(1000 + 2)
    assert time.terms_s["work"] == pytest.approx(2)
    assert time.now_s() == pytest.approx(1002 if unit == HOST else 1000)
    clock.host_s += 1
    assert time.now_s() == pytest.approx(1003 if unit == HOST else 1001), "between calls the clock goes on"


def test_what_the_actors_waited_for_a_core_is_no_part_of_their_turn(clock):
    time = virtual(clock)
    assert time.act(lambda steps: (clock.work(2.0, waited_s=30.0)(), steps), 7) == ("value", 7)
    assert time.now_s() == pytest.approx(1002)
    assert not time.terms_s, "the actors count their own"


def test_handing_over_takes_no_time_for_which_the_host_waited_for_a_core(clock):
    time = virtual(clock, {(LEARNER, HOST): 10.0})
    time.deliver(LEARNER, "publish", clock.work(2.0, waited_s=30.0), 50, after_s=0)
    assert time.now_s() == pytest.approx(1002 + 5)


def test_a_call_keeps_a_twentieth_of_its_time_whatever_the_system_reports(clock):
    time = virtual(clock)

    def work():
        clock.host_s += 2.0
        clock.waited_s += 9.0

    assert time.call(HOST, "work", work).ready_s == pytest.approx(1000.1)


def test_a_device_starts_when_the_call_is_made_its_inputs_are_there_and_it_is_free(clock):
    time = virtual(clock, {(RMM, LEARNER): 10.0})
    first = time.call(LEARNER, "learner", clock.work(50, learner=4), input_bytes={RMM: 20})
    assert first.ready_s == 1000 + 4 + 2
    assert time.now_s() == 1000, "the host has only made the call"
    free = time.call(LEARNER, "learner", clock.work(learner=4))
    assert free.ready_s == 1006 + 4
    inputs = time.call(LEARNER, "learner", clock.work(learner=4), after_s=1020)
    assert inputs.ready_s == 1020 + 4
    other = time.call(RMM, "sample", clock.work(rmm=1))
    assert other.ready_s == 1000 + 1
    clock.host_s += 100
    output = time.call(RMM, "sample", clock.work(rmm=1))
    assert output.ready_s == 1100 + 1
    assert time.terms_s == {"learner": 6 + 4 + 4, "sample": 2}


def test_the_clocks_own_work_takes_no_time(monkeypatch):
    """Each reading of the machine's clock takes a second here; in virtual time, only what is between two calls."""
    readings = iter(range(1000))
    monkeypatch.setattr(virtual_time, "perf_counter", lambda: float(next(readings)))
    told = iter(range(1000))
    time = VirtualTime({LEARNER: Device(lambda: next(told), "gpu")}, {(LEARNER, HOST): 1e9})
    calls = (
        lambda: time.call(LEARNER, "learner", lambda: None, input_bytes={HOST: 8}),
        lambda: time.charge(STORAGE, "write", 5.0, 0.0),
        lambda: time.deliver(ACTORS, "publish", lambda: None, 0, 0.0),
        lambda: time.wait(0.0),
    )
    for call in calls:
        before_s = time.now_s()
        call()
        assert time.now_s() - before_s == pytest.approx(2, abs=0.1), "a reading before and a reading after it"


def test_units_of_one_board_share_it(clock):
    time = virtual(clock, one_board=True)
    time.call(RMM, "sample", clock.work(rmm=3))
    assert time.call(LEARNER, "learner", clock.work(learner=4)).ready_s == 1000 + 3 + 4


def test_actors_beside_the_host_take_what_they_take_but_not_from_it(clock):
    time = virtual(clock)
    output = time.call(ACTORS, "collect", clock.work(7), after_s=1002)
    assert output.ready_s == 1002 + 7
    assert time.now_s() == 1000
    assert time.call(ACTORS, "collect", clock.work(7)).ready_s == 1009 + 7
    assert time.terms_s["collect"] == 14


def test_what_belongs_to_another_unit_is_charged_there(clock):
    time = virtual(clock)
    assert time.charge(STORAGE, "gather", 5, 1010) == 1015
    assert time.charge(STORAGE, "gather", 5, 1010) == 1020
    assert time.charge(STORAGE, "gather", 5, 1030) == 1035
    assert time.terms_s["gather"] == 15
    assert time.now_s() == 1000


def test_waiting_moves_the_clock_forward_only(clock):
    time = virtual(clock)
    time.wait(1010)
    assert time.now_s() == 1010
    time.wait(1005)
    assert time.now_s() == 1010
    clock.host_s += 3
    assert time.now_s() == 1013


def test_draining_waits_for_the_last_unit(clock):
    time = virtual(clock)
    time.drain()
    assert time.now_s() == 1000
    time.call(LEARNER, "learner", clock.work(learner=40))
    time.call(RMM, "update", clock.work(rmm=4))
    time.drain()
    assert time.now_s() == 1040


def test_what_a_device_has_made_comes_over_its_link_and_the_host_waits_for_it(clock):
    time = virtual(clock, {(LEARNER, HOST): 10.0})
    time.deliver(LEARNER, "publish", clock.work(1), 50, after_s=1010)
    assert time.now_s() == 1015
    time.deliver(LEARNER, "publish", clock.work(), 50, after_s=0)
    assert time.now_s() == 1020
    assert time.terms_s["publish"] == 10
    assert time.call(LEARNER, "learner", clock.work(learner=1)).ready_s == 1021, (
        "the link is a unit of its own"
    )
    clock.host_s += 100
    time.deliver(LEARNER, "publish", clock.work(), 50, after_s=0)
    assert time.now_s() == 1125


def test_what_the_host_has_made_is_not_sent_but_waited_for(clock):
    time = virtual(clock, {(LEARNER, HOST): 10.0})
    time.deliver(STORAGE, "publish", clock.work(2), 50, after_s=1007)
    assert time.now_s() == 1007
    assert not time.terms_s["publish"]


def test_what_begins_next_to_the_host_is_waited_for_when_its_value_is(clock):
    """In real time; in virtual time it is done at once, and takes none of the host's seconds."""
    done = []

    def answer():
        done.append("answered")
        return clock.work(7)()

    time = RealTime()
    begun = time.begin(ACTORS, "act", lambda: done.append("asked"), answer)
    assert (done, begun.ready_s) == (["asked"], 0)
    assert (begun.value, begun.value, time.now_s()) == ("value", "value", 1007)
    assert done == ["asked", "answered"], "once"
    time = virtual(clock)
    begun = time.begin(ACTORS, "act", lambda: done.append("asked"), answer)
    assert (begun.value, begun.ready_s, time.now_s()) == ("value", 1014, 1007)
    assert time.terms_s["act"] == 7


def test_the_inputs_of_what_another_unit_is_charged_come_over_their_link(clock):
    time = virtual(clock, {(RMM, STORAGE): 10.0})
    assert time.charge(STORAGE, "gather", 5, 1010, {RMM: 30}) == 1018
    assert time.terms_s["gather"] == 8


@pytest.mark.parametrize("told", [0.0, -1.0])
def test_a_device_that_tells_no_time_is_an_error(clock, told):
    with pytest.raises(RuntimeError, match=f"learner: device gpu told {told:g} s for a call"):
        virtual(clock).call(LEARNER, "learner", clock.work(learner=told))


def test_only_named_links_take_time(clock):
    time = virtual(clock, {(HOST, RMM): 4.0})
    assert time.link_s(HOST, RMM, 12) == 3
    assert time.link_s(RMM, HOST, 12) == 0
    assert time.is_simulated(LEARNER)
    assert not time.is_simulated(STORAGE)
    assert time.provenance is Provenance.SIMULATED


def test_the_clock_stands_still_while_a_device_is_simulated():
    told = [0.0]

    def work():
        told[0] += 1e6
        return "done"

    time = VirtualTime({LEARNER: Device(lambda: told[0], "fpga")})
    before_s = time.now_s()
    output = time.call(LEARNER, "learner", work, after_s=before_s + 5e6)
    assert output.value == "done"
    assert output.ready_s == pytest.approx(before_s + 6e6)
    assert time.now_s() < before_s + 1e6  # the host has only made the call
    time.drain()
    assert time.now_s() == pytest.approx(before_s + 6e6)
