"""Compares a learner on the systolic array inside a processor (AMX tiles) with the same learner in float32.

The papers' arrays are on an FPGA and are simulated here. Tiles of recent Xeons are arrays of 16 x 16 sums that this
project can time. They multiply in bfloat16: the gain is that of the array and of the narrower operands together.
"""

from typing import Any

import pandas as pd

from harness.core.suites import Suite
from harness.papers.base import Check, Finding, Outcome
from harness.papers.evidence import detail, number, records, select
from harness.papers.number import ratio

FLOAT, ROUNDED, TILES = "native", "native[bfloat16]", "amx"


def command(workload: str) -> str:
    """Return the command that profiles a workload's learner in float32 and on the processor's tiles.

    Args:
        workload: name of the workload.
    """
    return f"placerl profile {workload} --precision bfloat16"


def needs(workload: str) -> str:
    """Return, as text, what the check of a workload needs: a processor with AMX tiles, and the command to run on it.

    Args:
        workload: name of the workload.
    """
    return f"a processor with AMX tiles, profiled by `{command(workload)}`"


def faster_on_tiles(workload: str) -> Check:
    """Return the check that a workload's gradient steps take less time on AMX tiles than in float32.

    It compares them at each batch size. Tiles are the systolic array inside a processor.

    Args:
        workload: name of the workload.
    """

    def compare(frame: pd.DataFrame) -> Finding:
        rows = select(frame, suite=Suite.PRECISION_PROFILE, primitive="learner.step", workload=workload)
        steps: dict[tuple[str, Any], Any] = {(row.backend, row.batch_size): row for row in records(rows)}
        rounded = {size: row for (backend, size), row in steps.items() if backend == ROUNDED}
        both = [
            (size, steps[FLOAT, size], row)
            for size, row in sorted(rounded.items())
            if detail(row, "products") == TILES and (FLOAT, size) in steps
        ]
        if not both:
            found = ", ".join(sorted({str(detail(row, "products")) for row in rounded.values()}))
            return Finding(Outcome.NOT_RUN, needs=needs(workload) + (f"; found {found}" if found else ""))
        gains = tuple(
            ratio(
                f"{workload}, batch size {size:g}: float32's time over that on tiles",
                number(plain, "float32"),
                number(tiled, "tiles"),
            )
            for size, plain, tiled in both
        )
        said = (
            "Tiles multiply in bfloat16: the gain is that of the array and of the narrower operands together."
        )
        if all(gain.above(1) for gain in gains):
            return Finding(Outcome.IN_KIND, gains, said)
        # The papers state no batch size, so that a slower one alone contradicts nothing.
        refuted = all(gain.below(1) for gain in gains)
        return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, gains, said)

    return compare
