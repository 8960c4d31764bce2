"""Compares this project's throughput and portability with those of other libraries (PRL 6.4, Table 3)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from placerl.harness.compare.registry import JUDGED_FOR_PORTABILITY, RLLIB
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.assignments import Assignment, baseline_supports
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.comparisons import (
    Gain,
    beside,
    beside_under_mappings,
    gains,
    gains_on_gpu,
    library,
)
from placerl.harness.papers.evidence import records, select
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.number import Number, from_text, ratio
from placerl.harness.papers.portability import beside_baselines, experiences, harmonic_mean
from placerl.harness.papers.prl import figure_8
from placerl.harness.papers.prl.benchmarks import WORKLOADS
from placerl.harness.papers.prl.figure_8 import NEEDS_MAPPINGS, SECOND_DEVICE
from placerl.harness.papers.tried_mappings import tried_mappings

LIBRARIES = ("sb3", *RLLIB)
NAMES = {"sb3": "Stable-Baselines3", **dict.fromkeys(RLLIB, "RLlib")}
"""The library of each baseline: of RLlib two versions train different algorithms."""
BESIDE_LIBRARIES = beside(*LIBRARIES)
MERGE = (
    "placerl merge laptop/results server/results --results both",
    "placerl report --results both",
)


def on_benchmarks(frame: pd.DataFrame, compared: tuple[Gain, ...]) -> dict[tuple[str, str], list[Gain]]:
    """Return the gains on PRL's own benchmarks, by library and workload."""
    judged: dict[tuple[str, str], list[Gain]] = {}
    for gain in compared:
        (row,) = records(frame.loc[list(gain.ratio.rows)])
        if row.workload in WORKLOADS:
            judged.setdefault((NAMES[library(row)], row.workload), []).append(gain)
    return judged


def missing_comparisons(pairs: Collection[tuple[str, str]]) -> str:
    """Return which libraries were not compared on which benchmarks, as text; empty if all were."""
    return ", ".join(
        f"{library} on {workload}"
        for workload in WORKLOADS
        for library in dict.fromkeys(NAMES.values())
        if (library, workload) not in pairs
    )


def lacking(missing: str) -> str:
    """Return a sentence that names the comparisons that were not made; empty if none is missing."""
    return f" Missing for the statement on both libraries and all benchmarks: {missing}." if missing else ""


def what_decides(missing: str) -> str:
    """Return what would decide whether this project has more throughput than both libraries on all benchmarks."""
    return (
        f"comparisons (`placerl compare`) with {missing}" if missing else "more rounds of `placerl compare`"
    )


def _over_both(
    frame: pd.DataFrame, compared: tuple[Gain, ...], holds: Outcome, said: str, needs: str
) -> Finding:
    """Return the finding on whether throughput is higher than both libraries' on each of PRL's three benchmarks.

    One comparison can refute the statement; only all of them can show it. Other workloads are listed and not judged.
    """
    ours, judged = tuple(gain.ratio for gain in compared), on_benchmarks(frame, compared)
    if not judged:
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    words = [gain.verdict for some in judged.values() for gain in some]
    missing = missing_comparisons(judged)
    said = (
        f"On PRL's benchmarks faster in {words.count('faster')} of {len(words)} comparisons, slower in "
        f"{words.count('slower')}. {said}{lacking(missing)}"
    )
    if "slower" in words:
        return Finding(Outcome.NOT_REPRODUCED, ours, said)
    shown = set(words) == {"faster"} and not missing
    if shown:
        return Finding(holds, ours, said)
    return Finding(Outcome.NO_VERDICT, ours, said, decides=what_decides(missing))


def _portability(system: str, by_choice: Mapping[Assignment, Any]) -> Number:
    """Return this project's portability, from the row of each assignment."""
    each = [None if pd.isna(row.value) else experiences(row) for row in by_choice.values()]
    mean = harmonic_mean(each)
    rows = tuple(sorted(int(row.Index) for row in by_choice.values()))  # also of failed rows
    return replace(
        mean, quantity=f"{system}: portability over {len(by_choice)} device assignments", rows=rows
    )


