"""States the clock of FIX's placed design (FIX VI-A), which needs the vendor's tools."""

from placerl.harness.papers.base import Claim
from placerl.harness.papers.number import from_text


class ClockOfPlacedDesign(Claim):
    key, place, position = "FIX-VI-A-clock", "VI-A", 15
    statement = "Clock of the placed design"
    published = from_text("FIX.clock")
    needs = "placement on an Alveo U50 (Vivado)"
