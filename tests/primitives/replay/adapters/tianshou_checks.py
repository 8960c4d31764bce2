"""Checks of the buffers in tianshou's environment: what tianshou's own prioritised buffers do, ours do too.

Each check runs the same operations on both, tianshou's first. `COVERED` names every public method and property of
tianshou's class with the check that covers it.
"""

import copy
import pickle
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from refusals import failure, message, same_results
from tianshou import data
from tianshou.data import Batch

from placerl.primitives.replay.adapters import tianshou_adapter

SINGLE = (data.PrioritizedReplayBuffer, tianshou_adapter.PrioritizedReplayBuffer)
VECTOR = (data.PrioritizedVectorReplayBuffer, tianshou_adapter.PrioritizedVectorReplayBuffer)
ENVIRONMENTS = 3
COVERED = {
    "add": "check_the_same_contents",
    "dropnull": "check_dropnull_is_refused",
    "from_data": "check_from_data",
    "get": "check_stacks",
    "get_buffer_indices": "check_neighbours",
    "get_weight": "check_weights",
    "hasnull": "check_the_same_contents",
    "init_weight": "check_weights",
    "isnull": "check_the_same_contents",
    "load_hdf5": "check_copies_continue",
    "next": "check_neighbours",
    "prev": "check_neighbours",
    "reset": "check_reset",
    "sample": "check_samples",
    "sample_indices": "check_samples",
    "save_hdf5": "check_copies_continue",
    "set_array_at_key": "check_set_array_at_key",
    "set_batch": "check_set_batch",
    "set_beta": "check_set_beta",
    "subbuffer_edges": "check_neighbours",
    "unfinished_index": "check_neighbours",
    "update": "check_update",
    "update_weight": "check_weights",
}


def step(buffer, number, ended=False):
    """Add a transition, or one of each environment."""
    count = getattr(buffer, "buffer_num", None)
    shape = () if count is None else (count,)
    numbers = number + np.arange(count or 1, dtype=np.float64).reshape(shape or (1,)) / 10
    numbers = numbers if shape else numbers[0]
    buffer.add(
        Batch(
            obs=numbers,
            act=numbers,
            rew=numbers,
            terminated=np.full(shape, ended) if shape else ended,
            truncated=np.full(shape, False) if shape else False,
            obs_next=numbers + 1,
            info=Batch(),
        )
    )


def created(kind, size=12, **options):
    options = {"alpha": 0.6, "beta": 0.4} | options
    return kind(size, buffer_num=ENVIRONMENTS, **options) if kind in VECTOR else kind(size, **options)


def filled(kind, count, size=12, **options):
    buffer = created(kind, size, **options)
    for number in range(count):
        step(buffer, number, ended=number % 4 == 3)
    return buffer


def contents(buffer):
    if not len(buffer):
        return len(buffer)
    batch = buffer[:]
    return (
        len(buffer),
        *(
            np.round(np.asarray(batch[name], float), 5).tolist()
            for name in ("obs", "obs_next", "rew", "done", "weight")
        ),
        bool(buffer.hasnull()),
    )


def same(work):
    """Check that the work returns the same for tianshou's buffers and ours, of both kinds."""
    for kinds in (SINGLE, VECTOR):
        same_results(kinds, work)


def check_every_public_method_of_tianshou_is_covered():
    for own, _ in (SINGLE, VECTOR):
        public = {name for name in dir(own) if not name.startswith("_")}
        assert public == set(COVERED), public ^ set(COVERED)
    assert all(callable(globals()[check]) for check in COVERED.values())


def check_the_same_contents():
    for count in (0, 1, 5, 12, 30):
        for size in (ENVIRONMENTS, 4, 12):
            same(lambda kind, c=count, s=size: contents(filled(kind, c, s)))
    same(lambda kind: np.asarray(filled(kind, 5).isnull().obs).tolist())


def check_wrong_options():
    for options in ({"alpha": 0.0}, {"alpha": -1.0}, {"beta": -1.0}, {"stack_num": 0}):
        same(lambda kind, o=options: failure(lambda: created(kind, **o)))


def check_neighbours():
    def work(kind):
        buffer = filled(kind, 6)
        rows = buffer.sample_indices(0)
        found = [buffer.prev(rows), buffer.next(rows), buffer.unfinished_index(), buffer.subbuffer_edges]
        return [part.tolist() for part in found] + [buffer.get_buffer_indices(0, 2).tolist()]

    same(work)


def check_stacks():
    def work(kind):
        buffer = filled(kind, 6, stack_num=2, ignore_obs_next=True)
        rows = buffer.sample_indices(0)
        return (
            buffer.get(rows, "obs").tolist(),
            buffer[rows].obs.tolist(),
            buffer.get(rows, "rew", stack_num=1).tolist(),
        )

    same(work)


def check_samples():
    def work(kind):
        buffer = filled(kind, 6)
        batch, rows = buffer.sample(32)
        assert set(rows.tolist()) <= set(buffer.sample_indices(0).tolist())
        np.testing.assert_array_equal(batch.obs, buffer[rows].obs)
        every = buffer.sample(0)[1].tolist(), buffer.sample_indices(None).tolist()
        return rows.shape, rows.dtype.kind, batch.weight.shape, every

    same(work)
    same(lambda kind: failure(lambda: created(kind).sample_indices(0)))
    same(lambda kind: created(kind).sample_indices(-1).tolist())


