"""Compares FIX's platform, and its accelerator alone, with a GPU that takes the same steps (VI-C, Fig. 8 and 10)."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.clocks import FIXAR, AtBothClocks
from placerl.harness.papers.device_order import exact
from placerl.harness.papers.device_table import Cells, DeviceTable, OfDevices, cells
from placerl.harness.papers.device_times import FPGA, GPU
from placerl.harness.papers.evidence import number
from placerl.harness.papers.fix import device_steps, figure_10_array, throughput
from placerl.harness.papers.fix.figure_10_array import (
    BACKENDS,
    NEEDS_ARRAY,
    array_rates,
    array_rows,
    in_both_modes,
)
from placerl.harness.papers.fix.platform import (
    ACCELERATOR,
    NEEDS_STEPS,
    PLATFORM_RATES,
    accelerator_panels,
    joined_rates,
    platform_panels,
    rates_table,
    side_rates,
)
from placerl.harness.papers.number import Number, from_cell, from_text, ratio
from placerl.harness.papers.papers_own import AlsoAsInThePaper

NEEDS_GPU_STEPS = (
    "a CUDA device, and the same steps in floats on it (claim/FIX-F8/cuda, `placerl gpu-claims`)"
)


def _against_gpu(bits: int, ours: dict[int, Number], gpu: dict[int, Number], what: str) -> Finding:
    """Return whether rates with the accelerator are above a GPU's at every batch size that both have.

    The GPU is of another generation than FIX's, so that a lower rate does not contradict FIX.
    """
    gains = [
        ratio(f"{BACKENDS[bits]}, batch size {size}: {what} over the GPU's", exact(ours[size]), gpu[size])
        for size in sorted(ours.keys() & gpu.keys())
    ]
    higher, lower = sum(gain.above(1) for gain in gains), sum(gain.below(1) for gain in gains)
    said = (
        f"With {bits}-bit activations {what} is higher than the GPU's at {higher} of {len(gains)} batch sizes, and "
        f"lower at {lower}. The accelerator's part is simulated, and the GPU is of another generation than FIX's."
    )
    outcome = Outcome.CONSISTENT if higher == len(gains) else Outcome.NO_VERDICT
    return Finding(outcome, (*gains, *gpu.values()), said)


def _alone(frame: pd.DataFrame) -> dict[int, dict[int, Number]]:
    """Return the accelerator's rates by the bits of its activations, and then by batch size."""
    return {
        bits: {size: number(row, name) for size, row in array_rows(frame)[name].items()}
        for bits, name in BACKENDS.items()
    }


def _bars(figure: str, columns: dict[str, str]) -> Cells:
    """Return the bars of a figure for HalfCheetah, from the heading of each kind of device."""
    return cells(
        (kind, size, from_cell(figure, f"HalfCheetah, B = {size}", column), column)
        for kind, column in columns.items()
        for size in throughput.BATCH_SIZES
    )


