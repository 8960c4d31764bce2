"""Computes MAP's optimal mappings (Table V) again, with a model of MAP's own platform.

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
from placerl.harness.papers import published
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.device_table import DeviceTable
from placerl.harness.papers.evidence import NEAR, near, number, rows_of
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.number import Number, from_cell, from_text
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
    "the same GPU beyond its own time, and the lost Fig. 11 to 13 showed both: nothing here refutes the table."
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


def _learner_devices(cells: list[Any], name: str) -> dict[str, list[str]]:
    """Return by workload the learner's devices over the batch size, each change once."""
    by_workload: dict[str, list[str]] = {}
    for row in sorted(cells, key=lambda row: row.batch_size):
        devices = by_workload.setdefault(row.workload, [])
        device = getattr(row.parameters, name)[0]
        if devices[-1:] != [device]:
            devices.append(device)
    return by_workload


class _OfTable5(Claim):
    """What the claims on Table V share."""

    needs = "`placerl reproduce --only MAP-T5`"
    measured_by = (
        experiment_cells("MAP-T5", optimal_mappings, estimate_s=0.0, provenance=Provenance.MODELLED),
    )


class OptimalMappings(_OfTable5):
    """Checks MAP Table V: Algorithm 3 gives the printed optimal mappings, with modelled times of MAP's platform."""

    key, place, position = "MAP-T5", "VII-D, Table V", 21
    statement = "Optimal mapping by batch size"
    published = (printed_mappings(),)
    decides = (
        "Fig. 11 and 12, lost from the available copy, which show the times that Table V was chosen from"
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        cells = rows_of(frame, OPTIMAL, "as_printed", backend=MODEL)
        if not cells:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        agree = sum(row.value == 1 for row in cells)
        rows = tuple(int(row.Index) for row in cells)
        source = "Algorithm 3 on times modelled from the published numbers of MAP's platform"
        name = f"optimal mappings as printed, of {len(cells)}"
        ours = (Number(name, agree, "count", Provenance.MODELLED, source, rows=rows),)
        missed = [
            f"{row.workload}, batch size {row.batch_size}: {row.parameters.ours} for {row.parameters.published}: "
            f"{row.parameters.reason}"
            for row in cells
            if row.value != 1
        ]
        explanation = (
            f"{agree} of {len(cells)} mappings are as printed (learner, replay management, storage; G: GPU, C: CPU, F: "
            "FPGA)."
        )
        if not missed:
            return Finding(Outcome.CONSISTENT, ours, f"{explanation} {_banks(cells)}{_fitted()}")
        explanation += f" Others: {'; '.join(missed)}."
        if _learner_devices(cells, "ours") == _learner_devices(cells, "published"):
            explanation += (
                " Over the batch size the learner moves between the same devices in the same order."
            )
        return Finding(Outcome.NO_VERDICT, ours, f"{explanation} {NOT_KNOWN} {_banks(cells)}{_fitted()}")

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


class OptimalMappingsGain(_OfTable5):
    """Checks MAP Table V: the optimal mappings gain as much as printed over the second best and the worst mapping.

    A mapping says on which devices learner, replay management and storage run. The gains are computed from modelled
    times of MAP's platform.
    """

    key, place, position = "MAP-T5-gains", "VII-D, Table V", 22
    statement = "Gain of the optimal mapping over the second best and over the worst"
    published = printed_gains()
    decides = "Fig. 13, lost from the available copy, which shows the throughput of every mapping"

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
        if all(close) and not lost and not misplaced:
            return Finding(Outcome.CONSISTENT, tuple(gains), said)
        return Finding(Outcome.NO_VERDICT, tuple(gains), f"{said} {NOT_KNOWN}")
