"""What becomes of calls in a forked process."""

import os
import signal
import warnings
from collections.abc import Callable, Iterable

from tests.limits import LIMIT_S


def outcomes(calls: Iterable[Callable[[], object]]) -> list[str]:
    """What became of each call in a forked process: "passed", or its error with the error's type.

    A process that hangs ends by SIGALRM, which fails the test.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost is what is tried here
        child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(LIMIT_S))
        try:
            for call in calls:
                os.write(write, f"{_outcome(call)}\0".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as lines:
        found = lines.read().decode().split("\0")[:-1]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"after {found} the process ended with status {status}"
    return found


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "passed"
