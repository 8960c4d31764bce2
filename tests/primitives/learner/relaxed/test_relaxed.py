"""Relaxed gradient steps are those of a loop that samples D batches ahead, whether or not a thread does it."""

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placerl.primitives.learner import NotFiniteError
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import ManagedSteps, RelaxedSteps
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.storage import transition_fields
from tests.limits import LIMIT_S
from tests.primitives.learner.fused.replay_and_learner import (
    BATCH,
    CAPACITY,
    ITEMS,
    PRECISIONS,
    SHAPES,
    boolean_observations,
    parts,
    rows_of,
    spoil,
)

ROOT = Path(__file__).parents[4]


WAYS = {
    "in turns": lambda replay, made, ahead: RelaxedSteps(replay, made, ahead, beside=False),
    "beside": RelaxedSteps,
    "managed": lambda replay, made, ahead: ManagedSteps(replay, made, BATCH, ahead),
}


class Definition:
    """The loop in Python: before step k the batch of step k + D is sampled, after it its priorities are updated."""

    def __init__(self, replay, learner, ahead):
        self.replay, self.learner, self.ahead = replay, learner, ahead
        self.waiting, self.inserted = [], len(replay)

    def run(self, steps, rng):
        for _ in range(steps):
            while len(self.waiting) <= self.ahead:
                self.waiting.append((self.replay.sample(BATCH, rng), self.inserted))
            sample, inserted = self.waiting.pop(0)
            outcome = self.learner.step(sample.batch, sample.weights)
            fresh = {row % CAPACITY for row in range(inserted, self.inserted)}
            kept = np.array([index not in fresh for index in sample.indices])
            self.replay.update_priorities(sample.indices[kept], outcome.td_errors[kept])
        self.losses = outcome.losses

    def insert(self, batch, td_errors=None):
        self.replay.insert(batch, td_errors)
        self.inserted += len(batch["reward"])


def expect_same(one, other):
    (replay, made, rng), (other_replay, other_made, other_rng) = one, other
    for key, value in made.state_dict().items():
        np.testing.assert_array_equal(other_made.state_dict()[key], value, err_msg=key)
    rows = np.arange(len(replay))
    np.testing.assert_array_equal(other_replay.priorities(rows), replay.priorities(rows))
    assert other_rng.bit_generator.state == rng.bit_generator.state
    assert other_replay.samples_drawn == replay.samples_drawn
    assert other_made.gradient_steps == made.gradient_steps


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize(("way", "backend"), [*((way, "native") for way in WAYS), ("managed", "torch")])
@pytest.mark.parametrize("ahead", [0, 1, 7])
def test_the_batches_and_priorities_are_those_of_the_definition(name, way, backend, ahead):
    expected, found = parts(name, backend=backend), parts(name, backend=backend)
    definition = Definition(*expected[:2], ahead)
    relaxed = WAYS[way](*found[:2], ahead)
    for steps in (3, 1, 9):
        for one, rng in ((definition, expected[2]), (relaxed, found[2])):
            one.run(steps, rng)
            one.insert(
                rows_of(expected[0], 45)
            )  # the second and third time rows of waiting batches are replaced
    relaxed.drain()
    assert relaxed.losses == definition.losses
    expect_same(expected, found)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_batches_ahead_it_is_the_strict_loop_bit_for_bit(precision, beside):
    strict, relaxed = parts("ddpg", precision=precision), parts("ddpg", precision=precision)
    fused, made = FusedSteps(*strict[:2]), RelaxedSteps(*relaxed[:2], 0, beside=beside)
    for steps in (1, 12):
        fused.run(steps, strict[2])
        made.run(steps, relaxed[2])
    made.drain()
    assert made.losses == fused.losses
    expect_same(strict, relaxed)


@pytest.mark.parametrize("pieces", [[1] * 20, [20], [7, 1, 12]])
def test_stopping_and_going_on_changes_nothing(pieces):
    whole, cut = parts("td3"), parts("td3")
    made = RelaxedSteps(*whole[:2], 5)
    made.run(20, whole[2])
    made.drain()
    stopped = RelaxedSteps(*cut[:2], 5)
    for steps in pieces:
        stopped.run(steps, cut[2])
        stopped.drain()
    expect_same(whole, cut)


