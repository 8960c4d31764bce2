"""Ends what remains of a local Ray cluster and removes its folder, when the process that started it ends.

    python -P cleaner.py LIFELINE_FD FOLDER

`LIFELINE_FD` is the reading end of a pipe. The kernel closes its writing end when the process that started the
cluster ends for any reason. Ray's own processes then end too. The children of a Ray process that was killed do
not end, and Ray does not remove its folder. This program ends them and removes it.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

import psutil

GRACE_S = 5.0  # seconds for Ray to end by itself
TERMINATE_LIMIT_S = 30.0  # seconds for the guards of workers to end what they started
KILL_LIMIT_S = 30.0


def _left(folder: str) -> list[psutil.Process]:
    """Return the processes whose command line or environment names the folder, and all their descendants."""
    processes: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = any(folder in argument for argument in process.cmdline()) or _in_environment(
                process, folder
            )
            if told and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                processes |= {each.pid: each for each in (process, *process.children(recursive=True))}
    return list(processes.values())


def _in_environment(process: psutil.Process, folder: str) -> bool:
    # A worker renames itself after its current task, so its command line no longer shows the folder.
    with contextlib.suppress(psutil.Error, OSError):
        return any(folder in value for value in process.environ().values())
    return False


def _signal_until_gone(folder: str, number: int, limit_s: float) -> None:
    """Send a signal once to each remaining process, and wait until none remains or the limit is over."""
    told: set[int] = set()
    deadline_s = time.monotonic() + limit_s
    while (left := _left(folder)) and time.monotonic() < deadline_s:
        for process in left:
            if process.pid not in told:
                told.add(process.pid)
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
        time.sleep(0.1)


def main(lifeline: int, folder: str) -> int:
    """Wait until the process that started the cluster has ended, then end the rest and remove the folder.

    Args:
        lifeline: file descriptor of a pipe's reading end; the process that started the cluster holds the writing end.
        folder: the cluster's folder, which the processes to end name in their command line or environment.

    Returns:
        The exit status, 0.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(lifeline, 1):
        pass
    _signal_until_gone(folder, 0, GRACE_S)
    _signal_until_gone(folder, signal.SIGTERM, TERMINATE_LIMIT_S)
    _signal_until_gone(folder, signal.SIGKILL, KILL_LIMIT_S)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
