import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from scipy import stats

from placerl.primitives import sum_tree
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, LinearSchedule, PrioritizedReplay, Storage
from placerl.primitives.replay.device import DeviceStorage
from tests.limits import LIMIT_S
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.device.memories import memory

FIELDS = {
    "number": FieldSpec((), np.int64),
    "frame": FieldSpec((3, 7), np.uint8),
    "reward": FieldSpec((), np.float32),
    "terminated": FieldSpec((), np.bool_),
    "nothing": FieldSpec((0,), np.float64),
}


def make(capacity: int = 8, **options) -> ConcurrentReplay:
    return ConcurrentReplay(Storage(capacity, FIELDS), **options)


def assert_whole(batch: dict[str, np.ndarray]) -> None:
    for name, column in numbered_batch(Storage(1, FIELDS), batch["number"]).items():
        np.testing.assert_array_equal(batch[name], column)


@pytest.mark.parametrize("normalisation", ["batch", "none"])
def test_weights_and_priorities_are_those_of_the_plain_replay(normalisation) -> None:
    options = {"alpha": 0.7, "beta": LinearSchedule(0.4, 1.0, 30), "normalisation": normalisation}
    replay = make(20, **options)
    plain = PrioritizedReplay(Storage(20, FIELDS), sum_tree.create(20), **options)
    rng = np.random.default_rng(1)
    for number in range(0, 60, 3):
        batch = numbered_batch(plain.storage, np.arange(number, number + 3))
        td_errors = rng.normal(size=3) if number % 2 else None
        np.testing.assert_array_equal(replay.insert(batch, td_errors), plain.insert(batch, td_errors))
        assert len(replay) == len(plain)
        sample = replay.sample(16, rng)
        assert_whole(sample.batch)
        np.testing.assert_array_equal(sample.batch["number"], plain.storage.columns["number"][sample.indices])
        # the plain replay made to draw the same rows
        plain.tree.sample = lambda *_, indices=sample.indices: indices
        expected = plain.sample(16, rng)
        np.testing.assert_allclose(sample.weights, expected.weights, rtol=2e-6)
        assert sample.weights.dtype == np.float32
        td_errors = rng.normal(size=16).astype(np.float32)
        for each in (replay, plain):
            each.update_priorities(sample.indices, td_errors)
        np.testing.assert_allclose(
            replay.priorities(np.arange(len(replay))), plain.tree.get(np.arange(len(plain))), rtol=1e-6
        )
        assert replay.max_priority == pytest.approx(plain.max_priority)


@pytest.mark.parametrize("stratified", [False, True])
def test_samples_in_proportion_to_priorities(rng: np.random.Generator, stratified: bool) -> None:
    replay = make(4, alpha=0.5)
    replay.insert(numbered_batch(replay.storage, np.arange(4)), [-16.0, 9.0, 4.0, 1.0])
    counts = np.zeros(4)
    for _ in range(500):
        counts += np.bincount(replay.sample(10, rng, stratified=stratified).indices, minlength=4)
    assert stats.chisquare(counts, counts.sum() * np.array([4, 3, 2, 1]) / 10).pvalue > 1e-4


def test_fills_the_arrays_given(rng: np.random.Generator) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(5)))
    out = replay.allocate(6)
    assert replay.sample(6, rng, out=out) is out
    np.testing.assert_array_equal(out.batch["number"], out.indices)
    assert_whole(out.batch)
    for wrong in (
        replay.allocate(5),
        out._replace(weights=np.empty(6)),
        out._replace(batch=out.batch | {"reward": np.empty(6)}),
        out._replace(batch={"reward": np.empty(6, np.float32)}),
    ):
        with pytest.raises((ValueError, TypeError), match="out"):
            replay.sample(6, rng, out=wrong)


@pytest.fixture
def memmaps(tmp_path: Path) -> Callable[[dict], dict]:
    def mapped(arrays: dict) -> dict:
        return {
            name: np.memmap(tmp_path / name, array.dtype, "w+", shape=array.shape) if array.size else array
            for name, array in arrays.items()
        }

    return mapped


