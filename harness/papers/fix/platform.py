"""Checks FIX VI-C: inferences per second of the platform, and the parts of a step's time (Fig. 8 to 10, Table II).

A step is one environment step with one gradient step; the platform is a host with the accelerator.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Line, Panel, Panels
from placerl.harness.papers.clocks import FIXAR, AtBothClocks
from placerl.harness.papers.device_table import Cells, DeviceTable, Entry
from placerl.harness.papers.device_times import CPU, FPGA, GPU
from placerl.harness.papers.evidence import agrees, number, rows_of
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.fix import device_steps, figure_10_array, platform_run, throughput
from placerl.harness.papers.fix.figure_10_array import (
    BACKENDS,
    NEEDS_ARRAY,
    array_rows,
    in_both_modes,
)
from placerl.harness.papers.fix.training import DYNAMIC, FLOAT
from placerl.harness.papers.number import Number, from_cell, from_text, ratio, scaled

ACCELERATOR = "the fixed-point accelerator on an FPGA"
NEEDS_STEPS = "training steps over batch sizes (claim/FIX-F8)"
_SAID = "environment and transfer, measured"
CONSTANT = 1.5
"""A time is constant if its ratio over batch sizes is within this factor, with its whole interval.

In Fig. 9 the ratio is 1.1.
"""


def _steps(
    frame: pd.DataFrame, quantity: str, experiment: Experiment = throughput.EXPERIMENT
) -> dict[str, dict[int, Any]]:
    """Return the rows of an experiment that times whole steps, by side and batch size."""
    rows: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in rows_of(frame, experiment, quantity):
        rows[row.backend][int(row.batch_size)] = row
    return rows


def side_rates(frame: pd.DataFrame, quantity: str, words: str) -> tuple[Number, ...]:
    """Return the rates of the throughput experiment, by side and ascending batch size."""
    return tuple(
        number(row, f"{side}, batch size {size}: {words}")
        for side, sizes in _steps(frame, quantity).items()
        for size, row in sorted(sizes.items())
    )


def joined_rates(frame: pd.DataFrame, bits: int) -> dict[int, Number]:
    """Return samples per second by batch size of this host with the accelerator.

    The host's part of a step is that of runs of the whole platform in virtual time (`platform_run`), or, in stores
    without them, the environment and the transfer that were measured with a learner on this processor.
    """
    runs = platform_run.host_s(frame, bits)
    terms = {term: _steps(frame, f"{term}_time").get(DYNAMIC, {}) for term in ("environment", "transfer")}
    array = array_rows(frame)[BACKENDS[bits]]
    joined = {}
    for size in sorted(set(array) & set(runs) if runs else set(array).intersection(*terms.values())):
        parts = [runs[size]] if runs else [number(rows[size], term) for term, rows in terms.items()]
        said = "the rest of a step of the whole platform in virtual time" if runs else _SAID
        array_s = size / float(array[size].value)
        rates = [
            None if None in bounds else size / (sum(bound for bound in bounds if bound is not None) + array_s)
            for bounds in (
                [part.value for part in parts],
                [part.high for part in parts],
                [part.low for part in parts],
            )
        ]
        joined[size] = Number(
            f"this host with the {BACKENDS[bits]}, batch size {size}",
            rates[0] or 0.0,
            "IPS",
            Provenance.MODELLED,
            f"batch over {said}, and the accelerator's step, {array[size].provenance}",
            rates[1],
            rates[2],
            tuple(sorted({int(array[size].Index), *(row for part in parts for row in part.rows)})),
        )
    return joined


def _with_the_papers_host(size: int, bits: int, array_rate: float) -> Number:
    """Return samples per second of the paper's host (Fig. 9(a), HalfCheetah) with this project's accelerator."""
    parts = [
        from_cell("fix_figure_9", f"B = {size}", f"{part}, time")
        for part in ("PCIe communication", "Python environment")
    ]
    array_ms = 1e3 * size / array_rate
    value, low, high = (
        1e3 * size / (sum(bounds) + array_ms)
        for bounds in (
            [part.value for part in parts],
            [part.high or part.value for part in parts],
            [part.low or part.value for part in parts],
        )
    )
    title = f"the paper's host (Fig. 9) with this project's {BACKENDS[bits]}, batch size {size}"
    return Number(title, value, "IPS", Provenance.PUBLISHED, "batch over both times", low, high)


def _joined_platform(frame: pd.DataFrame, bits: int) -> Finding:
    joined = joined_rates(frame, bits)
    if len(joined) < 2:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_STEPS}, {NEEDS_ARRAY}")
    rows = array_rows(frame)[BACKENDS[bits]]
    array = {size: float(rows[size].value) for size in joined}
    theirs = [_with_the_papers_host(size, bits, array[size]) for size in joined]
    smallest, largest = min(joined), max(joined)
    shares = [
        replace(
            joined[size],
            quantity=f"share of the {BACKENDS[bits]}, in a step of this host, batch size {size}",
            value=100 * joined[size].value / array[size],
            unit="%",
            low=None,
            high=None,
        )
        for size in (smallest, largest)
    ]
    bars = [from_cell("fix_figure_8", f"HalfCheetah, B = {size}", "FIXAR").value for size in joined]
    as_published = all(agrees(rate, bar) for rate, bar in zip(theirs, bars, strict=True))
    grows = all(b.low is not None and a.below(b.low) for a, b in pairwise(joined.values()))
    moves = joined[smallest].below(0.5 * array[smallest]) and joined[largest].above(0.5 * array[largest])
    explanation = (
        f"With {bits}-bit activations the rates {'grow' if grows else 'do not clearly grow'} with the batch, and "
        f"the bottleneck {'moves' if moves else 'does not clearly move, with this host,'} to the accelerator. "
        f"The accelerator's step is {rows[smallest].provenance}, the host's environment and transfer are measured"
        f"{', in runs of the whole platform in virtual time' if platform_run.host_s(frame, bits) else ''}. The "
        "paper's host takes 3.7 to 4.2 ms a step in addition to the accelerator (Fig. 9), most of it for its "
        f"environment and its run-time library; Fig. 8 has {', '.join(f'{bar:,.0f}' for bar in bars)} IPS. "
        f"With these times and {bits}-bit activations the rates are "
        f"{', '.join(f'{each.value:,.0f}' for each in theirs)} IPS: with the paper's own host the platform "
        f"{'has' if as_published else 'does not have'} the published rates, within 20%. With this host and {bits}-bit "
        f"activations the accelerator's share of a step is {shares[0].value:.0f}% at batch size {smallest} and "
        f"{shares[1].value:.0f}% at {largest}."
    )
    ours = (*joined.values(), *shares, *theirs)
    if (grows and moves) or as_published:
        return Finding(Outcome.CONSISTENT, ours, explanation)
    return Finding(Outcome.NO_VERDICT, ours, explanation)


def _normalised_peaks(frame: pd.DataFrame, bits: int) -> Finding:
    joined = joined_rates(frame, bits)
    if not joined:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_STEPS}, {NEEDS_ARRAY}")
    best = max(joined.values(), key=lambda number: number.value)
    row = "peak performance normalised to FIXAR"
    earlier = {name: from_cell("fix_table_2", row, name) for name in ("ASPLOS'19 [19]", "FCCM'20 [20]")}
    stated = from_cell("fix_table_2", row, "FIXAR").value
    gains = [
        ratio(
            f"{bits}-bit activations: its peak over that of {name}, published {stated / value.value:.1f}x",
            best,
            replace(value, low=value.value, high=value.value),
        )
        for name, value in earlier.items()
    ]
    explanation = (
        "Table II's peak of FIXAR is that of the whole platform (Fig. 8, B = 512), so it is compared with this "
        "host and the accelerator. Judged is only that it is above both earlier peaks: the factors depend on the host. "
        "Efficiency is not judged: nothing here has its watts."
    )
    leads = all(gain.above(1) for gain in gains)
    return Finding(Outcome.CONSISTENT if leads else Outcome.NO_VERDICT, (best, *gains), explanation)


def _shorter(one: Number, other: Number) -> bool:
    """Return whether the whole interval of one time is below that of another."""
    return other.low is not None and one.below(other.low)


def _change(before: Number, after: Number) -> Number:
    return ratio(f"{after.quantity} over that of the smallest batch size", after, before)


def platform_panels(frame: pd.DataFrame) -> Panels:
    """Return the samples per second of a whole step over the batch size (FIX Fig. 8, HalfCheetah).

    A step is one environment step with one gradient step.
    """
    lines = _side_lines(frame, "inferences_per_s", "this processor")
    for bits, name in BACKENDS.items():
        lines.append(charts.line(f"this host with the {name}", sorted(joined_rates(frame, bits).items())))
    lines.append(
        charts.line("floats on this GPU", list(device_steps.on_gpu(frame, device_steps.WHOLE, "").items()))
    )
    for column in ("FIXAR", "CPU-GPU"):
        bars = [(size, from_cell("fix_figure_8", _row(size), column)) for size in throughput.BATCH_SIZES]
        lines.append(charts.line(column, bars))
    return [Panel("batch size", "inferences (IPS)", lines, log_x=True, log_y=True)]


def accelerator_panels(frame: pd.DataFrame) -> Panels:
    """Return the samples per second of a gradient step alone over the batch size (FIX Fig. 10, HalfCheetah)."""
    lines = _side_lines(frame, "learner_inferences_per_s", "this processor")
    for name, rows in array_rows(frame).items():
        lines.append(charts.line(name, [(size, number(row, name)) for size, row in sorted(rows.items())]))
    lines.append(
        charts.line("floats on this GPU", list(device_steps.on_gpu(frame, device_steps.ALONE, "").items()))
    )
    for column in ("accelerator", "GPU"):
        cells = [
            (size, from_cell("fix_figure_10", _row(size), f"{column}, throughput"))
            for size in throughput.BATCH_SIZES
        ]
        lines.append(charts.line(column, cells))
    return [Panel("batch size", "inferences (IPS)", lines, log_x=True, log_y=True)]


def _side_lines(frame: pd.DataFrame, quantity: str, where: str) -> list[Line]:
    return [
        charts.line(f"{side} on {where}", [(size, number(row, side)) for size, row in sorted(sizes.items())])
        for side, sizes in _steps(frame, quantity).items()
    ]


def _row(size: int) -> str:
    return f"HalfCheetah, B = {size}"


def rates_table(
    frame: pd.DataFrame,
    title: str,
    quantity: str,
    on_fpga: Mapping[int, Mapping[int, Number]],
    on_gpu: str,
    bars: Cells,
) -> DeviceTable:
    """Return the table of samples per second over the batch size, HalfCheetah, of floats on CPU and GPU and of FIXAR.

    Args:
        quantity: quantity of the throughput experiment, which is timed on the CPU.
        on_fpga: rates with the accelerator by the bits of its activations, and then by batch size.
        on_gpu: quantity of the float steps on the GPU.
    """
    on_cpu = _steps(frame, quantity).get(FLOAT, {})
    gpu = device_steps.every_on_gpu(frame, on_gpu, "steps in floats")
    fpga = {
        size: [
            Entry(rates[size], f"{bits}-bit activations") for bits, rates in on_fpga.items() if size in rates
        ]
        for size in throughput.BATCH_SIZES
    }
    ours = {
        CPU: {size: [Entry(number(row, FLOAT), "floats, native")] for size, row in on_cpu.items()},
        GPU: {
            size: [Entry(rate, f"floats, {how}") for how, rate in rates.items()]
            for size, rates in gpu.items()
        },
        FPGA: {size: some for size, some in fpga.items() if some},
    }
    missing = {
        CPU: "`placerl reproduce --only FIX-F8`",
        GPU: "`make gpu-claims` on a machine with a CUDA device",
        FPGA: "`placerl reproduce --only FIX-F8`",
    }
    return DeviceTable(title, "inferences (IPS)", ours, missing, throughput.BATCH_SIZES, bars)


PLATFORM_RATES = (
    *from_text("FIX.platform_ips"),
    *(from_cell("fix_figure_8", _row(size), "FIXAR") for size in throughput.BATCH_SIZES),
)
SHARES = tuple(
    from_cell("fix_figure_9", f"B = {size}", f"{part}, share")
    for size in (throughput.BATCH_SIZES[0], throughput.BATCH_SIZES[-1])
    for part in ("Python environment", "accelerator")
)


class _StepsAndArray(AtBothClocks):
    """What the claims on the platform share: steps timed here, and the rates of the simulated accelerator."""

    measured_by = (throughput.cells, figure_10_array.cells, platform_run.cells)
    blocks = FIXAR


class AcceleratorBecomesBottleneck(_StepsAndArray):
    """Checks FIX Fig. 8 and 9: throughput grows with the batch, and the bottleneck moves to the accelerator.

    The time of a step is the sum of the time for environment and transfer, measured on this host, and the time of
    the accelerator. It is consistent with the paper if this is so on this host, or if this accelerator beside the
    paper's host (the times of Fig. 9) has the rates of Fig. 8, within 20%. Both widths of its activations are judged
    (`in_both_modes`).
    """

    key, place, position = "FIX-F8-host", "VI-C, Fig. 8, 9", 4
    statement = "Throughput of the platform grows with the batch, and the accelerator becomes its bottleneck"
    published = PLATFORM_RATES
    needs = f"{NEEDS_STEPS}, {NEEDS_ARRAY}"

    def judge(self, frame: pd.DataFrame) -> Finding:
        return in_both_modes(frame, _joined_platform)

    def panels(self, frame: pd.DataFrame) -> Panels:
        return platform_panels(frame)


def _terms_on_the_platform(frame: pd.DataFrame) -> dict[str, dict[int, Number]]:
    """Return the parts of a step by batch size, from runs of the whole platform with 16-bit activations."""
    name = BACKENDS[16]
    terms = {
        term: {
            size: number(row, f"{name}, batch size {size}: {term}")
            for size, row in _steps(frame, f"{term}_time", platform_run.EXPERIMENT).get(name, {}).items()
        }
        for term in throughput.TERMS
        if term != "learner"
    }
    learner = {}
    for size, row in array_rows(frame)[name].items():
        if size in terms["environment"]:
            seconds = size / float(row.value)  # of cycles, so that it is exact
            own = number(row, f"{name}, batch size {size}: learner")
            learner[size] = replace(own, value=seconds, unit="s", low=seconds, high=seconds)
    return {**terms, "learner": learner}


def _over_the_papers_environment(frame: pd.DataFrame, size: int) -> list[Number]:
    """Return this accelerator's time over that of the paper's environment (Fig. 9(a)), by width of the activations."""
    environment = scaled(from_cell("fix_figure_9", f"B = {size}", "Python environment, time"), 1e-3, "s")
    found = []
    for name, by_size in array_rows(frame).items():
        if size in by_size:
            rate = number(by_size[size], name)
            time_s = size / rate.value  # of cycles, so that it is exact
            took = replace(rate, value=time_s, unit="s", low=time_s, high=time_s)
            found.append(ratio(f"{name}, batch size {size}: over the paper's environment", took, environment))
    return found


class EnvironmentTimeIsConstant(_StepsAndArray):
    """Checks FIX Fig. 9: the environment's time is constant, and the learner's grows with the batch.

    At the largest batch size the learner has to take the largest part of a step (environment step and gradient step),
    and at the smallest another part, each with its whole interval. An environment whose time varies gives no verdict:
    here it shares the processor with the learner. A learner that takes less time with a larger batch refutes. Where the
    learner takes the largest part from the start, as this processor's environments are faster than FIX's, the statement
    is consistent if the simulated accelerator takes less time than FIX's environment (Fig. 9) at the smallest batch and
    more at the largest.
    """

    key, place, position = "FIX-F9", "VI-C, Fig. 9", 5
    statement = (
        "Environment time is constant; the accelerator's grows with the batch and becomes the bottleneck"
    )
    published = (*from_text("FIX.environment_time"), *SHARES)
    needs = NEEDS_STEPS
    decides = (
        "the same on a core of the environment's own, and the simulated accelerator (`placerl reproduce --only FIX-F9 "
        "--tier standard`)"
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        terms = _terms_on_the_platform(frame)
        on_platform = bool(terms["learner"])
        if not on_platform:
            terms = {
                term: {
                    size: number(row, f"{DYNAMIC}, batch size {size}: {term}")
                    for size, row in _steps(frame, f"{term}_time").get(DYNAMIC, {}).items()
                }
                for term in throughput.TERMS
            }
        sizes = sorted(set.intersection(*(set(numbers) for numbers in terms.values())))
        if len(sizes) < 2:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours = {(term, size): terms[term][size] for size in sizes for term in terms}
        smallest, largest = sizes[0], sizes[-1]
        change = {
            term: _change(ours[term, smallest], ours[term, largest]) for term in ("environment", "learner")
        }
        bottleneck = {size: max(terms, key=lambda term: ours[term, size].value) for size in sizes}
        explanation = (
            f"From batch size {smallest} to {largest} the environment's time changes by {change['environment']}, the "
            f"learner's by {change['learner']}; in Fig. 9 by 1.1x and 7.5x. The largest part: "
            + ", ".join(f"{part} at {size}" for size, part in bottleneck.items())
            + ". The learner is "
            + (
                "the simulated accelerator, in runs of the whole platform in virtual time."
                if on_platform
                else "this processor's, where FIX has its accelerator."
            )
        )
        if set(bottleneck.values()) == {"learner"}:
            explanation += (
                " The learner takes the largest part at every batch size, "
                "so whether the bottleneck moves cannot be seen here."
            )
        numbers = tuple(ours.values())
        if change["learner"].below(1):
            return Finding(Outcome.NOT_REPRODUCED, numbers, explanation)
        if change["environment"].above(CONSTANT) or change["environment"].below(1 / CONSTANT):
            explanation += (
                " Here the environment shares the processor and its caches with the learner, "
                "which FIX's does not."
            )
            return Finding(Outcome.NO_VERDICT, numbers, explanation)
        constant = change["environment"].above(1 / CONSTANT) and change["environment"].below(CONSTANT)
        grows = all(_shorter(ours["learner", a], ours["learner", b]) for a, b in pairwise(sizes))
        others = [term for term in terms if term != "learner"]
        moves = any(_shorter(ours["learner", smallest], ours[term, smallest]) for term in others)
        moves &= all(_shorter(ours[term, largest], ours["learner", largest]) for term in others)
        if constant and grows and moves:
            return Finding(Outcome.IN_KIND, numbers, explanation)
        before, after = (_over_the_papers_environment(frame, size) for size in (smallest, largest))
        numbers = (*numbers, *before, *after)
        if constant and grows and any(a.below(1) and b.above(1) for a, b in zip(before, after, strict=False)):
            explanation += (
                " The simulated accelerator takes less time than the paper's environment at the smallest batch and "
                "more at the largest."
            )
            return Finding(Outcome.CONSISTENT, numbers, explanation)
        return Finding(Outcome.NO_VERDICT, numbers, explanation)

    def panels(self, frame: pd.DataFrame) -> Panels:
        lines = []
        for term in throughput.TERMS:
            rows = sorted(_steps(frame, f"{term}_time").get(DYNAMIC, {}).items())
            lines.append(charts.line(term, [(size, number(row, term)) for size, row in rows]))
        for part in ("Python environment", "PCIe communication", "accelerator"):
            cells = [
                (size, from_cell("fix_figure_9", f"B = {size}", f"{part}, time"))
                for size in throughput.BATCH_SIZES
            ]
            lines.append(charts.line(part, [(size, scaled(cell, 1e-3, "s")) for size, cell in cells]))
        return [Panel("batch size", "time of a step's part (s)", lines, log_x=True, log_y=True)]


class RateIsConstant(Claim):
    """Checks FIX Fig. 10: the accelerator has the same throughput at every batch size.

    The rates of a width of the activations are consistent with the paper if they differ from each other by no more
    than the bars of Fig. 10, and from the published rate by no more than a factor of 1.25 (`ROOM`), with the cycles of
    Adam or without: FIX does not say whether its Adam runs alongside the next step. Both widths are judged
    (`in_both_modes`).
    """

    key, place, position = "FIX-F10-rate", "VI-C, Fig. 10", 7
    statement = "The accelerator's throughput is the same at every batch size"
    published = from_text("FIX.accelerator_ips", "FIX.utilisation")
    needs = NEEDS_ARRAY
    measured_by = (figure_10_array.cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        return in_both_modes(frame, figure_10_array.constant_rate)

    def panels(self, frame: pd.DataFrame) -> Panels:
        return accelerator_panels(frame)


class NormalisedPeaks(_StepsAndArray):
    """Checks FIX Table II: the platform's peak throughput is above those of earlier accelerators.

    The peaks are scaled to the size of FIX's network. The platform is this host with the accelerator, whose
    activations have 32 or 16 bits (`in_both_modes`).
    """

    key, place, position = "FIX-T2", "VII, Table II", 9
    statement = "Peak throughput, normalised by network size, is above that of earlier accelerators"
    published = (
        from_cell("fix_table_2", "peak performance normalised to FIXAR", "ASPLOS'19 [19]"),
        from_cell("fix_table_2", "peak performance normalised to FIXAR", "FCCM'20 [20]"),
        from_cell("fix_table_2", "peak performance normalised to FIXAR", "FIXAR"),
    )
    needs = f"{NEEDS_STEPS}, {NEEDS_ARRAY}"

    def judge(self, frame: pd.DataFrame) -> Finding:
        return in_both_modes(frame, _normalised_peaks)
