"""Judges claims about clock cycles at two clock frequencies: the assumed one, and the one that placement reached.

Simulation counts cycles; seconds follow from an assumed clock frequency, that of the papers
(`primitives/fpga/devices/devices.toml`). This project placed blocks on an ECP5, which is two process generations older
than the papers' devices, so the two frequencies are far apart. A verdict that is the same at both does not depend on
the assumption.

The rule for scaling: a design runs at the clock of its slowest block that was placed and routed. Times grow and rates
fall by the ratio of the two frequencies; cycles stay. No factor is added for the papers' faster devices. A design with
a block that was not placed has no placed clock, so that nothing that depends on its clock is shown or refuted.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.assumptions import (
    AGREEMENTS,
    Check,
    both_numbers,
    both_outcomes,
    sentences_of_its_own,
    what_decides,
)
from placerl.harness.papers.base import SHOWN_HERE, Claim, Finding, Outcome
from placerl.harness.papers.number import Number, format_value, scaled
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.tools import placed

CLOCK = "clock_mhz"
REPLAY = ("replay-pipeline", "lane-route", "bank-queues")
"""The blocks of a replay: its pipelines, and the crossbar in front of several. They are of integers."""
FLOAT32_UNITS = ("activation-unit", "adam-unit")
"""The blocks of a learner that compute in float32 next to its products: activation functions, and Adam."""
LEARNERS = ("processing-element", *FLOAT32_UNITS)
"""The blocks of the FPGA's learners: products are of integers, both on the systolic core and in MAP's pipelines."""
FLOAT32_PRODUCTS = ("gemm-core float32=true", *FLOAT32_UNITS)
"""The blocks of PPO's design for networks without convolutions, all of whose numbers are float32 (PPO 5.1)."""
CONVOLUTIONS = (*FLOAT32_PRODUCTS, "layout-transform")
"""Those of its design for networks with convolutions, whose windows need addresses (PPO Fig. 4)."""
FIXAR = ("fixar-core", "fixar-scalar-unit", "fixar-adam-lane")
"""The blocks of FIX's design: its elements and their sums, tanh, errors and exploration noise, and Adam (FIX III)."""
PLACE = "`placerl bench fpga-tables placement --count`"
"""The command that places the blocks whose placement is not committed."""
OTHER = 0.5
"""A clock, as a fraction of the assumed one, at which a finding is judged to see whether it depends on the clock."""


@dataclass(frozen=True)
class PlacedClock:
    """The clock frequency of the slowest placed and routed block, which bounds a design made of such blocks.

    Attributes:
        mhz: frequency by static timing analysis, MHz.
    """

    mhz: float
    block: str

    @property
    def words(self) -> str:
        """Return the frequency and the name of the block that reaches it as text, for use within a sentence."""
        return f"{_mhz(self.mhz)}, which the slowest placed block of the design ({self.block}) reaches on an ECP5"


def _committed(block: str) -> dict[str, float]:
    """Return the clock frequencies in MHz of a block's committed placements, by name.

    Args:
        block: name of a block, of which every placement counts, or with the first parameters of those that count.
    """
    return {
        name: one.clock_mhz
        for name, one in placed.committed().items()
        if name == block or name.startswith(f"{block} ")
    }


def unplaced(blocks: Collection[str]) -> list[str]:
    """Return which of a design's blocks have no committed placement, as they are given."""
    return [block for block in blocks if not _committed(block)]


def placed_clock(blocks: Collection[str]) -> PlacedClock:
    """Return the clock frequency of the slowest placed and routed block of a design.

    The frequencies are in `primitives/fpga/tools/placed.json` (`placerl bench fpga-tables placement`).

    Args:
        blocks: names of the design's blocks, each alone or with parameters ("gemm-core float32=true").

    Raises:
        ValueError: one of the blocks was not placed.
    """
    if missing := unplaced(blocks):
        known = ", ".join(sorted(placed.committed()))
        raise ValueError(f"blocks: found {', '.join(missing)}; placed: {known}")
    clocks = [
        PlacedClock(mhz, name.partition(" ")[0])
        for block in blocks
        for name, mhz in _committed(block).items()
    ]
    return min(clocks, key=lambda clock: clock.mhz)


