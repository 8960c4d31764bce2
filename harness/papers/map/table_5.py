"""Checks MAP's optimal mappings (Table V), with a model of MAP's own platform and with times of the devices here.

A mapping says on which devices learner, replay management and storage run.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from placerl.harness import platforms
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import absent_platforms
from placerl.harness.papers import device_times, published
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.clocks import LEARNERS, REPLAY, AtBothClocks, at_one_clock
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.evidence import NEAR, near, number, rows_of
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.map import table_5_here
from placerl.harness.papers.map.table_5_here import ON_THREE_DEVICES, Choice
from placerl.harness.papers.number import Number, from_cell, from_text
from placerl.harness.papers.papers_own import AlsoAsInThePaper
from placerl.harness.papers.slow_links import AtBothLatencies
from placerl.harness.papers.tried_mappings import of_trainings, tried_mappings
from placerl.primitives.fpga.explore.map_replay import MOST_BANKS

OPTIMAL = Experiment(
    "optimal mappings",
    "Table V computed again",
    "as_printed",
    absent_platforms.MapTable5Cell,
    of_machine=False,
)
GAINS = Experiment(
    "gains over other mappings",
    "what the printed mappings gain",
    "gain",
    absent_platforms.MapTable5Gain,
    of_machine=False,
)
MODEL = "map-tpds23"  # the strategy that predicts as MAP does
TABLE_5, GAIN_ROW = "map_table_5", "{} mapping: speed-up of the optimal one"
NOT_KNOWN = (
    "The model knows neither the share of its peak that a device reaches nor what replay management costs a learner on "
    "the same GPU beyond its own time, and the lost Fig. 11 to 13 showed both: the model does not refute the table."
)
IN_TURNS = (
    "Trainings here take learner and replay management in turns, in the fused loop: where the optimal mapping is the "
    "slower one, this contradicts nothing of MAP's loop, in which the two overlap."
)


def optimal_mappings(report: Report) -> Sequence[Row]:
    """Compute MAP's optimal mappings (Table V) by Algorithm 3, on times modelled from its platform's published numbers.

    Returns:
        Rows of two quantities. `as_printed` is 1 if the mapping is the printed one, else 0, with both mappings and
        the reason in a column. `gain` is the gain of the printed mapping over another printed one.
    """
    modelled = {"primitive": "mapping", "backend": MODEL, "device": MODEL, "provenance": Provenance.MODELLED}
    rows: list[Row] = []
    for done, cell in enumerate(absent_platforms.map_table_5()):
        report(done, 11, "Table V")
        rows.append(
            OPTIMAL.row(
                cell,
                workload=cell.workload,
                batch_size=cell.batch_size,
                quantity="as_printed",
                value=float(cell.ours == cell.published),
                **modelled,
            )
        )
    rows += [
        GAINS.row(
            gain,
            workload=gain.workload,
            batch_size=gain.batch_size,
            quantity="gain",
            value=gain.gain,
            **modelled,
        )
        for gain in absent_platforms.map_table_5_gains()
    ]
    return rows


def _banks(cells: list[Any]) -> str:
    """Say what the mappings are with the S that this project's exploration chooses; empty for rows without it."""
    explored = [row for row in cells if row.parameters.banks is not None]
    if not explored:
        return ""
    numbers = " or ".join(map(str, sorted({row.parameters.banks for row in explored})))
    same = sum(row.parameters.with_banks == row.parameters.ours for row in explored)
    return (
        f"With the S = {numbers} that this project's exploration chooses in place of MAP's {MOST_BANKS}, {same} of the "
        f"{len(explored)} mappings are the same. "
    )


