"""Defines which blocks of this project are compared with which rows of FIX Table I, by their logic cells."""

from placerl.harness.papers.number import from_cell
from placerl.harness.papers.resources import Counterpart, ResourcesClaim, Share

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
    "one weight a cycle in float32, seven products of two DSPs each",
    unknown="FIX names neither the format of its optimiser's numbers nor how many weights a cycle it updates",
)
ADDERS = "FIX does not say whether the row holds the adders of the columns and the accumulators."


class ResourcesOfElements(ResourcesClaim):
    key, place, position = "FIX-T1", "VI-A, Table I", 8
    statement = "FPGA resources of the processing elements"
    published = tuple(from_cell("fix_table_1", "PEs", name) for name in ("LUT", "FF", "DSP"))
    beside = (ELEMENTS,)
    could_be = ADDERS


class ResourcesOfOptimiser(ResourcesClaim):
    key, place, position = "FIX-T1-adam", "VI-A, Table I", 9
    statement = "FPGA resources of the optimiser"
    published = tuple(from_cell("fix_table_1", "Adam optimizer", name) for name in ("LUT", "FF", "DSP"))
    beside = (ADAM,)
    decides = "the number format of FIX's optimiser and its weights a cycle, which FIX does not state"