def _distinct(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(dict.fromkeys(numbers))


class PlatformOverBatch(AtBothClocks, AlsoAsInThePaper, OfDevices):
    """Compares inferences per second of a whole step with those of a host with a GPU (FIX Fig. 8).

    A step is one environment step with one gradient step. The platform is this host with the simulated accelerator,
    whose activations have 32 or 16 bits (`in_both_modes`); on the GPU, PyTorch takes the same steps in floats. The
    statement holds if the platform is faster at every batch size.
    """

    key, place, position = "FIX-F8", "VI-C, Fig. 8", 3
    statement = "Inferences per second of the platform over batch size, against CPU-GPU"
    published = PLATFORM_RATES
    needs = f"{ACCELERATOR} and a CUDA device"
    measured_by = (throughput.cells, figure_10_array.cells, device_steps.cells)
    as_in_the_paper = device_steps.FLOATS_OF_THE_PAPER
    blocks = FIXAR

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours = side_rates(frame, "inferences_per_s", "whole step on this processor")
        gpu = device_steps.on_gpu(frame, device_steps.WHOLE, "whole step")
        if not ours:
            return Finding(Outcome.NOT_RUN, tuple(gpu.values()), needs=f"{NEEDS_STEPS}, {NEEDS_GPU_STEPS}")
        joined = {bits: joined_rates(frame, bits) for bits in BACKENDS}
        listed = (*ours, *(rate for rates in joined.values() for rate in rates.values()))
        if not gpu:
            return Finding(Outcome.NOT_RUN, listed, needs=NEEDS_GPU_STEPS)
        if not all(rates.keys() & gpu.keys() for rates in joined.values()):
            return Finding(Outcome.NOT_RUN, (*listed, *gpu.values()), needs=f"{NEEDS_STEPS}, {NEEDS_ARRAY}")
        found = in_both_modes(
            frame, lambda _, bits: _against_gpu(bits, joined[bits], gpu, "the platform's rate")
        )
        low, high = from_text("FIX.platform_speedup_low", "FIX.platform_speedup_high")
        said = f"{found.explanation} FIX states gains of {low.value:g} to {high.value:g}."
        return replace(found, ours=_distinct((*found.ours, *listed)), explanation=said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        return platform_panels(frame)

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        bars = _bars("fix_figure_8", {GPU: "CPU-GPU", FPGA: "FIXAR"})
        joined = {bits: joined_rates(frame, bits) for bits in BACKENDS}
        title = "HalfCheetah: environment step and gradient step"
        return [rates_table(frame, title, "inferences_per_s", joined, device_steps.WHOLE, bars)]


class AcceleratorAgainstGpu(AtBothClocks, AlsoAsInThePaper, OfDevices):
    """Compares inferences per second of the gradient step alone, and per watt, with a GPU's (FIX Fig. 10).

    The statement holds if the simulated accelerator is faster than the GPU at every batch size, and if the GPU does
    fewer inferences per second and watt than FIX measured of its accelerator, whose simulation has no watts. A GPU
    whose watts cannot be read gives no verdict.
    """

    key, place, position = "FIX-F10", "VI-C, Fig. 10", 6
    statement = "Throughput and efficiency of the accelerator alone against the GPU"
    published = from_text(
        "FIX.accelerator_ips",
        "FIX.accelerator_efficiency",
        "FIX.accelerator_speedup",
        "FIX.accelerator_efficiency_gain",
    )
    needs = f"{ACCELERATOR}, a CUDA device and its watts"
    measured_by = (throughput.cells, figure_10_array.cells, device_steps.cells)
    as_in_the_paper = device_steps.FLOATS_OF_THE_PAPER
    blocks = FIXAR

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours = side_rates(frame, "learner_inferences_per_s", "gradient step alone on this processor")
        simulated = array_rates(frame)
        gpu = device_steps.on_gpu(frame, device_steps.ALONE, "gradient step alone")
        array = _alone(frame)
        shared = all(rates.keys() & gpu.keys() for rates in array.values())
        if not shared:
            lacking = [] if simulated else [ACCELERATOR]
            lacking += [NEEDS_ARRAY if gpu else NEEDS_GPU_STEPS]
            return Finding(
                Outcome.NOT_RUN, (*ours, *simulated, *gpu.values()), needs=", ".join(dict.fromkeys(lacking))
            )
        found = in_both_modes(
            frame, lambda _, bits: _against_gpu(bits, array[bits], gpu, "the accelerator's rate")
        )
        per_watt = device_steps.on_gpu(frame, device_steps.EFFICIENCY, "gradient step alone, per watt")
        stated = from_text("FIX.accelerator_efficiency")[0]
        below = sum(each.below(stated.value) for each in per_watt.values())
        said = (
            f"Of the GPU's {len(per_watt)} rates per watt {below} are below the accelerator's, as FIX measured it: "
            f"{stated}."
            if per_watt
            else "The GPU's watts were not measured, so that efficiency is not compared."
        )
        thrifty = 0 < len(per_watt) == below
        return replace(
            found,
            outcome=found.outcome if thrifty else Outcome.NO_VERDICT,
            ours=_distinct((*found.ours, *per_watt.values(), *simulated, *ours)),
            explanation=f"{found.explanation} {said} A step on the GPU copies its batch from the host and its errors "
            "back; the accelerator's rate is that of its cycles.",
        )

    def panels(self, frame: pd.DataFrame) -> Panels:
        return accelerator_panels(frame)

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        bars = _bars("fix_figure_10", {GPU: "GPU, throughput", FPGA: "accelerator, throughput"})
        title = "HalfCheetah: gradient step alone"
        return [
            rates_table(frame, title, "learner_inferences_per_s", _alone(frame), device_steps.ALONE, bars)
        ]
