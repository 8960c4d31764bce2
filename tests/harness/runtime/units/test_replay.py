"""Replay management as a unit: the same training as in turns, while the learner works, and its errors named."""

import threading
from functools import partial

import numpy as np
import pytest

from placerl.harness.loop.clock import LEARNER, RMM
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.loop.virtual_time import VirtualTime
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.units import replay
from placerl.harness.runtime.units.replay import TimeBeside
from placerl.harness.runtime.units.unit import UnitError
from tests.harness.runtime.short_workloads import short
from tests.harness.runtime.trainings import replay_training
from tests.limits import LIMIT_S
from tests.marks import needs_opencl

NATIVE, TORCH, FLAT = map(Mapping.parse, ("native-native-cpu", "torch-native-cpu", "torch-flat-cpu"))
small = partial(short, capacity=100)  # some rows of waiting batches are overwritten


def trained(beside, ahead, mapping, **arguments):
    schedule = Schedule(presampled_batches=ahead, replay_beside=beside, **arguments)
    training = replay_training(small("cartpole-ddpg"), mapping, seed=3, schedule=schedule)
    training.warm_up()
    progress = training.advance(100)
    training.close()
    return training, progress


@pytest.mark.parametrize(
    ("mapping", "ahead", "arguments"),
    [
        (NATIVE, 1, {}),
        (NATIVE, 7, {}),
        (NATIVE, 3, {"overlap": 8}),
        (NATIVE, 0, {"fusion": Fusion.REPLAY}),
        (TORCH, 7, {}),
        (TORCH, 3, {"overlap": 8}),
        (TORCH, 2, {"learners": 2}),
        (NATIVE, 2, {"fusion": Fusion.NONE}),
        (FLAT, 2, {}),
        pytest.param(Mapping.parse("opencl-native-opencl"), 0, {}, marks=needs_opencl),
        pytest.param(Mapping.parse("opencl-opencl-opencl"), 3, {"overlap": 8}, marks=needs_opencl),
        pytest.param(Mapping.parse("native-opencl-opencl"), 7, {}, marks=needs_opencl),
    ],
)
def test_it_trains_as_in_turns_bit_for_bit(mapping, ahead, arguments):
    (turns, told), (beside, told_beside) = (
        trained(beside, ahead, mapping, **arguments) for beside in (False, True)
    )
    expected, found = turns.learner.state_dict(), beside.learner.state_dict()
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert told_beside.episodes == told.episodes
    assert told_beside.losses == told.losses
    waited_s = told_beside.terms_s.pop("wait")
    assert told_beside.terms_s.keys() == told.terms_s.keys()
    assert min(told_beside.terms_s.values()) > 0 <= waited_s


def test_the_next_batch_is_drawn_while_the_learner_works():
    training = replay_training(
        small("cartpole-ddpg"),
        NATIVE,
        schedule=Schedule(presampled_batches=1, replay_beside=True, fusion=Fusion.NONE),
    )
    training.warm_up()
    sample, step = training.replay.sample, training.learner.step
    drawn, threads = threading.Event(), set()

    def sampled(*arguments, **options):
        threads.add(threading.get_ident())
        found = sample(*arguments, **options)
        drawn.set()
        return found

    def learnt(*arguments):
        # The batch after this one is asked for before the step begins: in turns nothing could set it meanwhile.
        assert drawn.wait(LIMIT_S)
        drawn.clear()
        return step(*arguments)

    training.replay.sample, training.learner.step = sampled, learnt
    training.advance(10)
    training.close()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_its_errors_are_named_and_the_queues_drain():
    training = replay_training(
        small("cartpole-dqn"),
        NATIVE,
        schedule=Schedule(presampled_batches=2, replay_beside=True, fusion=Fusion.NONE),
    )
    training.warm_up()

    def broken(*arguments, **options):
        raise MemoryError("no room")

    training.replay.update_priorities = broken
    with pytest.raises(UnitError, match="replay manager: MemoryError: no room"):
        training.advance(50)
    training.close()
    training.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "replay manager"]


def test_what_waits_is_bounded_and_answered_in_order():
    time, order = TimeBeside(3), []
    asked = [
        time.call(RMM, "sample", lambda number=number: order.append(number) or number) for number in range(50)
    ]
    assert [one.value for one in asked] == list(range(50)) == order
    here = time.call(LEARNER, "learner", threading.get_ident)
    assert here.value == threading.get_ident()
    assert len(time._waiting) == 0
    assert time.terms_s["sample"] > 0
    time.close()


def test_a_call_takes_the_seconds_from_its_beginning_to_its_end_and_the_host_waits_as_long(monkeypatch):
    now_s, host, waiting = [1.0], threading.current_thread(), threading.Event()

    def perf_counter():
        told_s = now_s[0]
        if threading.current_thread() is host:
            waiting.set()
        return told_s

    def work(took_s):
        assert waiting.wait(LIMIT_S)
        now_s[0] += took_s

    monkeypatch.setattr(replay, "perf_counter", perf_counter)
    time = TimeBeside(3)
    for took_s, expected_s in ((9, 9), (2, 9 + 2)):
        waiting.clear()
        time.call(RMM, "sample", lambda took_s=took_s: work(took_s))
        time.drain()
        assert time.terms_s == {"sample": expected_s, "wait": expected_s}
    time.close()


def test_work_that_failed_says_so_whenever_its_value_is_read():
    def broken():
        raise MemoryError("no room")

    time = TimeBeside(3)
    asked = time.call(RMM, "sample", broken)
    for _ in range(2):
        with pytest.raises(UnitError, match="replay manager: MemoryError: no room"):
            _ = asked.value
    time.close()


def test_in_virtual_time_it_has_a_core_of_its_own():
    training = replay_training(
        small("cartpole-dqn"),
        Mapping.parse("fpga-native-cpu"),
        schedule=Schedule(presampled_batches=1, replay_beside=True),
    )
    assert isinstance(training._time, VirtualTime)
    assert RMM in training._time._beside
    training.close()
