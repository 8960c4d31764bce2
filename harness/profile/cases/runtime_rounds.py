"""The training loop itself: its parts do nothing, so that what is timed is the runtime."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from harness.mapping import Mapping, Problem, Target
from harness.runtime.compose import Fusion, Parts
from harness.runtime.training import Training
from harness.workloads import Workload
from primitives.replay.base import Sample

_NATIVE = Target("native")
_MAPPING = Mapping(_NATIVE, _NATIVE, Target("cpu"))


class _Nothing:
    """An actor, storage, replay, learner and fused steps that do nothing."""

    environment_steps, environment_s, inference_s, gather_s, write_s = 0, 0.0, 0.0, 0.0, 0.0
    capacity, nbytes = 1, 0

    def __init__(self, rows: int) -> None:
        self._transitions = {"reward": np.zeros(rows)}
        self._sample = Sample(np.zeros(1, np.int64), np.ones(1, np.float32), {})
        self._outcome = SimpleNamespace(td_errors=np.zeros(1), losses={"none": 0.0})

    def build(self) -> "_Nothing":
        return self

    def collect(self, *_: Any) -> dict[str, np.ndarray]:
        return self._transitions

    def take_episodes(self) -> list[Any]:
        return []

    def insert(self, _: Any) -> None: ...

    def sample(self, *_: Any, out: Any = None) -> Sample:
        return self._sample

    def update_priorities(self, *_: Any) -> None: ...

    def step(self, *_: Any) -> Any:
        return self._outcome

    def run(self, *_: Any) -> None: ...

    def explore(self, *_: Any) -> None: ...

    def close(self) -> None: ...


def empty_training(workload: Workload, problem: Problem, fusion: Fusion) -> Training:
    """The training loop with parts that do nothing, past its warm-up."""
    nothing = cast(Any, _Nothing(problem.round_vector_steps * problem.actors))
    steps = nothing if fusion is Fusion.STEP else None
    parts = Parts(nothing, nothing, nothing, nothing, np.random.default_rng(0), fusion, steps)
    training = Training(workload, _MAPPING, presampled_batches=0, parts=parts)
    training.gradient_steps = 1
    return training
