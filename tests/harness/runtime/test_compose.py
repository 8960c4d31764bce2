"""What parts a mapping asks for, and what is refused before one is made."""

from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.loop.schedule import Environments, Fusion, InitialPriorities, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.pieces.base import random_transitions
from placerl.harness.runtime import compose, mapped_parts
from placerl.harness.runtime.actors.in_process import InlineActors, ThreadActors
from placerl.harness.runtime.actors.pool import ActorPool
from placerl.harness.runtime.fusions import fusions
from placerl.harness.runtime.resolve import check_environments, resolve
from placerl.harness.runtime.timed_storage import TimedDeviceStorage
from placerl.harness.workloads.custom_task import CustomTask
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, PrioritizedReplay, UniformReplay
from placerl.primitives.training.rounds import FusedRounds
from tests.harness.runtime.trainings import replay_training, resolved
from tests.marks import needs_opencl

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")
SIMULATED = Mapping.parse("fpga-fpga-fpga")
CARTPOLE = workloads.load("cartpole-dqn")
UNIFORM = workloads.override(CARTPOLE, "replay.prioritized", False, "test")


@needs_opencl
def test_data_on_a_device(short, monkeypatch):
    task = short("cartpole-dqn")
    for mapping in ("opencl-native-opencl", "native-native-opencl:0"):
        storage = compose.storage_of(task, Mapping.parse(mapping))
        assert isinstance(storage, TimedDeviceStorage)
        mapped_parts.check(task, Mapping.parse(mapping))
        storage.insert(random_transitions(storage.fields, 2, np.random.default_rng(0)))
        storage.gather([0])
        assert min(storage.write_s, storage.gather_s) > 0
    assert fusions(task, Mapping.parse("native-native-opencl"), 0) == (Fusion.NONE,)
    with pytest.raises(UserError) as refused:
        mapped_parts.check(task, Mapping.parse("native-native-opencl:no such device"))
    assert refused.value.field == "storage"

    def full(*_):
        raise MemoryError("full")

    monkeypatch.setattr(compose, "TimedDeviceStorage", full)
    with pytest.raises(UserError, match=r"smaller replay\.capacity: full"):
        compose.storage_of(task, Mapping.parse("opencl-native-opencl"))


@needs_opencl
def test_a_simulated_learner_gets_the_batches_of_a_device_on_the_host(short):
    task, rng = short("cartpole-dqn"), np.random.default_rng(0)
    storage = compose.storage_of(task, Mapping.parse("fpga-opencl-opencl"))
    written = random_transitions(storage.fields, 3, rng)
    storage.insert(written)
    for batch in (storage.gather([2, 0]), storage.gather([2, 0], storage.allocate(2))):
        assert {type(column) for column in batch.values()} == {np.ndarray}
        for name, column in written.items():
            np.testing.assert_array_equal(batch[name], column[[2, 0]])
    replay = compose.replay_of(task, Mapping.parse("fpga-opencl-opencl"), storage_of_empty(task), Fusion.NONE)
    replay.insert(written)
    sample = replay.sample(2, rng)
    assert type(replay.sample(2, rng, out=sample).batch["reward"]) is np.ndarray


def storage_of_empty(task):
    return compose.storage_of(task, Mapping.parse("fpga-opencl-opencl"))


@needs_opencl
@pytest.mark.parametrize(
    ("learner", "options"),
    [
        ("opencl", {}),
        ("opencl", {"overlap": 4}),
        ("opencl", {"overlap": 4, "presampled_batches": 3, "replay_beside": True}),
        ("torch", {"overlap": 4, "presampled_batches": 3, "replay_beside": True}),
    ],
)
def test_the_place_of_the_data_changes_no_training(short, learner, options):
    """In every loop, with rows overwritten while batches wait: the batches need not pass the host."""
    ends = []
    task = workloads.override(short("cartpole-dqn"), "replay.capacity", 60, "test")
    for storage in ("cpu", "opencl"):
        mapping = Mapping.parse(f"{learner}-opencl-{storage}")
        training = replay_training(task, mapping, batch_size=8, seed=3, schedule=Schedule(**options))
        training.advance(30)
        ends.append(training.learner.state_dict())
        training.close()
    for name, array in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], array)


@pytest.mark.parametrize(
    ("name", "observation", "action"),
    [
        ("cartpole-dqn", ((4,), np.float32), ((), np.int64)),
        ("hopper-ddpg", ((11,), np.float32), ((3,), np.float32)),
        ("pong-dqn", ((4, 84, 84), np.uint8), ((), np.int64)),
    ],
)
def test_columns_have_the_shapes_and_types_of_the_environment(name, observation, action):
    columns = compose.columns_of(workloads.load(name))
    for column, (shape, dtype) in (
        ("observation", observation),
        ("next_observation", observation),
        ("action", action),
    ):
        assert columns[column] == FieldSpec(shape, dtype)


