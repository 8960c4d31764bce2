"""What re-allocation asks for, and what it reads and changes after an iteration; `reallocate` has its own tests."""

from types import SimpleNamespace

import pytest

from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.runtime.balance import Balance, check_learners, parallel_learner
from harness.runtime.reallocation import Allocation
from harness.workloads import load
from harness.workloads.task import algorithm_of

TORCH, NATIVE = Mapping.parse("torch-native-cpu"), Mapping.parse("native-native-cpu")


@pytest.mark.parametrize(
    ("mapping", "learners", "processes", "overlap", "reallocate"),
    [
        (NATIVE, 1, 0, 0, False),
        (NATIVE, 1, 2, 8, False),
        (TORCH, 2, 0, 0, False),
        (TORCH, 5, 1, 8, False),
        (TORCH, 1, 2, 1, True),
        (TORCH, 1, 3, 8, True),
    ],
)
def test_what_can_be_split_passes(mapping, learners, processes, overlap, reallocate):
    check_learners(mapping, learners, processes, overlap, reallocate)


@pytest.mark.parametrize(
    ("mapping", "learners", "processes", "overlap", "reallocate", "words"),
    [
        (TORCH, 0, 0, 0, False, "learners: found 0; allowed: at least 1"),
        (NATIVE, 2, 0, 0, False, "learner: found native; allowed: torch"),
        (Mapping.parse("torch:cuda-native-cpu"), 2, 0, 0, False, "learner: found torch:cuda; allowed: torch"),
        (NATIVE, 1, 2, 8, True, "learner: found native; allowed: torch"),
        (TORCH, 2, 2, 8, True, "learners: found 2; allowed: 1 with re-allocation"),
        (TORCH, 1, 1, 8, True, "reallocate: found 1 actor processes, overlap 8; allowed: at least 2"),
        (TORCH, 1, 2, 0, True, "reallocate: found 2 actor processes, overlap 0; allowed: at least 2"),
    ],
)
def test_what_cannot_is_refused_by_its_field(mapping, learners, processes, overlap, reallocate, words):
    with pytest.raises(UserError) as refused:
        check_learners(mapping, learners, processes, overlap, reallocate)
    assert words in str(refused.value)


def test_a_parallel_learner_has_a_trainer_for_each_process_but_the_last_actor():
    made = SimpleNamespace(algorithm=algorithm_of(load("hopper-ddpg")), batch_size=8, seed=3)
    learner = parallel_learner(made, processes=3)
    assert (learner.updates.trainers, learner.batch_size, learner.seed) == (2, 8, 3)
    learner.close()


def of_times(active=8):
    """A learner and a pool that say how long they have worked."""
    updates = SimpleNamespace(learner_s=1.0, trainers_s=20.0, synchronisation_s=30.0, parts=())
    pool = SimpleNamespace(active=active, environment_s=40.0, inference_s=50.0)
    return SimpleNamespace(updates=updates, batch_size=256), pool


def test_the_times_are_those_of_the_last_iteration_alone():
    """What was spent before it, most of it by the actors, does not count."""
    learner, pool = of_times()
    balance = Balance(learner, pool)
    assert balance.allocation == Allocation(8, 0, 256)
    learner.updates.learner_s += 2.1
    pool.environment_s += 0.4
    pool.inference_s += 0.6
    balance.step()
    assert balance.allocation == Allocation(4, 4, 256, 64)
    assert (learner.updates.parts, pool.active) == ((192, 16, 16, 16, 16), 4)
    learner.updates.trainers_s += 3  # the learner worked 0 s since
    balance.step()
    assert balance.allocation == Allocation(4, 4, 256, 48)
    learner.updates.synchronisation_s += 3
    balance.step()
    assert balance.allocation == Allocation(5, 3, 256, 36)
    assert (learner.updates.parts, pool.active) == ((220, 12, 12, 12), 5)


def test_acting_is_stepping_and_inference_together():
    for environment_s, inference_s in ((1.0, 0.1), (0.1, 1.0)):
        learner, pool = of_times()
        balance = Balance(learner, pool)
        learner.updates.learner_s += 2.1  # more than twice each, less than twice both
        pool.environment_s += environment_s
        pool.inference_s += inference_s
        balance.step()
        assert balance.allocation.actors == 8