def _fitted() -> str:
    """Name the number of the model that is MAP's own result, so that it is not used to confirm MAP."""
    platform = platforms.load(MODEL)
    launch, clock = platform.find("gpu").launch_us, platform.find("fpga").clock_mhz
    dispatch = platform.find("cpu").dispatch_us
    assert launch is not None and clock is not None and dispatch is not None, "map-tpds23 states all"  # noqa: PT018
    gain = from_text("MAP.prefix_sum_fpga_over_gpu_high")[0]
    return (
        f"The GPU's launch time in the model, {launch.value:g} us, was fitted to MAP's own {gain} (VII-C) at an "
        f"assumed {clock.value:g} MHz of the FPGA. The learner on the CPU takes {dispatch.value:g} us an operation, "
        "which was measured on another CPU; any value above 0.04 us gives the same mappings. The FPGA's learner is "
        "MAP's pipeline with all DSPs of two dies. Algorithm 3 counts the words that go over links, and neither their "
        "rate nor a latency: no link can change its mappings."
    )


def printed_gains() -> tuple[Number, ...]:
    """Return the gains that MAP Table V prints and that the available text of the paper still has."""
    cells = [cell for cell in published.table(TABLE_5).cells if cell.value is not None]
    return tuple(
        replace(
            from_cell(TABLE_5, cell.row, cell.column),
            quantity=f"{cell.column}: over the {cell.row.partition(' mapping')[0]}",
        )
        for cell in cells
    )


def printed_mappings() -> Number:
    """Return the number of optimal mappings that MAP Table V prints."""
    printed = [cell for cell in published.table(TABLE_5).cells if cell.row == "optimal mapping"]
    return Number("optimal mappings", len(printed), "count", Provenance.PUBLISHED, "MAP Table V")


def _outcome(here: Sequence[Choice], *, modelled_as_printed: bool) -> Outcome:
    """Return the outcome from the choices on times of a machine, and on modelled ones.

    A machine's choices say something if the table prints learners on two devices for their cells.
    """
    if len({one.printed[0] for one in here}) > 1:
        sizes = map(absent_platforms.printed_mappings, ON_THREE_DEVICES)
        if len(here) == sum(map(len, sizes)) and all(one.learner_as_printed for one in here):
            return Outcome.IN_KIND
        if all(one.as_printed for one in here):
            return Outcome.CONSISTENT
        if any(one.learner_as_printed is False for one in here) and not modelled_as_printed:
            return Outcome.NOT_REPRODUCED
    return Outcome.CONSISTENT if modelled_as_printed else Outcome.NO_VERDICT


class _OfTable5(Claim):
    """What the claims on Table V share."""

    needs = "`placerl reproduce --only MAP-T5`"
    measured_by = (
        experiment_cells("MAP-T5", optimal_mappings, estimate_s=0.0, provenance=Provenance.MODELLED),
    )


class OptimalMappings(_OfTable5, AtBothClocks, AlsoAsInThePaper, OfDevices):
    """Checks MAP Table V: Algorithm 3 gives the printed optimal mappings.

    Its times are those of MAP's platform, modelled, and those of a machine's CPU and GPU next to the simulated FPGA:
    one of them has to give the table. Where neither does, a learner on another device here contradicts it. Pong's
    storage at batch size 256 follows from no times (note MAP-T5-storage).
    """

    key, place, position = "MAP-T5", "VII-D, Table V", 21
    statement = "Optimal mapping by batch size"
    published = (printed_mappings(),)
    decides = (
        "CartPole and Hopper timed on CPU and CUDA of one machine at Table V's sizes (`placerl gpu-claims`)"
    )
    reads = tuple(key for workload in ON_THREE_DEVICES for key in device_times.reads(workload))
    blocks = (*REPLAY, *LEARNERS)
    as_in_the_paper = device_times.LEARNERS_OF_THE_PAPERS

    def judge(self, frame: pd.DataFrame) -> Finding:
        cells = rows_of(frame, OPTIMAL, "as_printed", backend=MODEL)
        if not cells:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        agree = sum(row.value == 1 for row in cells)
        rows = tuple(int(row.Index) for row in cells)
        source = "Algorithm 3 on times modelled from the published numbers of MAP's platform"
        name = f"modelled: optimal mappings as printed, of {len(cells)}"
        ours = [Number(name, agree, "count", Provenance.MODELLED, source, rows=rows)]
        missed = [
            f"{row.workload}, batch size {row.batch_size}: {row.parameters.ours} for {row.parameters.published}: "
            f"{row.parameters.reason}"
            for row in cells
            if row.value != 1
        ]
        said = (
            f"On MAP's platform, modelled, {agree} of {len(cells)} mappings are as printed (learner, replay "
            "management, storage; G: GPU, C: CPU, F: FPGA)."
        )
        said += f" Others: {'; '.join(missed)}." if missed else ""
        here = table_5_here.choices(frame)
        if here:
            ours += [table_5_here.counted(here), *(time for one in here for time in one.times)]
            said += f" {table_5_here.said_of(here)}"
        outcome = _outcome(here, modelled_as_printed=not missed)
        if outcome is Outcome.NO_VERDICT:
            said += f" {NOT_KNOWN}"
        return Finding(outcome, tuple(ours), f"{said} {_banks(cells)}{_fitted()}")

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        chosen = {
            (row.workload, row.batch_size): row.parameters.ours
            for row in rows_of(frame, OPTIMAL, "as_printed", backend=MODEL)
        }
        tables, tried = [], tried_mappings(frame)
        for workload in absent_platforms.MAP_WORKLOADS:
            printed = absent_platforms.printed_mappings(workload)
            stated = {
                size: f"{mapping} (Algorithm 3 on modelled times: {chosen.get((workload, size), 'not run')})"
                for size, mapping in printed.items()
            }
            tables.append(of_trainings(tried, workload, "learner", list(printed), stated))
        return tables