def test_the_replay_is_the_one_that_workload_and_fusion_ask_for(short):
    task = short("cartpole-dqn")

    def replay_on(the_task, mapping, fusion):
        storage = compose.storage_of(the_task, mapping)
        return compose.replay_of(the_task, mapping, storage, fusion)

    assert type(replay_on(UNIFORM, NATIVE, Fusion.NONE)) is UniformReplay
    assert type(replay_on(task, NATIVE, Fusion.NONE)) is PrioritizedReplay
    assert type(replay_on(task, NATIVE, Fusion.REPLAY)) is ConcurrentReplay
    assert type(replay_on(task, NATIVE, Fusion.STEP)) is ConcurrentReplay
    assert replay_on(task, Mapping.parse("native-flat-cpu"), Fusion.NONE).tree.fanout == task.replay.fanout
    with pytest.raises(UserError, match="rmm: found abacus"):
        replay_on(task, Mapping.parse("native-abacus-cpu"), Fusion.NONE)


@pytest.mark.parametrize("error", [ImportError, ValueError])
def test_a_fused_replay_that_cannot_be_made_is_an_error_of_the_mapping(monkeypatch, short, error):
    def fail(*arguments, **options):
        raise error("no native code")

    monkeypatch.setattr(compose, "ConcurrentReplay", fail)
    storage = compose.storage_of(short("cartpole-dqn"), NATIVE)
    with pytest.raises(UserError, match="rmm: found native; allowed: no native code"):
        compose.replay_of(short("cartpole-dqn"), NATIVE, storage, Fusion.REPLAY)


def test_the_weights_exponent_goes_from_its_first_to_its_last_value():
    settings = CARTPOLE.replay
    schedule = compose.beta_of(CARTPOLE)
    assert schedule(0) == settings.beta_initial
    assert schedule(settings.beta_steps) == settings.beta_final
    assert schedule(settings.beta_steps // 2) == pytest.approx(
        (settings.beta_initial + settings.beta_final) / 2
    )


def test_a_learner_computes_with_one_thread_unless_more_are_asked_for(monkeypatch, short):
    asked = []
    made = mapped_parts.learner_of

    def note(task, mapping, seed, schedule):
        asked.append((schedule.threads, schedule.delay, schedule.streams))
        return made(task, mapping, seed)

    monkeypatch.setattr(compose, "learner_of", note)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    dynamic = Mapping.parse("native[dynamic]-native-cpu")
    for mapping, options in ((TORCH, {}), (TORCH, {"threads": 2}), (dynamic, {"delay": 9})):
        made_of = resolved(short("cartpole-dqn"), mapping, 8, **options)
        compose.compose(made_of, seed=1, local_storage=8)
    assert asked == [(1, None, None), (2, None, None), (1, 9, None)]


def test_an_environment_of_ones_own_is_made_as_it_is_and_not_looked_for_in_envpool():
    made = []

    class Own:
        def reset(self, *, seed):
            self.seed = seed
            return None, {}

    def make():
        made.append(Own())
        return made[-1]

    task = CustomTask("mine", make, None, None, SimpleNamespace(actors=2))
    sequence = np.random.SeedSequence(3)
    plan = compose.actors_of(task, sequence, sequence, {}, 5)
    assert [build() for build in plan.environments] == made
    assert [environment.seed for environment in made] == [int(s >> 1) for s in sequence.generate_state(2)]
    with pytest.raises(UserError, match="mine: environments: found envpool; allowed: gymnasium with an env"):
        check_environments(Schedule(environments=Environments.ENVPOOL), task)


def test_a_device_of_a_backend_that_has_one_is_refused_and_other_mistakes_are_not_hidden():
    def one_device(*, backend):
        return backend

    def broken(*, backend):
        raise TypeError("a mistake in the backend")

    target = Mapping.parse("native:7-native-cpu").learner
    with pytest.raises(UserError, match="learner: found native:7; allowed: native: it has one device"):
        mapped_parts.created(NATIVE, "learner", target, one_device)
    with pytest.raises(TypeError, match="a mistake in the backend"):
        mapped_parts.created(NATIVE, "learner", NATIVE.learner, broken)


def test_each_environment_has_a_seed_of_its_own_that_fits_31_bits(monkeypatch, short):
    seeds = []
    monkeypatch.setattr(compose.environments, "Seeded", lambda environment, seed: seeds.append(seed))
    task = short("cartpole-dqn", actors=64)
    sequence = np.random.SeedSequence(3)
    plan = compose.actors_of(task, sequence, sequence, {}, 5)
    assert len(set(seeds)) == len(plan.environments) == 64
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert max(seeds) > 2**30
    assert not plan.clip
    assert plan.together == NativePool.of


@pytest.mark.parametrize(
    ("processes", "beside", "expected"),
    [(0, False, InlineActors), (0, True, ThreadActors), (2, True, ActorPool)],
)
def test_actors_step_in_turns_in_a_thread_or_in_processes(monkeypatch, short, processes, beside, expected):
    made = []
    for kind in (InlineActors, ThreadActors, ActorPool):
        monkeypatch.setattr(
            compose, kind.__name__, lambda *arguments, kind=kind: made.append((kind, arguments))
        )

    class Plan:
        def build(self):
            return "built"

    plan = Plan()
    compose.start_actors(plan, "learner", processes, **({"beside": True} if beside else {}))
    arguments = (plan, "learner", processes) if processes else ("built", "learner")
    assert made == [(expected, arguments)]


