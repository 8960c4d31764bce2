"""Real time, by hand: what moves it is said by the test alone."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import HOST, LEARNER, RMM, STORAGE
from placerl.harness.loop.real_time import RealTime


def test_real_time_is_that_of_the_call(clock):
    time = RealTime()
    for total_s in (3, 6):
        output = time.call(RMM, "sample", clock.work(3), after_s=1e9, input_bytes={HOST: 10**9})
        assert (output.value, output.ready_s) == ("value", time.now_s())
        assert time.terms_s == {"sample": total_s}
    assert not time.is_simulated(RMM)
    assert time.link_s(HOST, RMM, 100) == 0
    assert time.charge(STORAGE, "gather", 5, 7) == 7
    time.deliver(LEARNER, "publish", clock.work(2), 100, 1e9)
    assert time.run("step", lambda given: (clock.work(1)(), given), 7) == ("value", 7)
    assert time.terms_s == {"sample": 6, "step": 1}
    assert time.act(lambda given: (clock.work(4)(), given), 7) == ("value", 7)
    assert time.terms_s == {"sample": 6, "step": 1}, "the actors count their own"
    time.wait(1e9)
    time.drain()
    assert time.now_s() == 1013
    assert time.provenance is Provenance.MEASURED


def test_what_is_begun_is_asked_at_once_and_answered_once_when_its_value_is_read(clock):
    time, calls = RealTime(), []
    begun = time.begin(
        LEARNER, "learner", lambda: calls.append("asked"), lambda: calls.append("answered") or 7
    )
    assert calls == ["asked"]
    assert (begun.value, begun.value) == (7, 7)
    assert calls == ["asked", "answered"]
    assert not time.terms_s, "such work counts its own seconds"