def test_a_late_priority_of_an_overwritten_row_is_dropped():
    """All rows are replaced while batches wait: their new items keep the priority with which they came."""
    replay, made, rng = parts("dqn", alpha=1.0, epsilon=0.5)
    relaxed = RelaxedSteps(replay, made, 2)
    relaxed.run(1, rng)
    relaxed.insert(rows_of(replay, CAPACITY), np.full(CAPACITY, 2.5))
    relaxed.run(2, rng)  # on batches of the items that are gone
    relaxed.drain()
    np.testing.assert_array_equal(replay.priorities(np.arange(CAPACITY)), np.full(CAPACITY, 3.0))
    relaxed.run(1, rng)  # on a batch of the new items
    relaxed.drain()
    assert np.any(replay.priorities(np.arange(CAPACITY)) != 3.0)


@pytest.mark.parametrize("way", WAYS)
def test_items_that_came_by_another_way_before_the_first_step_count_for_the_rows(way):
    """No batch waits yet, so the replay itself may be filled: rows of later items are found from its cursor."""
    replay, made, rng = parts("dqn", alpha=1.0, epsilon=0.5)
    relaxed = WAYS[way](replay, made, 2)
    replay.insert(rows_of(replay, 30))  # up to row ITEMS + 29
    relaxed.run(1, rng)
    relaxed.drain()
    before = replay.priorities(np.arange(ITEMS + 30))
    relaxed.insert(rows_of(replay, CAPACITY - 50), np.full(CAPACITY - 50, 2.5))  # all rows but 100 to 149
    relaxed.run(2, rng)
    relaxed.drain()
    after = replay.priorities(np.arange(CAPACITY))
    kept = np.arange(100, 150)
    np.testing.assert_array_equal(np.delete(after, kept), np.full(CAPACITY - 50, 3.0))
    assert np.any(after[kept] != before[kept])


def test_a_late_priority_goes_to_the_row_that_it_was_computed_for():
    replay, made, rng = parts("dqn", alpha=1.0, epsilon=0.5)
    other = parts("dqn", alpha=1.0, epsilon=0.5)
    sample = other[0].sample(BATCH, other[2])
    expected = np.abs(other[1].step(sample.batch, sample.weights).td_errors) + np.float32(0.5)
    relaxed = RelaxedSteps(replay, made, 4)
    relaxed.run(1, rng)
    relaxed.insert(rows_of(replay, 10), np.full(10, 8.0))  # rows of their own: the replay is not full
    relaxed.drain()
    last = {int(index): value for index, value in zip(sample.indices, expected, strict=True)}
    np.testing.assert_allclose(replay.priorities(np.array(list(last))), list(last.values()), rtol=1e-6)
    np.testing.assert_array_equal(replay.priorities(np.arange(ITEMS, ITEMS + 10)), np.full(10, 8.5))


def test_the_actors_priorities_are_those_of_the_replay_itself():
    direct, relaxed = parts("ddpg")[0], parts("ddpg")
    errors = np.linspace(-3, 3, 11)
    direct.insert(rows_of(direct, 11), errors)
    made = RelaxedSteps(*relaxed[:2], 1)
    made.insert(rows_of(direct, 11), errors)
    made.drain()
    rows = np.arange(ITEMS + 11)
    np.testing.assert_array_equal(relaxed[0].priorities(rows), direct.priorities(rows))


def test_the_manager_works_while_the_interpreter_is_busy():
    """Python takes the interpreter from no thread here, and the caller keeps it until the manager has inserted."""
    replay, made, _ = parts("dqn")
    # With more than one batch ahead, a single call would not wake the manager.
    relaxed = RelaxedSteps(replay, made, 1)
    batch, switching_s = rows_of(replay, 5), sys.getswitchinterval()
    sys.setswitchinterval(10 * LIMIT_S)
    try:
        relaxed.insert(batch)
        until = time.monotonic() + LIMIT_S
        while len(replay) < ITEMS + 5:
            assert time.monotonic() < until
    finally:
        sys.setswitchinterval(switching_s)
    assert len(replay) == ITEMS + 5


def test_a_td_error_whose_priority_is_beyond_single_precision_is_refused():
    replay, made, _ = parts("dqn")
    relaxed = RelaxedSteps(replay, made, 1)
    with pytest.raises(ValueError, match=r"td_errors: found 1e\+66; allowed: a priority of at most"):
        relaxed.insert(rows_of(replay, 1), [1e66])
    columns = list(replay.storage.checked(rows_of(replay, 1)).values())
    with pytest.raises(ValueError, match="td_errors: found a priority above the largest"):
        relaxed._fused.insert(columns, 1, [1e66])
    relaxed.drain()
    assert (len(replay), replay.max_priority) == (ITEMS, 1)


def test_more_insertions_than_have_room_wait():
    replay, made, rng = parts("dqn")
    relaxed = RelaxedSteps(replay, made, 1)
    for number in range(50):
        relaxed.insert(rows_of(replay, 4, number))
    relaxed.drain()
    assert len(replay) == CAPACITY
    newest = replay.gather(np.arange(ITEMS - 4, ITEMS))["reward"]  # 320 items in all: row 119 is the newest
    np.testing.assert_array_equal(newest, np.full(4, 49.0))
    relaxed.run(2, rng)


