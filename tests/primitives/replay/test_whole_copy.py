"""A copy of every replay, storage and n-step return continues as its original, and shares nothing with it."""

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import sum_tree
from placerl.primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    LinearSchedule,
    NStepReturns,
    PrioritizedReplay,
    Replay,
    Storage,
    UniformReplay,
)
from placerl.primitives.replay.device import DeviceStorage
from tests.limits import LIMIT_S
from tests.primitives.copies import WAYS, every_way
from tests.primitives.device import stand_in_cupy
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.device.memories import memory

FIELDS = {
    "frame": FieldSpec((2, 3), np.uint8),
    "number": FieldSpec((), np.int64),
    "reward": FieldSpec((), np.float32),
    "nothing": FieldSpec((0,), np.float64),
}
CAPACITY = 8


def prioritized(storage: Storage, **options: object) -> Replay:
    return PrioritizedReplay(
        storage, sum_tree.create(storage.capacity, **options), beta=LinearSchedule(0.4, 1, 9)
    )


def on(kind: str) -> Storage:
    return DeviceStorage(CAPACITY, FIELDS, memory(kind))


KINDS: dict[str, Callable[[], Replay]] = {
    "uniform": lambda: UniformReplay(Storage(CAPACITY, FIELDS)),
    "prioritized": lambda: prioritized(Storage(CAPACITY, FIELDS)),
    "prioritized-reference": lambda: prioritized(Storage(CAPACITY, FIELDS), backend="reference"),
    "concurrent": lambda: ConcurrentReplay(
        Storage(CAPACITY, FIELDS), fanout=4, alpha=0.7, beta=LinearSchedule(0.4, 1, 9), normalisation="none"
    ),
    "uniform-stand-in": lambda: UniformReplay(on("stand-in")),
    "prioritized-opencl": lambda: prioritized(on("opencl")),
    "prioritized-cuda": lambda: prioritized(on("cuda")),
}
GPU = {"prioritized-cuda"}
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.gpu if kind in GPU else ()) for kind in KINDS]
)


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The library that the memory "stand-in" is unpickled with."""
    if "stand-in" in request.node.name:
        monkeypatch.setitem(sys.modules, "cupy", stand_in_cupy)
        monkeypatch.setattr("placerl.primitives.device.cuda.unavailable_reason", lambda: "")


Operation = tuple[str, int]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "sample", "stratified", "update"]), st.integers(1, CAPACITY)),
    max_size=12,
)


def contents(replay: Replay) -> dict[str, np.ndarray]:
    found = {name: column[: len(replay)] for name, column in replay.storage.held_columns(len(replay)).items()}
    if not isinstance(replay, UniformReplay):
        found["max_priority"] = np.array(replay.max_priority)  # type: ignore[attr-defined]
        found["samples_drawn"] = np.array(replay.samples_drawn)  # type: ignore[attr-defined]
        found["beta"] = np.array(replay.beta)  # type: ignore[attr-defined]
    return found


def done(replay: Replay, operations: list[Operation], seed: int) -> list[np.ndarray]:
    """Everything that a replay answers to the operations."""
    rng, answers = np.random.default_rng(seed), []
    for name, count in operations:
        if name == "insert":
            answers.append(replay.insert(numbered_batch(replay.storage, rng.integers(200, size=count))))
        elif len(replay):
            sample = replay.sample(count, rng, stratified=name == "stratified")
            answers += [sample.indices, sample.weights, *(sample.batch[field] for field in FIELDS)]
            if name == "update":
                replay.update_priorities(sample.indices, rng.normal(size=count))
    return [np.array(answer) for answer in answers] + [*contents(replay).values()]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@every_kind
@settings(max_examples=30, deadline=None)
@given(
    before=OPERATIONS,
    changes=OPERATIONS,
    after=OPERATIONS,
    way=st.sampled_from(sorted(WAYS)),
    seed=st.integers(0, 9),
)
def test_a_copy_continues_as_its_original_and_shares_nothing_with_it(
    kind: str,
    before: list[Operation],
    changes: list[Operation],
    after: list[Operation],
    way: str,
    seed: int,
) -> None:
    original = KINDS[kind]()
    done(original, before, seed)
    expected = {name: np.array(value) for name, value in contents(original).items()}
    changed, copied = WAYS[way](original), WAYS[way](original)
    assert type(copied) is type(original)
    done(changed, [("insert", 3), ("update", 4), *changes], seed + 1)
    assert_same([*contents(original).values()], [*expected.values()])
    assert_same(done(copied, after, seed + 2), done(original, after, seed + 2))


CONTINUES = """
import pickle, sys
import numpy as np
answers = []
for replay in pickle.load(open(sys.argv[1], "rb")):
    rng = np.random.default_rng(5)
    replay.insert({name: replay.storage.gather(rows)[name] for name in replay.storage.fields}
                  if (rows := [0, 1]) and len(replay.storage) else replay.gather([0, 1]))
    sample = replay.sample(50, rng)
    replay.update_priorities(sample.indices, rng.normal(size=50))
    answers.append((sample.indices, sample.weights, replay.sample(9, rng).indices))