class OptimalMappingsGain(_OfTable5, AtBothLatencies):
    """Checks MAP Table V: the optimal mappings gain as much as printed over the second best and the worst mapping.

    The gains are computed from modelled times of MAP's platform. In trainings here, next to them, the optimal mapping
    has to be the faster one in every printed pair. They can agree and not refute: learner and replay management take
    turns in them, and overlap in MAP's.
    """

    key, place, position = "MAP-T5-gains", "VII-D, Table V", 22
    statement = "Gain of the optimal mapping over the second best and over the worst"
    published = printed_gains()
    decides = (
        "the printed mappings trained in five rounds or more on a machine with a CUDA device (`placerl validate --tier "
        "standard`)"
    )
    reads = ("validation",)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = rows_of(frame, GAINS, "gain", backend=MODEL)
        if not rows:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        gains = []
        for row in rows:
            named = f"{row.parameters.optimal} over {row.parameters.other}, {row.parameters.place}"
            gain = number(row, f"{row.parameters.column}: {named}")
            gains.append(replace(gain, source="MAP Equation 3 on times modelled from the published numbers"))
        printed = [
            from_cell(TABLE_5, GAIN_ROW.format(row.parameters.place), row.parameters.column) for row in rows
        ]
        close = [near(n.value, p.value) for n, p in zip(gains, printed, strict=True)]
        misplaced = [n.quantity for n, row in zip(gains, rows, strict=True) if not row.parameters.in_place]
        lost = [n.quantity for n in gains if n.value <= 1]
        said = (
            f"Modelled at the peaks of Table IV, the optimal mapping is the faster one in {len(gains) - len(lost)} of "
            f"the {len(gains)} printed pairs, and in {sum(close)} by as much as printed within {NEAR:.0%}. "
        )
        if misplaced:
            said += f"Not where they are printed among all mappings: {'; '.join(misplaced)}. "
        said += f"The columns of two pairs are known from the position of the cell alone. {_fitted()}"
        here = table_5_here.gains(frame, rows)
        ours = (*gains, *here)
        if here:
            faster = sum(gain.above(1) for gain in here)
            said += f" In trainings here it is the faster one, beyond the noise, in {faster} of {len(here)} pairs."
            said += at_one_clock(gain.provenance for gain in here)
        if all(close) and not lost and not misplaced:
            return Finding(Outcome.CONSISTENT, ours, said)
        if len(here) == len(rows) and all(gain.above(1) for gain in here):
            return Finding(Outcome.IN_KIND, ours, said)
        if any(gain.below(1) for gain in here):
            said += f" {IN_TURNS}"
        return Finding(Outcome.NO_VERDICT, ours, f"{said} {NOT_KNOWN}")