def at_clock(frame: pd.DataFrame, mhz: float) -> pd.DataFrame:
    """Return stored measurements converted to another clock frequency, if they state one.

    Args:
        frame: the stored measurements of a run, one per row. Rows with `clock_mhz` are based on cycles:
            their seconds and rates change in proportion to the clock, while cycles and ratios do not.

    Raises:
        ValueError: a row states a clock, but its unit does not define how it depends on the clock.
    """
    factors = [
        None if clock is None else _factor(unit, mhz / clock)
        for unit, clock in zip(frame["unit"], _stated(frame), strict=True)
    ]
    if not any(factors):
        return frame
    scale = pd.Series([factor or 1.0 for factor in factors], frame.index)
    columns: dict[str, Any] = {name: frame[name] * scale for name in ("value", "low", "high")}
    columns["samples"] = [
        tuple(factor * sample for sample in samples) if factor else samples
        for samples, factor in zip(frame["samples"], factors, strict=True)
    ]
    own = [mhz if stated is not None else None for stated in frame[CLOCK]]
    given = [{**one, CLOCK: mhz} if CLOCK in (one or {}) else one for one in frame["parameters"]]
    columns |= {CLOCK: pd.Series(own, frame.index, dtype=object)}
    columns |= {"parameters": pd.Series(given, frame.index, dtype=object)}
    return frame.assign(**columns)


def _stated(frame: pd.DataFrame) -> list[float | None]:
    """Return the clock that each row states, MHz: in its column, or among the parameters of an experiment."""
    both = zip(frame[CLOCK], frame["parameters"], strict=True)
    return [clock if clock is not None else (given or {}).get(CLOCK) for clock, given in both]


def _factor(unit: str, faster: float) -> float:
    """Return the factor by which a value in a unit changes if the clock is `faster` times as fast."""
    if unit == "s":
        return 1 / faster
    if unit == "IPS" or unit.endswith("/s"):
        return faster
    if unit in ("cycles", "count", "ratio", "1", "%"):
        return 1.0
    raise ValueError(
        f"unit: found {unit!r} in a row with a clock; allowed: s, cycles, ratios, and rates a second"
    )


def at_both_clocks(check: Check, blocks: Collection[str]) -> Check:
    """Return a check that judges times from simulated cycles at two clocks: the assumed one and the placed one.

    The measurements state the assumed clock. The placed clock is that of the slowest placed block of the design
    (`placed_clock`). The outcome follows from those at both clocks (`both_outcomes`); if a block of the design was not
    placed, `without_placement` says what follows. A finding that uses no row with a clock is returned unchanged.
    """

    def judged(frame: pd.DataFrame) -> Finding:
        assumed = check(frame)
        clocks = _clocks(frame, assumed)
        if not clocks:
            return assumed
        if missing := unplaced(blocks):
            return without_placement(assumed, check(at_clock(frame, OTHER * min(clocks))), missing)
        placed = placed_clock(blocks)
        return merged(assumed, check(at_clock(frame, placed.mhz)), _listed(clocks), placed)

    return judged


class AtBothClocks(Claim):
    """What claims share that are judged at the assumed clock and at the placed one.

    Attributes:
        blocks: names of the blocks of the design whose cycles are judged (`placed_clock`).
    """

    blocks: Collection[str]

    def finding(self, frame: pd.DataFrame) -> Finding:
        return at_both_clocks(self.judge, self.blocks)(frame)


def _clocks(frame: pd.DataFrame, finding: Finding) -> list[float]:
    """Return the clock frequencies that the rows of a finding assume, MHz."""
    rows = sorted({label for number in finding.ours for label in number.rows})
    return sorted({float(clock) for clock in _stated(frame.loc[rows]) if clock is not None})


