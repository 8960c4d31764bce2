"""Checks the gain of re-allocating actors to training, and the simulated FPGA against earlier FPGA work (PRL 6.4)."""

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Environments
from placerl.harness.mapping.assignments import CPU
from placerl.harness.mapping.metrics import experiences_per_s
from placerl.harness.measure import statistics
from placerl.harness.papers.base import Claim, Finding, Outcome, by_a_model
from placerl.harness.papers.clocks import (
    LEARNERS,
    OTHER,
    REPLAY,
    merged,
    placed_clock,
    unplaced,
    without_placement,
)
from placerl.harness.papers.evidence import mapping_of, number, races_lost, records, select
from placerl.harness.papers.number import Number, from_text, merge_rows, ratio, scaled
from placerl.harness.papers.prl.benchmarks import LARGE, LARGE_MODEL, WORKLOADS
from placerl.harness.papers.slow_links import AtBothLatencies
from placerl.harness.papers.tried_mappings import assignment_of
from placerl.harness.profile import simulated
from placerl.primitives.fpga.devices import catalogue

FEWEST_CORES = 4  # a learner, the host and two actors that become trainers
SEEDS = statistics.FEWEST_SAMPLES
"""Fewest seeds whose gains have an interval."""
_RUN = (
    f"placerl run mountaincar-ddpg --batch-size {LARGE} --mapping opencl:0-native-cpu --actors 2 --processes 2 "
    "--overlap 16 --environments gymnasium"
)
REALLOCATION = (
    *(f"{_RUN} --seed {seed}{moves}" for seed in range(SEEDS) for moves in ("", " --reallocate")),
    "placerl report",
)
WORKLOAD, BATCH_SIZE = "cartpole-dqn", 32  # PRL 6.4
BLOCKS = (*REPLAY, *LEARNERS)
"""The blocks of the simulated FPGA, which has the learner and the replay."""
CORE = "learner.step"
"""The systolic core's name among peaks; a step on the design that mappings use has the same name among times."""


def _judged(numbers: list[Number], limit: float) -> Outcome:
    """Return the outcome of whether all numbers are above a limit with their whole intervals."""
    if any(n.below(limit) for n in numbers):
        return Outcome.NOT_REPRODUCED
    return Outcome.IN_KIND if all(n.above(limit) for n in numbers) else Outcome.NO_VERDICT


def _next_to_an_accelerator(row: Any) -> bool:
    """Return whether a run had the cores for re-allocation, and its learner on a device that is not the CPU."""
    cores = row.timed.conditions.get("cores", ())
    measured = row.provenance == Provenance.MEASURED
    return measured and len(cores) >= FEWEST_CORES and assignment_of(row).learner != CPU


def _over_seeds(title: str, pairs: Sequence[tuple[Any, Any]]) -> Number:
    """Return the gain of re-allocation, the median over pairs of runs, each with the same seed.

    It has an interval only if it can tell re-allocation from noise: with enough pairs, each of two runs of which one
    followed the other.
    """
    numbers = [number(row, "run") for pair in pairs for row in pair]
    ratios = [moved.value / fixed.value for moved, fixed in pairs]
    order = sorted(row.Index for pair in pairs for row in pair)
    apart = any(abs(order.index(moved.Index) - order.index(fixed.Index)) != 1 for moved, fixed in pairs)
    low, high = (None, None) if apart or len(pairs) < SEEDS else statistics.interval(ratios)
    provenance, source = weakest(*(n.provenance for n in numbers)), f"median over seeds: {len(pairs)}"
    return Number(title, median(ratios), "ratio", provenance, source, low, high, merge_rows(numbers))


def _learner(frame: pd.DataFrame) -> str:
    """Return the design of the FPGA's learner that its runs have, by the name that its peak has."""
    rows = select(
        frame,
        suite=Suite.VALIDATION,
        quantity="time_per_call",
        primitive=simulated.PIPELINE,
        backend="fpga",
        workload=WORKLOAD,
        batch_size=BATCH_SIZE,
    )
    return simulated.PIPELINE if any(row.mapped for row in records(rows)) else CORE


def _peak(frame: pd.DataFrame) -> Number | None:
    """Return the joint peak of the FPGA's learner and of one core of the processor; None if one is unknown."""
    rows, design = records(select(frame, quantity="peak", unit="FLOP/s")), _learner(frame)
    board = [
        row
        for row in rows
        if row.suite == Suite.VALIDATION
        and (row.workload, row.backend) == (WORKLOAD, "fpga")
        and row.primitives == design
    ]
    core = [
        row
        for row in rows
        if row.device == "cpu" and row.provenance == Provenance.MEASURED and not row.precision
    ]
    if not board or not core:
        return None
    both = number(board[-1], "FPGA"), number(core[-1], "core")
    provenance, rows_of = weakest(*(n.provenance for n in both)), merge_rows(both)
    value = 1e-12 * sum(n.value for n in both)
    name = "MAP's pipelines" if design == simulated.PIPELINE else "a systolic core"
    return Number(
        f"peak of the FPGA ({name}) and one core", value, "TFLOPS", provenance, "their sum", rows=rows_of
    )


