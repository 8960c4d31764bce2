"""Replay whose steps stay on the device does what the calls of the host do, and the host waits for nothing."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from placerl.primitives.device import Device, Part
from placerl.primitives.replay import FieldSpec, LinearSchedule, Storage, transition_fields
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import ResidentBatch
from placerl.primitives.replay.device.resident_prioritized import (
    Prioritised,
    ResidentPrioritizedReplay,
    kernel_source,
)
from placerl.primitives.replay.prioritized import importance_weights, item_priorities
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin
from tests.primitives.device.philox import uniform
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.replay.batches import numbered_batch

CAPACITY, BATCH_SIZE, ITEMS = 3000, 300, 2000
FIELDS = transition_fields(FieldSpec((3,), np.float32), FieldSpec((), np.int64))
PLACES = {"observation": Place(0, np.dtype(np.float32)), "action": Place(12 * BATCH_SIZE, np.dtype(np.int64))}


class Filled:
    """A resident replay, and the same priorities and rows for the calls of the host."""

    def __init__(self, device: Device, dtype: str = "float32", **options: Any) -> None:
        self.trees = [DeviceSumTree(CAPACITY, 16, dtype, device) for _ in range(2)]
        self.rows, self.host = DeviceStorage(CAPACITY, FIELDS, device), Storage(CAPACITY, FIELDS)
        self.resident = ResidentPrioritizedReplay(
            self.trees[0], self.rows, BATCH_SIZE, Prioritised(**options), seed=11
        )
        self.tree = self.trees[1]
        self.insert(np.random.default_rng(0).random(ITEMS))
        stream = self.resident.stream
        self.target, self.errors = device.allocate(24 * BATCH_SIZE), stream.zeros(4 * BATCH_SIZE)
        self.rows.table(PLACES)
        with stream.recorded() as self.sampling:
            self.resident.launch_sample(
                ResidentBatch(self.target, PLACES, Part(self.target, 20 * BATCH_SIZE, 4 * BATCH_SIZE))
            )
        with stream.recorded() as self.updating:
            self.resident.launch_update(Part(self.errors, 0, 4 * BATCH_SIZE))

    def insert(self, td_errors: np.ndarray) -> None:
        """Insert an item for each TD error."""
        for number in range(0, len(td_errors), CAPACITY // 2):
            some = td_errors[number : number + CAPACITY // 2]
            items = numbered_batch(self.rows, number + np.arange(len(some)))
            rows = self.resident.insert(items, some)
            self.host.insert(items)
            how = self.resident.how
            self.tree.update(rows, item_priorities(some.astype(np.float64), how.alpha, how.epsilon))

    def update(self, td_errors: np.ndarray) -> None:
        self.resident.stream.upload(self.errors, td_errors.astype(np.float32))
        self.updating.replay()

    def indices(self) -> np.ndarray:
        return self.resident.stream.download(self.resident.drawn[0].indices, BATCH_SIZE, np.int64)

    def expected(self, step: int, stratified: bool) -> np.ndarray:
        """The indices that the host's calls draw from the same random numbers."""
        draws = uniform(BATCH_SIZE, step, 11)
        if stratified:
            draws = (draws + np.arange(BATCH_SIZE)) / BATCH_SIZE
        total = self.tree.total
        return self.tree.find(np.minimum(draws * total, np.nextafter(total, 0.0)))


@every_kind_with_barriers
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stratified", [False, True])
def test_it_does_what_the_calls_of_the_host_do(kind: str, dtype: str, stratified: bool) -> None:
    beta = LinearSchedule(0.4, 0.8, 4)
    both = Filled(device_of(kind), dtype, alpha=1.0, beta=beta, epsilon=0.25, stratified=stratified)
    stream, rng, largest = both.resident.stream, np.random.default_rng(1), 1.25
    for step in range(6):
        both.sampling.replay()
        indices = both.indices()
        np.testing.assert_array_equal(indices, both.expected(step, stratified))
        right = both.host.gather(indices)
        observed = stream.download(both.target, (BATCH_SIZE, 3), np.float32)
        np.testing.assert_array_equal(observed, right["observation"])
        action = stream.download(both.target, BATCH_SIZE, np.int64, 12 * BATCH_SIZE)
        np.testing.assert_array_equal(action, right["action"])
        weights = importance_weights(both.tree.get(indices), both.tree.total, ITEMS, beta(step))
        found = stream.download(both.target, BATCH_SIZE, np.float32, 20 * BATCH_SIZE)
        np.testing.assert_allclose(found, weights, rtol=1e-6)
        # Sums of these are exact in float32.
        td_errors = (rng.integers(-8, 8, BATCH_SIZE) / 4).astype(np.float32)
        both.update(td_errors)
        priorities = item_priorities(td_errors.astype(np.float64), 1.0, 0.25)
        both.tree.update(indices, priorities)
        both.resident.finish()
        every = np.arange(CAPACITY)
        np.testing.assert_array_equal(both.trees[0].get(every), both.tree.get(every))
        assert both.trees[0].total == both.tree.total
        largest = max(largest, priorities.max())
    row = both.resident.insert(numbered_batch(both.rows, np.array([7])))
    assert both.trees[0].get(row).tolist() == [largest]