def merged(assumed: Finding, slower: Finding, assumed_words: str, placed: PlacedClock) -> Finding:
    """Return one finding from the findings of a check at the assumed clock and at the placed clock.

    The outcome follows from both (`both_outcomes`), but agreement at the placed clock alone gives no verdict: no paper
    has it. A number that depends on the clock is listed twice, once for each clock.

    Args:
        assumed_words: the assumed frequency as text, such as "285 MHz".
    """
    if assumed.outcome is Outcome.NOT_RUN:
        return assumed
    outcome = both_outcomes(assumed.outcome, slower.outcome)
    if slower.outcome in AGREEMENTS and assumed.outcome not in AGREEMENTS:
        outcome = Outcome.NO_VERDICT
    placed_words = _mhz(placed.mhz)
    ours = both_numbers(assumed, slower, partial(_at, clock=assumed_words), partial(_at, clock=placed_words))
    if len(ours) == len(assumed.ours) and outcome is assumed.outcome:
        said = f"Ratios of cycles: the same at the assumed {assumed_words} and at {placed.words}."
        return replace(assumed, ours=ours, explanation=f"{assumed.explanation} {said}".strip())
    said = f"The clock is assumed: at {assumed_words} {assumed.outcome}, at {placed.words}, {slower.outcome}."
    both = {assumed.outcome, slower.outcome}
    if len(both) > 1 and Outcome.NOT_REPRODUCED in both and both <= set(SHOWN_HERE):
        said += " The order turns with the clock."
    if news := sentences_of_its_own(slower.explanation, assumed.explanation):
        said += f" At {placed_words}: {news}"
    decides = what_decides(outcome, assumed, slower)
    return Finding(outcome, ours, f"{assumed.explanation} {said}".strip(), decides=decides)


def without_placement(assumed: Finding, slower: Finding, missing: Collection[str]) -> Finding:
    """Return the finding on a design with blocks that were not placed: what follows whatever their clock is.

    A finding that depends on the clock and agrees with the paper at the assumed one is consistent, as at any two clocks
    (`merged`); others give no verdict, as none is refuted at one clock alone.

    Args:
        assumed: the finding at the assumed clock.
        slower: the same check at any other clock.
        missing: the blocks that were not placed.
    """
    if assumed.outcome is Outcome.NOT_RUN:
        return assumed
    every = both_numbers(assumed, slower, lambda number: number, lambda number: number)
    if len(every) == len(assumed.ours) and slower.outcome is assumed.outcome:
        said = "Ratios of cycles: the same at every clock."
        return replace(assumed, explanation=f"{assumed.explanation} {said}".strip())
    names = ", ".join(missing)
    said = (
        f"The clock is assumed: at it {assumed.outcome}. No placement is committed of these blocks of the design: "
        f"{names}. So at which clock it runs here is not known, and nothing is shown or refuted."
    )
    explanation = f"{assumed.explanation} {said}".strip()
    if assumed.outcome in AGREEMENTS:
        return Finding(Outcome.CONSISTENT, assumed.ours, explanation)
    decides = f"the clocks of {names}, placed on an ECP5 ({PLACE})"
    if assumed.outcome is Outcome.NO_VERDICT:
        decides = assumed.decides
    return Finding(Outcome.NO_VERDICT, assumed.ours, explanation, decides=decides)


def at_placed_clock(number: Number, assumed_mhz: float, blocks: Collection[str]) -> Number:
    """Return a number that grows in proportion to the clock frequency, such as a rate, at the placed clock.

    Use this for numbers that a model computes; for findings from stored measurements use `at_both_clocks`.
    """
    placed = placed_clock(blocks)
    return _at(scaled(number, placed.mhz / assumed_mhz), _mhz(placed.mhz))


def at_one_clock(provenances: Iterable[str]) -> str:
    """Return what is said of runs that are judged at the assumed clock alone; empty if all of them were measured.

    In virtual time the parts of a training wait for each other, so that no rate follows for another clock.

    Args:
        provenances: of the runs.
    """
    if all(each == Provenance.MEASURED for each in provenances):
        return ""
    clock_mhz = catalogue.device("u200").clock_hz / 1e6
    return f" The FPGA is simulated at {clock_mhz:g} MHz; at another clock it has to be run again."


def _at(number: Number, clock: str) -> Number:
    return replace(number, quantity=f"{number.quantity}, at {clock}")


def _mhz(value: float) -> str:
    return f"{format_value(value, 3)} MHz"


def _listed(clocks: list[float]) -> str:
    return " and ".join(_mhz(clock) for clock in clocks)
