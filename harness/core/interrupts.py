"""What Ctrl-C does in a process of the command line: it never lands inside an import.

Libraries turn a KeyboardInterrupt that is raised inside their import into an ImportError, or drop it: pybind11 and
nanobind while an extension initialises, PyTorch while it looks for NumPy. An interrupted command would then go on, or
report that a package is missing. So Ctrl-C waits for the end of an import, or ends the process if no command has begun.

This file imports nothing that is not part of the interpreter itself: it is imported first.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
import time
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
_LINE = b"placerl: interrupted\n"
_IMPORT = "<frozen importlib._bootstrap>"
_AGAIN_S = 0.01


class _State:
    begun = False
    seen = False
    said = False
    storing = False


def seen() -> bool:
    """Return whether Ctrl-C was pressed since `leave_at_once` was first called."""
    return _State.seen


def begun() -> None:
    """State that the command begins: from now on Ctrl-C in an import waits for its end."""
    _State.begun = True


def storing() -> None:
    """State that what finishes from now on is stored."""
    _State.storing = True


def is_storing() -> bool:
    """Return whether what has finished is stored, so that a user need not begin again."""
    return _State.storing


def said() -> None:
    """State that the interruption has been reported, so that `leave` does not report it again."""
    _State.said = True


def leave() -> None:
    """End the process with status 130 and one line, without any clean-up."""
    if not _State.said:
        _State.said = True
        os.write(2, _LINE)
    os._exit(INTERRUPTED)


def leave_at_once() -> None:
    """Let Ctrl-C end the process at once: nothing has begun yet, or everything is done."""
    _signal.signal(_signal.SIGINT, lambda number, frame: leave())


def raise_outside_imports() -> None:
    """Let Ctrl-C raise KeyboardInterrupt in the main thread, after the import that it is in, if it is in one."""
    _signal.signal(_signal.SIGINT, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    _State.seen = True
    if not importing(frame):
        raise KeyboardInterrupt
    if _State.begun:
        # Without `threading`, whose locks this thread may hold.
        _thread.start_new_thread(_repeat, (number, _thread.get_ident()))
    else:
        leave()


def importing(frame: FrameType | None) -> bool:
    """Return whether a frame, or one of those that called it, imports something."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def _repeat(number: int, thread: int) -> None:
    time.sleep(_AGAIN_S)
    if not sys.is_finalizing():
        _signal.pthread_kill(thread, number)
