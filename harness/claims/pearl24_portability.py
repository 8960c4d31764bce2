"""Checks of PRL's system composition (Fig. 8), portability (Table 3) and user code (Table 4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from harness.claims.base import Finding, Outcome
from harness.claims.comparisons import gains_on_gpu
from harness.claims.evidence import detail, mapping_of, noisy, number, records, select
from harness.claims.number import Number, from_text, merge_rows, ratio
from harness.mapping.metrics import code_divergence, experiences_per_s, portability
from harness.provenance import Provenance, weakest
from harness.starting import RLLIB

NEEDS_MAPPINGS = "every mapping run at a small and a large batch size (`placerl validate`)"
NEEDS_PLATFORMS = (
    "runs of two machines in one store (`placerl merge`), each with a baseline beside this project"
)
VALIDATE = ("placerl validate --tier quick", "placerl report")
MERGE = (
    "placerl merge laptop/results server/results --results both",
    "placerl report --results both",
)
EXAMPLES = Path(__file__).parents[1] / "examples"
ALGORITHMS, OTHER_PLATFORM = ("q_learning", "policy_gradient"), "_fpga"
"""The examples, and what is added to the name of each for the other platform."""
DOZENS = 100
"""Lines that are still dozens."""


def _reached(frame: pd.DataFrame) -> dict[tuple[str, int], dict[tuple[str, str], Number]]:
    """Throughput by (workload, batch size) and (learner, replay management) of the mappings that were run."""
    found: dict[tuple[str, int], dict[tuple[str, str], Number]] = {}
    rows = select(frame, suite="validation", quantity="gradient_steps_per_s", backend="placerl")
    for row in records(rows):
        if detail(row, "loop") not in (None, "fused"):
            continue
        learner, rmm, _ = mapping_of(row).split("-")
        place = found.setdefault((row.workload, int(row.batch_size)), {})
        place[learner, rmm] = number(row, f"{row.workload}, batch size {row.batch_size}, {mapping_of(row)}")
    return found


def _spread(reached: dict[tuple[str, str], Number], axis: int, name: str) -> Number | None:
    """How much the choice along one axis changes throughput, the other one at its best: largest over smallest."""
    best: dict[str, Number] = {}
    for mapping, n in reached.items():
        if mapping[axis] not in best or n.value > best[mapping[axis]].value:
            best[mapping[axis]] = n
    if len(best) < 2:
        return None
    ordered = sorted(best.values(), key=lambda n: n.value)
    return ratio(name, ordered[-1], ordered[0])


def composition(frame: pd.DataFrame) -> Finding:
    """PRL Fig. 8: which device changes throughput more, at small batches and at large ones."""
    small, large = (n.value for n in from_text("PRL.small_batch", "PRL.large_batch"))
    reached = _reached(frame)
    ours: list[Number] = []
    decides: dict[str, list[bool]] = {"small": [], "large": []}
    for (workload, size), mappings in sorted(reached.items()):
        which = "small" if size <= small else "large" if size >= large else ""
        over = [
            _spread(mappings, axis, f"{workload}, batch size {size}: best over worst {what}")
            for axis, what in ((0, "learner"), (1, "replay management"))
        ]
        learner, rmm = over
        if which and learner and rmm:
            ours += [learner, rmm]
            decides[which].append(
                rmm.value > learner.value if which == "small" else learner.value > rmm.value
            )
    if not all(decides.values()):
        return Finding(Outcome.NOT_RUN, tuple(ours), needs=NEEDS_MAPPINGS)
    if noisy(frame.loc[list(merge_rows(ours))]):
        return Finding(Outcome.NO_VERDICT, tuple(ours), "Some rows are too noisy.")
    said = (
        f"Replay management decides in {sum(decides['small'])} of {len(decides['small'])} workloads up to batch size "
        f"{small:g}, the learner in {sum(decides['large'])} of {len(decides['large'])} from {large:g} on. "
        "Backends of one machine stand where the paper has devices."
    )
    holds = all(all(found) for found in decides.values())
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, tuple(ours), said)


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
    low = 1 + from_text("PRL.same_hardware_gain_low")[0].value / 100
    if faster == len(ours):
        as_published = all((n.low or n.value) >= low for n in ours)
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, ours, said)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, ours, said)


def over_devices(frame: pd.DataFrame) -> Finding:
    """PRL Table 3: portability over the mappings of one machine, this project's and the libraries'."""
    rows = records(select(frame, suite="validation", quantity="portability"))
    found: dict[str, list[Number]] = {}
    for row in rows:
        name = f"{row.backend}, {row.workload}, batch size {row.batch_size}: portability over mappings"
        found.setdefault(row.backend, []).append(number(row, name))
    ours, libraries = found.pop("placerl", []), [n for numbers in found.values() for n in numbers]
    if not ours or not libraries:
        return Finding(Outcome.NOT_RUN, (*ours, *libraries), needs=NEEDS_MAPPINGS)
    holds = all(n.value == 0 for n in libraries) and all(n.value > 0 for n in ours)
    said = (
        "Experiences a second, the harmonic mean over the mappings of this machine; 0 for a library that lacks one of "
        "them. A library counts where it was run."
    )
    return Finding(Outcome.REPRODUCED if holds else Outcome.NOT_REPRODUCED, (*ours, *libraries), said)


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

    All of the files are programs that run as they are (`tests/harness/test_examples.py` runs them).
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
        f"Two algorithms, as the paper's students wrote. Most lines of one of them that change with the platform: "
        f"{changed}."
    )
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, tuple(ours), said)
