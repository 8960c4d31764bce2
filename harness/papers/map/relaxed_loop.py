"""Compares the throughput that sampling batches ahead gains with the reward that it costs (MAP V-A, VII-B)."""

from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Loop
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.evidence import mapping_of, number, records, select
from placerl.harness.papers.map import figure_10
from placerl.harness.papers.map.predictions import NEEDS_FAST_ACTORS, why_not_judged
from placerl.harness.papers.number import Number, ratio
from placerl.harness.papers.relaxed_training import runs_of, shares

NEEDS = "a mapping run with batches sampled ahead and without, its actors beside both (`placerl validate`)"
COMMANDS = ("placerl validate --tier quick", "placerl reproduce --only MAP-F10", "placerl report")
CHOSEN = "D=50"
"""The curve of Fig. 10 with MAP's own number of batches sampled ahead."""


def _gains(frame: pd.DataFrame) -> list[tuple[Number, str]]:
    """Return the throughput of the relaxed loop over that of the overlapped loop, which waits for each update.

    Each comes with why it is not judged, which its name then says; empty if it is judged.
    """
    rows = select(frame, suite=Suite.VALIDATION, quantity="gradient_steps_per_s")
    by_place: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in records(rows):
        if row.provenance == Provenance.MEASURED and row.loop in (Loop.OVERLAPPED, Loop.RELAXED):
            place = row.workload, int(row.batch_size), mapping_of(row)
            by_place.setdefault(place, {})[row.loop] = row
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for (workload, size, _), both in sorted(by_place.items()):
        if len(both) == 2:
            known = best.setdefault((workload, size), both)
            if both[Loop.RELAXED].value > known[Loop.RELAXED].value:
                best[workload, size] = both
    gains = []
    for (workload, size), both in sorted(best.items()):
        relaxed, overlapped = both[Loop.RELAXED], both[Loop.OVERLAPPED]
        why = why_not_judged(relaxed)
        name = f"{workload}, batch size {size}, {mapping_of(relaxed)}: gain of sampling ahead"
        name += f" (not judged: {why})" if why else ""
        gain = ratio(name, number(relaxed, "sampled ahead"), number(overlapped, "one after another"))
        gains.append((gain, why))
    return gains


def _costs(frame: pd.DataFrame) -> list[Number]:
    """Return the share of the reward that MAP's D keeps, for each workload that was trained and gains any."""
    trained = runs_of(frame, figure_10.PRESAMPLED)
    return [share for name, runs in trained.items() if (share := shares(name, runs, "D=0")[CHOSEN])]


class SamplingAheadBringsThroughput(Claim):
    """Checks MAP V-A: without waiting for priority updates, training throughput rises.

    The relaxed loop, which samples batches ahead, is compared with the overlapped loop, which waits for each update.
    In both the actors run in parallel with the rest. For each workload and batch size only one mapping (where
    learner, replay management and storage run) counts: the one with the fastest relaxed loop. If the actors are its
    slowest part, which hides what sampling ahead brings, or if its threads share cores, the cell is listed and not
    judged.
    """

    key, place, position = "MAP-V-A", "V-A", 6
    statement = "Batches sampled ahead, without waiting for priority updates, bring training throughput"
    needs = NEEDS
    reads = ("validation",)
    commands = COMMANDS
    measured_by = figure_10.SamplingAheadCostsNoReward.measured_by
    decides = "more rounds of `placerl validate` on a machine with a core for every busy thread"

    def judge(self, frame: pd.DataFrame) -> Finding:
        gains = _gains(frame)
        if not gains:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        costs = _costs(frame)
        ours = (*(gain for gain, _ in gains), *costs)
        judged = [gain for gain, why in gains if not why]
        left_out = len(gains) - len(judged)
        reasons = ", ".join(sorted({why for _, why in gains if why}))
        unjudged = f"Not judged are {left_out} of {len(gains)} cells: {reasons}."
        if not judged:
            return Finding(Outcome.NOT_RUN, ours, unjudged, needs=NEEDS_FAST_ACTORS)
        gained, lost = (sum(held) for held in zip(*((n.above(1), n.below(1)) for n in judged), strict=True))
        said = (
            f"Sampling ahead brings throughput in {gained} of {len(judged)} cells and costs some in {lost}, beyond the "
            "noise. It can bring at most what sampling, gathering and updating take. "
        )
        said += (
            "The cost in reward is the share that D = 50 keeps of what D = 0 gains (Fig. 10)."
            if costs
            else "What it costs in reward was not trained (MAP-F10)."
        )
        said += f" {unjudged}" if left_out else ""
        if gained == len(judged):
            return Finding(Outcome.IN_KIND, ours, said)
        return Finding(Outcome.NOT_REPRODUCED if lost else Outcome.NO_VERDICT, ours, said)
