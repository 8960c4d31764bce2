"""The training loop with parts that do nothing, so that only the time of the runtime itself is measured."""

from typing import Any, cast

import numpy as np

from harness.mapping import Mapping, Problem, Target
from harness.mapping.nothing import Nothing
from harness.runtime.compose import Parts
from harness.runtime.options import Fusion, Options
from harness.runtime.training import Training
from harness.workloads import Workload

IN_TURNS = Options(presampled_batches=0)
_NATIVE = Target("native")
_MAPPING = Mapping(_NATIVE, _NATIVE, Target("cpu"))


def empty_training(
    workload: Workload, problem: Problem, fusion: Fusion, options: Options = IN_TURNS
) -> Training:
    """Return a training whose parts do nothing, ready to take rounds.

    Args:
        workload, problem: give the numbers of steps.
        fusion: `Fusion.STEP` makes whole gradient steps one call; otherwise their parts are separate calls.
        options: how the training is run, by default with all parts in its thread.
    """
    nothing = cast(Any, Nothing(problem.round_vector_steps * problem.actors))
    steps = nothing if fusion is Fusion.STEP else None
    parts = Parts(nothing, nothing, nothing, nothing, np.random.default_rng(0), fusion, steps)
    training = Training(workload, _MAPPING, options=options, parts=parts)
    training.gradient_steps = 1
    return training
