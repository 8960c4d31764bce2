"""Runs one command and sees to it that nothing of it is left behind. Linux; started by `harness.workers`.

    python -P guard.py LIFELINE_FD CPUS COMMAND [ARGUMENT...]

`CPUS` is a list of processors as `0,1`, or `all`.

The guard adopts every descendant of the command that loses its parent (a "child subreaper"), so daemons
that left the process group and the session are found too. It ends them all (SIGTERM, then SIGKILL) as soon
as the command exits, or as soon as the other end of the pipe `LIFELINE_FD` closes, which the kernel does
for a harness that dies in whatever way. It exits with the command's status.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

import psutil

TERMINATE_GRACE_S = 0.4
KILL_LIMIT_S = 5.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class _EndRequested(Exception):
    """A signal asked the guard to end."""


def _request_end(*_: object) -> None:
    raise _EndRequested


def _die_with_guard() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _signal_descendants(number: int) -> bool:
    """Send a signal to every living descendant; whether there was one."""
    _reap()
    living = False
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                living = True
                process.send_signal(number)
    return living


def _end_descendants() -> None:
    deadline_s = time.monotonic() + TERMINATE_GRACE_S
    living = _signal_descendants(signal.SIGTERM)
    while living and time.monotonic() < deadline_s:
        time.sleep(0.01)
        living = _signal_descendants(0)
    deadline_s = time.monotonic() + KILL_LIMIT_S
    while _signal_descendants(signal.SIGKILL) and time.monotonic() < deadline_s:
        time.sleep(0.005)
    _reap()


def main(lifeline: int, cpus: str, command: list[str]) -> int:
    """Run `command` to its end or to the lifeline's; the status to exit with."""
    if cpus != "all":
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _request_end)
    status = 128 + signal.SIGTERM
    try:
        try:
            child = subprocess.Popen(command, preexec_fn=_die_with_guard)
        except OSError as error:
            print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        # The command's pipes must close with the command, not with the guard.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        ended = os.pidfd_open(child.pid)
        readable, _, _ = select.select([lifeline, ended], [], [])
        if ended in readable:
            code = child.wait()
            status = code if code >= 0 else 128 - code
    except _EndRequested:
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_descendants()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
