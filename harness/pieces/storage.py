"""Defines how reading and writing transitions is timed, on a full data storage."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from placerl.harness.mapping import Target
from placerl.harness.mapping.target import CPU
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import (
    PrimitiveCase,
    block_rows,
    expect_equal,
    random_transitions,
)
from placerl.harness.pieces.work import Work, copy_work
from placerl.harness.platforms import available_memory
from placerl.harness.workloads import Workload, override
from placerl.harness.workloads.task import Task, columns_of, item_bytes
from placerl.primitives.replay import device
from placerl.primitives.replay.device import DeviceBatch, DeviceStorage
from placerl.primitives.replay.storage import Storage

LARGEST_REPLAY_BYTES = 2**28
"""Largest replay or storage that a case fills, bytes; so far beyond most caches that a larger one is no slower."""
AT_ONCE = 13
"""Number of full replays for which memory is planned.

A table's cases hold a storage, up to three full replays, the trees of others, their batches and learners, and a storage
and a replay on a device, which may use the host's memory. The rest is left for the libraries that they load.
"""


def fitted(workload: Workload) -> Workload:
    """Return a workload with its replay reduced, if necessary, so that memory holds it `AT_ONCE` times.

    A replay that does not fit is reduced to a power of two of bytes, so that two runs on one machine agree, and to
    at most `LARGEST_REPLAY_BYTES`; but never below the needs of its batches and of an insertion.

    Raises:
        NotEnoughMemory: even these do not fit.
    """
    settings, row_bytes = workload.training, item_bytes(workload)
    share_bytes = available_memory.measurement_bytes() // AT_ONCE
    most_bytes = min(LARGEST_REPLAY_BYTES, share_bytes)
    if workload.replay.capacity * row_bytes <= most_bytes:
        return workload
    needed = max(settings.learning_starts, settings.rows_of_batches, settings.rows_of_an_iteration)
    available_memory.require(AT_ONCE * needed * row_bytes)
    capacity = max(2 ** (most_bytes.bit_length() - 1) // row_bytes, needed)
    if capacity >= workload.replay.capacity:
        return workload
    return override(workload, "replay.capacity", capacity, "the memory of this machine")


def storing_devices() -> list[Target]:
    """Return the devices, other than the host, whose memory can hold the replay's transitions on this machine."""
    return [Target(status.name) for status in device.backends() if status.available]


def _filled_storage(workload: Task, target: Target) -> Storage:
    settings = workload.replay.capacity, columns_of(workload)
    storage = Storage(*settings) if target == CPU else DeviceStorage(*settings, device.memory(target.backend))
    rng, block = np.random.default_rng(0), block_rows(storage)
    while storage.size < storage.capacity:
        storage.insert(random_transitions(storage.fields, min(block, storage.capacity - storage.size), rng))
    return storage


def storage_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the storage's operations, on the host and on every device.

    `storage.gather` reads a batch, and `storage.insert` writes one transition. On a device the batch is gathered
    into another buffer of the device, as for a learner there; it is not sent to the host.

    Args:
        workload: a workload whose replay fits the memory.
    """
    for target in (CPU, *storing_devices()):
        yield from storage_cases_on(workload, batch_size, target)


def _check(storage: Storage) -> None:
    written = random_transitions(storage.fields, 2, np.random.default_rng(3))
    read = storage.gather(storage.insert(written))
    for name, column in written.items():
        expect_equal(read[name], column, name)


def storage_cases_on(task: Task, batch_size: int, target: Target) -> Iterator[PrimitiveCase]:
    """Yield the cases of gathering and inserting, in this order, on the host or on one device; see `storage_cases`.

    Their work is counted for workloads alone, whose rows a report shows.
    """
    storage = cache(lambda: _filled_storage(task, target))
    named = "" if target == CPU else f" {target}"

    @cache
    def out() -> DeviceBatch | None:
        own = storage()
        return own.allocate(batch_size) if isinstance(own, DeviceStorage) else None

    def gather(storage: Storage, indices: npt.NDArray[np.int64]) -> None:
        batch = storage.gather(indices, out())
        if isinstance(batch, DeviceBatch):
            batch.copy()

    yield PrimitiveCase(
        "storage.gather",
        target,
        batch_size,
        Case(
            name=f"storage.gather{named}",
            setup=storage,
            check=_check,
            inputs=lambda storage, rng: rng.integers(0, storage.capacity, batch_size),
            call=gather,
            elsewhere=not target.on_host,
        ),
        work=_work(task, batch_size),
    )
    yield PrimitiveCase(
        "storage.insert",
        target,
        1,
        Case(
            name=f"storage.insert{named}",
            setup=storage,
            check=_check,
            inputs=lambda storage, rng: random_transitions(storage.fields, 1, rng),
            call=lambda storage, transition: storage.insert(transition),
            elsewhere=not target.on_host,
        ),
        work=_work(task, 1),
    )


def _work(task: Task, rows: int) -> Callable[[], Work] | None:
    return partial(copy_work, task, rows, task.replay.capacity) if isinstance(task, Workload) else None
