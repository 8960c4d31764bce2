"""Where a number comes from. Every number carries it, in storage, in every table and in every plot."""

from enum import StrEnum


class Provenance(StrEnum):
    """Sources of a number, strongest first."""

    MEASURED = "measured"  # wall clock or device events, on hardware that was there
    SIMULATED = "simulated"  # clock cycles counted by simulating the RTL, at a stated clock frequency
    MODELLED = "modelled"  # a formula, with its inputs
    PUBLISHED = "published"  # a paper's number, with table or section


def weakest(*provenances: Provenance | str) -> Provenance:
    """The provenance of a figure that is made of several.

    Args:
        provenances: one or more, as members or as their words.

    Returns:
        The weakest of them: measured > simulated > modelled > published.

    Raises:
        ValueError: none was given, or a word is no provenance.
    """
    if not provenances:
        raise ValueError("provenances: found none; allowed: one or more")
    order = list(Provenance)
    return max((Provenance(p) for p in provenances), key=order.index)
