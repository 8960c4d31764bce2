"""The step of a learner as a piece, of a user's own task too."""

import numpy as np
import pytest

from placerl.harness.mapping import Target
from placerl.harness.pieces.learners import FRESH_STEP, random_batch, step_case
from tests.harness.pieces.own_task import TASK


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_step_of_one_s_own_equals_the_reference_s(backend: str) -> None:
    made = step_case(TASK, 32, Target(backend))
    assert made.primitive == FRESH_STEP
    learner = made.case.setup()
    made.case.check(learner)
    step = learner.step
    learner.step = lambda *given: step(*given)._replace(td_errors=np.full(32, 1e3))
    with pytest.raises(AssertionError, match="TD errors"):
        made.case.check(learner)


def test_the_numbers_of_one_s_own_batch_have_roots() -> None:
    batch = random_batch(TASK, 32, np.random.default_rng(0))
    assert batch.keys() == TASK.columns().keys()
    assert min(column.min() for column in batch.values()) >= 0
