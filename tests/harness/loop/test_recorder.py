"""The training loop under the clock that records: which parts it has, and whose seconds they are."""

import pytest

from placerl.harness.loop import recorder
from placerl.harness.loop.nothing import Nothing
from placerl.harness.loop.recorder import PIECE_S, Recorder
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop
from placerl.harness.measure.pace import Pace
from tests.harness.profile.cases.host_clock import HostClock

STEP = ["sample", "learn", "update"]


@pytest.fixture
def host(monkeypatch):
    clock = HostClock()
    monkeypatch.setattr(recorder, "perf_counter", clock)
    return clock


def recorded(traffic=Traffic(), units=None, clock=None, rounds=1, **shape):  # noqa: B008
    clock = clock or Recorder()
    loop = TrainingLoop(clock, units or Nothing().units, Shape(**shape), traffic)
    for _ in range(rounds):
        clock.open()
        loop.round()
    return clock


@pytest.mark.parametrize("overlapped", [False, True])
def test_every_call_of_a_round_is_a_part(overlapped):
    clock = recorded(Traffic(weights_bytes=8), gradient_steps=2, overlapped=overlapped)
    assert set(clock.occurrences) == {"reading", "publish", "collect", "insert", *STEP}
    parts = clock.taken()
    once = {part: [1.0] for part in ("publish", "collect", "insert")}
    twice = {part: [0.5, 0.5] for part in STEP}
    assert {part: [piece.calls for piece in pieces] for part, pieces in parts.items()} == once | twice
    assert clock.taken() == {}


def test_calls_are_those_of_all_rounds_since_they_were_taken():
    clock = recorded(rounds=3)
    assert [piece.calls for piece in clock.taken()["learn"]] == [1.0] * 3


def test_weights_that_go_nowhere_are_no_part():
    assert "publish" not in recorded().taken()


def test_fused_gradient_steps_are_one_part():
    units = Nothing().units
    units.steps = Nothing()
    assert set(recorded(units=units, gradient_steps=2).taken()) == {"collect", "insert", "steps"}


def test_actors_elsewhere_are_asked_and_waited_for_alone():
    said = []

    class Elsewhere(Nothing):
        def submit(self, steps):
            said.append(f"submit {steps}")

        def result(self):
            said.append("result")
            return super().result()

        def step(self, *_):
            said.append("learn")
            return super().step()

    nothing = Elsewhere()
    recorded(units=nothing.units, vector_steps=3, overlapped=True)
    assert said == ["submit 3", "result", "learn"]


def test_beside_the_actors_what_they_do_is_waited_for_when_it_is_needed():
    said = []

    class Elsewhere(Nothing):
        def submit(self, steps):
            said.append("submit")

        def result(self):
            said.append("result")
            return super().result()

        def step(self, *_):
            said.append("learn")
            return super().step()

    parts = recorded(units=Elsewhere().units, clock=Recorder(beside=True), overlapped=True).taken()
    assert said == ["submit", "learn", "result"]
    assert set(parts) == {"request", "receive", "insert", *STEP}


def test_a_part_has_its_own_seconds_less_the_clocks(host):
    class Slow(Nothing):
        def step(self, *_):
            host.now_s += 2e-3
            return super().step()

    parts = recorded(units=Slow().units, rounds=5).taken()
    assert set(parts) == {"collect", "insert", *STEP}
    for part, pieces in parts.items():
        seconds = 2e-3 if part == "learn" else 0.0
        assert [piece.seconds for piece in pieces] == pytest.approx([seconds] * 5, abs=1e-12)
    assert all(piece.pace.reading_s > 0 for pieces in parts.values() for piece in pieces)


def test_a_simulated_device_tells_its_own_seconds():
    told = iter(range(10))
    clock = Recorder({"learn": lambda: float(next(told))})
    (piece,) = recorded(clock=clock).taken()["learn"]
    assert (piece.seconds, piece.pace) == (1.0, Pace())