def test_fills_what_is_no_exact_dict_of_exact_arrays(rng: np.random.Generator, memmaps) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(5)))
    plain = replay.allocate(6)
    for out in (
        plain._replace(batch=OrderedDict(plain.batch)),
        plain._replace(batch=MappingProxyType(plain.batch)),
        plain._replace(batch=memmaps(plain.batch)),
        plain._replace(**memmaps({"indices": plain.indices, "weights": plain.weights})),
        plain._replace(indices=np.empty(6, np.longlong)),
    ):
        out.batch["number"][:], out.indices[:], out.weights[:] = -1, -1, -1
        assert replay.sample(6, rng, out=out) is out
        assert out.indices.min() >= 0
        assert (out.weights == 1).all()
        np.testing.assert_array_equal(out.batch["number"], out.indices)
        assert_whole(out.batch)
    assert replay.samples_drawn == 5


@pytest.mark.parametrize("name", ["indices", "weights", "number"])
def test_refuses_arrays_that_cannot_be_written(rng: np.random.Generator, name: str) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(5)))
    out, before = replay.allocate(6), rng.bit_generator.state
    getattr(out, name, out.batch.get(name)).flags.writeable = False
    with pytest.raises(ValueError, match=f"out.*{name}.*read-only"):
        replay.sample(6, rng, out=out)
    if name in out.batch:
        with pytest.raises(ValueError, match=f"out.*{name}.*read-only"):
            replay.gather(np.arange(5).repeat(2)[:6], out.batch)
    assert (replay.samples_drawn, rng.bit_generator.state) == (0, before)


def test_gathers_into_subclasses_and_from_odd_indices(memmaps) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(10, 14)))
    out = memmaps(replay.storage.allocate(3))
    batch = replay.gather([3, 0, 3], out)
    assert batch["number"] is out["number"]
    np.testing.assert_array_equal(out["number"], [13, 10, 13])
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int64)
    for indices in (unaligned, np.zeros(2, np.longlong)):
        np.testing.assert_array_equal(replay.gather(indices)["number"], [10, 10])
        np.testing.assert_array_equal(replay.priorities(indices), replay.priorities([0, 0]))
        replay.update_priorities(indices, unaligned.view(np.float64))


def test_gathers_rows(rng: np.random.Generator) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(10, 14)))
    out = replay.storage.allocate(3)
    batch = replay.gather([3, 0, 3], out)
    assert batch["frame"] is out["frame"]
    np.testing.assert_array_equal(batch["number"], [13, 10, 13])
    np.testing.assert_array_equal(replay.gather([1])["number"], [11])
    with pytest.raises(ValueError, match="indices"):
        replay.gather([4])


def test_takes_what_the_plain_storage_takes() -> None:
    """Other dtypes of the same kind, strides, lists: converted, not refused."""
    replay = make()
    batch = numbered_batch(replay.storage, np.arange(6))
    odd = {name: np.repeat(column, 2, axis=0)[::2] for name, column in batch.items()}
    odd["reward"] = batch["reward"].astype(np.float64)
    odd["number"] = batch["number"].tolist()
    np.testing.assert_array_equal(replay.insert(odd, [1, 2, 3, 4, 5, 6]), np.arange(6))
    assert_whole(replay.gather(np.arange(6, dtype=np.uint16)[::2]))
    replay.update_priorities([0, 2], np.arange(4)[::2])
    replay.update_priorities(np.arange(4)[::2], [1, 2])


def test_a_storage_on_a_device_is_refused() -> None:
    """Its columns are copies on the host: what is inserted would never reach the device."""
    storage = DeviceStorage(8, {"reward": FieldSpec((), np.float32)}, memory("stand-in"))
    with pytest.raises(TypeError, match="storage: found DeviceStorage; allowed: one on the host"):
        ConcurrentReplay(storage)


