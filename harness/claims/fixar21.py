"""Claims of FIX: fixed-point training with 16-bit activations after a delay."""

import pandas as pd

from harness import simulated_array
from harness.claims import fixar_array, fixar_sizes, fpga_cells
from harness.claims.base import Claim, Finding, Outcome, among_themselves
from harness.claims.evidence import number
from harness.claims.fixar21_training import (
    ACCELERATOR,
    NEEDS_CURVES,
    NEEDS_STEPS,
    NEEDS_SWEEP,
    accelerator,
    breakdown,
    joined_platform,
    platform,
    reward,
    sweep,
)
from harness.claims.number import Number, from_cell, from_text
from harness.fixed_point_training import SWEPT, SWEPT_SEED
from harness.provenance import Provenance

NEEDS_EARLIER = "the earlier accelerators (ASPLOS'19, FCCM'20), run on FIXAR's network"


def speedup_range(_: pd.DataFrame) -> Finding:
    """FIX Abstract against VI-C: one gain over CPU-GPU against a range."""
    single, low, high = from_text(
        "FIX.platform_speedup", "FIX.platform_speedup_low", "FIX.platform_speedup_high"
    )
    agree = single.value in (low.value, high.value)
    explanation = (
        "The abstract gives one gain, VI-C a range over batch sizes whose ends are others; the text does not "
        "say which batch size or mean the one stands for."
    )
    needs = f"{ACCELERATOR} and a CUDA device"
    return among_themselves(agree, (low, high), needs=needs, apart=explanation)


def peak(frame: pd.DataFrame) -> Finding:
    """FIX VI-C against Table II: throughput at every batch size against the peak."""
    rows = fixar_array.simulated_rates(frame)[simulated_array.BACKENDS[32]]
    ours = tuple(number(row, f"the array simulated, batch size {size}") for size, row in sorted(rows.items()))
    steady = from_text("FIX.accelerator_ips")[0]
    table_peak = from_cell("fix_table_2", "peak performance", "FIXAR")
    if steady.value <= table_peak.value:
        return Finding(Outcome.NOT_RUN, (table_peak,), needs=ACCELERATOR)
    explanation = "The throughput that holds at every batch size is above the peak of the comparison table."
    if ours:
        explanation += " The array here, of as many elements at the same clock, is nearer to the former."
    return Finding(Outcome.INCONSISTENT, (table_peak, *ours), explanation)


def normalised_peak(_: pd.DataFrame) -> Finding:
    """FIX Table II: peaks normalised by network size, from the table's own sizes and peaks."""
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
    """FIX Abstract and VI-C: the gain in efficiency against the gain in throughput and both powers."""
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
    return among_themselves(agree, ours, said, needs=f"{ACCELERATOR}, a CUDA device, watts of both")


