"""Every primitive on every backend, in the form that asv needs: `asv run`, `asv continuous`, `asv publish`.

State is created, checked and warmed up outside of the timing, once per process; arguments come from a ring filled
beforehand.

These benchmarks report a time to asv (`track_`) instead of having asv measure it (`time_`): for a benchmark with
a `setup`, asv's samples are single calls, all within milliseconds. Other guests slow a core to half its speed for
tenths of a second or whole seconds, so either all samples of a process would be slow or none. A regression
affects every sample, so the time here is a low quantile of samples over seconds.
"""

from functools import cache
from itertools import cycle
from pathlib import Path
from time import perf_counter
from timeit import Timer
from typing import Any

import numpy as np

from harness import workloads
from harness.profile.cases import PrimitiveCase, all_cases

WORKLOADS = ("cartpole-ddpg/32", "hopper-ddpg/256")
"""Workload and batch size: MAP's smallest, and one near which the best mapping changes."""
CASES = tuple(Path(__file__).with_name("cases.txt").read_text(encoding="utf-8").splitlines())
"""The cases that asv times for every commit. asv requests a case by its position in this list: the file is the
checkout's, whatever commit is installed, and that commit may have other cases.
"""
RING = 64
"""Number of prepared arguments: enough that none is still in the nearest cache when it is used again."""
_WARM_UP_CALLS = 10
SAMPLED_S, SAMPLE_S = 4.0, 0.005
"""Seconds per process, and per sample. Next to a busy core, the native tree's sample measured 0.66 to 0.78 us
with windows of eight seconds, and 0.65 to 1.29 us with windows of one second.
"""
QUANTILE = 0.1


@cache
def cases(name: str) -> dict[str, PrimitiveCase]:
    """Return the cases of one of `WORKLOADS`, by their names."""
    workload_name, batch_size = name.split("/")
    made = all_cases(workloads.load(workload_name), int(batch_size))
    return {item.case.name: item for item in made}  # for a case in parts, the whole case


@cache
def _ready(name: str, case_name: str) -> tuple[Any, list[Any]]:
    """Return the checked and warm state of a case, and its arguments."""
    case = cases(name)[case_name].case
    state = case.setup()
    case.check(state)
    rng = np.random.default_rng(0)
    arguments = [case.inputs(state, rng) for _ in range(RING)]
    for number in range(_WARM_UP_CALLS):
        case.call(state, arguments[number % RING])
    case.synchronise()
    return state, arguments


def names() -> list[str]:
    """Return the cases of this machine and commit; backends are the same for all workloads."""
    return list(cases(WORKLOADS[0]))


class Primitives:
    """Seconds per call. The parameters: workload/batch size, and primitive with backend."""

    params = (list(WORKLOADS), list(CASES))
    param_names = ("workload", "primitive")
    unit = "seconds"

    def setup(self, workload_name: str, case_name: str) -> None:
        """Prepare the state and arguments of the case.

        Raises:
            NotImplementedError: the case is not in `names()`; asv then skips it.
        """
        if case_name not in cases(workload_name):
            raise NotImplementedError(f"{case_name}: not here")
        self.state, arguments = _ready(workload_name, case_name)
        case = cases(workload_name)[case_name].case
        self.call, self.synchronise = case.call, case.synchronise
        self.arguments = cycle(arguments)

    def once(self) -> None:
        """Make one call with its own arguments."""
        self.call(self.state, next(self.arguments))
        self.synchronise()

    def track_call(self, workload_name: str, case_name: str) -> float:
        """Return seconds per call: the `QUANTILE` of the samples of `SAMPLED_S` seconds."""
        timer = Timer(self.once)
        calls = max(1, round(SAMPLE_S / min(timer.repeat(repeat=5, number=1))))
        samples_s: list[float] = []
        end_s = perf_counter() + SAMPLED_S
        while not samples_s or perf_counter() < end_s:
            samples_s.append(timer.timeit(calls) / calls)
        return float(np.quantile(samples_s, QUANTILE))
