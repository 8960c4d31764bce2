"""Whether processes that a test or the code under test has started are still there."""

import time

import psutil

from tests.limits import LIMIT_S


def gone(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not noticed yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def ends(pid: int) -> bool:
    """Whether a process has ended, or does so within the limit."""
    deadline_s = time.monotonic() + LIMIT_S
    while not gone(pid):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
