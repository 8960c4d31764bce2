"""Algorithm 1 moves work to where time is left; what a run is refused, and what is applied to it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.learners.accelerated import AcceleratedLearner, SimulatedAcceleratedLearner
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.reallocation import (
    Allocation,
    Reallocator,
    Times,
    parallel_learner,
    reallocate,
)
from placerl.harness.runtime.training import links_of_map
from placerl.harness.workloads import load
from placerl.harness.workloads.task import algorithm_of, resized
from placerl.primitives.learner import backends
from tests.harness.mapping.links import Links
from tests.harness.runtime.trainings import replay_training

TORCH, NATIVE = Mapping.parse("torch-native-cpu"), Mapping.parse("native-native-cpu")
START = Allocation(actors=8, trainers=0, batch_size=256)


def test_actors_become_trainers_where_the_learner_takes_more_than_twice_their_time():
    assert reallocate(START, Times(2.0, 0, 1.0, 0)) == START
    assert reallocate(START, Times(1.5, 0, 1.0, 0)) == START
    assert reallocate(START, Times(2.1, 0, 1.0, 0)) == Allocation(4, 4, 256, 64)
    assert reallocate(START, Times(7.0, 0, 3.0, 0)) == Allocation(4, 4, 256, 64)


def test_a_last_actor_stays():
    alone = Allocation(actors=1, trainers=0, batch_size=256)
    assert reallocate(alone, Times(9.0, 0, 1.0, 0)) == alone


def test_the_batch_moves_to_whoever_has_time():
    both = Allocation(4, 4, 256, 64)
    assert reallocate(both, Times(3, 1, 1, 0.1)).trained_beside == 80
    assert reallocate(both, Times(1, 3, 1, 0.1)).trained_beside == 48


def test_trainers_act_again_where_putting_gradients_together_takes_longest():
    now = Allocation(4, 4, 256, 64)
    for actors, trainers, beside in ((5, 3, 48), (6, 2, 32), (7, 1, 16), (8, 0, 0), (8, 0, 0)):
        now = reallocate(now, Times(1, 1, 1, 2))
        assert now == Allocation(actors, trainers, 256, beside)


@given(
    st.integers(1, 64),
    st.integers(1, 4096),
    st.lists(st.tuples(*[st.floats(0, 10)] * 4), max_size=30),
)
def test_no_thread_and_no_sample_is_lost(threads, batch_size, times):
    now = Allocation(threads, 0, batch_size)
    for row in times:
        now = reallocate(now, Times(*row))
        assert now.actors >= 1
        assert now.trainers >= 0
        assert now.actors + now.trainers == threads
        assert sum(now.parts) == batch_size
        assert now.parts[0] >= 1
        assert len(now.parts) <= now.trainers + 1


@pytest.mark.parametrize(
    ("allocation", "parts"),
    [
        (Allocation(4, 0, 256), (256,)),
        (Allocation(4, 4, 256, 0), (256,)),
        (Allocation(4, 3, 256, 64), (192, 22, 21, 21)),
        (Allocation(4, 4, 256, 2), (254, 1, 1)),  # trainers without a sample have no part
    ],
)
def test_the_parts_of_a_batch_differ_by_one_sample_at_most(allocation, parts):
    assert allocation.parts == parts


def test_a_batch_moves_a_sixteenth_at_a_time_and_at_least_one_sample():
    learner, trainers = Times(3, 1, 1, 0.1), Times(1, 3, 1, 0.1)
    for batch_size, share in ((256, 16), (47, 2), (15, 1)):
        now = Allocation(4, 4, batch_size, 2 * share)
        assert reallocate(now, learner).trained_beside == 3 * share
        assert reallocate(now, trainers).trained_beside == share


def test_the_learner_keeps_a_sixteenth_and_a_sample():
    for beside in (230, 239):
        assert reallocate(Allocation(4, 4, 256, beside), Times(3, 1, 1, 0.1)).trained_beside == 239
    assert reallocate(Allocation(4, 4, 256, 250), Times(3, 1, 1, 0.1)).trained_beside == 250, (
        "what it has not"
    )


def test_trainers_keep_a_share_while_they_are_trainers():
    assert reallocate(Allocation(4, 4, 256, 20), Times(1, 3, 1, 0.1)).trained_beside == 16
    assert reallocate(Allocation(4, 4, 256, 16), Times(1, 3, 1, 0.1)).trained_beside == 16
    assert reallocate(Allocation(4, 4, 256, 3), Times(1, 3, 1, 0.1)).trained_beside == 3


def test_freed_actors_take_a_share_each():
    assert reallocate(Allocation(6, 0, 256), Times(9, 0, 1, 0)) == Allocation(3, 3, 256, 48)
    assert reallocate(Allocation(3, 0, 256), Times(9, 0, 1, 0)) == Allocation(2, 1, 256, 16)


@pytest.mark.parametrize("times", [Times(1, 1, 3, 1), Times(0, 3, 1, 1), Times(0, 1, 1, 3)])
def test_nothing_moves_where_the_actors_take_longest_or_there_are_no_trainers(times):
    now = Allocation(4, 4, 256, 64) if times.actors == 3 else START
    assert reallocate(now, times) == now


def simulated_times(now, learner_s, actor_s):
    """Seconds where the learner takes `learner_s` a sample and an actor `actor_s` for one of 64 requests."""
    return Times(
        learner_s * now.parts[0],
        4 * learner_s * max(now.parts[1:], default=0),
        64 * actor_s / now.actors,
        1e-3,
    )


def test_it_settles_where_learner_and_trainers_take_alike():
    now = START
    for _ in range(60):
        now = reallocate(now, simulated_times(now, learner_s=1.0, actor_s=0.5))
    times = simulated_times(now, 1.0, 0.5)
    assert now.trainers == 4
    assert times.learner < 0.7 * 256
    assert abs(times.learner - times.trainers) <= 0.35 * times.learner


def needs(backend):
    if backend not in {status.name for status in backends() if status.available}:
        pytest.skip(f"needs the learner backend {backend}")


@pytest.mark.usefixtures("simulated_cycles")
@pytest.mark.parametrize("backend", ["torch", pytest.param("opencl", marks=pytest.mark.slow), "fpga"])
def test_a_run_goes_on_whoever_is_active(short, backend):
    """Whatever the machine's times are, no thread, sample or environment step is lost."""
    needs(backend)
    training = replay_training(
        short("cartpole-dqn", actors=4),
        Mapping.parse(f"{backend}-native-cpu"),
        seed=1,
        schedule=Schedule(processes=2, overlap=8, reallocate=True),
    )
    training.warm_up()
    pool, learner = training._acting, training.learner
    for active, parts in ((2, (8,)), (1, (6, 2)), (2, (8,))):
        pool.active, learner.updates.parts = active, parts
        training.reallocator.step = lambda: None  # the sizes above, not the machine's
        progress = training.advance(8)
        assert progress.environment_steps == progress.gradient_steps
    del training.reallocator.step
    training.advance(40)
    now = training.reallocator.allocation
    assert now.actors + now.trainers == 2
    assert sum(now.parts) == 8
    training.close()


