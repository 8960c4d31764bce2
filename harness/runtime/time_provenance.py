"""Determines the provenance of the seconds of a mapping's parts, for all rows that state them.

The time of a simulated backend is a number of clock cycles. If its own controllers count them, the time is
"simulated". If a formula gives some of the counts, as for the stream and reduction units of the FPGA's
learner, it is "modelled". Each backend's module states which (`primitives.backend`). The time of every other
backend is "measured".
"""

from collections.abc import Sequence

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping import Mapping, Target
from placerl.primitives import learner, sum_tree
from placerl.primitives.backend import BackendStatus


def of_mapping(mapping: Mapping) -> Provenance:
    """Return the provenance of the time of a training under a mapping: measured, simulated or modelled.

    It is the weaker one of the learner's and the replay management's; "measured" is the strongest.
    """
    return weakest(of_learner(mapping.learner), of_rmm(mapping.rmm))


def is_simulated(mapping: Mapping) -> bool:
    """Return whether a mapping uses a simulated device, so that trainings under it report virtual time."""
    return of_mapping(mapping) is not Provenance.MEASURED


def of_learner(target: Target) -> Provenance:
    """Return the provenance of the time of a learner's step on a backend: measured, simulated or modelled."""
    return _of(learner.backends(), target)


def of_rmm(target: Target) -> Provenance:
    """Return the provenance of the time of replay management on a backend: measured, simulated or modelled."""
    return _of(sum_tree.backends(), target)


def _of(backends: Sequence[BackendStatus], target: Target) -> Provenance:
    found = next((one for one in backends if one.name == target.backend), None)
    if found is None or not found.simulated:
        return Provenance.MEASURED
    return Provenance.MODELLED if found.modelled else Provenance.SIMULATED