CLAIMS = (
    Claim(
        "FIX-F7",
        "VI-C, Fig. 7",
        "16-bit activations after a delay reach the reward of 32 bits; 16 bits from the start do not",
        from_text("FIX.reward_level"),
        NEEDS_CURVES,
        reward,
        reads=("claim/FIX-F7",),
    ),
    Claim(
        "FIX-F7-sweep",
        "IV, Algorithm 1",
        "Full precision during the delay makes up for 16-bit activations after it (neither d nor the split of integer "
        "and fraction bits is given)",
        (),
        NEEDS_SWEEP,
        sweep,
        reads=("claim/FIX-F7-sweep", f"claim/FIX-F7/{SWEPT.workload}/fixed-32/seed{SWEPT_SEED}"),
    ),
    Claim(
        "FIX-F8",
        "VI-C, Fig. 8",
        "Inferences per second of the platform over batch size, against CPU-GPU",
        from_text("FIX.platform_ips"),
        f"{ACCELERATOR} and a CUDA device",
        platform,
        reads=("claim/FIX-F8", "claim/FIX-F10"),
    ),
    Claim(
        "FIX-F8-host",
        "VI-C, Fig. 8, 9",
        "Throughput of the platform grows with the batch, and the accelerator becomes its bottleneck",
        from_text("FIX.platform_ips"),
        f"{NEEDS_STEPS}, {ACCELERATOR}",
        joined_platform,
        reads=("claim/FIX-F8", "claim/FIX-F10"),
    ),
    Claim(
        "FIX-F8-range",
        "Abstract against VI-C",
        "Gain of the platform over CPU-GPU",
        from_text("FIX.platform_speedup"),
        "nothing",
        speedup_range,
    ),
    Claim(
        "FIX-F9",
        "VI-C, Fig. 9",
        "Environment time is constant; the accelerator's grows with the batch and becomes the bottleneck",
        from_text("FIX.environment_time"),
        NEEDS_STEPS,
        breakdown,
        reads=("claim/FIX-F8",),
    ),
    Claim(
        "FIX-F10",
        "VI-C, Fig. 10",
        "Throughput and efficiency of the accelerator alone against the GPU",
        from_text(
            "FIX.accelerator_ips",
            "FIX.accelerator_efficiency",
            "FIX.accelerator_speedup",
            "FIX.accelerator_efficiency_gain",
        ),
        f"{ACCELERATOR}, a CUDA device, watts of both",
        accelerator,
        reads=("claim/FIX-F8", "claim/FIX-F10"),
    ),
    Claim(
        "FIX-F10-rate",
        "VI-C, Fig. 10",
        "The accelerator's throughput is the same at every batch size, its elements nearly all in use",
        from_text("FIX.accelerator_ips", "FIX.utilisation"),
        "nothing",
        fixar_array.fixar_throughput,
        reads=("claim/FIX-F10",),
    ),
    Claim(
        "FIX-T1",
        "VI-A, Table I",
        "FPGA resources of the accelerator",
        tuple(
            from_cell("fix_table_1", row, name) for row in ("PEs", "Total") for name in ("LUT", "FF", "DSP")
        ),
        "nothing",
        fpga_cells.check("FIX-T1"),
    ),
    Claim(
        "FIX-T1-adam",
        "VI-A, Table I",
        "FPGA resources of the optimiser",
        tuple(from_cell("fix_table_1", "Adam optimizer", name) for name in ("LUT", "FF", "DSP")),
        "nothing",
        fpga_cells.check("FIX-T1-adam"),
    ),
    Claim(
        "FIX-T2",
        "VII, Table II",
        "Peak throughput, normalised by network size, and efficiency against earlier accelerators",
        (
            from_cell("fix_table_2", "peak performance normalised to FIXAR", "ASPLOS'19 [19]"),
            from_cell("fix_table_2", "peak performance normalised to FIXAR", "FCCM'20 [20]"),
            from_cell("fix_table_2", "peak performance normalised to FIXAR", "FIXAR"),
        ),
        ACCELERATOR,
        fixar_array.normalised_peaks,
        reads=("claim/FIX-F10",),
    ),
    Claim(
        "FIX-T2-normalised",
        "VII, Table II",
        "Peaks normalised by the size of the network",
        tuple(
            from_cell("fix_table_2", "peak performance normalised to FIXAR", name)
            for name in ("ASPLOS'19 [19]", "FCCM'20 [20]", "FIXAR")
        ),
        "nothing",
        normalised_peak,
    ),
    Claim(
        "FIX-F10-efficiency",
        "Abstract, VI-C",
        "Gain in throughput, powers and gain in efficiency go together",
        from_text("FIX.accelerator_efficiency_gain", "FIX.accelerator_efficiency"),
        "nothing",
        efficiency,
    ),
    Claim(
        "FIX-III",
        "III",
        "On-chip memory that holds the weights of actor and critic",
        from_text("FIX.weight_memory"),
        "nothing",
        fixar_sizes.weight_memory,
    ),
    Claim(
        "FIX-III-activations",
        "III",
        "On-chip memory that holds the activations of all 3 layers",
        from_text("FIX.activation_memory"),
        "nothing",
        fixar_sizes.activation_memory,
    ),
    Claim(
        "FIX-V-C",
        "V-C",
        "16-bit activations double the throughput of the array",
        (),
        ACCELERATOR,
        fixar_array.half_precision,
        reads=("claim/FIX-F10",),
    ),
    Claim(
        "FIX-VI-A-clock",
        "VI-A",
        "Clock of the placed design",
        from_text("FIX.clock"),
        "placement on an Alveo U50 (Vivado)",
    ),
    Claim(
        "FIX-T2-size",
        "VII, Table II",
        "Sizes of the networks of FIXAR and of the PPO accelerator",
        (
            from_cell("fix_table_2", "network size", "FIXAR"),
            from_cell("fix_table_2", "network size", "FCCM'20 [20]"),
        ),
        "nothing",
        fixar_sizes.network_size,
    ),
    Claim(
        "FIX-T2-peak",
        "VI-C against Table II",
        "Throughput of the accelerator at every batch size",
        from_text("FIX.accelerator_ips"),
        "nothing",
        peak,
        reads=("claim/FIX-F10",),
    ),
    Claim(
        "FIX-VI-B",
        "VI-B",
        "Action size of Hopper",
        from_text("FIX.hopper_action"),
        "Gymnasium's Hopper-v5",
        fixar_sizes.hopper_actions,
    ),
    Claim(
        "FIX-VI-B-sizes",
        "VI-B",
        "State and action sizes of HalfCheetah and Swimmer, state size of Hopper",
        from_text(
            "FIX.halfcheetah_state",
            "FIX.halfcheetah_action",
            "FIX.hopper_state",
            "FIX.swimmer_state",
            "FIX.swimmer_action",
        ),
        "Gymnasium's HalfCheetah-v5, Hopper-v5 and Swimmer-v5",
        fixar_sizes.environment_sizes,
    ),
)
