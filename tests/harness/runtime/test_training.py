"""The strict loop: the same seed trains the same, every step is counted, and the mapping is obeyed."""

import os
import time
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.placement import Placement
from placerl.harness.loop.real_time import RealTime
from placerl.harness.loop.schedule import Environments, Fusion, InitialPriorities, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.pieces import memory
from placerl.harness.runtime import compose
from placerl.harness.runtime import training as training_module
from placerl.harness.runtime.actors.in_process import InlineActors, ThreadActors
from placerl.harness.runtime.actors.pool import ActorPool
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner
from placerl.harness.runtime.native_rounds import RoundActors
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS
from placerl.harness.runtime.units.replay import TimeBeside
from placerl.harness.runtime.units.unit import UnitError
from tests.harness.runtime.rail_workload import dqn_on_a_rail
from tests.harness.runtime.short_workloads import short
from tests.harness.runtime.trainings import replay_training, resolved
from tests.majority import majority

MAPPING = Mapping.parse("torch-native-cpu")
NATIVE = Mapping.parse("native-native-cpu")


def trained(the_workload, steps=60, **arguments):
    own = {"seed": 1} | {name: arguments.pop(name) for name in ("seed", "batch_size") if name in arguments}
    mapping = arguments.pop("mapping", MAPPING)
    training = replay_training(the_workload, mapping, **own, schedule=Schedule(**arguments))
    progress = [training.warm_up(), training.advance(steps)]
    training.close()
    return training, progress


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg", "hopper-ddpg"])
def test_the_same_seed_trains_the_same(name):
    runs = [trained(short(name), seed=seed) for seed in (1, 1, 2)]
    parameters = [training.learner.parameters() for training, _ in runs]
    for key, value in parameters[0].items():
        np.testing.assert_array_equal(value, parameters[1][key])
    assert runs[0][1][1].episodes == runs[1][1][1].episodes
    assert any(np.any(value != parameters[2][key]) for key, value in parameters[0].items())


def test_a_replay_smaller_than_a_chunk_of_the_warm_up_is_filled():
    tables = short("cartpole-dqn", actors=3, learning_starts=100).tables()
    tables["replay"]["capacity"] = 100
    with closing(replay_training(workloads.from_tables(tables, "test"), MAPPING)) as training:
        training.fill()
        assert training.environment_steps == 102
        assert len(training.replay) == 100


@pytest.mark.parametrize(("actors", "interval"), [(1, 1), (1, 4), (3, 1), (4, 2), (4, 6)])
def test_steps_are_counted_and_the_update_interval_kept(actors, interval):
    training, (warm_up, progress) = trained(
        short("cartpole-dqn", actors=actors, update_interval=interval), steps=30
    )
    assert progress.gradient_steps >= 30
    assert progress.environment_steps == progress.gradient_steps * interval
    assert warm_up.environment_steps - warm_up.gradient_steps * interval in range(40, 40 + actors)
    assert warm_up.gradient_steps >= WARM_UP_GRADIENT_STEPS
    assert training.gradient_steps == warm_up.gradient_steps + progress.gradient_steps
    assert training.environment_steps == warm_up.environment_steps + progress.environment_steps
    assert len(training.replay) == min(500, training.environment_steps)


def test_advancing_in_pieces_is_advancing():
    whole, _ = trained(short("cartpole-dqn"), steps=40)
    pieces, _ = trained(short("cartpole-dqn"), steps=15)
    pieces.advance(25)
    for key, value in whole.learner.parameters().items():
        np.testing.assert_array_equal(value, pieces.learner.parameters()[key])


@pytest.mark.parametrize("fusion", [Fusion.NONE, Fusion.REPLAY])
def test_the_terms_are_within_the_wall_time(fusion):
    training, (_, progress) = trained(short("cartpole-dqn"), fusion=fusion)
    separate = {"gather"} if fusion is Fusion.NONE else set()
    assert training.fusion is fusion
    assert progress.terms_s.keys() == separate | {
        "environment", "infer", "insert", "sample", "learner", "update",
    }  # fmt: skip
    assert min(progress.terms_s.values()) > 0
    assert sum(progress.terms_s.values()) <= progress.wall_s
    assert progress.losses.keys() >= {"q"}