END_DURING_A_SAVE = """
import threading
from placerl.primitives.learner import NotFiniteError
from placerl.primitives.learner.relaxed import RelaxedSteps
from tests.primitives.learner.fused.replay_and_learner import parts, rows_of
replay, made, _ = parts("dqn")
relaxed = RelaxedSteps(replay, made, 1)
replay._native.freeze()  # as a save does until its file is written
relaxed.insert(rows_of(replay, 5))
save = threading.Timer(0.2, replay._native.thaw)
save.start()
del relaxed
save.join()
print(len(replay))
"""


def test_its_end_does_not_wait_for_a_save_with_the_gil():
    """The manager's thread waits until a save ends, which needs the interpreter, and the end waits for the thread."""
    command = [sys.executable, "-c", END_DURING_A_SAVE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.stdout, done.stderr) == (f"{ITEMS + 5}\n", "")


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_is_not_finite_is_refused_at_its_step(way):
    replay, made, rng = parts("ddpg")
    relaxed = WAYS[way](replay, made, 2)
    relaxed.run(1, rng)
    replay.storage.columns["reward"][:] = np.nan
    relaxed.run(2, rng)  # on the batches that waited
    with pytest.raises(ValueError, match=r"reward.*: found.*[Nn]a[Nn]"):
        relaxed.run(1, rng)
    assert made.gradient_steps == 3
    assert all(np.isfinite(value).all() for value in made.parameters().values())