def _libraries(
    frame: pd.DataFrame, tried: Mapping[tuple[str, int], Mapping[Assignment, Any]]
) -> dict[tuple[str, int], list[Number]]:
    """Return the libraries' portability if they were run: 0, which is not measured, if they lack an assignment.

    A rate is of the device on which it was measured. For a library that has every assignment and was not run on every
    device, the mean is over those on which it was, and the number says so.
    """
    rows = select(frame, suite=Suite.COMPARE, primitive="training", quantity="gradient_steps_per_s")
    rates: dict[tuple[tuple[str, int], str], dict[str, Number]] = {}
    for row in records(rows[rows["batch_size"].notna()]):
        place, baseline = (row.workload, int(row.batch_size)), str(row.baseline)
        if row.part == "theirs" and baseline in JUDGED_FOR_PORTABILITY and place in tried:
            rates.setdefault((place, baseline), {})[row.device.partition(":")[0]] = experiences(row)
    portabilities: dict[tuple[str, int], list[Number]] = {}
    for (place, baseline), by_device in rates.items():
        name = f"{baseline}, {place[0]}, batch size {place[1]}: portability over {len(tried[place])} device assignments"
        reached: list[Number | None] = list(by_device.values())
        if not all(map(baseline_supports, tried[place])):
            reached.append(None)
        elif by_device.keys() >= {choice.learner for choice in tried[place]}:
            reached = [by_device[choice.learner] for choice in tried[place]]
        else:
            name += f", run on {' and '.join(sorted(by_device))} alone"
        mean = replace(harmonic_mean(reached), quantity=name)
        if None in reached:  # a 0 that follows from the devices that the library supports
            mean = replace(mean, provenance=Provenance.MODELLED)
        portabilities.setdefault(place, []).append(mean)
    return portabilities


class FasterThanLibraries(Claim):
    """Checks PRL 6.4: throughput is higher than RLlib's and Stable-Baselines3's on the same machine."""

    key, place, position = "PRL-T3", "6.4, Table 3", 7
    statement = "More throughput than RLlib and SB3"
    published = from_text(
        "PRL.speedup_first_benchmark", "PRL.speedup_second_benchmark", "PRL.speedup_third_benchmark"
    )
    needs = "the baselines Stable-Baselines3 and RLlib compared with this project on PRL's benchmarks"
    reads = BESIDE_LIBRARIES
    commands = ("placerl reproduce --only PRL-T3 --tier full", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        said = (
            "Both sides step Gymnasium's environments. Other machine than the paper's, and SB3 has no prioritised "
            "replay: the factors are not comparable, the ordering is."
        )
        needs = f"Stable-Baselines3 and RLlib compared with this project on {', '.join(WORKLOADS)}"
        return _over_both(frame, gains(frame, *LIBRARIES), Outcome.IN_KIND, said, needs)


class FasterOnSameHardware(Claim):
    """Checks PRL 6.4: this project's throughput is higher than that of both libraries on the same CPU and GPU."""

    key, place, position = "PRL-T3-same-hardware", "6.4", 8
    statement = "More throughput also on the same CPU and GPU"
    published = from_text("PRL.same_hardware_gain_low", "PRL.same_hardware_gain_high")
    needs = "a CUDA device, the baselines Stable-Baselines3 and RLlib on it"
    reads = (*BESIDE_LIBRARIES, *beside_under_mappings(*LIBRARIES))

    def judge(self, frame: pd.DataFrame) -> Finding:
        on_gpu = gains_on_gpu(frame, *LIBRARIES)
        low, high = (1 + n.value / 100 for n in self.published)
        judged = [interval(gain.ratio) for some in on_benchmarks(frame, on_gpu).values() for gain in some]
        as_published = all(low <= least and most <= high for least, most in judged)
        holds = Outcome.REPRODUCED if as_published else Outcome.IN_KIND
        needs = (
            "on a CUDA device, `placerl compare WORKLOAD --baselines sb3 --mapping torch:cuda-native-cpu` of "
            f"{', '.join(WORKLOADS)}: a slower one refutes it; to show it, also with rllib, and rllib_2_6_3 for DDPG"
        )
        return _over_both(frame, on_gpu, holds, "Both sides have their networks on a CUDA device.", needs)


class LibrariesLackDevices(Claim):
    """Checks PRL Table 3: this project runs under every device assignment of one machine, and other libraries do not.

    A device assignment names the device of the learner and that of replay management. A library's portability of 0
    follows from the devices that it supports. The test is whether this project runs under every assignment: on real
    devices, or on the simulated FPGA.
    """

    key, place, position = "PRL-T3-device-portability", "6.4, Table 3", 10
    statement = "RLlib and SB3 cannot use every device, so that their device portability is 0"
    published = from_text("PRL.library_device_portability")
    needs = figure_8.NEEDS_MAPPINGS
    reads = ("validation", *BESIDE_LIBRARIES)
    commands = figure_8.VALIDATE

    def judge(self, frame: pd.DataFrame) -> Finding:
        tried = tried_mappings(frame)
        here = {
            place: {c: row for c, row in by_choice.items() if not c.simulated}
            for place, by_choice in tried.items()
        }
        measured = {place: by_choice for place, by_choice in here.items() if len(by_choice) > 1}
        judged = measured or {place: by_choice for place, by_choice in tried.items() if len(by_choice) > 1}
        # Over the same assignments as this project's: not over a simulated device where others are judged.
        libraries = _libraries(frame, tried | judged)
        ours = tuple(
            _portability(f"placerl, {workload}, batch size {size}", by_choice)
            for (workload, size), by_choice in sorted(judged.items())
        )
        if not tried or not libraries:
            return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_MAPPINGS)
        if not judged:
            alone = "On one device every system is portable, with as many backends as there are."
            return Finding(Outcome.NOT_RUN, explanation=alone, needs=f"a second device: {SECOND_DEVICE}")
        numbers = (*ours, *(n for place, means in libraries.items() if place in judged for n in means))
        choices = sorted({str(choice) for by_choice in judged.values() for choice in by_choice})
        said = (
            "Experiences a second, the harmonic mean over the devices of learner and replay management: "
            f"{', '.join(choices)}. A library that lacks one has 0: Stable-Baselines3 and RLlib keep their replay on "
            "the CPU and train on the CPU or with CUDA. A library counts where it was run."
        )
        if not all(n.value > 0 for n in ours):
            return Finding(
                Outcome.NOT_REPRODUCED, numbers, f"{said} Under some of them nothing ran here either."
            )
        if any(n.value > 0 for n in numbers[len(ours) :]):
            return Finding(Outcome.NOT_REPRODUCED, numbers, f"{said} A library has them all.")
        counted = (
            "What a library lacks is known without a run: this counts what systems support, and reproduces "
            "nothing."
        )
        if not measured:
            counted = f"{counted} The second device is simulated; a measurement would need {SECOND_DEVICE}."
        return Finding(Outcome.CONSISTENT, numbers, f"{said} {counted}")


