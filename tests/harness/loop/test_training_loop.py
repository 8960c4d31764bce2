"""The order of the loop's calls, and what waits for what, under a clock that notes what it is asked."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.loop.clock import ACTORS, HOST, LEARNER, RMM, STORAGE, Output
from placerl.harness.loop.nothing import Nothing
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop, not_overwritten
from placerl.primitives.replay import FieldSpec, Storage
from placerl.primitives.replay.device import DeviceStorage
from tests.primitives.device.kinds import device_of


class Notes:
    """A clock on which nothing takes time, but every call is ready at a time of its own."""

    def __init__(self):
        self.terms, self.calls, self.waited_s = [], [], []

    def now_s(self):
        return 1000.0

    def wait(self, ready_s):
        self.waited_s.append(ready_s)

    def act(self, work, vector_steps):
        self.terms.append("act")
        return work(vector_steps)

    def run(self, term, work, argument):
        self.terms.append(term)
        return work(argument)

    def call(self, unit, term, work, after_s=0.0, input_bytes=None):
        self.terms.append(term)
        self.calls.append((unit, term, after_s, input_bytes))
        return Output(work(), float(len(self.terms)))

    def begin(self, unit, term, ask, answer):
        ask()
        self.terms.append(term)
        return Output(answer(), float(len(self.terms)))

    def charge(self, server, term, seconds, after_s, input_bytes=None):
        self.terms.append(term)
        self.calls.append((server, term, after_s, input_bytes))
        return float(len(self.terms))

    def deliver(self, unit, term, work, output_bytes, after_s):
        self.terms.append(term)
        self.calls.append((unit, term, after_s, output_bytes))
        work()


def loop(clock, rows=1, traffic=Traffic(), **shape):  # noqa: B008
    return TrainingLoop(clock, Nothing(rows).units, Shape(**shape), traffic)


STEP = ["sample", "learner", "update"]


@pytest.mark.parametrize(
    ("overlapped", "expected"),
    [
        (False, ["publish", "act", "insert", *STEP, *STEP]),
        (True, ["act", *STEP, *STEP, "publish", "insert"]),
    ],
)
def test_a_round_acts_before_it_learns_or_next_to_it(overlapped, expected):
    clock = Notes()
    loop(clock, gradient_steps=2, overlapped=overlapped).round()
    assert clock.terms == expected
    assert clock.waited_s == ([1.0] if overlapped else []), "for the actors that work next to the host"


def test_fused_gradient_steps_are_one_call():
    clock, units = Notes(), Nothing().units
    units.steps = Nothing()
    TrainingLoop(clock, units, Shape(gradient_steps=3), Traffic()).round()
    assert clock.terms == ["publish", "act", "insert", "step"]


def test_a_storage_apart_gathers_and_writes_by_itself():
    clock = Notes()
    loop(clock, traffic=Traffic(storage_apart=True)).round()
    assert clock.terms == ["publish", "act", "insert", "write", "sample", "gather", "learner", "update"]
    assert clock.waited_s == [4.0], "until the transitions are written"
    clock = Notes()
    loop(clock, traffic=Traffic(storage_apart=True, gather_s=1.0)).round()
    assert "write" not in clock.terms, "it is the device that writes"


def test_every_call_knows_its_unit_its_inputs_and_when_they_are_ready():
    clock = Notes()
    made = loop(clock, rows=3, traffic=Traffic(10, 100, 1000, storage_apart=True))
    for _ in range(2):
        made.round()
    assert clock.calls[:7] == [
        (LEARNER, "publish", 0.0, 1000),
        (RMM, "insert", 0.0, {HOST: 30}),
        (STORAGE, "write", 1000.0, None),
        (RMM, "sample", 0.0, None),
        (STORAGE, "gather", 5.0, {RMM: 8}),
        (LEARNER, "learner", 6.0, {STORAGE: 100, RMM: 4}),
        (RMM, "update", 7.0, {LEARNER: 8}),
    ]
    assert clock.calls[7] == (LEARNER, "publish", 7.0, 1000), (
        "the weights are there when the learner has ended"
    )
    assert ACTORS not in {unit for unit, *_ in clock.calls}, "in turn the actors are the host's"


def test_batches_are_sampled_ahead_and_trained_on_in_order():
    clock = Notes()
    made = loop(clock, ahead=2)
    drawn = iter(range(10))
    learnt = []
    units = made.units

    class Sample:
        weights = np.ones(1, np.float32)
        indices = np.zeros(1, np.int64)

        def __init__(self):
            self.batch = next(drawn)

    units.replay.sample = lambda *_, out=None: Sample()
    outcome = units.learner.step()
    units.learner.step = lambda batch, weights: learnt.append(batch) or outcome
    made.learn(3)
    assert learnt == [0, 1, 2]
    assert clock.terms == [*["sample"] * 3, "learner", "update", *STEP, *STEP]
    assert [waiting.sample.value.batch for waiting in made.presampled] == [3, 4]


def test_the_losses_are_those_of_the_last_gradient_step():
    made = loop(Notes())
    assert made.losses == {}
    made.round()
    assert made.losses == {"none": 0.0}


def test_deferred_transitions_are_inserted_after_the_next_sampling_and_before_its_gradient_step():
    clock = Notes()
    made = loop(clock, gradient_steps=2, overlapped=True, deferred=True)
    for _ in range(2):
        made.round()
    late = ["act", "sample", "insert", "learner", "update", *STEP, "publish"]
    assert clock.terms == ["act", *STEP, *STEP, "publish", *late]


def test_deferred_transitions_are_kept_while_the_actors_overwrite_theirs():
    made = loop(Notes(), overlapped=True, deferred=True)
    buffer, inserted = np.zeros(1, np.float32), []
    made.units.acting.result = lambda: {"reward": buffer}
    made.units.replay.insert = lambda transitions: inserted.append(transitions["reward"][0])
    for value in (1.0, 2.0, 3.0):
        buffer[0] = value
        made.round()
        buffer[0] = -1.0
    assert inserted == [1.0, 2.0], "the last ones wait for the next round"


def test_transitions_from_before_learning_are_kept_until_a_deferred_insertion_is_done():
    made = loop(Notes(), overlapped=True, deferred=True)
    buffer, inserted = np.zeros(1, np.float32), []
    made.units.acting.collect = lambda *_: {"reward": buffer}
    made.units.replay.insert = lambda transitions: inserted.append(transitions["reward"])
    for value in (1.0, 2.0):
        buffer[0] = value
        made.fill(1)
    assert [float(*rewards) for rewards in inserted] == [1.0, 2.0]


def test_a_row_that_a_deferred_insertion_overwrote_keeps_its_new_priority():
    made = loop(Notes(), overlapped=True, deferred=True)
    updated = []
    made.units.storage.capacity = 1
    made.units.replay.update_priorities = lambda indices, errors: updated.append(len(indices))
    for _ in range(2):
        made.round()
    assert updated == [1, 0], "in the second round the only row got a new item after it was sampled"


def test_weights_with_one_buffer_arrive_when_the_actors_have_stopped():
    clock = Notes()
    waited = []
    clock.wait = lambda ready_s: (waited.append(ready_s), clock.terms.append("wait"))
    loop(clock, overlapped=True, one_buffer=True).round()
    assert clock.terms == ["act", *STEP, "wait", "publish", "insert"]


def test_deferred_insertion_needs_calls_of_its_own():
    units = Nothing().units
    units.steps = Nothing()
    with pytest.raises(ValueError, match="deferred: found True"):
        TrainingLoop(Notes(), units, Shape(overlapped=True, deferred=True), Traffic())


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("gradient_steps", [1, 2, 8])
@pytest.mark.parametrize("deferred", [False, True])
def test_an_insertion_of_the_loop_copies_what_was_sampled_since_and_still_waits(
    monkeypatch, ahead, gradient_steps, deferred
):
    """With the insertion after the first sampling of a round, D + 1 batches wait; before it, D."""
    storage = DeviceStorage(8, {"whole": FieldSpec((), np.int64)}, device_of("host"))
    storage.gather_s = storage.write_s = 0.0
    storage.insert({"whole": np.arange(8)})
    kept, copies = storage._keep, []
    monkeypatch.setattr(storage, "_keep", lambda batch: (copies.append(batch), kept(batch)))
    units, rng = Nothing(1).units, np.random.default_rng(0)
    weights = np.ones(1, np.float32)

    def sample(count, _, out=None):
        indices = rng.integers(0, 8, 1)
        batch = storage.gather(indices, out.batch if out else None)
        return SimpleNamespace(indices=indices, weights=weights, batch=batch)

    def insert(_):
        storage.insert({"whole": np.arange(1)})

    replay = SimpleNamespace(insert=insert, sample=sample, update_priorities=lambda *_: None)
    units = replace(units, storage=storage, replay=replay)
    shape = Shape(1, gradient_steps, 1, ahead=ahead, overlapped=deferred, deferred=deferred)
    loop = TrainingLoop(Notes(), units, shape, Traffic())
    for _ in range(8):
        loop.round()
    before = len(copies)
    loop.round()
    assert len(copies) - before == min(gradient_steps, ahead + deferred)


@given(capacity=st.integers(1, 12), before=st.integers(1, 40), since=st.integers(0, 30), data=st.data())
@settings(max_examples=300, deadline=None)
def test_overwritten_rows_are_found(capacity, before, since, data):
    storage = Storage(capacity, {"item": FieldSpec((), np.int64)})
    for item in range(before):
        storage.insert({"item": np.array([item])})
    indices = np.array(data.draw(st.lists(st.integers(0, len(storage) - 1), min_size=1, max_size=6)))
    sampled = storage.columns["item"][indices]
    for item in range(before, before + since):
        storage.insert({"item": np.array([item])})
    kept = not_overwritten(indices, capacity, before + since, before)
    np.testing.assert_array_equal(kept, storage.columns["item"][indices] == sampled)