@pytest.mark.parametrize("presampled_batches", [0, 3])
def test_fusing_changes_nothing_but_rounding(presampled_batches):
    apart, fused = (
        trained(short("cartpole-ddpg"), fusion=fusion, presampled_batches=presampled_batches)[0]
        for fusion in (Fusion.NONE, Fusion.REPLAY)
    )
    for key, value in apart.learner.parameters().items():
        np.testing.assert_allclose(fused.learner.parameters()[key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg"])
@pytest.mark.parametrize("actors", [1, 3])
def test_fused_steps_train_the_same_bit_for_bit(name, actors):
    apart, fused = (
        trained(short(name, actors=actors), mapping=NATIVE, fusion=fusion)
        for fusion in (Fusion.REPLAY, Fusion.STEP)
    )
    for key, value in apart[0].learner.state_dict().items():
        np.testing.assert_array_equal(fused[0].learner.state_dict()[key], value)
    assert apart[1][1].episodes == fused[1][1].episodes
    assert apart[1][1].losses == fused[1][1].losses
    assert fused[0].gradient_steps == apart[0].gradient_steps
    assert fused[1][1].terms_s.keys() == {"environment", "infer", "insert", "step"}


def test_the_most_that_a_mapping_allows_is_fused():
    assert replay_training(short("cartpole-dqn"), NATIVE).fusion is Fusion.ROUND
    gymnasium = Schedule(environments=Environments.GYMNASIUM)
    assert replay_training(short("cartpole-dqn"), NATIVE, schedule=gymnasium).fusion is Fusion.STEP
    assert replay_training(short("cartpole-dqn", presampled_batches=2), NATIVE).fusion is Fusion.REPLAY
    assert replay_training(short("cartpole-dqn"), MAPPING).fusion is Fusion.REPLAY
    reference = Mapping.parse("torch-reference-cpu")
    assert replay_training(short("cartpole-dqn"), reference).fusion is Fusion.NONE
    with pytest.raises(UserError, match="fusion"):
        replay_training(short("cartpole-dqn"), reference, schedule=Schedule(fusion=Fusion.REPLAY))


def test_episodes_are_those_of_cartpole():
    _, (warm_up, progress) = trained(short("cartpole-dqn"), steps=300)
    episodes = warm_up.episodes + progress.episodes
    assert len(episodes) > 3
    ends = [0, *(episode.environment_step for episode in episodes)]
    # One environment, a reward of 1 a step: a return is the distance between two ends.
    assert [episode.episode_return for episode in episodes] == list(np.diff(ends))


def test_uniform_replay_where_the_workload_says_so():
    tables = short("cartpole-dqn").tables()
    tables["replay"]["prioritized"] = False
    training, _ = trained(workloads.from_tables(tables, "test"))
    assert type(training.replay).__name__ == "UniformReplay"


def test_presampled_batches_train_on_older_samples():
    strict, _ = trained(short("cartpole-dqn"))
    relaxed, (_, progress) = trained(short("cartpole-dqn", presampled_batches=5))
    assert progress.gradient_steps == 60
    assert any(
        np.any(value != relaxed.learner.parameters()[key])
        for key, value in strict.learner.parameters().items()
    )


def test_advancing_by_nothing_is_refused_and_by_one_step_is_not():
    training = replay_training(short("cartpole-dqn"), MAPPING)
    for train in (training.advance, training.learn):
        for number in (0, -1):
            with pytest.raises(ValueError, match=f"gradient_steps: found {number}; allowed: at least 1"):
                train(number)
    assert training.gradient_steps == training.environment_steps == 0, "nothing was done"
    assert training.advance(1).gradient_steps == 1
    assert training.learn(1).gradient_steps == 1
    training.close()


@pytest.mark.parametrize("mapping", [MAPPING, NATIVE])
def test_learning_alone_takes_exactly_its_gradient_steps_and_no_environment_step(mapping):
    training = replay_training(short("cartpole-dqn", actors=4), mapping)
    progress = training.learn(7)
    assert (progress.gradient_steps, progress.environment_steps, progress.episodes) == (7, 0, [])
    assert progress.losses.keys() >= {"q"}
    assert training.gradient_steps >= WARM_UP_GRADIENT_STEPS + 7, "it warms up before"
    steps, transitions = training.gradient_steps, training.environment_steps
    assert training.learn(3).gradient_steps == 3
    assert (training.gradient_steps, training.environment_steps) == (steps + 3, transitions), "only once"
    training.close()


def test_a_batch_size_and_batches_ahead_of_its_own_replace_the_workload_s():
    training = replay_training(
        short("cartpole-dqn", presampled_batches=2),
        MAPPING,
        batch_size=5,
        schedule=Schedule(presampled_batches=1),
    )
    training.advance(1)
    assert training.learner.batch_size == 5
    assert len(training._loop.presampled) == 1
    training.close()
    training = replay_training(short("cartpole-dqn", presampled_batches=2), MAPPING)
    training.advance(1)
    assert training.learner.batch_size == 8
    assert len(training._loop.presampled) == 2
    training.close()


def test_it_computes_with_the_threads_that_it_is_given_one_by_default(monkeypatch):
    asked = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(training_module.torch, "set_num_threads", lambda threads: asked.append(threads))
    monkeypatch.setattr(training_module, "set_blas_threads", lambda threads: asked.append(threads))
    for options in ({}, {"threads": 3}):
        replay_training(short("cartpole-dqn"), MAPPING, schedule=Schedule(**options)).close()
    assert asked == [1, 1, 3, 3], "PyTorch's and NumPy's"


def test_the_seed_is_0_unless_it_is_given():
    runs = [
        replay_training(short("cartpole-dqn"), MAPPING, **seed) for seed in ({}, {"seed": 0}, {"seed": 1})
    ]
    first, same, other = (training.learner.parameters() for training in runs)
    for name, value in first.items():
        np.testing.assert_array_equal(value, same[name])
    assert any(np.any(value != other[name]) for name, value in first.items())
    for training in runs:
        training.close()


@pytest.mark.parametrize(
    ("options", "actors", "clock"),
    [
        ({}, RoundActors, RealTime),
        ({"fusion": Fusion.STEP}, InlineActors, RealTime),
        ({"overlap": 1}, ThreadActors, RealTime),
        ({"presampled_batches": 1, "replay_beside": True}, InlineActors, RealTime),  # a thread of C++
        ({"presampled_batches": 1, "replay_beside": True, "fusion": Fusion.REPLAY}, InlineActors, RealTime),
        ({"presampled_batches": 1, "replay_beside": True, "fusion": Fusion.NONE}, InlineActors, TimeBeside),
    ],
)
def test_what_works_beside_the_learner_is_what_was_asked_for(options, actors, clock):
    training = replay_training(short("cartpole-dqn"), NATIVE, schedule=Schedule(**options))
    assert (type(training._acting), type(training._time)) == (actors, clock)
    training.advance(1)
    training.close()


def test_the_replay_is_filled_at_random_and_the_policy_acts_in_training():
    training = replay_training(short("cartpole-dqn"), MAPPING)
    chosen, explore = [], training.learner.explore
    training.learner.explore = lambda observations, step, rng: (
        chosen.append(step) or explore(observations, step, rng)
    )
    training.warm_up()
    assert chosen == list(range(40, 40 + WARM_UP_GRADIENT_STEPS))
    training.close()


def test_a_stretch_takes_the_seconds_between_its_ends_on_the_runs_clock():
    training = replay_training(short("cartpole-dqn"), MAPPING)
    training.warm_up()
    told = iter([1.0, 10.0])
    training._time.now_s = lambda: next(told)
    assert training.advance(1).wall_s == 9
    training.close()


def test_numbers_that_are_none_are_blamed_on_the_actor_and_other_mistakes_are_not():
    training = replay_training(short("cartpole-dqn"), MAPPING)
    training.warm_up()

    def refuse(transitions):
        raise ValueError("priorities: found nan")

    training.replay.insert = refuse
    with pytest.raises(ValueError, match="priorities: found nan"):
        training.advance(1)
    training._storage.columns["reward"][3] = np.nan
    with pytest.raises(UnitError, match="actor: returned invalid data: NaN or infinity in 'reward'"):
        training.advance(1)
    training.close()


def test_what_the_memory_does_not_hold_is_refused_unless_it_has_been_made(monkeypatch):
    task = short("cartpole-dqn")
    made_of = resolved(task, MAPPING)
    parts = compose.compose(made_of, seed=1, local_storage=256)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(UserError, match=r"replay\.capacity: found 500"):
        replay_training(task, MAPPING)
    replay_training(task, MAPPING, parts=parts, existing=made_of.fusion).close()


class Ended(Exception):
    """Ends the construction of a training."""


def refuse(*_, **__):
    raise Ended


@pytest.mark.parametrize(
    ("failing", "started"), [("time_of", 1), ("start_actors", 2), ("TrainingLoop", 3), ("Reallocator", 3)]
)
def test_a_training_that_cannot_be_created_ends_what_it_has_started(monkeypatch, failing, started):
    """Actor processes, the replay manager's thread, and trainers, in the order of `close`."""
    closed = []

    def noting(kind):
        def close(self):
            closed.append(kind.__name__)
            original(self)

        original = kind.close
        monkeypatch.setattr(kind, "close", close)

    for kind in (ActorPool, ParallelLearner, TimeBeside):
        noting(kind)
    monkeypatch.setattr(training_module, failing, refuse)
    item = short("cartpole-dqn", actors=2)
    schedule = Schedule(
        processes=2,
        overlap=4,
        reallocate=True,
        presampled_batches=1,
        replay_beside=True,
        fusion=Fusion.NONE,
    )
    with pytest.raises(Ended):
        replay_training(item, MAPPING, schedule=schedule)
    assert closed == ["ActorPool", "TimeBeside", "ParallelLearner"][3 - started :]


def test_what_is_left_is_closed_though_an_actor_cannot_be(monkeypatch):
    training = replay_training(
        short("cartpole-dqn"),
        NATIVE,
        schedule=Schedule(presampled_batches=1, replay_beside=True, fusion=Fusion.NONE),
    )
    actor = training._acting._actor
    close = actor.close
    monkeypatch.setattr(actor, "close", refuse)
    with pytest.raises(Ended):
        training.close()
    assert not training._time._unit._thread.is_alive()
    training.close()
    close()


class Started(Exception):
    """Ends a training where it would start learners."""


@pytest.mark.parametrize(("learners", "started"), [(1, None), (2, 2), (3, 3)])
def test_more_than_one_learner_is_a_process_each(monkeypatch, learners, started):
    asked = []

    def start(algorithm, *, processes, batch_size, seed):
        asked.append((processes, batch_size))
        raise Started

    monkeypatch.setattr(training_module, "LearnerProcesses", start)
    if started is None:
        replay_training(short("cartpole-dqn"), MAPPING, schedule=Schedule(learners=learners)).close()
        assert asked == []
    else:
        with pytest.raises(Started):
            replay_training(short("cartpole-dqn"), MAPPING, schedule=Schedule(learners=learners))
        assert asked == [(started, 8)]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 128),  # 256 random transitions of 2 environments
        ({"overlap": 400}, 200),
        ({"overlap": 8, "processes": 2, "reallocate": True}, 2 * 128),  # one steps for both
    ],
)
def test_actors_have_room_for_what_they_are_asked_at_once(monkeypatch, options, rows):
    asked = []

    def make(*arguments, local_storage, **options):
        asked.append(local_storage)
        raise Started

    monkeypatch.setattr(training_module, "compose", make)
    with pytest.raises(Started):
        replay_training(short("cartpole-dqn", actors=2), MAPPING, schedule=Schedule(**options))
    assert asked == [rows]


