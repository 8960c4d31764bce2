"""What the tiers run for the claims, and how long the plan takes it to last: neither changes by accident."""

import csv
import re
from collections import defaultdict
from pathlib import Path

from placerl.harness.papers import discovery
from placerl.harness.plan.tiers import TIERS

GOLDEN = Path(__file__).with_name("claim_cells.csv")


def test_the_tiers_run_the_cells_that_are_listed_for_as_long_as_is_planned() -> None:
    """A change that is meant replaces the lines of `claim_cells.csv` by those that the failure shows."""
    estimates_s: dict[tuple[str, str], dict[str, float]] = defaultdict(
        dict
    )  # by tier and cell without its seed
    for name, tier in TIERS.items():
        for claim in discovery.claims():
            for cell in claim.cells(tier):
                estimates_s[name, re.sub("/seed[0-9]+$", "", cell.key)][cell.key] = cell.estimate_s
    planned = [
        [name, key, str(len(seeds)), f"{sum(seeds.values()):.9g}"]
        for (name, key), seeds in sorted(estimates_s.items())
    ]
    with GOLDEN.open(newline="") as file:
        assert planned == list(csv.reader(file))[1:]
