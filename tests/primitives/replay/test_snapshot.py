import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from placerl.primitives.replay import FieldSpec, PrioritizedReplay, Replay, Storage, UniformReplay, snapshot
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.fake_tree import FakeTree

FIELDS = {
    "frame": FieldSpec((2, 3), np.uint8),
    "reward": FieldSpec((), np.float32),
    "terminated": FieldSpec((), np.bool_),
    "nothing": FieldSpec((0,), np.float64),
}


def uniform(capacity: int = 8, fields: dict[str, FieldSpec] = FIELDS) -> Replay:
    return UniformReplay(Storage(capacity, fields))


def prioritized(capacity: int = 8, fields: dict[str, FieldSpec] = FIELDS, alpha: float = 0.6) -> Replay:
    return PrioritizedReplay(Storage(capacity, fields), FakeTree(capacity), alpha=alpha)


def used(replay: Replay, items: int) -> Replay:
    """The replay after a life of `items` insertions, samples and updates."""
    rng = np.random.default_rng(3)
    for number in range(items):
        replay.insert(numbered_batch(replay.storage, [number]))
        indices = replay.sample(4, rng).indices
        replay.update_priorities(indices, rng.normal(size=4))
    return replay


@pytest.mark.parametrize("make", [uniform, prioritized])
@pytest.mark.parametrize("items", [0, 5, 8, 21])
def test_goes_on_exactly_where_it_was(make, items: int, tmp_path: Path) -> None:
    original = used(make(), items)
    original.save(tmp_path / "replay")
    # one that held something else before
    copy = used(make(), 13)
    copy.load(tmp_path / "replay")
    assert len(copy) == len(original)
    rng_original, rng_copy = np.random.default_rng(5), np.random.default_rng(5)
    for number in range(100, 120):
        for replay, rng in ((original, rng_original), (copy, rng_copy)):
            replay.insert(numbered_batch(replay.storage, [number]))
            sample = replay.sample(16, rng)
            replay.update_priorities(sample.indices, rng.normal(size=16))
            if replay is original:
                expected = sample
        np.testing.assert_array_equal(sample.indices, expected.indices)
        np.testing.assert_array_equal(sample.weights, expected.weights)
        for name in FIELDS:
            np.testing.assert_array_equal(sample.batch[name], expected.batch[name])
            assert sample.batch[name].dtype == FIELDS[name].dtype


def test_numpy_reads_it_without_pickle(tmp_path: Path) -> None:
    replay = used(uniform(), 3)
    replay.save(tmp_path / "replay.npz")
    with np.load(tmp_path / "replay.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["column/reward"], [0, 1, 2])


@pytest.mark.parametrize(
    "other",
    [
        lambda: prioritized(),
        lambda: uniform(capacity=9),
        lambda: uniform(fields=FIELDS | {"reward": FieldSpec((), np.float64)}),
        lambda: uniform(fields=FIELDS | {"frame": FieldSpec((3, 2), np.uint8)}),
        lambda: uniform(fields=FIELDS | {"extra": FieldSpec((), np.uint8)}),
    ],
)
def test_refuses_the_snapshot_of_another_kind_of_replay(other, tmp_path: Path) -> None:
    used(uniform(), 8).save(tmp_path / "replay")
    replay = other()
    with pytest.raises(ValueError, match="allowed"):
        replay.load(tmp_path / "replay")
    assert len(replay) == 0


def test_refuses_another_alpha(tmp_path: Path) -> None:
    used(prioritized(), 8).save(tmp_path / "replay")
    with pytest.raises(ValueError, match="alpha"):
        prioritized(alpha=0.5).load(tmp_path / "replay")


def test_refuses_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    used(prioritized(), 8).save(path)
    whole = path.read_bytes()
    replay = used(prioritized(), 3)
    before = {name: column.copy() for name, column in replay.storage.columns.items()}
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position])
        with pytest.raises(ValueError, match="allowed"):
            replay.load(path)
    rng = np.random.default_rng(0)
    for _ in range(300):
        flipped = bytearray(whole)
        flipped[rng.integers(len(flipped))] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        # a flip in a field of the zip that nothing reads does no harm; any other is refused
        fresh = prioritized()
        try:
            fresh.load(path)
        except ValueError:
            assert len(fresh) == 0
            assert fresh.tree.total == 0
        else:
            np.testing.assert_array_equal(fresh.storage.columns["reward"], np.arange(8))
    assert len(replay) == 3
    for name, column in before.items():
        np.testing.assert_array_equal(replay.storage.columns[name], column)


def rewritten(path: Path, **changes: object) -> None:
    """Writes the snapshot anew with metadata changed, all checksums right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata.json"] = json.dumps(json.loads(members["metadata.json"]) | changes).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 10**12},
        {"size": -1},
        {"size": "8"},
        {"size": 3},
        {"cursor": 8},
        {"cursor": None},
        {"format": 2},
        {"state": None},
        {"state": {"max_priority": -1.0, "samples_drawn": 0}},
        {"state": {"max_priority": 1.0, "samples_drawn": "many"}},
    ],
)
def test_refuses_impossible_metadata(tmp_path: Path, changes: dict) -> None:
    path = tmp_path / "replay"
    used(prioritized(), 8).save(path)
    rewritten(path, **changes)
    replay = prioritized()
    with pytest.raises(ValueError, match="allowed"):
        replay.load(path)
    assert len(replay) == 0


def test_refuses_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    used(uniform(), 8).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with open(tmp_path / "pickled.npy", "wb") as file:
        np.save(file, np.array([{}] * 8, dtype=object), allow_pickle=True)
    members["column/reward.npy"] = (tmp_path / "pickled.npy").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="reward"):
        uniform().load(path)


def test_a_full_disk_leaves_the_old_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "replay"
    used(uniform(), 3).save(path)
    before = path.read_bytes()

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        used(uniform(), 8).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["replay"]


def test_no_python_objects(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pickle"):
        snapshot.write(tmp_path / "unused", {"x": np.array([{}], dtype=object)}, {})
    assert not list(tmp_path.iterdir())


WRITER = """
import sys
import numpy as np
from placerl.primitives.replay import FieldSpec, Storage, UniformReplay
replay = UniformReplay(Storage(200_000, {"x": FieldSpec((4,), np.int64)}))
for number in range(1_000_000):
    replay.storage.columns["x"][:] = number
    replay.storage.size = 200_000
    replay.save(sys.argv[1])
    print(number, flush=True)
"""


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    rng = np.random.default_rng(11)
    replay = UniformReplay(Storage(200_000, {"x": FieldSpec((4,), np.int64)}))
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        printed = process.stdout.read().split()
        process.wait()
        replay.load(path)
        numbers = np.unique(replay.storage.columns["x"])
        assert len(numbers) == 1
        # what was reported done is there; the next one may be too
        last = int(printed[-1]) if printed else 0
        assert numbers[0] in (last, last + 1)
    # a partial file that a kill left does not add up: the next save takes its place
    assert len(list(tmp_path.iterdir())) <= 2
    replay.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["replay"]
