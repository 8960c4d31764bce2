"""Checks of PRL's system composition (Fig. 8), portability (Table 3) and user code (Table 4)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from harness.compare.registry import JUDGED_FOR_PORTABILITY, RLLIB
from harness.core.provenance import Provenance, weakest
from harness.mapping import Target
from harness.mapping.assignments import CPU, OPENCL, Assignment, baseline_supports
from harness.mapping.metrics import code_divergence, experiences_per_s, portability
from harness.papers.base import Finding, Outcome, by_a_model
from harness.papers.comparisons import gains_on_gpu
from harness.papers.evidence import detail, mapping_of, noisy, number, records, select
from harness.papers.gains_rule import interval
from harness.papers.number import Number, from_text, merge_rows, ratio
from primitives.fpga.devices import catalogue

NEEDS_MAPPINGS = "every mapping run at a small and a large batch size (`placerl validate`)"
SECOND_DEVICE = "a CUDA device, or an OpenCL device that is not this CPU"
NEEDS_PLATFORMS = (
    "runs of two machines in one store (`placerl merge`), each with a baseline beside this project"
)
VALIDATE = ("placerl validate --tier quick", "placerl report")
MERGE = (
    "placerl merge laptop/results server/results --results both",
    "placerl report --results both",
)
EXAMPLES = Path(__file__).parents[2] / "examples"
ALGORITHMS, OTHER_PLATFORM = ("q_learning", "policy_gradient"), "_fpga"
"""The examples, and what is added to the name of each for the other platform."""
DOZENS = 100
"""Lines that are still dozens."""


def _tried(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Any]]:
    """By (workload, batch size) and device assignment, the row of the fastest mapping; one that failed where all did.

    Of rows without an assignment, which earlier versions wrote, OpenCL counts as the CPU.
    """
    rows = frame[(frame["suite"] == "validation") & (frame["quantity"] == "gradient_steps_per_s")]
    found: dict[tuple[str, int], dict[Assignment, Any]] = {}
    for row in records(rows[(rows["backend"] == "placerl") & ~(rows["value"] < 0)]):
        if detail(row, "loop") not in (None, "fused"):
            continue
        place = found.setdefault((row.workload, int(row.batch_size)), {})
        choice = _assignment(row)
        if choice not in place or pd.isna(place[choice].value) or row.value > place[choice].value:
            place[choice] = row
    return found


def _assignment(row: Any) -> Assignment:
    if stated := detail(row, "assignment"):
        return Assignment.parse(stated)
    learner, replay, _ = mapping_of(row).split("-")
    kinds = (Target.parse(each).device.partition(":")[0] for each in (learner, replay))
    return Assignment(*(CPU if kind == OPENCL else kind for kind in kinds))


def _reached(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Number]]:
    """Throughput by (workload, batch size) and device assignment, of the fastest mapping that ran under it."""
    return {
        (workload, size): {
            choice: number(row, f"{workload}, batch size {size}, {mapping_of(row)}")
            for choice, row in tried.items()
            if pd.notna(row.value)
        }
        for (workload, size), tried in _tried(frame).items()
    }


def _spread(reached: dict[Assignment, Number], axis: str, name: str) -> Number | None:
    """How much the device along one axis changes throughput, the other one at its best: largest over smallest."""
    best: dict[str, Number] = {}
    for choice, n in reached.items():
        device = getattr(choice, axis)
        if device not in best or n.value > best[device].value:
            best[device] = n
    if len(best) < 2:
        return None
    ordered = sorted(best.values(), key=lambda n: n.value)
    return ratio(name, ordered[-1], ordered[0])


def composition(frame: pd.DataFrame) -> Finding:
    """PRL Fig. 8: which device changes throughput more, at small batches and at large ones."""
    small, large = (n.value for n in from_text("PRL.small_batch", "PRL.large_batch"))
    reached = _reached(frame)
    ours: list[Number] = []
    decides: dict[str, list[bool | None]] = {"small": [], "large": []}
    for (workload, size), mappings in sorted(reached.items()):
        which = "small" if size <= small else "large" if size >= large else ""
        learner, replay = (
            _spread(mappings, axis, f"{workload}, batch size {size}: best over worst device of {what}")
            for axis, what in (("learner", "the learner"), ("replay", "replay management"))
        )
        if which and learner and replay:
            ours += [learner, replay]
            first, second = (replay, learner) if which == "small" else (learner, replay)
            decides[which].append(_more(first, second))
    if not all(decides.values()):
        return Finding(
            Outcome.NOT_RUN, tuple(ours), needs=f"{NEEDS_MAPPINGS}, on two devices: {SECOND_DEVICE}"
        )
    said = (
        f"Replay management decides in {decides['small'].count(True)} of {len(decides['small'])} workloads up to batch "
        f"size {small:g}, the learner in {decides['large'].count(True)} of {len(decides['large'])} from {large:g} on, "
        "each device with the fastest of its backends."
    )
    if any(n.provenance is not Provenance.MEASURED for n in ours):
        clock_mhz = catalogue.device("u200").clock_hz / 1e6
        said += f" The FPGA is simulated at {clock_mhz:g} MHz; at another clock it has to be run again."
    if noisy(frame.loc[list(merge_rows(ours))]):
        return Finding(Outcome.NO_VERDICT, tuple(ours), f"{said} Some rows are too noisy.")
    judged = [each for found in decides.values() for each in found]
    unknown = "The formula does not know what else the accelerator's units wait for."
    if all(n.provenance is Provenance.MODELLED for n in ours):
        return by_a_model(all(judged), tuple(ours), said, unknown=unknown)
    if False in judged:
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)
    if None in judged and any(n.provenance is Provenance.MODELLED for n in ours):
        said += f" Modelled rates refute nothing. {unknown}"
    return Finding(Outcome.NO_VERDICT if None in judged else Outcome.IN_KIND, tuple(ours), said)


def _more(one: Number, other: Number) -> bool | None:
    """Whether a number is above another, with whole intervals; None where they overlap, or a formula denies it."""
    (low, high), (other_low, other_high) = interval(one), interval(other)
    if weakest(one.provenance, other.provenance) is Provenance.MODELLED and high < other_low:
        return None
    return True if low > other_high else False if high < other_low else None


def same_hardware(frame: pd.DataFrame) -> Finding:
    """PRL 6.4: gain over the libraries where both use the same CPU and GPU."""
    found = gains_on_gpu(frame, "sb3", *RLLIB)
    if not found:
        return Finding(
            Outcome.NOT_RUN, needs="a CUDA device; SB3 or RLlib beside a mapping with a learner on it"
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
    """PRL Table 3: portability over the device assignments of one machine, this project's and the libraries'.

    That a library is 0 follows from the devices that it has. What can come out otherwise is that this project runs
    under every assignment: on devices that are here, or on the simulated FPGA.
    """
    tried = _tried(frame)
    libraries = _libraries(frame, tried)
    here = {place: {c: row for c, row in found.items() if not c.simulated} for place, found in tried.items()}
    measured = {place: found for place, found in here.items() if len(found) > 1}
    judged = measured or {place: found for place, found in tried.items() if len(found) > 1}
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
    if measured:
        return Finding(Outcome.REPRODUCED, numbers, said)
    simulated = (
        "The only second device is the simulated FPGA, which the libraries lack by definition: this counts what each "
        f"system supports, and reproduces nothing. A measurement would need {SECOND_DEVICE}."
    )
    return Finding(Outcome.CONSISTENT, numbers, f"{said} {simulated}")


def _portability(system: str, found: Mapping[Assignment, Any]) -> Number:
    """Of this project, from the row of each assignment."""
    each = [None if pd.isna(row.value) else experiences(row) for row in found.values()]
    mean = harmonic_mean(each)
    rows = tuple(sorted(int(row.Index) for row in found.values()))  # also of what failed
    return replace(mean, quantity=f"{system}: portability over {len(found)} device assignments", rows=rows)


def _libraries(
    frame: pd.DataFrame, tried: Mapping[tuple[str, int], Mapping[Assignment, Any]]
) -> dict[tuple[str, int], list[Number]]:
    """The libraries' portability where they were run: 0 where they lack an assignment, else their rate."""
    rows = select(frame, suite="compare", primitive="training", quantity="gradient_steps_per_s")
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
    """PRL Table 3: portability over the machines of a merged store, this project's over each library's.

    Args:
        everywhere: the last rows of every machine, not of one alone.
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
    if noisy(everywhere.loc[list(merge_rows(ours))]):
        return Finding(Outcome.NO_VERDICT, tuple(ours), f"{said} Some rows are too noisy.")
    if higher == len(ours):
        return Finding(Outcome.IN_KIND, tuple(ours), said)
    return Finding(Outcome.NOT_REPRODUCED if lower else Outcome.NO_VERDICT, tuple(ours), said)


@dataclass(frozen=True)
class BesideBaseline:
    """Portability of this project and of a baseline over the machines that ran both, in experiences a second."""

    workload: str
    batch_size: int
    baseline: str
    machines: int
    ours: Number
    theirs: Number


def beside_baselines(everywhere: pd.DataFrame) -> Iterator[BesideBaseline]:
    """What two or more machines have compared, each machine with its best of either.

    Args:
        everywhere: the last rows of every machine.
    """
    rows = select(everywhere, suite="compare", primitive="training", quantity="gradient_steps_per_s")
    best: dict[tuple[str, int, str], dict[str, dict[str, Number]]] = {}
    for row in records(rows[rows["batch_size"].notna() & (rows["value"] > 0)]):
        part = detail(row, "part")
        if part in ("ours", "theirs"):
            place = row.workload, int(row.batch_size), str(detail(row, "baseline"))
            on = best.setdefault(place, {}).setdefault(row.fingerprint, {})
            n = experiences(row)
            if part not in on or n.value > on[part].value:
                on[part] = n
    for (workload, size, baseline), machines in sorted(best.items()):
        pairs = [on for on in machines.values() if len(on) == 2]
        if len(pairs) > 1:
            ours, theirs = (harmonic_mean([on[part] for on in pairs]) for part in ("ours", "theirs"))
            yield BesideBaseline(workload, size, baseline, len(pairs), ours, theirs)


def experiences(row: Any) -> Number:
    """Experiences a second of a row that holds gradient steps a second."""
    steps, size = number(row, "experiences a second"), int(row.batch_size)
    low, high = (
        None if bound is None else experiences_per_s(bound, size) for bound in (steps.low, steps.high)
    )
    return replace(steps, value=experiences_per_s(steps.value, size), low=low, high=high)


def harmonic_mean(best: Sequence[Number | None]) -> Number:
    """The harmonic mean of each machine's best throughput, with the interval that theirs allow.

    Args:
        best: at least one; None of a machine that is not supported, which makes it 0.
    """
    there = [n for n in best if n is not None]
    lows = [n.low for n in there if n.low is not None]
    highs = [n.high for n in there if n.high is not None]
    known = len(lows) == len(highs) == len(best) and min(lows) > 0
    return Number(
        "harmonic mean of each machine's best throughput",
        portability([None if n is None else n.value for n in best]),
        "1/s",
        weakest(Provenance.MEASURED, *(n.provenance for n in there)),
        "",
        portability(lows) if known else None,
        portability(highs) if known else None,
        merge_rows(there),
    )


def _code(name: str) -> list[str]:
    """The lines of an example without comments and empty ones."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))]


def user_code(_: pd.DataFrame) -> Finding:
    """PRL Table 4: lines of two algorithms of a user's own, and how many differ on another platform.

    All of the files are programs that run as they are (`tests/harness/examples/test_examples.py` runs them).
    """
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
    holds = short and changed <= 1  # what names the device, and nothing else
    said = (
        "Two algorithms, as the paper's students wrote; lines are counted, not how long it takes to write them. Most "
        f"lines of one of them that change with the device: {changed}."
    )
    unknown = "The paper's own user code, which it does not print, may be shorter or change less."
    return by_a_model(holds, tuple(ours), said, unknown=unknown)