@pytest.mark.parametrize("fusion", [Fusion.REPLAY, Fusion.STEP])
def test_each_term_counts_the_time_of_its_own_call(fusion):
    """Parts that take long enough to tell them apart from the loop itself."""
    training = replay_training(short("cartpole-dqn"), NATIVE, schedule=Schedule(fusion=fusion))
    training.warm_up()
    insert = training.replay.insert
    training.replay.insert = lambda transitions: (time.sleep(0.01), insert(transitions))[1]
    if fusion is Fusion.STEP:
        run = training._loop.units.steps.run
        training._loop.units.steps = SimpleNamespace(
            run=lambda *arguments: (time.sleep(0.02), run(*arguments))[1],
            insert=training.replay.insert,
            drain=lambda: None,
            losses={"q": 1.5},
        )
    progress = training.advance(3)
    assert progress.terms_s["insert"] >= 3 * 0.01
    if fusion is Fusion.STEP:
        assert progress.terms_s["step"] >= 3 * 0.02
        assert progress.losses == {"q": 1.5}
    assert sum(progress.terms_s.values()) <= progress.wall_s
    training.close()


def test_the_replay_is_filled_to_where_learning_starts_and_no_further():
    for actors, expected in ((1, 40), (3, 42)):
        training = replay_training(short("cartpole-dqn", actors=actors), MAPPING)
        progress = training.warm_up()
        rounds = -(-WARM_UP_GRADIENT_STEPS // actors)  # of a vector step and `actors` gradient steps
        assert progress.environment_steps == expected + rounds * actors
        training.close()


def test_a_batch_is_trained_on_once_it_has_waited_for_those_before_it():
    """Three batches wait: the first gradient step after the replay was filled is on what was sampled first."""
    training = replay_training(short("cartpole-dqn", presampled_batches=3), MAPPING)
    training._loop.fill(40)
    sampled, learnt = [], []
    sample, step = training.replay.sample, training.learner.step
    training.replay.sample = lambda *arguments, **options: (
        sampled.append(made := sample(*arguments, **options)) or made
    )
    training.learner.step = lambda batch, weights: learnt.append(batch) or step(batch, weights)
    training._loop.gradient_step()
    assert len(sampled) == 4
    assert learnt[0] is sampled[0].batch
    training._loop.gradient_step()
    assert len(sampled) == 5
    assert learnt[1] is sampled[1].batch
    training.close()


def test_rows_that_were_overwritten_meanwhile_keep_the_priority_of_their_new_item():
    training = replay_training(short("cartpole-dqn", presampled_batches=1), MAPPING)
    training._loop.fill(40)
    training._loop.gradient_step()  # a batch of rows 0 to 39 waits
    waiting = training._loop.presampled[0].sample.value.indices
    waiting[:] = [0, 1, 18, 19, 20, 21, 38, 39]
    updated = []
    training.replay.update_priorities = lambda indices, errors: updated.append((indices.copy(), len(errors)))
    training._loop.fill(250)
    training._loop.fill(230)  # 520 items: rows 0 to 19 hold new ones
    training._loop.gradient_step()
    (indices, errors), *_ = updated
    np.testing.assert_array_equal(indices, [20, 21, 38, 39])
    assert errors == 4
    training.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mapping", "arguments"),
    [
        (MAPPING, {}),
        (NATIVE, {}),
        (NATIVE, {"initial_priorities": InitialPriorities.ACTOR}),
        (NATIVE, {"presampled_batches": 10}),
        (NATIVE, {"overlap": 8}),
    ],
)
def test_dqn_learns_to_hold_the_middle(mapping, arguments):
    """Judged by most of nine seeds, by the last 20 of about 130 episodes, each of at most 40.

    Measured over 64 seeds of each case: 35.7 to 38.3, no error. With the gradient's sign turned 56 seeds of each native
    case returned 2.8 to 4.7, and so on under other instruction sets (8 seeds each with ATEN_CPU_CAPABILITY=avx2, with
    =default, and with oneDNN and MKL held to AVX2), which change little and so count as no further seeds.
    At most one such test in 10,000 errs either way (95% confidence; see `tests.majority`).
    """

    def learns(seed):
        training = replay_training(dqn_on_a_rail(), mapping, seed=seed, schedule=Schedule(**arguments))
        training.warm_up()
        returns = [episode.episode_return for episode in training.advance(600).episodes]
        training.close()
        return np.mean(returns[-20:]) > 25

    assert majority(map(learns, range(9)))


