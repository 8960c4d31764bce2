"""The data storage's operations, on a full storage."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from harness.cases.base import CPU, PrimitiveCase, expect_equal, random_transitions
from harness.cases.work import copy_work
from harness.measure import Case
from harness.runtime.compose import columns_of
from harness.workload import Workload, override
from primitives.replay.storage import Storage

# Far beyond every cache, so that a larger storage would be no slower; pixels would not fit the memory.
LARGEST_STORAGE_BYTES = 2**30


def storage_capacity(workload: Workload) -> int:
    """The workload's capacity, or as many transitions as `LARGEST_STORAGE_BYTES` hold."""
    return min(workload.replay.capacity, LARGEST_STORAGE_BYTES // (4 * workload.item_words))


LARGEST_REPLAY_BYTES = 2**28  # of those cases that hold several replays at once; still far beyond the caches


def fitted(workload: Workload) -> Workload:
    """The workload with a replay of `LARGEST_REPLAY_BYTES` at most, or of what its batches need."""
    settings = workload.training
    needed = max(settings.learning_starts, settings.batch_size, *settings.batch_sizes)
    capacity = max(LARGEST_REPLAY_BYTES // (4 * workload.item_words), needed)
    if capacity >= workload.replay.capacity:
        return workload
    return override(workload, "replay.capacity", capacity, "the memory of this machine")


def _filled_storage(workload: Workload) -> Storage:
    storage = Storage(storage_capacity(workload), columns_of(workload))
    rng, block = np.random.default_rng(0), min(65_536, storage.capacity)
    while storage.size < storage.capacity:
        storage.insert(random_transitions(storage.fields, min(block, storage.capacity - storage.size), rng))
    return storage


def storage_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """`storage.gather` of a batch, and `storage.insert` of one transition."""

    def check(storage: Storage) -> None:
        written = random_transitions(storage.fields, 2, np.random.default_rng(3))
        read = storage.gather(storage.insert(written))
        for name, column in written.items():
            expect_equal(read[name], column, name)

    storage = cache(lambda: _filled_storage(workload))
    yield PrimitiveCase(
        "storage.gather",
        CPU,
        batch_size,
        Case(
            name="storage.gather",
            setup=storage,
            check=check,
            inputs=lambda storage, rng: rng.integers(0, storage.capacity, batch_size),
            call=lambda storage, indices: storage.gather(indices),
        ),
        work=lambda: copy_work(workload, batch_size, storage_capacity(workload)),
    )
    yield PrimitiveCase(
        "storage.insert",
        CPU,
        1,
        Case(
            name="storage.insert",
            setup=storage,
            check=check,
            inputs=lambda storage, rng: random_transitions(storage.fields, 1, rng),
            call=lambda storage, transition: storage.insert(transition),
        ),
        work=lambda: copy_work(workload, 1, storage_capacity(workload)),
    )
