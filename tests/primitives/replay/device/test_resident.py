"""Replay whose steps stay on the device does what the calls of the host do, and the host waits for nothing."""

import numpy as np
import pytest

from placerl.primitives.device import Device
from placerl.primitives.replay import FieldSpec, Storage, transition_fields
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import ResidentBatch, ResidentReplay, kernel_source
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

    def __init__(self, device: Device, dtype: str = "float32", **options: object) -> None:
        self.trees = [DeviceSumTree(CAPACITY, 16, dtype, device) for _ in range(2)]
        self.rows, self.host = DeviceStorage(CAPACITY, FIELDS, device), Storage(CAPACITY, FIELDS)
        priorities = np.random.default_rng(0).random(ITEMS)
        for storage in (self.rows, self.host):
            storage.insert(numbered_batch(storage, np.arange(ITEMS)))
        for tree in self.trees:
            tree.update(np.arange(ITEMS), priorities)
            tree.synchronise()
        self.tree = self.trees[1]
        self.target = device.allocate(20 * BATCH_SIZE)
        batch = ResidentBatch(BATCH_SIZE, self.target, PLACES)
        self.resident = ResidentReplay(self.trees[0], self.rows, batch, seed=11, **options)

    def get(self, name: str, dtype: type) -> np.ndarray:
        return self.resident.stream.download(getattr(self.resident, name), BATCH_SIZE, dtype)

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
    both = Filled(device_of(kind), dtype, alpha=1.0, epsilon=0.25, stratified=stratified)
    resident, rng = both.resident, np.random.default_rng(1)
    for step in range(5):
        beta = 0.4 + 0.1 * step
        resident.stream.upload(resident.beta, np.float64([beta]))
        resident.sample()
        indices = both.get("indices", np.int64)
        np.testing.assert_array_equal(indices, both.expected(step, stratified))
        right = both.host.gather(indices)
        stream = resident.stream
        observed = stream.download(both.target, (BATCH_SIZE, 3), np.float32)
        np.testing.assert_array_equal(observed, right["observation"])
        action = stream.download(both.target, BATCH_SIZE, np.int64, 12 * BATCH_SIZE)
        np.testing.assert_array_equal(action, right["action"])
        weights = importance_weights(both.tree.get(indices), both.tree.total, ITEMS, beta)
        np.testing.assert_allclose(both.get("weights", np.float32), weights, rtol=1e-6)
        # Sums of these are exact in float32.
        td_errors = (rng.integers(-8, 8, BATCH_SIZE) / 4).astype(np.float32)
        stream.upload(resident.td_errors, td_errors)
        resident.update()
        both.tree.update(indices, item_priorities(td_errors.astype(np.float64), 1.0, 0.25))
        resident.finish()
        every = np.arange(CAPACITY)
        np.testing.assert_array_equal(both.trees[0].get(every), both.tree.get(every))
        assert both.trees[0].total == both.tree.total


@every_kind_with_barriers
def test_powers_of_priorities(kind: str) -> None:
    both = Filled(device_of(kind), alpha=0.6, epsilon=1e-6)
    both.resident.sample()
    indices = both.get("indices", np.int64)
    td_errors = np.random.default_rng(1).normal(size=BATCH_SIZE).astype(np.float32)
    both.resident.stream.upload(both.resident.td_errors, td_errors)
    both.resident.update()
    both.resident.finish()
    last = dict(zip(indices.tolist(), td_errors, strict=True))
    expected = item_priorities(np.float64([*last.values()]), 0.6, 1e-6)
    np.testing.assert_allclose(both.trees[0].get([*last]), expected, rtol=1e-6)


@every_kind_with_barriers
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_td_error_that_is_not_finite_changes_nothing_and_is_told(kind: str, wrong: float) -> None:
    both = Filled(device_of(kind))
    before = both.trees[0].get(np.arange(CAPACITY))
    resident = both.resident
    resident.sample()
    resident.stream.upload(resident.td_errors, np.full(BATCH_SIZE, wrong, np.float32))
    resident.update()
    with pytest.raises(ValueError, match="td_errors: found one that is NaN"):
        resident.finish()
    np.testing.assert_array_equal(both.trees[0].get(np.arange(CAPACITY)), before)
    resident.finish()


@every_kind_with_barriers
def test_the_host_waits_for_nothing_and_allocates_nothing(kind: str) -> None:
    device = RecordingDevice(device_of(kind))
    resident = Filled(device).resident
    device.counts.reset()
    for _ in range(10):
        resident.sample()
        resident.update()
    assert device.counts == Counts(replays=20)
    assert device.counts.round_trips == 0
    resident.finish()


@every_kind_with_barriers
def test_rows_are_overwritten_after_they_were_read(kind: str) -> None:
    both = Filled(device_of(kind))
    for _ in range(5):
        both.resident.sample()
        both.rows.insert(numbered_batch(both.rows, np.full(CAPACITY, -9)))
        observed = both.resident.stream.download(both.target, (BATCH_SIZE, 3), np.float32)
        expected = both.host.gather(both.get("indices", np.int64))["observation"]
        np.testing.assert_array_equal(observed, expected)
        both.rows.insert(numbered_batch(both.rows, (both.rows.cursor + np.arange(CAPACITY)) % CAPACITY))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_for_cuda(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(kernel_source(dtype), architecture)
    for name in (b"draw", b"importance", b"prioritise", b"advance"):
        assert b".text." + name in cubin


def test_what_does_not_belong_together_is_refused() -> None:
    device = device_of("host")
    storage = DeviceStorage(8, FIELDS, device)
    batch = ResidentBatch(2, device.allocate(64), PLACES)
    with pytest.raises(ValueError, match="tree: found 9 leaves; allowed: the storage's capacity, 8"):
        ResidentReplay(DeviceSumTree(9, 2, np.float32, device), storage, batch)
    with pytest.raises(ValueError, match="tree: found cuda:0; allowed: the storage's device, host"):
        ResidentReplay(DeviceSumTree(8, 2, np.float32, device_of("stand-in")), storage, batch)
    device = RecordingDevice(device)
    device.has_double = False
    with pytest.raises(ValueError, match="allowed: one with double precision"):
        ResidentReplay(DeviceSumTree(8, 2, np.float32, device), DeviceStorage(8, FIELDS, device), batch)


@every_kind_with_barriers
def test_an_empty_replay_has_nothing_to_draw(kind: str) -> None:
    device = device_of(kind)
    tree, rows = DeviceSumTree(CAPACITY, 16, "float32", device), DeviceStorage(CAPACITY, FIELDS, device)
    batch = ResidentBatch(BATCH_SIZE, device.allocate(20 * BATCH_SIZE), PLACES)
    with pytest.raises(ValueError, match="found no item to draw"):
        ResidentReplay(tree, rows, batch, seed=0).sample()