def test_a_storage_apart_sums_up_its_own_seconds():
    class Storing(Nothing):
        gather_s = write_s = 0.0

        def insert(self, _):
            self.write_s += 3.0

        def sample(self, *_, out=None):
            self.gather_s += 5.0
            return super().sample()

    parts = recorded(Traffic(storage_apart=True), Storing().units, gradient_steps=2).taken()
    assert [piece.seconds for piece in parts["write"]] == [3.0]
    assert [piece.seconds for piece in parts["gather"]] == [5.0, 5.0]
    assert [piece.pace.waited_s for piece in parts["gather"]] == [0.0, 0.0]


def test_the_caches_are_emptied_before_each_part():
    swept = []
    clock = Recorder(sweep=lambda: swept.append(len(clock.occurrences)))
    recorded(clock=clock)
    assert swept == list(range(6)), "ahead of the reading and of five parts"


def test_the_pace_is_read_after_groups_of_calls(host, monkeypatch):
    """Readings around every call would slow the calls down that they time."""
    read = []
    paces = iter(Pace(reading_s=float(number), waited_s=PIECE_S / 2) for number in range(1, 100))
    clock = Recorder()
    monkeypatch.setattr(clock._bracket, "close", lambda: read.append(1) or next(paces))

    class Slow(Nothing):
        def step(self, *_):
            host.now_s += PIECE_S
            return super().step()

    parts = recorded(units=Slow().units, clock=clock, rounds=2).taken()
    assert len(read) == 3, "after each slow step, and at the end"
    assert [piece.pace.reading_s for piece in parts["learn"]] == [1.0, 2.0]
    assert [piece.pace.reading_s for piece in parts["update"]] == [2.0, 3.0]
    assert [piece.pace.waited_s for piece in parts["learn"]] == [PIECE_S / 2] * 2, (
        "the longest call of its group"
    )
    assert {piece.pace.waited_s for piece in parts["sample"]} == {0.0}


def test_only_one_part_is_timed_if_asked():
    clock = Recorder()
    clock.only = "learn"
    parts = recorded(Traffic(storage_apart=True), clock=clock, rounds=2).taken()
    assert {part: [piece.calls for piece in pieces] for part, pieces in parts.items()} == {"learn": [1.0] * 2}


def test_a_wait_longer_than_every_timed_call_was_elsewhere(monkeypatch):
    clock = Recorder()
    monkeypatch.setattr(clock._bracket, "close", lambda: Pace(reading_s=1.0, waited_s=60.0))
    pieces = [piece for part in recorded(clock=clock).taken().values() for piece in part]
    assert {piece.pace.waited_s for piece in pieces} == {0.0}


@pytest.mark.parametrize("beside", [False, True])
def test_a_wait_while_actors_work_is_no_disturbance(host, monkeypatch, beside):
    """They may run on the same core."""

    class Slow(Nothing):
        def result(self):
            host.now_s += PIECE_S
            return super().result()

    clock = Recorder(beside=beside)
    monkeypatch.setattr(clock._bracket, "close", lambda: Pace(reading_s=1.0, waited_s=PIECE_S / 2))
    parts = recorded(units=Slow().units, clock=clock, overlapped=True).taken()
    assert {piece.pace.waited_s for pieces in parts.values() for piece in pieces} == {0.0}


@pytest.mark.parametrize(("elsewhere", "waited_s"), [((), PIECE_S / 2), (("learn",), 0.0)])
def test_a_wait_for_a_core_is_part_of_what_a_device_computes(host, monkeypatch, elsewhere, waited_s):
    class Slow(Nothing):
        def step(self, *_):
            host.now_s += PIECE_S
            return super().step()

    clock = Recorder(elsewhere=elsewhere)
    monkeypatch.setattr(clock._bracket, "close", lambda: Pace(reading_s=1.0, waited_s=PIECE_S / 2))
    parts = recorded(units=Slow().units, clock=clock).taken()
    assert sum(piece.pace.waited_s for pieces in parts.values() for piece in pieces) == waited_s
