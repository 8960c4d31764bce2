"""A resident uniform replay draws the rows of `UniformReplay` from the same random numbers."""

import numpy as np
import pytest

from placerl.primitives.device import Part
from placerl.primitives.replay import FieldSpec, transition_fields
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import ResidentBatch
from placerl.primitives.replay.device.resident_uniform import ResidentUniformReplay, kernel_source
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin
from tests.primitives.device.philox import uniform
from tests.primitives.replay.batches import numbered_batch

CAPACITY, BATCH_SIZE = 700, 300
FIELDS = transition_fields(FieldSpec((3,), np.float32), FieldSpec((), np.int64))
PLACES = {"action": Place(0, np.dtype(np.int64))}


@every_kind_with_barriers
@pytest.mark.parametrize("stratified", [False, True])
def test_rows_weights_and_items(kind: str, stratified: bool) -> None:
    storage = DeviceStorage(CAPACITY, FIELDS, device_of(kind))
    resident = ResidentUniformReplay(storage, BATCH_SIZE, stratified=stratified, seed=11)
    stream = resident.stream
    target = stream.zeros(12 * BATCH_SIZE)
    batch = ResidentBatch(target, PLACES, Part(target, 8 * BATCH_SIZE, 4 * BATCH_SIZE))
    for step in range(4):
        resident.insert(numbered_batch(storage, 300 * step + np.arange(300)))
        resident.launch_sample(batch)
        draws = uniform(BATCH_SIZE, step, 11)
        if stratified:
            draws = (draws + np.arange(BATCH_SIZE)) / BATCH_SIZE
        rows = np.minimum((draws * storage.size).astype(np.int64), storage.size - 1)
        np.testing.assert_array_equal(stream.download(resident.drawn[0].indices, BATCH_SIZE, np.int64), rows)
        weights = stream.download(batch.target, BATCH_SIZE, np.float32, 8 * BATCH_SIZE)
        np.testing.assert_array_equal(weights, np.ones(BATCH_SIZE))
        actions = stream.download(batch.target, BATCH_SIZE, np.int64)
        np.testing.assert_array_equal(actions, storage.columns["action"][rows])
    with pytest.raises(TypeError, match="td_errors: found some; allowed: None"):
        resident.insert(numbered_batch(storage, np.arange(2)), np.ones(2))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_for_cuda(architecture: str) -> None:
    cubin = compile_cubin(kernel_source(), architecture)
    for name in (b"draw_rows", b"check_errors", b"count_rows", b"count_batch"):
        assert b".text." + name in cubin