@every_kind_with_barriers
def test_powers_of_priorities(kind: str) -> None:
    both = Filled(device_of(kind), alpha=0.6, epsilon=1e-6)
    both.sampling.replay()
    indices = both.indices()
    td_errors = np.random.default_rng(1).normal(size=BATCH_SIZE).astype(np.float32)
    both.update(td_errors)
    both.resident.finish()
    last = dict(zip(indices.tolist(), td_errors, strict=True))
    expected = item_priorities(np.float64([*last.values()]), 0.6, 1e-6)
    np.testing.assert_allclose(both.trees[0].get([*last]), expected, rtol=1e-6)


@every_kind_with_barriers
@pytest.mark.parametrize(("wrong", "alpha"), [*product([np.nan, np.inf, -np.inf], [0.6, 0.0]), (3e38, 1.0)])
def test_a_td_error_that_no_priority_follows_from_changes_nothing_and_is_told(
    kind: str, wrong: float, alpha: float
) -> None:
    both = Filled(device_of(kind), alpha=alpha)
    largest = both.resident.stream.download(both.resident.largest, (), np.float64)
    before = both.trees[0].get(np.arange(CAPACITY))
    both.sampling.replay()
    both.update(np.full(BATCH_SIZE, wrong))
    with pytest.raises(ValueError, match="td_errors: found one that is NaN"):
        both.resident.finish()
    np.testing.assert_array_equal(both.trees[0].get(np.arange(CAPACITY)), before)
    both.resident.finish()
    row = both.resident.insert(numbered_batch(both.rows, np.array([7])))
    assert both.trees[0].get(row).tolist() == [np.float32(largest)]


@every_kind_with_barriers
def test_the_host_waits_for_nothing_and_allocates_nothing(kind: str) -> None:
    device = RecordingDevice(device_of(kind))
    both = Filled(device)
    device.counts.reset()
    for _ in range(10):
        both.sampling.replay()
        both.updating.replay()
    assert device.counts == Counts(replays=20)
    both.resident.finish()


@every_kind_with_barriers
def test_rows_are_overwritten_after_they_were_read(kind: str) -> None:
    both = Filled(device_of(kind))
    for _ in range(5):
        both.sampling.replay()
        expected = {name: column.copy() for name, column in both.host.columns.items()}
        both.insert(np.ones(CAPACITY))
        observed = both.resident.stream.download(both.target, (BATCH_SIZE, 3), np.float32)
        np.testing.assert_array_equal(observed, expected["observation"][both.indices()])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_for_cuda(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(kernel_source(dtype), architecture)
    for name in (b"draw", b"importance", b"prioritise", b"advance"):
        assert b".text." + name in cubin


def test_what_does_not_belong_together_is_refused() -> None:
    device = device_of("host")
    storage = DeviceStorage(8, FIELDS, device)
    with pytest.raises(ValueError, match="tree: found 9 leaves; allowed: the storage's capacity, 8"):
        ResidentPrioritizedReplay(DeviceSumTree(9, 2, np.float32, device), storage, 2)
    with pytest.raises(ValueError, match="tree: found cuda:0; allowed: the storage's device, host"):
        ResidentPrioritizedReplay(DeviceSumTree(8, 2, np.float32, device_of("stand-in")), storage, 2)
    tree = DeviceSumTree(8, 2, np.float32, device)
    tree.update([0], [1.0])
    with pytest.raises(ValueError, match="tree: found priorities; allowed: none"):
        ResidentPrioritizedReplay(tree, storage, 2)
    device = RecordingDevice(device)
    device.has_double = False
    with pytest.raises(ValueError, match="allowed: one with double precision"):
        ResidentPrioritizedReplay(
            DeviceSumTree(8, 2, np.float32, device), DeviceStorage(8, FIELDS, device), 2
        )
