"""Calls from several Python threads at once."""

import threading
from collections.abc import Callable

LIMIT_S = 600
"""Longest time that calls together may take, far above what they take on a busy machine."""


def together(*calls: Callable[[], object], times: int = 5, refused: str = "") -> None:
    """Make each call `times` times, each in a thread of its own, all at once.

    Args:
        calls: what to call.
        times: number of repetitions.
        refused: a part of the message of the RuntimeError with which a call may be refused while another runs.

    Raises:
        RuntimeError: a call raised an exception, or did not end.
    """
    start = threading.Barrier(len(calls))
    failures: list[BaseException] = []

    def work(call: Callable[[], object]) -> None:
        start.wait()
        for _ in range(times):
            try:
                call()
            except Exception as error:
                if not (refused and isinstance(error, RuntimeError) and refused in str(error)):
                    failures.append(error)
                    return

    threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    if any(thread.is_alive() for thread in threads):
        raise RuntimeError("a call does not end")
    if failures:
        raise RuntimeError(f"a call failed: {failures[0]!r}") from failures[0]