def test_refused_arguments_leave_the_state_unchanged(rng: np.random.Generator) -> None:
    replay = make()
    with pytest.raises(ValueError, match="sample"):
        replay.sample(1, rng)
    replay.insert(numbered_batch(replay.storage, np.arange(3)))
    before = replay.priorities(np.arange(3))
    for batch in (
        numbered_batch(replay.storage, np.arange(9)),
        numbered_batch(replay.storage, np.arange(0)),
        numbered_batch(replay.storage, np.arange(2)) | {"frame": np.zeros((2, 7, 3), np.uint8)},
        {},
    ):
        with pytest.raises(ValueError, match="batch"):
            replay.insert(batch)
    with pytest.raises(TypeError, match="frame"):
        replay.insert(numbered_batch(replay.storage, np.arange(2)) | {"frame": np.zeros((2, 3, 7))})
    for td_errors in ([1.0], [np.nan, 1.0], [np.inf, 1.0], [1e300, 1.0]):
        with pytest.raises(ValueError, match="td_errors"):
            replay.update_priorities([0, 1], td_errors)
        with pytest.raises(ValueError, match="td_errors"):
            replay.insert(numbered_batch(replay.storage, np.arange(2)), np.array(td_errors))
    for indices in ([3, 0], [-1, 0]):
        with pytest.raises(ValueError, match="indices"):
            replay.update_priorities(indices, [1.0, 1.0])
    with pytest.raises(TypeError, match="indices"):
        replay.update_priorities([0.5], [1.0])
    with pytest.raises(ValueError, match="batch_size"):
        replay.sample(0, rng)
    with pytest.raises(TypeError):
        replay.sample(1.5, rng)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rng"):
        replay.sample(1, np.random.RandomState(1))  # type: ignore[arg-type]
    np.testing.assert_array_equal(replay.priorities(np.arange(3)), before)
    assert (len(replay), replay.max_priority, replay.samples_drawn) == (3, 1, 0)


@pytest.mark.parametrize(
    ("alpha", "td_error"), [(0.6, 1e66), (0.6, 1e200), (1.0, 1e38), (2.0, 1e30), (2.0, 1e200)]
)
def test_a_td_error_whose_priority_is_beyond_single_precision_is_refused(
    alpha: float, td_error: float
) -> None:
    """The tree keeps priorities in single precision; only the priority must fit, as in every other replay."""
    replay = make(alpha=alpha)
    replay.insert(numbered_batch(replay.storage, np.arange(2)))
    for td_errors in ([td_error, 1.0], np.array([1.0, -td_error])):
        with pytest.raises(ValueError, match=r"td_errors: found .*; allowed: a priority of at most 2\.127e"):
            replay.insert(numbered_batch(replay.storage, np.arange(2)), td_errors)
        with pytest.raises(ValueError, match=r"td_errors: found .*; allowed: a priority of at most 2\.127e"):
            replay.update_priorities([0, 1], td_errors)
    np.testing.assert_array_equal(replay.priorities([0, 1]), [1, 1])
    assert (len(replay), replay.max_priority) == (2, 1)


def test_nan_is_refused_even_when_alpha_forgets_it() -> None:
    replay = make(alpha=0.0)
    replay.insert(numbered_batch(replay.storage, [0]))
    with pytest.raises(ValueError, match="td_errors"):
        replay.update_priorities(np.array([0]), np.array([np.nan]))


@pytest.mark.parametrize(
    "options", [{"alpha": -1}, {"beta": -1}, {"epsilon": 0}, {"normalisation": "x"}, {"fanout": 1}]
)
def test_refuses_options_out_of_range(options: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make(**options)


def test_snapshots_are_those_of_the_plain_replay(tmp_path: Path, rng: np.random.Generator) -> None:
    replay = make(20)
    for number in range(33):
        replay.insert(numbered_batch(replay.storage, [number]))
        sample = replay.sample(4, rng)
        replay.update_priorities(sample.indices, rng.normal(size=4))
    replay.save(tmp_path / "replay")
    plain = PrioritizedReplay(Storage(20, FIELDS), sum_tree.create(20))
    plain.load(tmp_path / "replay")
    plain.save(tmp_path / "plain")
    copy = make(20)
    copy.load(tmp_path / "plain")
    for other in (plain, copy):
        assert len(other) == 20
        assert other.samples_drawn == 33
        assert other.max_priority == replay.max_priority
        assert other.insert(numbered_batch(replay.storage, [33])).tolist() == [13]
    replay.insert(numbered_batch(replay.storage, [33]))
    expected, got = (each.sample(64, np.random.default_rng(9)) for each in (replay, copy))
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.weights, expected.weights)
    np.testing.assert_array_equal(got.batch["frame"], expected.batch["frame"])
    with pytest.raises(ValueError, match="alpha"):
        make(20, alpha=0.1).load(tmp_path / "replay")