def _for_its_peak(reached: Number, peak: Number) -> Number:
    """Return the experiences per second of each TFLOPS of peak, with the interval of the former."""
    low, high = (None if bound is None else bound / peak.value for bound in (reached.low, reached.high))
    return Number(
        "experiences a second for each TFLOPS of peak",
        reached.value / peak.value,
        "EPS/TFLOPS",
        weakest(reached.provenance, peak.provenance),
        "the rate over the peak",
        low,
        high,
        merge_rows((reached, peak)),
    )


def _shown(outcome: Outcome, ours: tuple[Number, ...], said: str) -> Finding:
    """Return the finding; for a modelled rate, only what a formula can support."""
    if ours[0].provenance in (Provenance.MEASURED, Provenance.SIMULATED):
        return Finding(outcome, ours, said)
    unknown = "The formula does not know what else the accelerator's units wait for."
    return by_a_model(outcome is Outcome.IN_KIND, ours, said, unknown=unknown)


class ReallocationRaisesThroughput(Claim):
    """Checks PRL 6.4: dynamic re-allocation of actors to training (Algorithm 1) raises throughput.

    PRL moves threads of the CPU to help a learner on an accelerator, where batches or the model are large. Pairs of
    runs, with and without re-allocation, are equal in everything else, also in the seed. Other pairs are listed and not
    judged: those whose learner is on the CPU or in virtual time (PRL-3.3.1 judges the latter), or with too few cores.
    """

    key, place, position = "PRL-T3-reallocation", "6.4", 9
    statement = "Dynamic re-allocation of actor threads to training raises throughput"
    published = from_text("PRL.reallocation_gain_low", "PRL.reallocation_gain_high")
    needs = (
        f"the same runs with and without --reallocate on {FEWEST_CORES} cores or more, next to a learner on an "
        f"accelerator that is not simulated, of PRL's benchmarks from batch size {LARGE} on or of Pong (`placerl run "
        "--reallocate`)"
    )
    reads = ("run/*/seed*/*",)
    commands = REALLOCATION

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_place: dict[tuple[str, int, str, str], dict[int, dict[bool, Any]]] = {}
        for row in records(select(frame, suite=Suite.RUN, quantity="gradient_steps_per_s")):
            options = dict(row.options or {})
            moves = bool(options.pop("reallocate", False))
            stepping = row.stepped_by or Environments.GYMNASIUM  # of older rows, which do not state it
            options.pop("environments", None)
            alike = json.dumps([options, stepping, row.timed.conditions.get("cores", ())], sort_keys=True)
            place = row.workload, int(row.batch_size), mapping_of(row), alike
            by_place.setdefault(place, {}).setdefault(int(row.seed or 0), {})[moves] = row
        gains: list[Number] = []
        others: list[Number] = []
        for (workload, size, mapping, _), by_seed in sorted(by_place.items()):
            pairs = [(sides[True], sides[False]) for sides in by_seed.values() if len(sides) == 2]
            if pairs:
                title = f"{workload}, batch size {size}, {mapping}: throughput with re-allocation over that without"
                large = workload in WORKLOADS and (size >= LARGE or workload == LARGE_MODEL)
                meant = large and all(_next_to_an_accelerator(row) for pair in pairs for row in pair)
                (gains if meant else others).append(_over_seeds(title, pairs))
        ours = (*gains, *others)
        if not gains:
            return Finding(Outcome.NOT_RUN, ours, needs=self.needs)
        low, high = (1 + n.value / 100 for n in self.published)
        outcome = _judged(gains, 1.0)
        published = all(gain.above(low) and gain.below(high) for gain in gains)
        if outcome is Outcome.IN_KIND and published:
            outcome = Outcome.REPRODUCED
        said = (
            f"Above 1 re-allocation gains. A gain has an interval only with {SEEDS} seeds or more, and only if runs "
            "with and without re-allocation took turns: otherwise a change of the machine's speed could explain it."
        )
        if others:
            said += f" Listed and not judged, as PRL's statement is not about them: {len(others)}."
        return Finding(outcome, ours, said)


