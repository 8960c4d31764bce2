"""Counts the lines of two examples of user code, and how many of them change with the device (PRL 6.5, Table 4)."""

from pathlib import Path

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.metrics import code_divergence
from placerl.harness.papers.base import Claim, Finding, by_a_model
from placerl.harness.papers.number import Number, from_text

EXAMPLES = Path(__file__).parents[2] / "examples"
ALGORITHMS, OTHER_PLATFORM = ("q_learning", "policy_gradient"), "_fpga"
"""The examples' names, and the suffix of each name for the other platform."""
DOZENS = 100
"""Fewer lines than this count as dozens."""


def _code(name: str) -> list[str]:
    """Return the lines of an example without comments and empty lines."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))]


class UserCodeIsShort(Claim):
    """Checks PRL Table 4: user-written algorithms have dozens of lines, of which at most one changes with the device.

    Two algorithms are counted. Their files are complete programs (`tests/harness/examples/test_examples.py` runs
    them).
    """

    key, place, position = "PRL-T4", "6.5, Table 4", 13
    statement = "Dozens of lines of user code, code divergence near 0 between platforms"
    published = from_text("PRL.code_divergence")

    def judge(self, _: pd.DataFrame) -> Finding:
        ours, short, changed = [], True, 0
        for name in ALGORITHMS:
            here, there = _code(name), _code(f"{name}{OTHER_PLATFORM}")
            source = f"counted in harness/examples/{name}.py, without comments and empty lines"
            ours += [
                Number(f"lines of user code, {name}", len(here), "count", Provenance.MODELLED, source),
                Number(
                    f"code divergence of {name} between a CPU and a CPU with an FPGA",
                    code_divergence(here, there),
                    "1",
                    Provenance.MODELLED,
                    f"1 - shared / all lines of {name}.py and {name}{OTHER_PLATFORM}.py",
                ),
            ]
            short &= len(here) < DOZENS
            changed = max(changed, len(set(there) - set(here)), len(set(here) - set(there)))
        holds = short and changed <= 1  # the line that names the device
        said = (
            "Two algorithms, as the paper's students wrote; lines are counted, not how long it takes to write them. "
            f"Most lines of one of them that change with the device: {changed}."
        )
        unknown = "The paper's own user code, which it does not print, may be shorter or change less."
        return by_a_model(holds, tuple(ours), said, unknown=unknown)