SAVE_AND_INSERT = """
import sys, threading, time
import numpy as np
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
items = 1 << 21
replay = ConcurrentReplay(Storage(items, {"x": FieldSpec((), np.int8)}))
rows, ones = np.arange(items), np.ones(items)
replay.insert({"x": rows.astype(np.int8)})
for _ in range(4):
    update = threading.Thread(target=replay.update_priorities, args=(rows, ones))
    save = threading.Thread(target=replay.save, args=sys.argv[1:])
    for thread in (update, save):
        thread.start()
        time.sleep(0.002)
    replay.insert({"x": np.zeros(1, np.int8)})
    update.join()
    save.join()
print(len(replay))
"""


def test_a_small_insert_never_waits_for_a_save_with_the_gil(tmp_path: Path) -> None:
    """A long update has the tree's lock, for which first a save and then an insert wait; the save needs the GIL."""
    command = [sys.executable, "-P", "-c", SAVE_AND_INSERT, str(tmp_path / "replay")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.stdout, done.stderr) == (f"{1 << 21}\n", "")


def test_the_first_of_two_saves_to_end_does_not_let_inserts_begin(tmp_path: Path) -> None:
    replay = make()
    replay.insert(numbered_batch(replay.storage, np.arange(3)))
    replay._native.freeze()
    replay.save(tmp_path / "replay")
    insert = threading.Thread(target=replay.insert, args=[numbered_batch(replay.storage, [3])])
    insert.start()
    insert.join(0.05)
    assert insert.is_alive()
    assert len(replay) == 3
    replay._native.thaw()
    insert.join(LIMIT_S)
    assert len(replay) == 4


@pytest.mark.parametrize("release_from_lines", [0, 60, 1 << 60], ids=["released", "mixed", "held"])
def test_threads_never_see_half_an_item(tmp_path: Path, release_from_lines: int) -> None:
    """Every column of an item follows from its number; `make sanitize` does the same to the C++ alone."""
    replay = make(50, release_from_lines=release_from_lines)
    replay.insert(numbered_batch(replay.storage, np.arange(50)))
    stop, failures = threading.Event(), []

    def guarded(work: Callable[[np.random.Generator], None], seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                work(rng)
        except BaseException as error:
            failures.append(error)
            stop.set()

    def insert(rng: np.random.Generator) -> None:
        n = int(rng.integers(1, 30))
        replay.insert(numbered_batch(replay.storage, rng.integers(1 << 40, size=n)))

    def sample(rng: np.random.Generator) -> None:
        sample = replay.sample(int(rng.integers(1, 60)), rng)
        assert_whole(sample.batch)
        assert sample.weights.max() == 1
        replay.update_priorities(sample.indices, rng.normal(size=len(sample.indices)))

    def gather(rng: np.random.Generator) -> None:
        assert_whole(replay.gather(rng.integers(50, size=20)))
        assert np.isfinite(replay.priorities(np.arange(50))).all()

    def save(rng: np.random.Generator) -> None:
        replay.save(tmp_path / "replay")
        copy = make(50)
        copy.load(tmp_path / "replay")
        assert len(copy) == 50
        assert_whole(copy.gather(np.arange(50)))

    threads = [
        threading.Thread(target=guarded, args=(work, seed))
        for seed, work in enumerate([insert, insert, sample, sample, gather, save])
    ]
    for thread in threads:
        thread.start()
    stop.wait(2.0)
    stop.set()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert not failures, failures[0]
    assert len(replay) == 50
    # Its sums are those of its leaves: the tree of a copy makes them from these.
    replay.save(tmp_path / "replay")
    copy = make(50)
    copy.load(tmp_path / "replay")
    expected, found = (each.sample(500, np.random.default_rng(9)) for each in (replay, copy))
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_only_what_is_inserted_after_clear_is_drawn(rng) -> None:
    replay = make(beta=LinearSchedule(0.0, 1.0, 10))
    replay.insert(numbered_batch(replay.storage, range(8)))
    for _ in range(5):
        replay.update_priorities(replay.sample(4, rng).indices, [9.0] * 4)
    replay.clear()
    assert len(replay) == 0
    with pytest.raises(ValueError, match="sample"):
        replay.sample(1, rng)
    assert list(replay.insert(numbered_batch(replay.storage, [11, 12]))) == [0, 1]
    assert (replay.max_priority, replay.samples_drawn, replay.beta) == (1.0, 5, 0.5)
    sample = replay.sample(64, rng)
    assert set(sample.batch["number"]) == {11, 12}
    np.testing.assert_array_equal(sample.weights, 1)
    assert_whole(sample.batch)
