"""Times every primitive on every backend, in the form that asv needs: `asv run`, `asv continuous`, `asv publish`.

A case is a primitive on a backend. Its state is created, checked and warmed up before anything is timed, once per
process. The arguments of the calls are made beforehand too, and used in turn.

These benchmarks report a time to asv (`track_`) instead of having asv measure it (`time_`). For a benchmark with a
`setup`, asv's samples are single calls, all within milliseconds. But other users of the machine slow a core to half
its speed for tenths of a second or whole seconds, so that either all samples of a process would be slow or none. A
regression affects every sample, so the time here is a low quantile of samples over seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from time import perf_counter
from timeit import Timer
from typing import Any

import numpy as np

from placerl.harness import workloads
from placerl.harness.measure.pace import Piece
from placerl.harness.profile.cases import PrimitiveCase, all_cases

WORKLOADS = ("cartpole-ddpg/32", "hopper-ddpg/256")
"""Workloads with batch sizes: the smallest of MAP's, and one near which the best mapping changes."""
CASES = tuple(Path(__file__).with_name("cases.txt").read_text(encoding="utf-8").splitlines())
"""The cases that asv times for every commit, by name. asv requests a case by its position in this list, so the list
comes from a file of the newest commit: the commit that is timed may have other cases.
"""
RING = 64
"""Number of prepared arguments, enough that none is still in the nearest cache when its turn comes again."""
_WARM_UP_CALLS = 10
SAMPLED_S, SAMPLE_S = 4.0, 0.005
"""Seconds of all samples of a process, and of one sample. While another core was busy, the time of the native tree's
`sample` was found to be 0.66 to 0.78 us from samples over eight seconds, and 0.65 to 1.29 us from samples over one.
"""
QUANTILE = 0.1


@cache
def cases(name: str) -> dict[str, PrimitiveCase]:
    """Return a workload's primitives on every backend of this machine, as cases (functions to time) by name.

    Args:
        name: one of `WORKLOADS`, such as "hopper-ddpg/256".
    """
    workload_name, batch_size = name.split("/")
    every = all_cases(workloads.load(workload_name), int(batch_size))
    return {item.case.name: item for item in every}  # for a case in parts, the whole case


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


def _per_round_s(part: float | Sequence[Piece]) -> float:
    """Return the seconds of a part per round."""
    if isinstance(part, float | int):
        return part
    return sum(piece.seconds for piece in part) / sum(piece.calls for piece in part)


def names(name: str) -> list[str]:
    """Return the names of a workload's cases that this machine can run with this commit.

    Args:
        name: one of `WORKLOADS`. Only the environments of some run on a device.
    """
    return list(cases(name))


class Primitives:
    """A benchmark of asv that reports seconds per call.

    Its parameters are a workload with a batch size (`WORKLOADS`), and a primitive with a backend (`CASES`).
    """

    params = (list(WORKLOADS), list(CASES))
    param_names = ("workload", "primitive")
    unit = "seconds"

    def setup(self, workload_name: str, case_name: str) -> None:
        """Prepare the state and the arguments for the calls of one primitive on one backend.

        Raises:
            NotImplementedError: the case is not in the workload's `names`; asv then skips it.
        """
        if case_name not in cases(workload_name):
            raise NotImplementedError(f"{case_name}: not here")
        self.state, arguments = _ready(workload_name, case_name)
        case = cases(workload_name)[case_name].case
        self.call, self.synchronise = case.call, case.synchronise
        self.parts = partial(case.parts, self.state) if case.parts else None
        self.arguments = cycle(arguments)

    def once(self) -> None:
        """Call the primitive once with the next of the prepared arguments."""
        self.call(self.state, next(self.arguments))
        self.synchronise()

    def track_call(self, workload_name: str, case_name: str) -> float:
        """Return seconds per call of the primitive that `setup` prepared.

        Samples are taken for `SAMPLED_S` seconds; the result is their quantile `QUANTILE`, a low one.

        Args:
            workload_name, case_name: the workload and the primitive, which `setup` has already read.
        """
        if self.parts:
            return self._track_parts(self.parts)
        timer = Timer(self.once)
        calls = max(1, round(SAMPLE_S / min(timer.repeat(repeat=5, number=1))))
        samples_s: list[float] = []
        end_s = perf_counter() + SAMPLED_S
        while not samples_s or perf_counter() < end_s:
            samples_s.append(timer.timeit(calls) / calls)
        return float(np.quantile(samples_s, QUANTILE))

    def _track_parts(self, parts: Callable[[], Mapping[str, float | Sequence[Piece]]]) -> float:
        """Return the seconds of a round of training, the sum of its parts: a call may run several rounds."""
        parts()  # discards those of the warm-up
        samples_s: list[float] = []
        end_s = perf_counter() + SAMPLED_S
        while not samples_s or perf_counter() < end_s:
            sample_end_s = perf_counter() + SAMPLE_S
            self.once()
            while perf_counter() < sample_end_s:
                self.once()
            samples_s.append(sum(map(_per_round_s, parts().values())))
        return float(np.quantile(samples_s, QUANTILE))
