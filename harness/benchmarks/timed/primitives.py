"""Every primitive on every backend, as asv finds it: `asv run`, `asv continuous`, `asv publish`.

asv times `time_call` by the wall clock. State is made, checked and warmed up outside of that, once for each
process; arguments come from a ring that was filled beforehand.
"""

from functools import cache
from itertools import cycle
from typing import Any

import numpy as np

from harness import workload
from harness.cases import PrimitiveCase, all_cases

WORKLOADS = ("cartpole-ddpg/32", "hopper-ddpg/256")
"""Workload and batch size: MAP's smallest, and the one where mappings cross over."""
RING = 64
"""Arguments prepared: enough that none is still in the nearest cache when it comes round again."""
_WARM_UP_CALLS = 10


@cache
def cases(name: str) -> dict[str, PrimitiveCase]:
    """The cases of one of `WORKLOADS`, by their names."""
    workload_name, batch_size = name.split("/")
    made = all_cases(workload.load(workload_name), int(batch_size))
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
    """The cases of every workload; backends are the same for all."""
    return list(cases(WORKLOADS[0]))


class Primitives:
    """Seconds a call. The parameters: workload/batch size, and primitive with backend."""

    params = (list(WORKLOADS), names())
    param_names = ("workload", "primitive")
    warmup_time = 0.1
    rounds = 2
    repeat = (10, 400, 2.0)  # two seconds: other guests hold a core for tenths of one, and for whole ones
    sample_time = 0.005

    def setup(self, workload_name: str, case_name: str) -> None:
        """Makes what `time_call` needs; after the first time there is nothing left to do."""
        self.state, arguments = _ready(workload_name, case_name)
        case = cases(workload_name)[case_name].case
        self.call, self.synchronise = case.call, case.synchronise
        self.arguments = cycle(arguments)

    def time_call(self, workload_name: str, case_name: str) -> None:
        """One call with arguments of its own."""
        self.call(self.state, next(self.arguments))
        self.synchronise()