def test_a_negative_overlap_is_refused():
    with pytest.raises(UserError, match="overlap: found -1; allowed: 0 to 500"):
        replay_training(short("cartpole-dqn"), NATIVE, schedule=Schedule(overlap=-1))


@pytest.mark.skipif(len(usable_cores()) < 2, reason="needs two cores")
@pytest.mark.parametrize("mapping", [NATIVE, MAPPING, Mapping.parse("torch-flat-cpu")], ids=str)
def test_each_part_is_bound_to_its_core_and_the_caller_only_while_it_trains(mapping, monkeypatch):
    """Actor process and replay manager, a thread of C++ or of Python, share the core that the learner has not."""
    learning, shared = usable_cores()[:2]
    monkeypatch.setattr(training_module, "usable_cores", lambda: [learning, shared])
    before = os.sched_getaffinity(0)
    others = set(os.listdir("/proc/self/task"))  # of trainings that earlier tests left
    options = Schedule(pinned=True, processes=1, overlap=8, presampled_batches=2, replay_beside=True)
    with closing(replay_training(short("cartpole-dqn"), mapping, schedule=options)) as training:
        run, seen = training._loop.run, []
        monkeypatch.setattr(training._loop, "run", lambda n: (seen.append(os.sched_getaffinity(0)), run(n)))
        training.advance(8)
        assert training.placement == Placement([learning], [shared], [shared])
        assert seen
        assert all(cores == {learning} for cores in seen)
        assert os.sched_getaffinity(0) == before
        assert [os.sched_getaffinity(pid) for pid in training._acting.pids] == [{shared}]
        threads = set(os.listdir("/proc/self/task")) - others
        assert [os.sched_getaffinity(int(name)) for name in threads].count({shared}) == 1
