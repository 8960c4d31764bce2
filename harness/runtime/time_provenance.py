"""The provenance of the seconds of a mapping's parts, determined in one place for all rows that use them.

A simulated backend counts clock cycles. If its own controllers count them, they are simulated. If a formula gives
some of the counts, as for the stream and reduction units of the FPGA's learner, they are modelled. Each backend's
module states which (`primitives.backend`).
"""

from collections.abc import Sequence

from harness.core.provenance import Provenance, weakest
from harness.mapping import Mapping, Target
from primitives import learner, sum_tree
from primitives.backend import BackendStatus


def of_mapping(mapping: Mapping) -> Provenance:
    """Return the provenance of a run's time under a mapping: the weakest of its learner's and its replay's."""
    return weakest(of_learner(mapping.learner), of_rmm(mapping.rmm))


def of_learner(target: Target) -> Provenance:
    """Return the provenance of the time of a learner's step on a target."""
    return _of(learner.backends(), target)


def of_rmm(target: Target) -> Provenance:
    """Return the provenance of the time of replay management on a target."""
    return _of(sum_tree.backends(), target)


def _of(backends: Sequence[BackendStatus], target: Target) -> Provenance:
    found = next((one for one in backends if one.name == target.backend), None)
    if found is None or not found.simulated:
        return Provenance.MEASURED
    return Provenance.MODELLED if found.modelled else Provenance.SIMULATED
