"""Keep Ctrl-C out of imports, where libraries turn it into an ImportError or drop it.

pybind11 and nanobind raise ImportError from a KeyboardInterrupt in the initialisation of an extension, and PyTorch goes
on without NumPy. A program would then take a package for missing, or go on with half of one.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def whole_imports() -> Iterator[None]:
    """Let Ctrl-C wait until the block, which imports, is over; then its handler is called, as if it came only now.

    An ImportError that a KeyboardInterrupt caused becomes a KeyboardInterrupt again. Only this is done where Ctrl-C
    interrupts no import: in other threads than the main one, and where it has no handler in Python.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed, and the handler is Python's own.
    """
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        with _as_it_was():
            yield
        return
    signal.signal(signal.SIGINT, hold)
    try:
        with _as_it_was():
            yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(held[0], sys._getframe())


@contextmanager
def _as_it_was() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            raise KeyboardInterrupt from error
        raise
