"""The parts of the driver: each calls one part of the extensions, mostly from several Python threads at once."""

import gc
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from placerl.harness._experiments import Contention, Copies, LockOrders, hand_over
from placerl.primitives._native import environments as native
from placerl.primitives._native import learner as native_learner
from placerl.primitives._native import quantization

from placerl.harness.cli.bench import environment_cases
from placerl.harness.papers.map.atomic_tree import AtomicSumTree
from placerl.harness.papers.pal.scalar_tree import ScalarSumTree
from placerl.primitives import algorithms, learner, sum_tree
from placerl.primitives.algorithms.dqn import DQN, DqnHyperparameters
from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.algorithms.ppo import PPO, PpoHyperparameters
from placerl.primitives.environments import make_native, make_vec
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import ManagedSteps, RelaxedSteps
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
from placerl.primitives.replay.storage import transition_fields
from placerl.primitives.training.on_policy import OnPolicyIterations, Sources
from placerl.primitives.training.parallel import Pacing, ParallelTraining
from tests.primitives.learner.fused.replay_and_learner import BATCH, parts, rows_of
from tests.primitives.training.test_rounds import CARTPOLE, CONTINUOUS
from tests.primitives.training.test_rounds import rounds as rounds_of
from tests.sanitize.at_once import together

BUSY = "another call in progress"
IN_USE = "another"
LEAVES = 4096
"""Leaves of a tree, enough for two threads of a call."""


def trees() -> None:
    """Trees that lock, trees with threads of their own, and trees that each belong to one thread."""
    rows, rng = np.arange(LEAVES), np.random.default_rng(0)
    drawn = rng.random(LEAVES)
    values = 1.0 + drawn

    def use(tree: Any, seed: int) -> Callable[[], object]:
        own = np.random.default_rng(seed)

        def call() -> None:
            tree.update(rows, values)
            tree.find(drawn * LEAVES)
            tree.get(rows)
            tree.sample(LEAVES, own)
            assert tree.total > 0

        tree.update(rows, values)
        return call

    shared = [sum_tree.create(LEAVES, backend="binary", dtype=d) for d in (np.float32, np.float64)]
    shared.append(sum_tree.create(LEAVES, threads=2))
    for tree in shared:
        together(*(use(tree, seed) for seed in range(3)))
    atomic, scalar = AtomicSumTree(LEAVES, 16, 2), ScalarSumTree(LEAVES, 16)
    together(use(atomic, 0), use(scalar, 1))


def generators() -> None:
    """Generators that are re-initialised between draws: the bit generator that was drawn from is freed."""
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))
    replay = ConcurrentReplay(Storage(200, fields))
    replay.insert({name: np.ones((100, *spec.shape), spec.dtype) for name, spec in fields.items()})
    fused, made, _ = parts("td3")
    steps = FusedSteps(fused, made)
    tree = sum_tree.create(LEAVES, backend="native")
    tree.update(np.arange(LEAVES), np.ones(LEAVES))
    rng = np.random.default_rng(0)
    for seed in range(3):
        for draw in (partial(tree.sample, 4), partial(replay.sample, 4), partial(steps.run, 1)):
            draw(rng)
            rng.__init__(np.random.PCG64(seed))  # type: ignore[misc]
            gc.collect()
            draw(rng)


def replays() -> None:
    """Every call of a replay at once, with small and with large batches, and saved meanwhile."""
    fields = transition_fields(FieldSpec((17,), np.float32), FieldSpec((3,), np.float32))
    for release_from_lines in (0, 1024):
        replay = ConcurrentReplay(Storage(2000, fields), release_from_lines=release_from_lines)
        rng = np.random.default_rng(0)

        def batch(count: int) -> dict[str, np.ndarray]:
            return {name: np.ones((count, *spec.shape), spec.dtype) for name, spec in fields.items()}

        replay.insert(batch(1000))

        def draw(count: int, own: np.random.Generator, replay: ConcurrentReplay = replay) -> None:
            sample = replay.sample(count, own)
            replay.update_priorities(sample.indices, own.random(count))
            replay.gather(sample.indices)
            replay.priorities(sample.indices)

        with tempfile.TemporaryDirectory() as folder:
            together(
                partial(replay.insert, batch(1)),
                partial(replay.insert, batch(300), rng.random(300)),
                partial(draw, 8, np.random.default_rng(1)),
                partial(draw, 512, np.random.default_rng(2)),
                partial(replay.save, Path(folder) / "replay"),
                times=20,
            )
        assert len(replay) > 1000


