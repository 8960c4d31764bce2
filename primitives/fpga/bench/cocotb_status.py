"""Gives a simulator's process a status that shows whether cocotb's tests passed; exported next to each bench."""

import atexit
import os
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

Test = Callable[[Any], Coroutine[Any, None, None]]
failures: list[str] = []


@atexit.register
def fail_the_simulator() -> None:
    """End the simulator with status 1 if a test failed: FuseSoC looks at nothing else, and cocotb leaves it at 0."""
    if failures:
        os._exit(1)


def noted(test: Test) -> Test:
    """Decorate a test so that its failure is noted."""

    @wraps(test)
    async def run(dut: Any) -> None:
        failures.append(test.__name__)
        await test(dut)
        failures.pop()

    return run