pickle.dump(answers, open(sys.argv[2], "wb"))
"""


def test_unpickled_in_another_process_a_replay_continues(tmp_path: Path) -> None:
    replays = [KINDS[kind]() for kind in ("uniform", "prioritized", "concurrent")]
    for replay in replays:
        done(replay, [("insert", 8), ("update", 8), ("insert", 3)], 0)
    (tmp_path / "replays").write_bytes(pickle.dumps(replays))
    command = [sys.executable, "-c", CONTINUES, str(tmp_path / "replays"), str(tmp_path / "answers")]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    for replay, answer in zip(replays, pickle.loads((tmp_path / "answers").read_bytes()), strict=True):
        rng = np.random.default_rng(5)
        if isinstance(replay, ConcurrentReplay):
            replay.insert(replay.gather([0, 1]))
        else:
            replay.insert(replay.storage.gather([0, 1]))
        sample = replay.sample(50, rng)
        replay.update_priorities(sample.indices, rng.normal(size=50))
        assert_same([*answer], [sample.indices, sample.weights, replay.sample(9, rng).indices])


@pytest.mark.parametrize("way", ["pickle-5", "deepcopy"])
def test_a_copy_of_a_replay_in_use_holds_the_items_of_one_moment(way: str) -> None:
    capacity, n = 1 << 12, 1 << 10
    fields = {"number": FieldSpec((), np.int64), "wide": FieldSpec((64,), np.int64)}
    replay, stop = ConcurrentReplay(Storage(capacity, fields), release_from_lines=0), threading.Event()
    inserted, rng = n, np.random.default_rng(0)
    replay.insert(numbered_batch(replay.storage, np.arange(n)))

    def insert() -> None:
        nonlocal inserted
        while not stop.is_set():
            replay.insert(numbered_batch(replay.storage, np.arange(inserted, inserted + n)))
            inserted += n

    def update() -> None:
        while not stop.is_set():
            replay.update_priorities(rng.integers(n, size=64), rng.normal(size=64) * 9)

    threads = [threading.Thread(target=work) for work in (insert, update)]
    for thread in threads:
        thread.start()
    try:
        copies = [WAYS[way](replay) for _ in range(10)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for copied in copies:
        columns, cursor = copied.storage.columns, copied._position()[1]
        in_order = (
            np.roll(columns["number"], -cursor) if len(copied) == capacity else columns["number"][:cursor]
        )
        np.testing.assert_array_equal(in_order, np.arange(in_order[0], in_order[0] + len(copied)))
        rows = columns["wide"][: len(copied)]
        np.testing.assert_array_equal(rows, np.repeat(columns["number"][: len(copied), None], 64, axis=1))
        assert copied.priorities(np.arange(len(copied))).max() <= copied.max_priority


def test_a_pickle_holds_only_the_rows_with_items() -> None:
    for replay in (
        UniformReplay(Storage(10**6, FIELDS)),
        ConcurrentReplay(Storage(10**6, FIELDS)),
    ):
        replay.insert(numbered_batch(replay.storage, [1, 2]))
        assert len(pickle.dumps(replay)) < 10_000


@every_way
def test_two_references_to_one_storage_are_one_in_the_copy(way: str) -> None:
    replay = KINDS["prioritized"]()
    copied, storage = WAYS[way]((replay, replay.storage))
    assert copied.storage is storage


def test_a_shallow_copy_is_refused() -> None:
    replay = KINDS["uniform"]()
    for thing in (replay, KINDS["concurrent"](), replay.storage, NStepReturns(2, 0.9)):
        with pytest.raises(
            TypeError, match=rf"copy\.copy: found {type(thing).__name__}; allowed: copy\.deepcopy"
        ):
            copy.copy(thing)


@every_way
def test_n_step_returns_continue(way: str) -> None:
    rng = np.random.default_rng(0)

    def step() -> dict[str, np.ndarray]:
        ended = rng.random((2, 3)) < 0.2
        numbers = rng.random((4, 3))
        names = ("observation", "action", "reward", "next_observation")
        return dict(zip(names, numbers, strict=True)) | {"terminated": ended[0], "truncated": ended[1]}

    original = NStepReturns(3, 0.9, environments=3)
    for _ in range(8):
        original.add(step())
        changed, copied = WAYS[way](original), WAYS[way](original)
        changed.add(step())
        later = step()
        found, expected = copied.add(later), original.add(later)
        assert (found is None) == (expected is None)
        if found and expected:
            assert_same([*found.values()], [*expected.values()])


@every_way
@pytest.mark.parametrize("kind", ["stand-in", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_batch_in_a_devices_memory_is_copied_to_the_host(kind: str, way: str) -> None:
    storage = on(kind)
    storage.insert(numbered_batch(storage, [3, 5]))
    copied = WAYS[way](storage.gather([1, 0]))
    assert type(copied) is dict
    assert copied["number"].tolist() == [5, 3]


def test_unpickling_says_that_the_device_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(on("opencl"))
    monkeypatch.setattr("placerl.primitives.device.opencl.unavailable_reason", lambda: "no driver")
    with pytest.raises(RuntimeError, match="device 'opencl' is not available: no driver"):
        pickle.loads(pickled)
