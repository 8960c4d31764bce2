"""Checks of the papers' tables of FPGA resources against cells that Yosys counted of the blocks here."""

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers.base import Check, Finding, Outcome
from harness.papers.number import Number
from harness.papers.resource_table import COUNTERPARTS, Counterpart

NEEDS = "cells counted by Yosys (placerl bench fpga-tables resources --count)"
SOURCE = "Yosys synth_xilinx for UltraScale+, before placement"
FACTOR = 2
"""Two designs of one architecture are alike when each resource is within this factor."""

_WORDS = {
    "luts": ("LUTs", "count"),
    "flip_flops": ("flip-flops", "count"),
    "block_rams": ("block RAMs", "count"),
    "ultra_rams": ("UltraRAMs", "count"),
    "dsps": ("DSPs", "count"),
    "sram_mb": ("SRAM", "MB"),
}


def check(claim: str) -> Check:
    """The check of the claim of that key: every row of a paper's table that a block here stands beside."""

    def compare(_: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        said, alike, unknown = [], True, False
        for item in COUNTERPARTS:
            if item.claim != claim:
                continue
            try:
                numbers, ratios = _compared(item)
            except KeyError:
                return Finding(Outcome.NOT_RUN, needs=NEEDS)
            ours += numbers
            alike &= all(1 / FACTOR <= ratio <= FACTOR for ratio in ratios.values())
            words = ", ".join(f"{_WORDS[name][0]} {ratio:.2g}x" for name, ratio in ratios.items())
            said.append(f"Over {item.name}: {words}. Ours: {item.differs}.")
            unknown |= bool(item.unknown)
            said += [f"{item.unknown}: two designs, not two counts of one."] if item.unknown else []
        if unknown:
            return Finding(Outcome.NO_VERDICT, tuple(ours), " ".join(said))
        return Finding(Outcome.IN_KIND if alike else Outcome.NOT_REPRODUCED, tuple(ours), " ".join(said))

    return compare


def _compared(item: Counterpart) -> tuple[list[Number], dict[str, float]]:
    found, published = item.ours(), item.published()
    numbers = [
        Number(f"{item.made_of}: {_WORDS[name][0]}", value, _WORDS[name][1], Provenance.SIMULATED, SOURCE)
        for name, value in found.items()
    ]
    return numbers, {name: value / published[name] for name, value in found.items()}
