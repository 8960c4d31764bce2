"""Compares the logic cells of this project's blocks with FIX Table I, and checks its row of the processing elements."""

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, Outcome, by_a_model
from placerl.harness.papers.number import Number, from_cell
from placerl.harness.papers.resources import FACTOR, Counterpart, Share

ELEMENTS = Counterpart(
    "fix_table_1",
    "PEs",
    {"luts": "LUT", "flip_flops": "FF", "dsps": "DSP"},
    (Share("processing-element width=32 configurable=true", 512),),
    "the elements of two cores of 16 x 16 alone, with the same datapath; their row has 247 DSPs more than four for "
    "every element",
)
ADAM = Counterpart(
    "fix_table_1",
    "Adam optimizer",
    {"luts": "LUT", "flip_flops": "FF", "dsps": "DSP"},
    (Share("adam-unit"),),
    "one weight a cycle in float32, seven products of two DSPs each; FIX names neither the format of its optimiser's "
    "numbers nor how many weights a cycle it updates",
)
COUNTERPARTS = (ELEMENTS, ADAM)
NEEDS = "cells counted by Yosys (placerl bench fpga-tables resources --count)"
SOURCE = "Yosys synth_xilinx for UltraScale+, before placement"
_WORDS = {"luts": "LUTs", "flip_flops": "flip-flops", "dsps": "DSPs"}


class ResourcesOfElements(Claim):
    """Checks FIX Table I: the processing elements take about as many cells of each kind as printed.

    Cells are counted, not measured, before placement and in another design, so that they neither reproduce nor refute
    a table: each is to be within a factor of 2 (`FACTOR`).
    """

    key, place, position = "FIX-T1", "VI-A, Table I", 8
    statement = "FPGA resources of the processing elements"
    published = tuple(from_cell("fix_table_1", "PEs", name) for name in ("LUT", "FF", "DSP"))

    def judge(self, _: pd.DataFrame) -> Finding:
        if not ELEMENTS.is_counted:
            return Finding(Outcome.NOT_RUN, needs=NEEDS)
        counted, stated = ELEMENTS.ours(), ELEMENTS.published()
        source = f"{ELEMENTS.made_of}; {SOURCE}"
        ours = tuple(
            Number(f"PEs, ours: {_WORDS[name]}", value, "count", Provenance.MODELLED, source)
            for name, value in counted.items()
        )
        ratios = {name: value / stated[name] for name, value in counted.items()}
        words = ", ".join(f"{_WORDS[name]} {ratio:.2g}x" for name, ratio in ratios.items())
        said = (
            f"Over {ELEMENTS.name}: {words}. Ours: {ELEMENTS.differs}. A count within a factor of {FACTOR} of the "
            "printed one agrees."
        )
        alike = all(1 / FACTOR <= ratio <= FACTOR for ratio in ratios.values())
        unknown = "FIX does not say whether the row holds the adders of the columns and the accumulators."
        return by_a_model(alike, ours, said, unknown=unknown)