def learners() -> None:
    """Gradient steps and actions of learners with threads of their own; a learner in use refuses a call."""
    algorithm = algorithms.create("ddpg", observation_shape=(6,), action_size=2, network={"hidden": (64, 48)})
    rng = np.random.default_rng(0)
    batch = {
        name: rng.integers(0, 2, column.shape).astype(str(column.dtype).removeprefix("torch."))
        for name, column in algorithm.columns(64).items()
        if name != "weight"
    }
    options: list[dict[str, Any]] = [
        {"threads": 2},
        {"threads": 2, "products": "bfloat16"},
        {"threads": 2, "precision": "fixed16"},
    ]
    made = [learner.create(algorithm, backend="native", batch_size=64, seed=0, **one) for one in options]
    seen = rng.standard_normal((5, 6)).astype(np.float32)

    def use(one: learner.Learner) -> None:
        one.step(batch)
        one.act(seen)

    together(*(partial(use, one) for one in made), partial(use, made[0]), refused=IN_USE)
    together(
        lambda: native_learner.measured_blockings("portable", 1e-4), lambda: made[1].step(batch), times=1
    )
    together(*[lambda: native_learner.peak_gflops(1e-4)] * 2, times=1)


def fused_steps() -> None:
    """Fused gradient steps, while another thread inserts and a third calls the same object."""
    for name, precision in (("dqn", "float32"), ("td3", "fixed16")):
        replay, made, rng = parts(name, precision=precision)
        steps = FusedSteps(replay, made)
        together(
            partial(steps.run, 3, rng),
            partial(steps.run, 2, np.random.default_rng(1)),
            partial(replay.insert, rows_of(replay, 20)),
            partial(replay.priorities, np.arange(50)),
            refused=BUSY,
        )


def relaxed_steps() -> None:
    """Relaxed gradient steps with a manager of their own, insertions, and their end while the replay is saved."""
    ways: tuple[Callable[..., Any], ...] = (
        partial(RelaxedSteps, ahead=0),
        partial(RelaxedSteps, ahead=5),
        partial(ManagedSteps, batch_size=BATCH, ahead=5),
    )
    for way in ways:
        replay, made, rng = parts("dqn")
        steps = way(replay, made)
        together(
            partial(steps.run, 3, rng),
            partial(steps.insert, rows_of(replay, 20)),
            steps.drain,
            lambda steps=steps: steps.terms_s,
            refused=BUSY,
        )
        steps.drain()
        with tempfile.TemporaryDirectory() as folder:

            def end(replay: Any = replay, made: Any = made, way: Callable[..., Any] = way) -> None:
                short = way(replay, made)
                short.run(2, np.random.default_rng(3))
                short.insert(rows_of(replay, 20))
                del short

            together(end, partial(replay.save, Path(folder) / "replay"), times=10)


def iterations() -> None:
    """Iterations of PPO of two trainings at once, and two calls of the same."""
    settings = PpoHyperparameters(trajectory_length=32, epochs=2)
    algorithm = PPO((4,), 2, NetworkDescription(hidden=(16, 16)), settings, action_kind="discrete")

    def iterations_of(seed: int) -> OnPolicyIterations:
        trainee = learner.create(algorithm, backend="native", batch_size=32, seed=seed, threads=2)
        seeds = np.arange(3, dtype=np.uint64)
        sources = Sources(seeds, np.random.default_rng(seed), np.random.default_rng(seed + 1))
        return OnPolicyIterations(trainee, make_native("CartPole-v1", 3, autoreset="same_step"), sources)

    one, other = iterations_of(0), iterations_of(1)
    together(*(partial(each.run, 2) for each in (one, one, other)), refused=BUSY)
    assert one.environment_steps > 0


