"""Compares the throughput per watt of MAP Table VII with that of runs (MAP VII-E)."""

import pandas as pd

from placerl.harness.core.suites import Suite
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.evidence import mapping_of, number, records, select
from placerl.harness.papers.number import from_cell, from_text, ratio

NEEDS_WATTS = (
    "power counters that can be read (RAPL of the processor, NVML of a CUDA device; a simulated FPGA has none), and "
    "RLlib's watts beside them: runs read the counters, comparisons with RLlib do not"
)


class ThroughputPerWatt(Claim):
    """Checks MAP Table VII: the gain in throughput per watt over RLlib.

    The outcome is always "not run", because RLlib's watts are not measured. The finding lists the gain that the table
    implies, and this project's throughput per watt if a run could measure its power.
    """

    key, place, position = "MAP-T7", "VII-E, Table VII", 27
    statement = "Gradient steps per second and watt, and their gain over RLlib"
    published = from_text("MAP.power_efficiency_gain")
    needs = NEEDS_WATTS
    reads = ("run",)

    def judge(self, frame: pd.DataFrame) -> Finding:
        efficiency = [from_cell("map_table_7", "CartPole, DDPG", f"{s} efficiency") for s in ("MAP", "RLlib")]
        gain = ratio("CartPole: gain in GPS/W, from the table", *efficiency)
        ours = (
            number(row, f"{row.workload}, batch size {row.batch_size}, {mapping_of(row)}: GPS/W")
            for row in records(select(frame, suite=Suite.RUN, quantity="throughput_per_watt"))
        )
        explanation = "The text's gain is the table's largest."
        return Finding(Outcome.NOT_RUN, (gain, *ours), explanation, needs=self.needs)
