"""The case of the training loop itself: its parts do nothing, so that only the runtime is timed."""

from typing import Any, cast

import numpy as np

from harness.mapping import Mapping, Problem, Target
from harness.mapping.nothing import Nothing
from harness.runtime.compose import Parts
from harness.runtime.options import Fusion, Options
from harness.runtime.training import Training
from harness.workloads import Workload

_NATIVE = Target("native")
_MAPPING = Mapping(_NATIVE, _NATIVE, Target("cpu"))


def empty_training(workload: Workload, problem: Problem, fusion: Fusion) -> Training:
    """Return the training loop with parts that do nothing, after its warm-up."""
    nothing = cast(Any, Nothing(problem.round_vector_steps * problem.actors))
    steps = nothing if fusion is Fusion.STEP else None
    parts = Parts(nothing, nothing, nothing, nothing, np.random.default_rng(0), fusion, steps)
    training = Training(workload, _MAPPING, options=Options(presampled_batches=0), parts=parts)
    training.gradient_steps = 1
    return training