def rounds() -> None:
    """Whole rounds of off-policy training, while another thread inserts, and two more calls of the same object."""
    for algorithm in (CARTPOLE, CONTINUOUS):
        made = rounds_of(algorithm, vector_steps=2, gradient_steps=3)
        made.fill(8)
        together(
            partial(made.run_rounds, 5, np.random.default_rng(0)),
            partial(made.run, 2, np.random.default_rng(1)),
            made.take_episodes,
            partial(made._replay.priorities, np.arange(16)),
            refused=BUSY,
        )


def trainings() -> None:
    """Actors and learners in C++ threads, whose counts another thread reads meanwhile."""
    network, settings = NetworkDescription(hidden=(8, 8)), DqnHyperparameters(target_interval=20)
    algorithm = DQN((4,), 2, network, settings, action_kind="discrete")
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))
    for actors, learners_, lead, ahead in ((1, 1, 0, 0), (2, 2, 16, 0), (2, 2, 16, 3)):
        envs = [native.make_classic("CartPole-v1", 2, native.Autoreset.same_step) for _ in range(actors)]
        training = ParallelTraining(
            algorithm,
            envs,
            ConcurrentReplay(Storage(5000, fields)),
            learners=learners_,
            batch_size=BATCH,
            pacing=Pacing(64, 1, lead, ahead, ahead > 0),
        )
        if ahead:  # the concurrent loop
            core = min(os.sched_getaffinity(0))
            training.place([core] * learners_, [core] * learners_, [core] * actors)

        def read(training: ParallelTraining = training) -> None:
            assert training.gradient_steps >= 0
            assert training.environment_steps >= 0
            assert training.filled in (False, True)
            assert len(training.replay) >= 0
            training.take_episodes()
            training.spent_s()

        together(partial(training.run, 40), partial(training.collect, 20), read, times=5, refused=BUSY)
        training.learn(5)


def environments() -> None:
    """Classic environments, one vector a thread; and what sines cost."""
    vectors = [make_vec(id, 40) for id in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1")]
    _step(vectors)
    angles = np.linspace(0, 6, 1000)
    together(*(partial(native.sum_of_sines, angles) for _ in range(2)))


def _step(vectors: list[Any]) -> None:
    def use(vector: Any) -> None:
        vector.reset(seed=1)
        for _ in range(30):
            vector.step(vector.action_space.sample())

    together(*(partial(use, vector) for vector in vectors), times=2)


def mujoco() -> None:
    """MuJoCo's simulations, one vector a thread, and those that are stepped without an environment."""
    _step([make_vec("Hopper-v5", 3), make_vec("Hopper-v5", 2), make_vec("HalfCheetah-v5", 2)])
    stepping = environment_cases.Stepping("Hopper-v5", 2, steps=20)
    recording = environment_cases.Recording.of(stepping, 60)
    *_, bare = environment_cases.repeated_cases(stepping, recording)
    repeated = [bare.setup() for _ in range(2)]
    together(*(partial(bare.check, one) for one in repeated))


def fixed_point() -> None:
    """Operations of fixed-point programs, and the peak of a core."""
    arrays = [np.zeros((32, 16), np.int32) for _ in range(2)]
    bias = np.zeros(16, np.int32)
    operations = [
        quantization.AddRectify(
            "", array.ctypes.data, array.ctypes.data, bias.ctypes.data, 32, 16, 0, 2**15 - 1
        )
        for array in arrays
    ]
    together(*(operation.run for operation in operations), partial(quantization.peak_gmacs, True, 1e-3))


def experiments() -> None:
    """What only experiments use: ways to share a replay, and orders of locks."""
    torch.set_num_threads(1)
    for sharing in ("two locks", "one lock", "one lock, binary tree", "owner thread"):
        Contention(sharing, 64, [16, 4], 4).run(3, 16, 8, 0.05, 0, True)
    for order in ("printed", "unlocked sampling"):
        LockOrders(order, 64, 4).run(3, 16, 50, 1)
    together(lambda: Copies(1024).run(2), lambda: hand_over(8))


PARTS: dict[str, Callable[[], None]] = {
    part.__name__: part
    for part in (
        trees,
        generators,
        replays,
        learners,
        fused_steps,
        relaxed_steps,
        iterations,
        rounds,
        trainings,
        environments,
        mujoco,
        fixed_point,
        experiments,
    )
}
"""Every part, by its name."""