@pytest.mark.parametrize("beside", [False, True])
def test_an_action_out_of_range_is_refused_at_its_step(beside):
    replay, made, rng = parts("dqn")
    relaxed = RelaxedSteps(replay, made, 2, beside=beside)
    relaxed.run(1, rng)
    relaxed.drain()
    replay.storage.columns["action"][:] = 2
    relaxed.run(2, rng)  # on the batches that waited
    with pytest.raises(ValueError, match=r"batch/action: found an integer out of range; allowed: 0 to 1"):
        relaxed.run(1, rng)
    assert made.gradient_steps == 3


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_replay_is_refused_and_can_be_filled(way):
    full, made, rng = parts("dqn")
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))
    replay = ConcurrentReplay(Storage(CAPACITY, fields))
    relaxed = WAYS[way](replay, made, 2)
    with pytest.raises(ValueError, match=EMPTY):
        relaxed.run(1, rng)
    assert (made.gradient_steps, replay.samples_drawn) == (0, 0)
    relaxed.insert(rows_of(full, 30))
    relaxed.run(4, rng)
    assert made.gradient_steps == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_td_error_that_is_too_large_is_raised_and_stays(way):
    replay, made, rng = parts("ddpg", alpha=4.0)
    replay.storage.columns["reward"][:] = 1e15
    relaxed = WAYS[way](replay, made, 1)

    def learn():
        relaxed.run(1, rng)
        relaxed.drain()

    for _ in range(2):
        with pytest.raises(ValueError, match="td_errors: found a priority above the largest"):
            learn()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_td_error_that_is_not_finite_is_refused_with_equal_priorities(value):
    replay, made, rng = parts("dqn", alpha=0.0)
    spoil(made, value)
    relaxed = RelaxedSteps(replay, made, 1)
    with pytest.raises(NotFiniteError, match=r"gradient step 1: .*td_errors: found NaN or infinity"):
        relaxed.run(1, rng)


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_a_forked_copy_refuses_to_work(kind):
    """The priorities of a copy reach no sample of the parent, and its manager's thread is the parent's."""
    replay, made, rng = parts("dqn")
    steps = RelaxedSteps(replay, made, 1) if kind == "relaxed" else FusedSteps(replay, made)
    steps.run(1, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost is what is tried here
        child = os.fork()
    if not child:
        refused = 0
        try:
            with pytest.raises(RuntimeError, match="belongs to process"):
                steps.insert(rows_of(replay, 1))
            with pytest.raises(RuntimeError, match="belongs to process"):
                steps.run(1, rng)
            refused = 2
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    steps.run(2, rng)
    steps.drain()
    assert made.gradient_steps == 3


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_a_call_of_another_thread_meanwhile_is_refused_and_counts_nothing(kind):
    replay, made, rng = parts("dqn")
    steps = RelaxedSteps(replay, made, 1) if kind == "relaxed" else FusedSteps(replay, made)
    thread = threading.Thread(target=steps.run, args=(20, rng))
    name = type(steps).__name__
    with rng.bit_generator.lock:  # the call cannot end before it is let go
        thread.start()
        while not steps._in_call.locked():
            assert thread.is_alive()
        with pytest.raises(
            RuntimeError, match=f"{name}.run: found another call in progress; allowed: one at a"
        ):
            steps.run(1, np.random.default_rng(0))
        if kind == "relaxed":
            with pytest.raises(RuntimeError, match=r"RelaxedSteps.insert: found another call in progress"):
                steps.insert(rows_of(replay, 1))
            with pytest.raises(RuntimeError, match=r"RelaxedSteps.terms_s: found another call in progress"):
                _ = steps.terms_s
    thread.join()
    steps.drain()
    assert made.gradient_steps == 20


def watched(meanwhile):
    """A generator that makes a call whenever a native call locks it: after that call began, and before it ends."""

    class Watched(np.random.Generator):
        @property
        def bit_generator(self):
            bits = super().bit_generator
            lock = SimpleNamespace(acquire=meanwhile, release=lambda: None)
            return SimpleNamespace(capsule=bits.capsule, lock=lock)

    return Watched(np.random.PCG64(5))


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_the_learner_itself_takes_no_call_meanwhile(kind):
    replay, made, _ = parts("dqn")
    steps = RelaxedSteps(replay, made, 1) if kind == "relaxed" else FusedSteps(replay, made)
    sample = replay.sample(BATCH, np.random.default_rng(5))
    refused = []

    def call_the_learner():
        for use in (
            lambda: made.act(np.zeros((2, 4), np.float32)),
            lambda: made.step(sample.batch, sample.weights),
        ):
            with pytest.raises(RuntimeError, match="learner: found another call in progress"):
                use()
            refused.append(use)

    rng = watched(call_the_learner)
    steps.run(3, rng)
    steps.drain()
    assert len(refused) == 2
    assert made.gradient_steps == 3
    made.step(sample.batch, sample.weights)


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_a_native_call_lets_go_of_the_interpreter(kind):
    """Python takes the interpreter from no thread here, so that another comes to its turn only where one lets go."""
    replay, made, rng = parts("dqn")
    steps = RelaxedSteps(replay, made, 1) if kind == "relaxed" else FusedSteps(replay, made)
    begun, over, turns = threading.Event(), threading.Event(), 0

    def count_turns():
        nonlocal turns
        begun.set()
        while not over.is_set():
            turns += 1
            time.sleep(1e-4)

    thread, switching_s = threading.Thread(target=count_turns), sys.getswitchinterval()
    thread.start()
    assert begun.wait(LIMIT_S)
    sys.setswitchinterval(10 * LIMIT_S)
    try:
        before, until = turns, time.monotonic() + LIMIT_S
        while turns == before:
            steps.run(200, rng)
            assert time.monotonic() < until
    finally:
        sys.setswitchinterval(switching_s)
        over.set()
        thread.join()


@pytest.mark.parametrize("way", ["beside", "managed"])
def test_its_seconds_are_of_both_threads(way):
    replay, made, rng = parts("dqn")
    relaxed = WAYS[way](replay, made, 3)
    assert set(relaxed.terms_s.values()) == {0.0}
    relaxed.run(5, rng)
    relaxed.insert(rows_of(replay, 5))
    relaxed.drain()
    assert relaxed.terms_s.keys() == {"sample", "update", "insert", "learner", "wait"}
    assert all(seconds > 0 for name, seconds in relaxed.terms_s.items() if name != "wait")


@pytest.mark.parametrize("way", WAYS)
def test_wrong_arguments_are_refused(way):
    replay, made, rng = parts("dqn")
    for ahead in (-1, 1.5, True):
        with pytest.raises(ValueError, match=f"ahead: found {ahead}"):
            WAYS[way](replay, made, ahead)
    relaxed = WAYS[way](replay, made, 1)
    with pytest.raises(ValueError, match="steps: found 0"):
        relaxed.run(0, rng)
    with pytest.raises(TypeError, match="rng"):
        relaxed.run(1, np.random.RandomState(0))
    with pytest.raises(ValueError, match="found columns"):
        relaxed.insert({"reward": np.zeros(1, np.float32)})
    with pytest.raises(ValueError, match="td_errors: found shape"):
        relaxed.insert(rows_of(replay, 3), np.zeros(2))
    assert len(replay) == ITEMS


def test_only_terminated_may_be_boolean():
    replay, made, _ = boolean_observations()
    with pytest.raises(ValueError, match=r"column 'observation' of \(4,\) bool; allowed: \(4,\) float32"):
        RelaxedSteps(replay, made, 2)
