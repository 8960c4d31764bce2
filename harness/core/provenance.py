"""Defines the provenance (origin) of a number, which is stored with it and shown in every table and plot."""

from enum import StrEnum


class Provenance(StrEnum):
    """The origin of a number: measured, simulated, modelled or published, from the strongest to the weakest."""

    MEASURED = "measured"  # wall clock or device events, on real hardware
    SIMULATED = "simulated"  # clock cycles counted by simulating the RTL, at a stated clock frequency
    MODELLED = "modelled"  # a formula with its inputs
    PUBLISHED = "published"  # a paper's number, with table or section


def weakest(*provenances: Provenance | str) -> Provenance:
    """Return the provenance of a number that is computed from several numbers.

    Returns:
        The weakest of them: measured > simulated > modelled > published.

    Raises:
        ValueError: no provenance is given, or a text is not a provenance.
    """
    if not provenances:
        raise ValueError("provenances: found none; allowed: one or more")
    order = list(Provenance)
    return max((Provenance(p) for p in provenances), key=order.index)
