"""Which files of shared memory processes hold: others on the machine have theirs in the same folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.1


def held_by(processes: list[psutil.Process]) -> set[Path]:
    """The files of memory that the processes share, as far as they have names."""
    found = set()
    for each in processes:
        with suppress(OSError):
            lines = Path(f"/proc/{each.pid}/maps").read_text().splitlines()
            found |= {Path(line[line.index("/dev/shm/") :]) for line in lines if "/dev/shm/" in line}
    return found


@contextmanager
def watched() -> Iterator[set[Path]]:
    """Those that this process, and all below it, come to hold meanwhile; whole when the block has ended."""
    this = psutil.Process()
    before, found, done = held_by([this]), set(), threading.Event()

    def look():
        while not done.wait(LOOK_EVERY_S):
            found.update(held_by([this, *this.children(recursive=True)]) - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