def test_every_part_draws_from_a_stream_of_its_own(short):
    task = short("cartpole-dqn")
    made = [compose.compose(resolved(task, TORCH), seed=seed, local_storage=8) for seed in (1, 1, 2)]
    states = [parts.rng.bit_generator.state["state"] for parts in made]
    assert states[0] == states[1] != states[2]
    exploration = np.random.default_rng(made[0].actors.seed).bit_generator.state["state"]
    assert exploration != states[0]
    assert resolved(task, TORCH).fusion is Fusion.REPLAY
    assert made[0].steps is None
    in_one_call = resolved(task, NATIVE)
    assert in_one_call.fusion is Fusion.ROUND
    assert isinstance(compose.compose(in_one_call, seed=1, local_storage=8).steps, FusedRounds)


@pytest.mark.parametrize("asked", [{"processes": 2}, {"overlap": 16}])
def test_actors_elsewhere_infer_in_the_formats_of_a_learner_in_fixed_point(short, asked):
    item, options = workloads.override(short("cartpole-dqn"), "training.actors", 2, "test"), Schedule(**asked)
    resolve(options, item, Mapping.parse("native[fixed32]-native-cpu"), 8)
    training = replay_training(
        item, Mapping.parse("native[dynamic]-native-cpu"), batch_size=8, schedule=options
    )
    training.warm_up()
    assert training.advance(32).gradient_steps >= 32
    training.close()


PRIORITISED = [
    (TORCH, {"fusion": Fusion.NONE}),
    (TORCH, {}),
    (NATIVE, {}),
    (NATIVE, {"overlap": 4}),
    (NATIVE, {"overlap": 4, "processes": 2}),
    (TORCH, {"overlap": 4, "deferred_insertion": True}),
    (NATIVE, {"overlap": 4, "presampled_batches": 2, "replay_beside": True}),
    (TORCH, {"overlap": 4, "presampled_batches": 2, "replay_beside": True}),
]


@pytest.mark.usefixtures("simulated_cycles")
@pytest.mark.parametrize(
    ("mapping", "arguments", "name"),
    [
        *((*how, name) for how in PRIORITISED for name in ("cartpole-dqn", "cartpole-ddpg")),
        (SIMULATED, {}, "cartpole-dqn"),
        pytest.param(SIMULATED, {}, "cartpole-ddpg", marks=pytest.mark.slow),
    ],
)
def test_the_actors_td_errors_are_the_initial_priorities(short, name, mapping, arguments):
    item = short(name, actors=3)
    schedule = Schedule(**arguments, initial_priorities=InitialPriorities.ACTOR)
    training = replay_training(item, mapping, schedule=schedule)
    training.fill()
    training._drain()
    learner, replay, rows = training.learner, training.replay, np.arange(42)
    batch = (replay if isinstance(replay, ConcurrentReplay) else replay.storage).gather(rows)
    errors = learner.algorithm.acting_td_errors(learner.parameters(), batch)
    expected = (np.abs(errors) + item.replay.epsilon) ** item.replay.alpha
    found = replay.tree.get(rows) if isinstance(replay, PrioritizedReplay) else replay.priorities(rows)
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found, expected, rtol=2e-3)  # the simulated tree has fixed-point leaves
    training.take(8)  # inserts in the loop too
    training.close()


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg"])
def test_the_actors_td_errors_are_by_the_weights_that_they_act_with(short, name):
    training = replay_training(
        short(name), NATIVE, schedule=Schedule(overlap=4, initial_priorities=InitialPriorities.ACTOR)
    )
    training.fill()
    inserted, insert = [], training._steps.insert
    training._steps.insert = lambda columns, td_errors: (
        inserted.append((columns | {}, td_errors.copy())),
        insert(columns, td_errors),
    )
    before = training.learner.parameters()
    training._loop.round()
    (columns, errors), algorithm = inserted[0], training.learner.algorithm
    np.testing.assert_allclose(errors, algorithm.acting_td_errors(before, columns), rtol=1e-5)
    after = training.learner.parameters()
    assert not np.allclose(errors, algorithm.acting_td_errors(after, columns), rtol=1e-5)
    training.close()


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ("abacus-native-cpu", "learner"),
        ("torch:tpu-native-cpu", "learner"),
        ("torch:cuda:99-native-cpu", "learner"),
        ("torch-abacus-cpu", "rmm"),
        ("torch-native-moon", "storage"),
    ],
)
def test_a_mapping_that_is_not_there_is_refused(mapping, field):
    with pytest.raises(UserError) as error:
        replay_training(CARTPOLE, Mapping.parse(mapping))
    assert error.value.field == field


@pytest.mark.parametrize("batch_size", [0, 501])
def test_a_batch_that_the_replay_cannot_hold_is_refused(short, batch_size):
    with pytest.raises(UserError, match="batch_size"):
        replay_training(short("cartpole-dqn"), TORCH, batch_size=batch_size)
