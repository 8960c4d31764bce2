"""The data storage's operations, on a full storage."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from harness.measure.protocol import Case
from harness.platforms import available_memory
from harness.profile.cases.base import CPU, PrimitiveCase, block_rows, expect_equal, random_transitions
from harness.profile.cases.work import copy_work
from harness.runtime.memory import item_bytes
from harness.workloads import Workload, override
from harness.workloads.task import columns_of
from primitives.replay.storage import Storage

LARGEST_REPLAY_BYTES = 2**28
"""Of a replay or a storage that a case fills: far beyond most caches, so that a larger one would be no slower."""
AT_ONCE = 8
"""A table of primitives holds a storage and up to five full replays, their batches and its learners together."""


def fitted(workload: Workload) -> Workload:
    """Return the workload with a replay of which `AT_ONCE` fit the memory that a measurement may take.

    A replay that does not fit is cut to a power of two of bytes, so that two runs on one machine agree, and to
    `LARGEST_REPLAY_BYTES`; never below what its batches need.

    Raises:
        NotEnoughMemory: what its batches need does not fit either.
    """
    settings, row_bytes = workload.training, item_bytes(workload)
    share_bytes = available_memory.measurement_bytes() // AT_ONCE
    most_bytes = min(LARGEST_REPLAY_BYTES, share_bytes)
    if workload.replay.capacity * row_bytes <= most_bytes:
        return workload
    needed = max(settings.learning_starts, settings.batch_size, *settings.batch_sizes)
    available_memory.require(AT_ONCE * needed * row_bytes)
    capacity = max(2 ** (most_bytes.bit_length() - 1) // row_bytes, needed)
    if capacity >= workload.replay.capacity:
        return workload
    return override(workload, "replay.capacity", capacity, "the memory of this machine")


def _filled_storage(workload: Workload) -> Storage:
    storage = Storage(workload.replay.capacity, columns_of(workload))
    rng, block = np.random.default_rng(0), block_rows(storage)
    while storage.size < storage.capacity:
        storage.insert(random_transitions(storage.fields, min(block, storage.capacity - storage.size), rng))
    return storage


def storage_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """`storage.gather` of a batch, and `storage.insert` of one transition.

    Args:
        workload: with a replay that fits the memory.
        batch_size: rows of a gather.
    """

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
        work=lambda: copy_work(workload, batch_size, workload.replay.capacity),
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
        work=lambda: copy_work(workload, 1, workload.replay.capacity),
    )
