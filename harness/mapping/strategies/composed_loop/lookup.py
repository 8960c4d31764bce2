"""Where the times of a mapping's parts are found in the table."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.table import PerformanceTable
from placerl.harness.mapping.target import CPU, STORING_DEVICES, Mapping, Target

JOINT = "sample and gather"
"""The term of sampling where the same call gathers."""
HOSTED = "round"
"""Rounds with the storage on the host, or on a simulated device, whose data is there too."""


def fuses(table: PerformanceTable, mapping: Mapping) -> bool:
    """Whether whole gradient steps are one call."""
    learner = mapping.learner
    at_home = mapping.storage == CPU and learner.in_floats == mapping.rmm
    return at_home and ("fused_round.steps", learner) in table


def fuses_rounds(table: PerformanceTable, mapping: Mapping) -> bool:
    """Whether whole rounds are one call."""
    return fuses(table, mapping) and ("native_round.steps", mapping.learner) in table


def rounds_of(mapping: Mapping) -> str:
    """Return the rounds in which a mapping's parts were profiled; with the storage on a device, together."""
    storage = mapping.storage
    if storage.backend not in STORING_DEVICES:
        return HOSTED
    return f"{storage}_round" if mapping.learner.device == storage.device else f"{storage}_apart_round"


def is_simulated(table: PerformanceTable, primitive: str, target: Target) -> bool:
    """Whether a device that is not here computes a primitive: its time was simulated or modelled.

    False if there is no time, and on the host, also on that of another platform.
    """
    if (primitive, target) not in table or target.device == CPU.device:
        return False
    return table.entry(primitive, target).provenance is not Provenance.MEASURED