class PortableOverPlatforms(Claim):
    """Checks PRL Table 3: this project's portability over several machines is higher than both libraries'.

    Portability is the harmonic mean over the machines of the best throughput on each. It is judged on PRL's three
    benchmarks, where both sides step the same environments: one benchmark can refute the statement, and only all of
    them can show it. Comparisons in which this project steps its own are listed.
    """

    key, place, position = "PRL-T3-platform-portability", "6.4, Table 3", 11
    statement = "Portability over platforms is up to 2.4 times the libraries'"
    published = from_text("PRL.portability_gain")
    needs = (
        "runs of two machines in one store (`placerl merge`), each with SB3 and RLlib compared with this project on "
        f"{', '.join(WORKLOADS)}"
    )
    reads = BESIDE_LIBRARIES
    commands = MERGE
    everywhere = True

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        judged: list[Number] = []
        pairs: set[tuple[str, str]] = set()
        for one in beside_baselines(frame):
            gain = ratio(
                f"{one.workload}, batch size {one.batch_size}: portability over {one.machines} machines, over "
                f"{one.baseline}'s",
                one.ours,
                one.theirs,
            )
            ours.append(gain)
            if one.baseline in NAMES and one.workload in WORKLOADS:
                judged.append(gain)
                pairs.add((NAMES[one.baseline], one.workload))
        if not judged:
            return Finding(Outcome.NOT_RUN, tuple(ours), needs=self.needs)
        higher, lower = (
            sum(holds) for holds in zip(*((n.above(1), n.below(1)) for n in judged), strict=True)
        )
        missing = missing_comparisons(pairs)
        said = (
            f"On PRL's benchmarks higher than the library's in {higher} of {len(judged)} beyond the noise, lower in "
            f"{lower}. Both sides step Gymnasium's environments. Other machines than the paper's.{lacking(missing)}"
        )
        if lower:
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)
        shown = higher == len(judged) and not missing
        if shown:
            return Finding(Outcome.IN_KIND, tuple(ours), said)
        return Finding(Outcome.NO_VERDICT, tuple(ours), said, decides=what_decides(missing))
