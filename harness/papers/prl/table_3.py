"""Compares this project's throughput and portability with those of other libraries (PRL 6.4, Table 3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.compare.registry import JUDGED_FOR_PORTABILITY, RLLIB
from harness.core.suites import Suite
from harness.mapping.assignments import Assignment, baseline_supports
from harness.papers.base import Finding, Outcome
from harness.papers.comparisons import beside, gains, gains_on_gpu
from harness.papers.evidence import detail, records, select
from harness.papers.gains_rule import interval
from harness.papers.number import Number, from_text, ratio
from harness.papers.portability import beside_baselines, experiences, harmonic_mean
from harness.papers.prl.figure_8 import NEEDS_MAPPINGS, SECOND_DEVICE, tried_mappings

LIBRARIES = ("sb3", *RLLIB)
BESIDE_LIBRARIES = beside(*LIBRARIES)
NEEDS_PLATFORMS = (
    "runs of two machines in one store (`placerl merge`), each with a baseline compared with this project"
)
MERGE = (
    "placerl merge laptop/results server/results --results both",
    "placerl report --results both",
)


def same_hardware(frame: pd.DataFrame) -> Finding:
    """Check PRL 6.4: this project's throughput is higher than that of other libraries on the same CPU and GPU.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    found = gains_on_gpu(frame, "sb3", *RLLIB)
    if not found:
        return Finding(
            Outcome.NOT_RUN,
            needs="a CUDA device; SB3 compared on it with a mapping with a learner on it",
        )
    ours = tuple(gain.ratio for gain in found)
    faster, slower = (sum(gain.verdict == word for gain in found) for word in ("faster", "slower"))
    said = f"Faster in {faster} of {len(ours)} comparisons on a CUDA device, slower in {slower}."
    low, high = (
        1 + n.value / 100 for n in from_text("PRL.same_hardware_gain_low", "PRL.same_hardware_gain_high")
    )
    if faster == len(ours):
        as_published = all(low <= interval(n)[0] and interval(n)[1] <= high for n in ours)
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, ours, said)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, ours, said)


def over_devices(frame: pd.DataFrame) -> Finding:
    """Check PRL Table 3: this project runs under every device assignment of one machine, and other libraries do not.

    A device assignment names the device of the learner and that of replay management. A library's portability of 0
    follows from the devices that it supports. The test is whether this project runs under every assignment: on real
    devices, or on the simulated FPGA.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    tried = tried_mappings(frame)
    here = {place: {c: row for c, row in found.items() if not c.simulated} for place, found in tried.items()}
    measured = {place: found for place, found in here.items() if len(found) > 1}
    judged = measured or {place: found for place, found in tried.items() if len(found) > 1}
    # Over the same assignments as this project's: not over a simulated device where others are judged.
    libraries = _libraries(frame, tried | judged)
    ours = tuple(
        _portability(f"placerl, {workload}, batch size {size}", found)
        for (workload, size), found in sorted(judged.items())
    )
    if not tried or not libraries:
        return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_MAPPINGS)
    if not judged:
        alone = "On one device every system is portable, with as many backends as there are."
        return Finding(Outcome.NOT_RUN, explanation=alone, needs=f"a second device: {SECOND_DEVICE}")
    numbers = (*ours, *(n for place, found in libraries.items() if place in judged for n in found))
    choices = sorted({str(choice) for found in judged.values() for choice in found})
    said = (
        "Experiences a second, the harmonic mean over the devices of learner and replay management: "
        f"{', '.join(choices)}. A library that lacks one has 0: Stable-Baselines3 and RLlib keep their replay on the "
        "CPU and train on the CPU or with CUDA. A library counts where it was run."
    )
    if not all(n.value > 0 for n in ours):
        return Finding(Outcome.NOT_REPRODUCED, numbers, f"{said} Under some of them nothing ran here either.")
    if any(n.value > 0 for n in numbers[len(ours) :]):
        return Finding(Outcome.NOT_REPRODUCED, numbers, f"{said} A library has them all.")
    counted = "What a library lacks is known without a run: this counts what systems support, and reproduces nothing."
    if not measured:
        counted = f"{counted} The second device is simulated; a measurement would need {SECOND_DEVICE}."
    return Finding(Outcome.CONSISTENT, numbers, f"{said} {counted}")


def _portability(system: str, found: Mapping[Assignment, Any]) -> Number:
    """Return this project's portability, from the row of each assignment."""
    each = [None if pd.isna(row.value) else experiences(row) for row in found.values()]
    mean = harmonic_mean(each)
    rows = tuple(sorted(int(row.Index) for row in found.values()))  # also of failed rows
    return replace(mean, quantity=f"{system}: portability over {len(found)} device assignments", rows=rows)


