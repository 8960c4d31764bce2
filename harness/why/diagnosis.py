"""Looks for every known cause of slowness in a script."""

from placerl.harness.why.causes.base import Cause, Evidence, Finding
from placerl.harness.why.causes.own_code import CopiesInLoop, FrequentEvaluation, FrequentLogging, SlowWrapper
from placerl.harness.why.causes.replay import PerItemReplay
from placerl.harness.why.causes.shapes import DoublePrecision, OneEnvironment, TinyBatches
from placerl.harness.why.causes.threads import OversubscribedThreads

CAUSES: tuple[Cause, ...] = (
    OversubscribedThreads(), SlowWrapper(), CopiesInLoop(), PerItemReplay(), TinyBatches(), FrequentEvaluation(),
    DoublePrecision(), OneEnvironment(), FrequentLogging(),
)  # fmt: skip
LEAST_GAIN = 1.05
"""A change that brings less is not worth its trouble."""


def findings(evidence: Evidence) -> list[Finding]:
    """Return the causes that are worth a change, the greatest predicted gain first."""
    if not evidence.profile.samples:
        return []
    found = (cause.find(evidence) for cause in CAUSES)
    return sorted((one for one in found if one and one.gain >= LEAST_GAIN), key=lambda one: -one.gain)
