"""Threads on one replay buffer: `make bench-replay-threads` (PAL VI-D, Fig. 9).

Each thread goes round: insert 8 transitions, sample a batch, update its priorities. The figure is rounds per second
of all threads together; the sides take turns, and a cell is the median over turns. Sides:

    concurrent    `ConcurrentReplay`: lazy writing and two locks; small calls hold the GIL, large ones release it
    gil released  the same, releasing the GIL in every call
    gil held      the same, never releasing it
    global lock   PAL's baseline: the plain binary tree, one lock around every call, data included
    owner         one thread owns a `PrioritizedReplay` on the native tree; the others send it requests and wait
"""

import argparse
import queue
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from primitives import sum_tree
from primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    PrioritizedReplay,
    Replay,
    Storage,
    transition_fields,
)
from primitives.replay.concurrent import RELEASE_FROM_LINES

INSERTED = 8
FIELDS = transition_fields(FieldSpec((11,), np.float32), FieldSpec((3,), np.float32))  # Hopper's

Call = Callable[[str, Any], Any]


class Locked:
    """One lock around every call."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._lock = threading.Lock()

    def call(self, method: str, arguments: Any) -> Any:
        with self._lock:
            return getattr(self._replay, method)(*arguments)

    def close(self) -> None:
        pass


class Direct(Locked):
    """No lock: the buffer has its own."""

    def call(self, method: str, arguments: Any) -> Any:
        return getattr(self._replay, method)(*arguments)


class Owned(Locked):
    """One thread makes all calls; callers wait for its answers."""

    def __init__(self, replay: Replay) -> None:
        super().__init__(replay)
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            method, arguments, answer = request
            answer.put(getattr(self._replay, method)(*arguments))

    def call(self, method: str, arguments: Any) -> Any:
        answer: queue.SimpleQueue = queue.SimpleQueue()
        self._requests.put((method, arguments, answer))
        return answer.get()

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join()


def concurrent(capacity: int, release_from_lines: int = RELEASE_FROM_LINES) -> Replay:
    return ConcurrentReplay(Storage(capacity, FIELDS), release_from_lines=release_from_lines)


def plain(capacity: int, backend: str) -> Replay:
    return PrioritizedReplay(Storage(capacity, FIELDS), sum_tree.create(capacity, backend=backend))


SIDES: dict[str, Callable[[int], Locked]] = {
    "concurrent": lambda capacity: Direct(concurrent(capacity)),
    "gil released": lambda capacity: Direct(concurrent(capacity, release_from_lines=0)),
    "gil held": lambda capacity: Direct(concurrent(capacity, release_from_lines=1 << 60)),
    "global lock": lambda capacity: Locked(plain(capacity, "binary")),
    "owner": lambda capacity: Owned(plain(capacity, "native")),
}


def transitions(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {
        name: rng.random((n, *field.shape), np.float32).astype(field.dtype) for name, field in FIELDS.items()
    }


def filled(side: Locked, capacity: int) -> Locked:
    rng = np.random.default_rng(0)
    n = min(capacity, 1 << 15)
    batch = transitions(rng, n)
    for _ in range(capacity // n):
        side.call("insert", (batch, rng.normal(size=n)))
    return side


def rounds_per_s(side: Locked, threads: int, batch_size: int, duration_s: float) -> float:
    """Rounds per second of all threads in `duration_s` seconds."""
    start, stop = threading.Barrier(threads + 1), threading.Event()
    counts = [0] * threads

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        batch = transitions(rng, INSERTED)
        td_errors = rng.normal(size=(16, batch_size))
        start.wait()
        while not stop.is_set():
            side.call("insert", (batch,))
            sample = side.call("sample", (batch_size, rng))
            side.call("update_priorities", (sample.indices, td_errors[counts[number] % 16]))
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    start_s = time.perf_counter()
    time.sleep(duration_s)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--capacity", type=int, default=1 << 20)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 256, 2048])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--turn-s", type=float, default=0.2)
    arguments = parser.parse_args()

    sides = {name: filled(make(arguments.capacity), arguments.capacity) for name, make in SIDES.items()}
    table = Table(title=f"rounds per second, all threads together; capacity {arguments.capacity}")
    for heading in ("B", "threads", *sides, "concurrent / global lock", "concurrent / owner"):
        table.add_column(heading, justify="right")
    for batch_size in arguments.batch_sizes:
        for threads in arguments.threads:
            rates: dict[str, list[float]] = {name: [] for name in sides}
            for turn in range(arguments.turns + 1):
                for name, side in sides.items():
                    rate = rounds_per_s(side, threads, batch_size, arguments.turn_s)
                    if turn:  # the first warms up
                        rates[name].append(rate)
            ratios = [
                statistics.median(a / b for a, b in zip(rates["concurrent"], rates[other], strict=True))
                for other in ("global lock", "owner")
            ]
            medians = [f"{statistics.median(values):.0f}" for values in rates.values()]
            table.add_row(str(batch_size), str(threads), *medians, *(f"{ratio:.2f}" for ratio in ratios))
    Console(width=140).print(table)
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    main()
