"""Refuse calls that an object cannot take: from two threads at a time, or in a process that was forked from its own.

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


class OneCaller:
    """Base class of an object that belongs to one process, and that one thread at a time may call."""

    def __init__(self) -> None:
        self._own_process = _current
        self._in_call = threading.Lock()

    def _enter(self, method: str) -> None:
        """Begin a call of a method; whoever begins one releases `_in_call` at its end.

        Raises:
            RuntimeError: another process created this object, or a call is in progress.
        """
        name = type(self).__name__
        if self._own_process != _current:
            raise RuntimeError(f"this {name} belongs to process {self._own_process}, found {_current}")
        if not self._in_call.acquire(blocking=False):
            raise RuntimeError(f"{name}.{method}: found another call in progress; allowed: one at a time")


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