def _libraries(
    frame: pd.DataFrame, tried: Mapping[tuple[str, int], Mapping[Assignment, Any]]
) -> dict[tuple[str, int], list[Number]]:
    """Return the libraries' portability if they were run: 0 if they lack an assignment, else their rate."""
    rows = select(frame, suite=Suite.COMPARE, primitive="training", quantity="gradient_steps_per_s")
    made: dict[tuple[str, int], list[Number]] = {}
    for row in records(rows[rows["batch_size"].notna()]):
        place, baseline = (row.workload, int(row.batch_size)), str(detail(row, "baseline"))
        if detail(row, "part") != "theirs" or baseline not in JUDGED_FOR_PORTABILITY or place not in tried:
            continue
        reached = experiences(row)
        if not all(map(baseline_supports, tried[place])):
            reached = replace(reached, value=0.0, low=None, high=None)
        name = f"{baseline}, {place[0]}, batch size {place[1]}: portability over {len(tried[place])} device assignments"
        found = {n.quantity: n for n in (*made.get(place, ()), replace(reached, quantity=name))}
        made[place] = list(found.values())
    return made


def over_platforms(everywhere: pd.DataFrame) -> Finding:
    """Check PRL Table 3: this project's portability over several machines is higher than each other library's.

    Portability is the harmonic mean over the machines of the best throughput on each.

    Args:
        everywhere: the last measurements of every machine in a merged store, one per row.
    """
    ours = [
        ratio(
            f"{one.workload}, batch size {one.batch_size}: portability over {one.machines} machines, over "
            f"{one.baseline}'s",
            one.ours,
            one.theirs,
        )
        for one in beside_baselines(everywhere)
    ]
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_PLATFORMS)
    higher, lower = (sum(holds) for holds in zip(*((n.above(1), n.below(1)) for n in ours), strict=True))
    said = (
        f"Higher than the library's in {higher} of {len(ours)} beyond the noise, lower in {lower}. Other machines than "
        "the paper's."
    )
    if higher == len(ours):
        return Finding(Outcome.IN_KIND, tuple(ours), said)
    return Finding(Outcome.NOT_REPRODUCED if lower else Outcome.NO_VERDICT, tuple(ours), said)


def libraries(frame: pd.DataFrame) -> Finding:
    """Check PRL 6.4: this project's throughput is higher than RLlib's and Stable-Baselines3's on the same machine.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    found = gains(frame, *LIBRARIES)
    if not found:
        return Finding(
            Outcome.NOT_RUN, needs="the baseline Stable-Baselines3 or RLlib compared with this project"
        )
    ours = tuple(gain.ratio for gain in found)
    faster, slower = (sum(gain.verdict == word for gain in found) for word in ("faster", "slower"))
    explanation = (
        f"Faster in {faster} of {len(ours)} comparisons with SB3 and RLlib, slower in {slower}. Other machine than "
        "the paper's, and SB3 has no prioritised replay: the factors are not comparable, the ordering is."
    )
    if faster == len(ours):
        return Finding(Outcome.IN_KIND, ours, explanation)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, ours, explanation)
