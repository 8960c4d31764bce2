"""Every primitive on every backend, as asv finds it: `asv run`, `asv continuous`, `asv publish`.

State is made, checked and warmed up outside of the timing, once for each process; arguments come from a ring that was
filled beforehand.

asv is told a time (`track_`), and does not take it (`time_`): where a benchmark has a `setup`, its samples are single
calls, so that it takes all of them within milliseconds. Other guests slow a core to half its speed, for tenths of a
second or for whole ones: then every sample of a process was slow, or none. What a change costs, it costs in every
sample; so the time here is a low quantile of samples over seconds.
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
"""Workload and batch size: MAP's smallest, and the one where mappings cross over."""
CASES = tuple(Path(__file__).with_name("cases.txt").read_text(encoding="utf-8").splitlines())
"""What asv times, of every commit. It asks for a case by its place in the list: this file is the checkout's, whatever
commit is installed, and that one may have other cases."""
RING = 64
"""Arguments prepared: enough that none is still in the nearest cache when it comes round again."""
_WARM_UP_CALLS = 10
SAMPLED_S, SAMPLE_S = 4.0, 0.005
"""Of each process, and of a sample. Beside a busy core the native tree's sample read 0.66 to 0.78 us by windows of
eight seconds, and 0.65 to 1.29 us by those of one."""
QUANTILE = 0.1


@cache
def cases(name: str) -> dict[str, PrimitiveCase]:
    """The cases of one of `WORKLOADS`, by their names."""
    workload_name, batch_size = name.split("/")
    made = all_cases(workloads.load(workload_name), int(batch_size))
    return {item.case.name: item for item in made}  # of a case in parts, the whole


@cache
def _ready(name: str, case_name: str) -> tuple[Any, list[Any]]:
    """The checked state of a case, warm, and its arguments."""
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
    """The cases that this machine and this commit have; backends are the same for all workloads."""
    return list(cases(WORKLOADS[0]))


class Primitives:
    """Seconds a call. The parameters: workload/batch size, and primitive with backend."""

    params = (list(WORKLOADS), list(CASES))
    param_names = ("workload", "primitive")
    unit = "seconds"

    def setup(self, workload_name: str, case_name: str) -> None:
        """Makes what a call needs.

        Raises:
            NotImplementedError: the case is not among `names()`; asv then leaves it out.
        """
        if case_name not in cases(workload_name):
            raise NotImplementedError(f"{case_name}: not here")
        self.state, arguments = _ready(workload_name, case_name)
        case = cases(workload_name)[case_name].case
        self.call, self.synchronise = case.call, case.synchronise
        self.arguments = cycle(arguments)

    def once(self) -> None:
        """One call with arguments of its own."""
        self.call(self.state, next(self.arguments))
        self.synchronise()

    def track_call(self, workload_name: str, case_name: str) -> float:
        """Seconds a call: the `QUANTILE` of the samples that `SAMPLED_S` seconds hold."""
        timer = Timer(self.once)
        calls = max(1, round(SAMPLE_S / min(timer.repeat(repeat=5, number=1))))
        samples_s: list[float] = []
        end_s = perf_counter() + SAMPLED_S
        while not samples_s or perf_counter() < end_s:
            samples_s.append(timer.timeit(calls) / calls)
        return float(np.quantile(samples_s, QUANTILE))
