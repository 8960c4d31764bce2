"""What is timed: one definition of each primitive's case, for the profile and for every other benchmark.

A case builds its state, checks its output against the primitive's definition, and makes fresh inputs for every
call outside the clock. Sizes come from the workload.
"""

from harness.cases.base import PrimitiveCase
from harness.cases.environment import environment_case
from harness.cases.fused import fused_cases
from harness.cases.learners import learner_cases
from harness.cases.storage import storage_cases
from harness.cases.trees import sum_tree_cases
from harness.workload import Workload

__all__ = ["PrimitiveCase", "all_cases"]


def all_cases(workload: Workload, batch_size: int) -> list[PrimitiveCase]:
    """Every primitive of a workload on every backend that can run here."""
    return [
        *sum_tree_cases(workload, batch_size),
        *storage_cases(workload, batch_size),
        *learner_cases(workload, batch_size),
        *fused_cases(workload, batch_size),
        environment_case(workload),
    ]