class MoreExperiencesForItsPeak(AtBothLatencies):
    """Checks PRL 6.4: this project reaches more experiences per second for its peak than the earlier FPGA work.

    The paper compares "effective utilization", the throughput given the peak of all devices, for CartPole's DQN. So
    what is judged is the experiences per second of each TFLOPS of peak, on the simulated FPGA, of the fastest mapping
    there that was left in its race, or of the fastest one if the races dropped all of them. The earlier work is
    MAP, and its peak that of MAP's U200 and processor (Table IV). The statement is of a machine with a lower peak: from
    a peak that is not lower, nothing follows.
    """

    key, place, position = "PRL-6.4-earlier-work", "6.4", 12
    statement = (
        "More experiences per second from a lower peak than the earlier FPGA work: 11% more from 36% less"
    )
    published = from_text("PRL.peak_deficit", "PRL.eps_gain")
    needs = (
        "CartPole's DQN on the simulated FPGA at batch size 32 (`placerl validate`), and the peaks of both"
    )
    reads = ("validation/cartpole-dqn/32", Suite.MACHINE_PEAKS)
    commands = ("placerl validate --only cartpole-dqn/32", "placerl reproduce --only PRL-6.4-earlier-work")

    def judge(self, frame: pd.DataFrame) -> Finding:
        eps, peak, other_eps, other_peak, less, more = from_text(
            "PRL.cartpole_eps",
            "PRL.cartpole_peak",
            "PRL.other_work_eps",
            "PRL.other_work_peak",
            "PRL.peak_deficit",
            "PRL.eps_gain",
        )
        ours = (
            ratio("experiences per second over the earlier work's, from the text", eps, other_eps),
            ratio("peak over the earlier work's, from the text", peak, other_peak),
        )
        agree = (
            abs(ours[0].value - 1 - more.value / 100) < 0.01
            and abs(1 - ours[1].value - less.value / 100) < 0.01
        )
        ran = select(
            frame,
            suite=Suite.VALIDATION,
            quantity="gradient_steps_per_s",
            workload=WORKLOAD,
            batch_size=BATCH_SIZE,
        )
        on_board = [row for row in records(ran) if mapping_of(row).startswith("fpga-fpga-")]
        here = _peak(frame)
        if not on_board or here is None:
            said = "The paper's own numbers agree." if agree else "The paper's own numbers do not agree."
            return Finding(Outcome.NOT_RUN, ours, said, needs=self.needs)
        best = min(on_board, key=lambda row: (races_lost(row), -row.value))
        steps = number(best, "gradient steps a second")
        low, value, high = (
            None if n is None else experiences_per_s(n, BATCH_SIZE)
            for n in (steps.low, steps.value, steps.high)
        )
        title = f"{WORKLOAD}, batch size {BATCH_SIZE}, {mapping_of(best)}, {best.loop} loop"
        source = "batch size x gradient steps a second"
        reached = Number(title, value or 0.0, "EPS", steps.provenance, source, low, high, steps.rows)
        published, theirs = eps.value / peak.value, other_eps.value / other_peak.value
        used = _for_its_peak(reached, here)
        lower = "lower than" if here.value < other_peak.value else "not lower than"
        said = (
            f"The earlier work reached {other_eps} with {other_peak}, {theirs:,.0f} EPS a TFLOPS; the paper "
            f"{published:,.0f}. The peak here is {lower} the earlier work's, whose board (MAP Table IV) is simulated "
            "here, at the clock that PPO states for its design on an Alveo U200 (5.2); PRL and MAP give none for "
            "theirs. At the placed clock all of the run's time is taken to be the FPGA's, and the peak to stay: the "
            "least that it could reach."
        )

        outcome, decides = _judged([used], theirs), ""
        if outcome is Outcome.NOT_REPRODUCED and any(row.value > best.value for row in on_board):
            outcome = Outcome.NO_VERDICT
            said += " A mapping that its race dropped may be faster, so that the rate of this one refutes nothing."
        if here.value >= other_peak.value:
            outcome = Outcome.NO_VERDICT
            decides = (
                f"a board that is simulated, and a core of this machine, with a joint peak below {other_peak}"
            )
        assumed_mhz, missing = 1e-6 * catalogue.device("u200").clock_hz, unplaced(BLOCKS)
        slower_mhz = OTHER * assumed_mhz if missing else placed_clock(BLOCKS).mhz
        least = scaled(reached, slower_mhz / assumed_mhz)
        least_used = _for_its_peak(least, here)
        # A lower bound can show that a rate is high enough, but cannot refute one.
        sure = outcome is not Outcome.IN_KIND or least_used.above(theirs)
        slower = _shown(outcome if sure else Outcome.NO_VERDICT, (least, here, least_used), said)
        assumed = replace(_shown(outcome, (reached, here, used), said), decides=decides)
        if missing:
            return without_placement(assumed, slower, missing)
        return merged(assumed, slower, f"{assumed_mhz:g} MHz", placed_clock(BLOCKS))