@pytest.mark.usefixtures("simulated_cycles")
def test_threads_take_work_from_an_accelerator_behind_a_slow_link(short):
    """In virtual time: the actors take far less than the gradients' way to the host and back, of 1 s."""
    needs("fpga")
    slow = Links(lambda *_: 1e9, lambda *_: 0.5)
    training = replay_training(
        short("cartpole-dqn", actors=2),
        Mapping.parse("fpga-native-cpu"),
        schedule=Schedule(processes=2, overlap=4, reallocate=True),
        platform=lambda: slow,
    )
    training.fill()
    moved = []
    for _ in range(3):
        begin_s, before_s = training._time.now_s(), training.learner.updates.learner_s
        training.take(4)
        moved.append(training.reallocator.allocation)
        assert training._time.now_s() - begin_s > training.learner.updates.learner_s - before_s > 4.0
    assert [(now.actors, now.trainers, now.trained_beside) for now in moved] == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 1, 3),
    ]
    assert training.provenance is Provenance.MODELLED
    training.close()


def test_a_parallel_learner_has_a_trainer_for_each_process_but_the_last_actor():
    made = SimpleNamespace(algorithm=algorithm_of(load("hopper-ddpg")), batch_size=8, seed=3)
    learner = parallel_learner(made, 3, TORCH, links_of_map)
    assert (learner.updates.trainers, learner.batch_size, learner.seed) == (2, 8, 3)
    assert type(learner) is ParallelLearner
    learner.close()


@pytest.mark.parametrize("backend", ["opencl", "fpga"])
def test_a_learner_on_an_accelerator_shares_its_batches_with_trainers(backend):
    needs(backend)
    mapping = Mapping.parse(f"{backend}-native-cpu")
    trainee = learner_of(resized(load("cartpole-dqn"), 8), mapping, np.random.SeedSequence(3))
    learner = parallel_learner(trainee, 3, mapping, links_of_map)
    assert (learner.updates.trainers, learner.batch_size, learner.seed) == (2, 8, trainee.seed)
    assert type(learner) is (SimulatedAcceleratedLearner if backend == "fpga" else AcceleratedLearner)
    learner.close()


def of_times(active=8):
    """A learner and a pool that say how long they have worked."""
    updates = SimpleNamespace(learner_s=1.0, trainers_s=20.0, synchronisation_s=30.0, parts=())
    pool = SimpleNamespace(active=active, environment_s=40.0, inference_s=50.0)
    return SimpleNamespace(updates=updates, batch_size=256), pool


def test_the_times_are_those_of_the_last_iteration_alone():
    """What was spent before it, most of it by the actors, does not count."""
    learner, pool = of_times()
    moved = Reallocator(learner, pool)
    assert moved.allocation == Allocation(8, 0, 256)
    learner.updates.learner_s += 2.1
    pool.environment_s += 0.4
    pool.inference_s += 0.6
    moved.step()
    assert moved.allocation == Allocation(4, 4, 256, 64)
    assert (learner.updates.parts, pool.active) == ((192, 16, 16, 16, 16), 4)
    learner.updates.trainers_s += 3  # the learner worked 0 s since
    moved.step()
    assert moved.allocation == Allocation(4, 4, 256, 48)
    learner.updates.synchronisation_s += 3
    moved.step()
    assert moved.allocation == Allocation(5, 3, 256, 36)
    assert (learner.updates.parts, pool.active) == ((220, 12, 12, 12), 5)


def test_an_allocation_can_be_kept():
    learner, pool = of_times()
    kept = Reallocator(learner, pool)
    kept.fix(Allocation(5, 3, 256, 48))
    learner.updates.learner_s += 9
    kept.step()
    assert kept.allocation == Allocation(5, 3, 256, 48)
    assert (learner.updates.parts, pool.active) == ((208, 16, 16, 16), 5)


def test_acting_is_stepping_and_inference_together():
    for environment_s, inference_s in ((1.0, 0.1), (0.1, 1.0)):
        learner, pool = of_times()
        moved = Reallocator(learner, pool)
        learner.updates.learner_s += 2.1  # more than twice each, less than twice both
        pool.environment_s += environment_s
        pool.inference_s += inference_s
        moved.step()
        assert moved.allocation.actors == 8
