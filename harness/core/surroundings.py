"""What a command needs of its surroundings: standard output, file descriptors, a working folder.

What is missing ends the command with one line on standard error and exit status 1. A pipe whose reader has gone, as
after `placerl claims | head -1`, ends it without a line, with the status that the shell gives other programs.

This file imports nothing that takes time: it is imported first.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

STATUS = 1
"""Exit status if the surroundings lack something."""
READER_GONE = 128 + 13
"""Exit status if the reader of standard output has gone: that of a program which SIGPIPE ends."""
LEAST_FILES = 64
"""Least limit of open files under which a command starts. `placerl doctor` has up to 11 open at once."""

_OUTPUT = "standard output: found {}; allowed: a file, pipe or terminal that takes what is written"
_FILES = f"open files: found {{}}; allowed: at least {LEAST_FILES}, and more for more processes (ulimit -n)"
_FOLDER = "working folder: found {}; allowed: a folder that exists: change to one with cd"
_SPACE = "a disk with free space that may be written to"
_ALLOWED = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EROFS: _SPACE,
    errno.ENOMEM: "more free memory, or a smaller measurement",
    errno.EAGAIN: "more processes and threads: ulimit -u",
}


class _Descriptor(io.FileIO):
    """A standard stream that remembers its first error, and takes and drops what is written after that."""

    def __init__(self, descriptor: int, raises: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None
        self._raises = raises

    def write(self, data: Any, /) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
                if self._raises:
                    raise
        return memoryview(data).nbytes


class _State:
    output: _Descriptor | None = None


def check() -> None:
    """End the process if it lacks what every command needs, and watch its standard streams from now on."""
    if sys.stdout is None:
        _leave(_OUTPUT.format("it closed"))
    limit = os.sysconf("SC_OPEN_MAX")
    if 0 <= limit < LEAST_FILES:
        _leave(_FILES.format(f"a limit of {limit}"))
    if line := _folder():
        _leave(line)
    for descriptor, stream in ((0, sys.stdin), (2, sys.stderr)):
        if stream is None:  # or the next file that is opened, such as the store, would be the standard stream
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            if descriptor:
                sys.stderr = open(descriptor, "w", closefd=False)  # noqa: SIM115
    # A program that calls the command line may have put streams of its own there.
    output, errors = sys.__stdout__, sys.__stderr__
    if output is not None and sys.stdout is output:
        _State.output = _Descriptor(1, raises=True)
        sys.stdout = _text(output, _State.output)
    if errors is not None and sys.stderr is errors:
        sys.stderr = _text(errors, _Descriptor(2, raises=False))  # nothing can be said of its own failure


def flush() -> None:
    """Write what standard output still holds; an error is remembered for `leave`, not raised."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        if _State.output is not None and _State.output.error is None:
            _State.output.error = error


def leave(end: BaseException) -> None:
    """End the process if its surroundings are the reason for `end`; return if they are not."""
    flush()
    failed = None if _State.output is None else _State.output.error
    if failed is not None and (
        isinstance(end, OSError) or (isinstance(end, SystemExit) and end.code in (None, 0, 1))
    ):
        if failed.errno == errno.EPIPE:
            sys.exit(READER_GONE)
        _leave(_OUTPUT.format(failed.strerror))
    if not isinstance(end, SystemExit) and (line := reason(end)):
        _leave(line)


def reason(error: BaseException) -> str:
    """Return in one line what the surroundings lack if that is why an error was raised, or ""."""
    for each in _chain(error):
        if isinstance(each, MemoryError):
            return f"memory: found too little of it; allowed: {_ALLOWED[errno.ENOMEM]}"
        number = _number(each)
        if number in (errno.EMFILE, errno.ENFILE):
            return _FILES.format(os.strerror(number))
        if number in _ALLOWED:
            name = getattr(each, "filename", None) or "this machine"
            return f"{name!s}: found {os.strerror(number)}; allowed: {_ALLOWED[number]}"
    return _folder() if isinstance(error, FileNotFoundError) else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _number(error: BaseException) -> int:
    """Return the number of a system's error, also of one that an import gives only as text; 0 if it is none."""
    if isinstance(error, OSError):
        return error.errno or 0
    numbers = (errno.EMFILE, errno.ENFILE, errno.ENOMEM) if isinstance(error, ImportError) else ()
    return next((number for number in numbers if os.strerror(number) in str(error)), 0)


def _folder() -> str:
    try:
        os.getcwd()
    except OSError as error:
        return _FOLDER.format("it deleted" if isinstance(error, FileNotFoundError) else error.strerror)
    return ""


def _leave(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"placerl: {line}\n")
        sys.stderr.flush()
    sys.exit(STATUS)


def _text(stream: TextIO, raw: _Descriptor) -> TextIO:
    """Return a text stream onto `raw` with the encoding and the buffering of `stream`."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
        write_through=bool(getattr(stream, "write_through", False)),
    )
