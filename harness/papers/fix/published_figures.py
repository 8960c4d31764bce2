"""Checks FIX's own numbers against each other: Fig. 8 and 10, the text and Table II, and throughput and power."""

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers.base import Finding, among_themselves
from harness.papers.fix.throughput import BATCH_SIZES
from harness.papers.number import Number, from_cell, from_text, ratio

NEEDS_EARLIER = "the earlier accelerators (ASPLOS'19, FCCM'20), run on FIXAR's network"
NEEDS_PLATFORMS = "FIX's accelerator on an Alveo U50, and the same training on a CUDA device"
BARS = tuple(f"{name}, B = {size}" for name in ("HalfCheetah", "Hopper", "Swimmer") for size in BATCH_SIZES)
_HALF_DIGIT = 0.05  # gains are printed to one decimal


def _mean(quantity: str, numbers: list[Number]) -> Number:
    """Return the mean of values read off a figure; their reading errors may all have the same sign."""
    value, low, high = (
        sum(bounds) / len(numbers)
        for bounds in (
            [number.value for number in numbers],
            [number.low or 0.0 for number in numbers],
            [number.high or 0.0 for number in numbers],
        )
    )
    return Number(quantity, value, "IPS", Provenance.PUBLISHED, "mean of the bars of FIX Fig. 8", low, high)


def _holds(read: Number, printed: Number) -> bool:
    """Whether a printed, rounded gain is compatible with the one read off a figure."""
    return not read.above(printed.value + _HALF_DIGIT) and not read.below(printed.value - _HALF_DIGIT)


def speedup_range(_: pd.DataFrame) -> Finding:
    """Check the gain over CPU-GPU in FIX's Abstract against the range of gains in VI-C and the bars of Fig. 8."""
    single, low, high = from_text(
        "FIX.platform_speedup", "FIX.platform_speedup_low", "FIX.platform_speedup_high"
    )
    bars = {name: [from_cell("fix_figure_8", row, name) for row in BARS] for name in ("FIXAR", "CPU-GPU")}
    of_means = ratio("mean of the bars of FIXAR over that of CPU-GPU", *(_mean(*bar) for bar in bars.items()))
    gains = [
        ratio(f"{row}: gain", ours, theirs) for row, ours, theirs in zip(BARS, *bars.values(), strict=True)
    ]
    least, most = (pick(gains, key=lambda gain: gain.value) for pick in (min, max))
    agree = all(_holds(*pair) for pair in ((of_means, single), (least, low), (most, high)))
    said = (
        "By Fig. 8 the gain of the abstract is that of the averages over all environments and batch sizes (bar "
        '"Avg."), and the range of VI-C spans the single bars.'
    )
    return among_themselves(agree, (of_means, least, most), said, needs=NEEDS_PLATFORMS, apart=_APART)


_APART = "The bars of the figure do not give what the text prints, by more than their reading errors."


def peak(_: pd.DataFrame) -> Finding:
    """Check FIX Table II against Fig. 8 and 10: its peak throughput is that of the whole platform.

    The accelerator alone has to be faster, and equally fast at every batch size.
    """
    alone = from_text("FIX.accelerator_ips")[0]
    table_peak = from_cell("fix_table_2", "peak performance", "FIXAR")
    platform = max((from_cell("fix_figure_8", row, "FIXAR") for row in BARS), key=lambda bar: bar.value)
    bars = [from_cell("fix_figure_10", row, "accelerator, throughput") for row in BARS]
    slowest, fastest = (pick(bars, key=lambda bar: bar.value) for pick in (min, max))
    of_platform = not platform.above(table_peak.value) and not platform.below(table_peak.value)
    of_accelerator = not any(bar.above(alone.value) or bar.below(alone.value) for bar in bars)
    agree = of_platform and of_accelerator and platform.below(slowest.low or 0.0)
    said = (
        "Table II's peak is that of the whole platform at the largest batch size (Fig. 8); the accelerator alone is "
        "faster, and as fast at every batch size (Fig. 10)."
    )
    ours = (platform, slowest) if slowest is fastest else (platform, slowest, fastest)
    return among_themselves(agree, ours, said, needs=NEEDS_PLATFORMS, apart=_APART)


def normalised_peak(_: pd.DataFrame) -> Finding:
    """Check FIX Table II: the normalised peak throughputs follow from the network sizes and peaks in the same table."""
    ours, agree = [], True
    size = from_cell("fix_table_2", "network size", "FIXAR")
    for column in ("ASPLOS'19 [19]", "FCCM'20 [20]", "FIXAR"):
        own, reached = (from_cell("fix_table_2", row, column) for row in ("network size", "peak performance"))
        value = reached.value * own.value / size.value
        source = "peak x network size / FIXAR's"
        ours.append(Number(f"{column}: normalised peak", value, "IPS", Provenance.PUBLISHED, source))
        printed = from_cell("fix_table_2", "peak performance normalised to FIXAR", column).value
        agree &= abs(value - printed) < 1
    said = "Each peak times the size of its network, over FIXAR's, against the row that says so."
    return among_themselves(agree, tuple(ours), said, needs=NEEDS_EARLIER)


def efficiency(_: pd.DataFrame) -> Finding:
    """Check the FIX Abstract and VI-C: the gain in throughput per watt follows from the throughputs and powers."""
    speedup, card, gpu, gain, ips, per_watt = from_text(
        "FIX.accelerator_speedup",
        "FIX.accelerator_power",
        "FIX.gpu_power",
        "FIX.accelerator_efficiency_gain",
        "FIX.accelerator_ips",
        "FIX.accelerator_efficiency",
    )
    half_digit = 0.05  # 5.5 is printed to one decimal
    low, value, high = (
        (speedup.value + off) * gpu.value / card.value for off in (-half_digit, 0, half_digit)
    )
    ours = (
        Number(
            "gain in efficiency",
            value,
            "ratio",
            Provenance.PUBLISHED,
            "speed-up x watts of GPU / FPGA",
            low,
            high,
        ),
        Number("efficiency", ips.value / card.value, "IPS/W", Provenance.PUBLISHED, "throughput / watts"),
    )
    agree = (
        low <= gain.value <= high and abs(ours[1].value / per_watt.value - 1) < 0.003
    )  # 20.4 W: three digits
    said = "Throughput, watts and efficiency of the text, multiplied out."
    return among_themselves(agree, ours, said, needs=f"{NEEDS_PLATFORMS}, watts of both")
