"""Lists the claims, the statements to check, of the paper PRL on a portable toolkit for heterogeneous platforms."""

from harness.core.suites import Suite
from harness.papers import device_times
from harness.papers.base import Claim
from harness.papers.clocks import at_both_clocks
from harness.papers.number import from_text
from harness.papers.prl import (
    algorithm_1,
    figure_8,
    figure_9,
    figures_6_7,
    section_3_3,
    section_6_4,
    table_3,
    table_4,
)
from harness.papers.prl.table_3 import BESIDE_LIBRARIES
from harness.papers.slow_links import at_both_latencies

CLAIMS = (
    Claim(
        "PRL-3.3.1",
        "3.3.1, Algorithm 1; 6.4",
        "Re-allocating actor threads to training next to an accelerator raises throughput",
        from_text("PRL.reallocation_gain_low", "PRL.reallocation_gain_high"),
        algorithm_1.NEEDS,
        algorithm_1.gains,
        ("claim/PRL-3.3.1",),
        commands=algorithm_1.COMMANDS,
    ),
    Claim(
        "PRL-3.3.2",
        "3.2.1, 3.3.2",
        "Deferred insertion and double-buffered weights hide their time behind other work",
        (),
        section_3_3.NEEDS,
        section_3_3.hidden,
        ("claim/PRL-3.3.2",),
        commands=section_3_3.COMMANDS,
    ),
    Claim(
        "PRL-F6",
        "6.2, Fig. 6",
        "Replay operations scale better with the batch on GPU and FPGA than on the CPU",
        (),
        "a CUDA device and FPGA primitives (simulated)",
        at_both_clocks(figures_6_7.growth),
        device_times.reads("cartpole-dqn"),
        draw=figures_6_7.draw_replay,
    ),
    Claim(
        "PRL-F7",
        "6.2, Fig. 7",
        "A gradient step is faster on the GPU than on the CPU, and fastest on the FPGA when it is small",
        (),
        "a CUDA device and an FPGA learner (simulated), at small and large batch sizes",
        at_both_clocks(figures_6_7.gpu_over_cpu),
        device_times.reads("cartpole-dqn"),
        commands=("placerl reproduce --only PRL-F7 --tier standard", "placerl report"),
        draw=figures_6_7.draw_learner,
    ),
    Claim(
        "PRL-F8",
        "6.3, Fig. 8",
        "At small batches the replay manager's device decides, at large ones the learner's",
        from_text("PRL.small_batch", "PRL.large_batch"),
        figure_8.NEEDS_MAPPINGS,
        at_both_latencies(figure_8.composition),
        ("validation",),
        commands=figure_8.BOTH_SIZES,
        draw=figure_8.draw,
    ),
    Claim(
        "PRL-F9",
        "6.4, Fig. 9",
        "Faster convergence at the same reward",
        (),
        figure_9.NEEDS,
        figure_9.convergence,
        ("claim/PRL-F9", *BESIDE_LIBRARIES),
        commands=("placerl reproduce --only PRL-F9 --tier standard", "placerl report"),
        draw=figure_9.draw,
    ),
    Claim(
        "PRL-T3",
        "6.4, Table 3",
        "More throughput than RLlib and SB3",
        from_text(
            "PRL.speedup_first_benchmark", "PRL.speedup_second_benchmark", "PRL.speedup_third_benchmark"
        ),
        "the baselines Stable-Baselines3 and RLlib compared with this project on PRL's benchmarks",
        table_3.libraries,
        BESIDE_LIBRARIES,
    ),
    Claim(
        "PRL-T3-same-hardware",
        "6.4",
        "More throughput also on the same CPU and GPU",
        from_text("PRL.same_hardware_gain_low", "PRL.same_hardware_gain_high"),
        "a CUDA device, the baselines Stable-Baselines3 and RLlib on it",
        table_3.same_hardware,
        BESIDE_LIBRARIES,
    ),
    Claim(
        "PRL-T3-reallocation",
        "6.4",
        "Dynamic re-allocation of actor threads to training raises throughput",
        from_text("PRL.reallocation_gain_low", "PRL.reallocation_gain_high"),
        section_6_4.NEEDS_REALLOCATION,
        section_6_4.reallocation,
        ("run/*/seed*/*",),  # with options; a tier's own runs have none
        commands=section_6_4.REALLOCATION,
    ),
    Claim(
        "PRL-T3-device-portability",
        "6.4, Table 3",
        "Device portability of RLlib and SB3",
        from_text("PRL.library_device_portability"),
        figure_8.NEEDS_MAPPINGS,
        table_3.over_devices,
        ("validation", *BESIDE_LIBRARIES),
        commands=figure_8.VALIDATE,
    ),
    Claim(
        "PRL-T3-platform-portability",
        "6.4, Table 3",
        "Portability over platforms, and its gain over the libraries",
        from_text("PRL.portability_gain"),
        table_3.NEEDS_PLATFORMS,
        table_3.over_platforms,
        BESIDE_LIBRARIES,
        commands=table_3.MERGE,
        everywhere=True,
    ),
    Claim(
        "PRL-6.4-earlier-work",
        "6.4",
        "More experiences per second for its peak than the earlier FPGA work: 11% more from 36% less",
        from_text("PRL.peak_deficit", "PRL.eps_gain"),
        section_6_4.NEEDS_FPGA,
        at_both_latencies(section_6_4.earlier_work),
        ("validation/cartpole-dqn/32", Suite.MACHINE_PEAKS),
        commands=("placerl validate --only cartpole-dqn/32", "placerl reproduce --only PRL-6.4-earlier-work"),
    ),
    Claim(
        "PRL-T4",
        "6.5, Table 4",
        "Dozens of lines of user code, code divergence near 0 between platforms",
        from_text("PRL.code_divergence"),
        "nothing",
        table_4.user_code,
    ),
)