def check_weights():
    def work(kind):
        buffer = filled(kind, 6)
        rows = buffer.sample_indices(0)
        buffer.update_weight(rows, np.linspace(-2, 3, len(rows)))
        buffer.update_weight(rows[[0, 0]], np.array([0.5, 7.0]))
        buffer.init_weight(rows[1:2])
        return np.round(buffer.get_weight(rows), 4).tolist(), np.round(buffer[rows].weight, 4).tolist()

    same(work)


def check_draws_follow_the_priorities():
    for kind in (SINGLE[1], VECTOR[1]):
        buffer = filled(kind, 6)
        rows = buffer.sample_indices(0)
        buffer.update_weight(rows, np.where(rows == rows[2], 1.0, 0.0))
        drawn = buffer.sample_indices(4000)
        expected = np.asarray(buffer.weight[rows]) / buffer.weight.reduce()
        np.testing.assert_allclose([np.mean(drawn == row) for row in rows], expected, atol=0.03)


def check_seeds_reach_the_draws():
    for kind in (SINGLE[1], VECTOR[1]):
        for seeded in (True, False):
            draws = []
            for seed in (0, 0, 1):
                np.random.seed(seed if seeded else 5)  # noqa: NPY002 (the only source that tianshou knows)
                buffer = filled(kind, 9) if seeded else filled(kind, 9, random_seed=seed)
                draws.append(buffer.sample_indices(50).tolist())
            assert draws[0] == draws[1] != draws[2]


def check_reset():
    def work(kind):
        buffer = filled(kind, 9)
        buffer.reset()
        empty = len(buffer)
        step(buffer, 70)
        return empty, contents(buffer)[:3]

    same(work)
    for kind in (SINGLE[1], VECTOR[1]):  # tianshou's own draws rows that hold no item
        buffer = filled(kind, 9)
        buffer.reset()
        step(buffer, 70)
        assert set(buffer.sample_indices(200).tolist()) <= set(buffer.sample_indices(0).tolist())


def check_set_beta():
    for normalised in (True, False):
        for kind in (SINGLE[1], VECTOR[1]):  # tianshou's vector buffer uses neither
            buffer = filled(kind, 6, weight_norm=normalised)
            rows = buffer.sample_indices(0)
            buffer.update_weight(rows, np.arange(len(rows)))
            buffer.set_beta(0.9)
            priorities = np.asarray(buffer.weight[rows])
            expected = (priorities / buffer._min_prio) ** -0.9
            expected = expected / expected.max() if normalised else expected
            np.testing.assert_allclose(buffer[rows].weight, expected, rtol=1e-5)


def check_copies_continue():
    path = Path(tempfile.mkdtemp()) / "buffer.hdf5"

    def saved(buffer):
        buffer.save_hdf5(str(path))
        return type(buffer).load_hdf5(str(path))

    ways = (copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer)), saved)
    for way in ways:

        def work(kind, way=way):
            buffer = filled(kind, 9)
            rows = buffer.sample_indices(0)
            buffer.update_weight(rows, np.arange(len(rows)))
            copied = way(buffer)
            step(copied, 50)
            return contents(buffer), contents(copied)

        same(work)
        for kind in (SINGLE[1], VECTOR[1]):
            buffer = filled(kind, 9, fanout=4, random_seed=3)
            copied = way(buffer)
            for _ in range(3):
                np.testing.assert_array_equal(buffer.sample_indices(20), copied.sample_indices(20))


def check_a_file_of_tianshous_own_buffer_is_read():
    path = str(Path(tempfile.mkdtemp()) / "buffer.hdf5")
    for own, ours in (SINGLE, VECTOR):
        buffer = filled(own, 9)
        rows = buffer.sample_indices(0)
        buffer.update_weight(rows, np.arange(len(rows)))
        buffer.save_hdf5(path)
        loaded = ours.load_hdf5(path)
        assert contents(loaded) == contents(buffer)
        assert loaded.sample_indices(5).shape == (5,)


def check_update():
    def work(kind):
        target = filled(kind, 2)
        return failure(lambda: target.update(filled(SINGLE[0], 5))) or contents(target)

    same(work)


def check_set_batch():
    def work(kind):
        buffer = filled(kind, 6)
        batch = copy.deepcopy(buffer._meta)
        batch.rew = batch.rew * 2
        buffer.set_batch(batch)
        return contents(buffer), failure(lambda: buffer.set_batch(Batch(obs=np.zeros(3))))

    same(work)


def check_set_array_at_key():
    def work(kind):
        buffer = filled(kind, 6)
        buffer.set_array_at_key(np.arange(len(buffer._meta)), "extra")
        return buffer.extra.tolist()

    same(work)


def check_from_data():
    column = np.zeros(3)
    same(lambda kind: failure(lambda: kind.from_data(*[column] * 7)))


def check_dropnull_is_refused():
    for kind in (SINGLE[1], VECTOR[1]):
        assert "dropnull: found a Prioritized" in message(filled(kind, 3).dropnull, NotImplementedError)


def check_a_buffer_whose_priorities_never_change_says_so():
    for kind in (SINGLE[1], VECTOR[1]):
        for answers in (True, False):
            buffer = filled(kind, 6)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(250):
                    batch, rows = buffer.sample(2)
                    if answers:
                        buffer.update_weight(rows, batch.rew)
            said = [str(warning.message) for warning in caught if "update_weight" in str(warning.message)]
            assert len(said) == (not answers), said


def check_options_of_the_tree():
    assert "fanout: found 1; allowed: 2 to 256" in message(partial(created, SINGLE[1], fanout=1), ValueError)
