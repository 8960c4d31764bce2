"""A replay and a native learner, small ones, for the tests of steps that use both; and items for the replay."""

import numpy as np

from placerl.primitives import algorithms, learner
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, LinearSchedule, Storage
from placerl.primitives.replay.storage import transition_fields

BATCH, CAPACITY, ITEMS = 16, 200, 120
SHAPES = {
    "dqn": (4, 2),
    "ddpg": (3, 2),
    "td3": (3, 2),
    "sac": (3, 2),
}  # td3 and sac draw numbers of their own
PRECISIONS = {"float32": {}, "fixed16": {}, "dynamic": {"delay": 7}}


def parts(name, seed=0, precision="float32", backend="native", **replay_options):
    """A replay of `ITEMS` items, a learner of one of `SHAPES`, and a generator."""
    observations, actions = SHAPES[name]
    hyperparameters = {"target_interval": 3, "double": True} if name == "dqn" else {}
    algorithm = algorithms.create(
        name,
        observation_shape=(observations,),
        action_size=actions,
        network={"hidden": (12, 7)},
        hyperparameters=hyperparameters,
    )
    action = FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((actions,), np.float32)
    fields = transition_fields(FieldSpec((observations,), np.float32), action)
    options = {"beta": LinearSchedule(0.4, 1.0, 20)} | replay_options
    replay = ConcurrentReplay(Storage(CAPACITY, fields), **options)
    replay.insert(items(fields, algorithm.discrete, actions))
    trainee = learner.create(
        algorithm, backend=backend, batch_size=BATCH, seed=seed, precision=precision, **PRECISIONS[precision]
    )
    return replay, trainee, np.random.default_rng(5)


def items(fields, discrete, actions, n=ITEMS):
    """Random items, the same in each call."""
    rng = np.random.default_rng(1)
    batch = {name: rng.standard_normal((n, *f.shape)).astype(f.dtype) for name, f in fields.items()}
    batch["terminated"] = rng.random(n) < 0.3
    if discrete:
        batch["action"] = rng.integers(actions, size=n)
    return batch


def rows_of(replay, count, value=None):
    """Items to insert: random ones, or ones whose reward is a value that tells them from others."""
    discrete = replay.storage.fields["action"].shape == ()
    actions = 2 if discrete else replay.storage.fields["action"].shape[0]
    batch = items(replay.storage.fields, discrete, actions, count)
    if value is not None:
        batch["reward"] = np.full(count, value, np.float32)
    return batch


def spoil(made, value):
    """Write a number that is not finite into the last bias of a learner, so that all TD errors are not finite."""
    state = made.state_dict()
    name = [name for name in state if name.startswith("q/") and name.endswith("bias")][-1]
    made.load_state_dict(state | {name: np.full_like(state[name], value)})


def boolean_observations():
    """A replay of observations (4,) bool, and a learner that reads them as float32."""
    _, made, rng = parts("dqn")
    fields = transition_fields(FieldSpec((4,), np.bool_), FieldSpec((), np.int64))
    return ConcurrentReplay(Storage(CAPACITY, fields)), made, rng
