"""Runs one command and, at its end, ends every process that it started.

`harness.compare.protocol` starts it in a process of its own. It works on Linux only.

    python -P guard.py LIFELINE_FD CPUS COMMAND [ARGUMENT...]

`CPUS` is a list of processors such as `0,1`, or `all`.

The guard adopts every descendant of the command that loses its parent (as a "child subreaper"), so it also finds
daemons that left the process group and the session. It ends them all (SIGTERM, then SIGKILL) as soon as the
command exits or the other end of the pipe `LIFELINE_FD` closes; the kernel closes it when the harness dies for
any reason. The guard exits with the command's status. The command's temporary files are in their own folder
(`TMPDIR`), which is removed too.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psutil

TERMINATE_GRACE_S = 0.4
KILL_LIMIT_S = 5.0
LONGEST_FOLDER = 107 - 68  # characters of a socket's path, minus those that Ray adds to its folder

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def temporary_folder() -> str:
    """Create a folder for temporary files whose path is short enough for the sockets that Ray creates in it."""
    usual = tempfile.gettempdir()
    with_name = len(usual) + len("/placerl-12345678")
    return tempfile.mkdtemp(prefix="placerl-", dir=usual if with_name <= LONGEST_FOLDER else "/tmp")


def environment_in(folder: str) -> dict[str, str]:
    """Return the environment variables, by name, with which a process writes its temporary files to a folder.

    PyTorch's cache of compiled code is an exception: it stays where it is, so that later processes can use it.
    """
    compiled = os.path.join(tempfile.gettempdir(), f"torchinductor_{os.getuid()}")
    return {
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", compiled),
    }


class _EndRequested(Exception):
    """A signal requested the guard's end."""


def _request_end(*_: object) -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the ending
    raise _EndRequested


def _die_with_guard() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _signal_descendants(number: int) -> bool:
    """Send a signal to every living descendant; returns whether there was one."""
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
    """Run a command until it ends, the lifeline closes or a signal asks for the end; then end what it started.

    Args:
        lifeline: file descriptor of a pipe's end for reading, whose other end the harness keeps open.
        cpus: processors that the command may use, such as "0,1", or "all".

    Returns:
        The command's exit status, 128 + N if signal N ended it; 127 if it cannot be started. 143 if the guard ended
        it.
    """
    if cpus != "all":
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _ENDING:
        signal.signal(number, _request_end)
    status = 128 + signal.SIGTERM
    temporary = ""
    try:
        temporary = temporary_folder()
        try:
            environment = os.environ | environment_in(temporary)
            child = subprocess.Popen(command, env=environment, preexec_fn=_die_with_guard)
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
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        _end_descendants()
        shutil.rmtree(temporary, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
