"""Measures the card of this machine."""

import platform
import re
import time
from importlib import metadata

from placerl.harness.core.progress import Report
from placerl.harness.machines.card import Card, Facts, Figure
from placerl.harness.machines.probes import AGAIN, INTERPRETER, Probe, probes
from placerl.harness.measure import protocol, statistics
from placerl.harness.measure.conditions import blas_threads, default_core, set_blas_threads, usable_cores
from placerl.harness.measure.noise import measure_noise
from placerl.harness.measure.protocol import Protocol, Timing
from placerl.harness.platforms import this_machine
from placerl.harness.platforms.machine import Machine

BUDGET_S = 45.0
"""Seconds for the probes; the rest of a card's minute goes to imports, the description and the checks."""
NOISE = "noise.again"
_PATH = re.compile(r"\S*[/\\@]\S*")
_VERSIONS = ("python", "numpy", "torch", "pyopencl", "cupy-cuda13x")


def measure(report: Report, budget_s: float = BUDGET_S) -> Card:
    """Measure the card of this machine, by the timing protocol (`harness.measure.protocol`).

    Args:
        budget_s: seconds for the probes; each has at least `statistics.FEWEST_SAMPLES` samples all the same.

    Returns:
        The card, with its hash. A probe whose check failed has a figure without a value, and the reason.
    """
    start_s = time.monotonic()
    noise = measure_noise(usable_cores())
    facts = facts_of(this_machine.describe(measure_links=False))
    every, threads = probes(), blas_threads()
    timed = [one for one in every if not one.not_run]
    rules = Protocol(
        budget_s=budget_s,
        fewest_rounds=statistics.FEWEST_SAMPLES,
        settle=True,
        threads=1,
        lead_in_calls=1,
        caller_core=default_core(),
    )
    if threads is not None:
        set_blas_threads(1)
    try:
        timings = protocol.measure(
            [one.case for one in timed], rules, progress=lambda done, total: report(done, total, "probes")
        )
    finally:
        if threads is not None:
            set_blas_threads(threads)
    figures = [figure(one, timings.get(one.case.name)) for one in every if one.name != AGAIN]
    figures.append(_noise(timings[INTERPRETER], timings[AGAIN]))
    wall_s = time.monotonic() - start_s
    card = Card(
        format=Card.FORMAT, facts=facts, noise_score=noise.score, wall_s=wall_s, figures=tuple(figures)
    )
    return card.sealed()


def facts_of(machine: Machine) -> Facts:
    """Return what a card says of a machine: nothing that names its owner, such as a path or a kernel's build."""
    cpu = machine.cpu
    versions = {name: text for name, text in machine.versions.items() if name in _VERSIONS}
    return Facts(
        cpu=cpu.model,
        architecture=cpu.architecture,
        system=platform.system(),
        physical_cores=cpu.physical_cores,
        logical_cores=cpu.logical_cores,
        usable_cores=cpu.usable_cores,
        quota_cores=cpu.quota_cores,
        simd_level=cpu.simd_level,
        vector_flags=cpu.vector_flags,
        caches=cpu.caches,
        memory_gib=round(cpu.memory_bytes / 2**30),
        accelerators={one.device: one.name for one in machine.accelerators if one.usable},
        versions={"placerl": metadata.version("placerl"), **versions},
    )


def figure(probe: Probe, timing: Timing | None) -> Figure:
    """Return the figure of a probe; None as its timing: it was not run."""
    if timing is None:
        reason = _nameless(probe.not_run)
        return Figure(name=probe.name, unit=probe.unit, status="not_run", reason=reason)

    def value(time_s: float | None) -> float | None:
        if time_s is None:
            return None
        return time_s / probe.amount if probe.unit == "s" else probe.amount / time_s

    bounds = [value(timing.low_s), value(timing.high_s)]
    low, high = bounds if probe.unit == "s" else bounds[::-1]
    return Figure(
        name=probe.name,
        unit=probe.unit,
        status=timing.status,
        reason=_nameless(timing.reason),
        value=value(timing.median_s),
        low=low,
        high=high,
    )


def _nameless(reason: str) -> str:
    """Return a reason without paths and addresses, which may hold a person's name."""
    return _PATH.sub("...", reason)[:300]


def _noise(once: Timing, again: Timing) -> Figure:
    """Return the ratio of the times of two copies of one probe in the same rounds."""
    pairs = protocol.paired(once, again)
    if len(pairs[0]) < statistics.FEWEST_SAMPLES:  # other rounds of each were interrupted
        reason = f"{len(pairs[0])} pairs, where {statistics.FEWEST_SAMPLES} are the fewest"
        return Figure(name=NOISE, unit="1", status="failed", reason=reason)
    ratio = statistics.paired_ratio(*pairs)
    return Figure(name=NOISE, unit="1", value=ratio.value, low=ratio.low, high=ratio.high)
