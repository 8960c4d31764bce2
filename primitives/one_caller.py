"""Refuse calls that an object cannot take: from two threads at a time, or in a process that was forked from its own.

A fork copies an object's memory, but neither the threads that work for it nor what a driver holds for its process: a
call of the copy may wait for ever for a thread that is not there. Such an object is an `OwnProcess`.

A native call that releases the interpreter lock lets another Python thread in. An object whose calls must not overlap
is a `OneCaller`, and `one_at_a_time` marks the methods that exclude each other.
"""

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

_current = os.getpid()


def _after_fork_in_child() -> None:
    global _current
    _current = os.getpid()


os.register_at_fork(after_in_child=_after_fork_in_child)


def current_process() -> int:
    """Return the number of this process, without the system call of `os.getpid`."""
    return _current


def _foreign(name: str, process: int) -> RuntimeError:
    return RuntimeError(f"this {name} belongs to process {process}, found {_current}")


class OwnProcess:
    """Base class of an object that belongs to the process that created it; a copy made by a fork cannot be used."""

    def __init__(self) -> None:
        self._own_process = _current

    def _check_process(self) -> None:
        """Check that this process created the object.

        Raises:
            RuntimeError: another process created it.
        """
        if self._own_process != _current:
            raise _foreign(type(self).__name__, self._own_process)


class OwnProcessLock:
    """A reentrant lock of an object that belongs to the process that created it.

    A fork may copy a lock while another thread holds it, so that entering it in another process raises RuntimeError.

    Args:
        owner: name of the object's class, for the error.
    """

    def __init__(self, owner: str) -> None:
        self._owner, self._own_process, self._lock = owner, _current, threading.RLock()

    def __enter__(self) -> None:
        if self._own_process != _current:
            raise _foreign(self._owner, self._own_process)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class OneCaller(OwnProcess):
    """Base class of an object that belongs to one process, and that one thread at a time may call."""

    def __init__(self) -> None:
        super().__init__()
        self._in_call = threading.Lock()

    def _enter(self, method: str) -> None:
        """Begin a call of a method; whoever begins one releases `_in_call` at its end.

        Raises:
            RuntimeError: another process created this object, or a call is in progress.
        """
        self._check_process()
        if not self._in_call.acquire(blocking=False):
            raise RuntimeError(
                f"{type(self).__name__}.{method}: found another call in progress; allowed: one at a time"
            )


_Caller = TypeVar("_Caller", bound=OneCaller)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def one_at_a_time(
    method: Callable[Concatenate[_Caller, _Arguments], _Result],
) -> Callable[Concatenate[_Caller, _Arguments], _Result]:
    """Decorate a method of a `OneCaller` that must not run while another decorated method of the object does.

    The second call raises RuntimeError, and nothing of it is done. In a forked process every call raises RuntimeError.
    A decorated method calls none of its own object.
    """

    @wraps(method)
    def alone(self: _Caller, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        self._enter(method.__name__)
        try:
            return method(self, *args, **kwargs)
        finally:
            self._in_call.release()

    return alone
