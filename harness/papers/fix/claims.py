"""Lists the claims, the statements to check, of the paper FIX on training with 16-bit activations after a delay."""

from placerl.harness.papers import resources
from placerl.harness.papers.base import Claim
from placerl.harness.papers.clocks import at_both_clocks
from placerl.harness.papers.fix import (
    dataflow,
    figure_7,
    figure_10_array,
    platform,
    sizes,
    table_1,
)
from placerl.harness.papers.fix.figure_7 import NEEDS_CURVES, NEEDS_SWEEP
from placerl.harness.papers.fix.platform import ACCELERATOR, NEEDS_ARRAY, NEEDS_STEPS
from placerl.harness.papers.fix.throughput import BATCH_SIZES
from placerl.harness.papers.number import from_cell, from_text

_PLATFORM = (
    *from_text("FIX.platform_ips"),
    *(from_cell("fix_figure_8", f"HalfCheetah, B = {size}", "FIXAR") for size in BATCH_SIZES),
)
_SHARES = tuple(
    from_cell("fix_figure_9", f"B = {size}", f"{part}, share")
    for size in (BATCH_SIZES[0], BATCH_SIZES[-1])
    for part in ("Python environment", "accelerator")
)

CLAIMS = (
    Claim(
        "FIX-F7",
        "VI-C, Fig. 7",
        "16-bit activations after a delay reach the reward of 32 bits; 16 bits from the start do not",
        (*from_text("FIX.reward_level"), *figure_7.published_levels()),
        NEEDS_CURVES,
        figure_7.reward,
        reads=("claim/FIX-F7",),
        draw=figure_7.draw,
    ),
    Claim(
        "FIX-F7-sweep",
        "IV, Algorithm 1",
        "Full precision during the delay makes up for 16-bit activations after it (neither d nor the split of integer "
        "and fraction bits is given)",
        (),
        NEEDS_SWEEP,
        figure_7.sweep,
        reads=("claim/FIX-F7-sweep",),
    ),
    Claim(
        "FIX-F8",
        "VI-C, Fig. 8",
        "Inferences per second of the platform over batch size, against CPU-GPU",
        _PLATFORM,
        f"{ACCELERATOR} and a CUDA device",
        platform.platform,
        reads=("claim/FIX-F8", "claim/FIX-F10"),
        draw=platform.draw_platform,
    ),
    Claim(
        "FIX-F8-host",
        "VI-C, Fig. 8, 9",
        "Throughput of the platform grows with the batch, and the accelerator becomes its bottleneck",
        _PLATFORM,
        f"{NEEDS_STEPS}, {NEEDS_ARRAY}",
        at_both_clocks(platform.joined_platform),
        reads=("claim/FIX-F8", "claim/FIX-F10"),
        draw=platform.draw_platform,
    ),
    Claim(
        "FIX-F9",
        "VI-C, Fig. 9",
        "Environment time is constant; the accelerator's grows with the batch and becomes the bottleneck",
        (*from_text("FIX.environment_time"), *_SHARES),
        NEEDS_STEPS,
        platform.breakdown,
        reads=("claim/FIX-F8",),
        draw=platform.draw_breakdown,
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
        platform.accelerator,
        reads=("claim/FIX-F8", "claim/FIX-F10"),
        draw=platform.draw_accelerator,
    ),
    Claim(
        "FIX-F10-rate",
        "VI-C, Fig. 10",
        "The accelerator's throughput is the same at every batch size",
        from_text("FIX.accelerator_ips", "FIX.utilisation"),
        NEEDS_ARRAY,
        figure_10_array.fixar_throughput,
        reads=("claim/FIX-F10",),
        draw=platform.draw_accelerator,
    ),
    Claim(
        "FIX-T1",
        "VI-A, Table I",
        "FPGA resources of the processing elements",
        tuple(from_cell("fix_table_1", "PEs", name) for name in ("LUT", "FF", "DSP")),
        "nothing",
        resources.check(table_1.ELEMENTS, could_be=table_1.ADDERS),
    ),
    Claim(
        "FIX-T1-adam",
        "VI-A, Table I",
        "FPGA resources of the optimiser",
        tuple(from_cell("fix_table_1", "Adam optimizer", name) for name in ("LUT", "FF", "DSP")),
        "nothing",
        resources.check(table_1.ADAM, could_be=""),
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
        f"{NEEDS_STEPS}, {NEEDS_ARRAY}",
        at_both_clocks(platform.normalised_peaks),
        reads=("claim/FIX-F8", "claim/FIX-F10"),
    ),
    Claim(
        "FIX-III",
        "III",
        "On-chip memory that holds the weights of actor and critic",
        from_text("FIX.weight_memory"),
        "nothing",
        sizes.weight_memory,
    ),
    Claim(
        "FIX-III-activations",
        "III",
        "On-chip memory that holds the activations of all 3 layers",
        from_text("FIX.activation_memory"),
        "nothing",
        sizes.activation_memory,
    ),
    Claim(
        "FIX-V-B",
        "III, V-B, VI-C",
        "One dataflow has the stated rate, utilisation, activation memory and weights a cycle",
        from_text("FIX.accelerator_ips", "FIX.utilisation", "FIX.activation_memory", "FIX.weights_a_cycle"),
        "nothing",
        dataflow.dataflow,
    ),
    Claim(
        "FIX-V-C",
        "V-C",
        "16-bit activations double the throughput of the array, through its configurable multipliers",
        (),
        NEEDS_ARRAY,
        figure_10_array.half_precision,
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
        sizes.environment_sizes,
    ),
)
