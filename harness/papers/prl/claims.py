"""Claims of PRL: a portable toolkit for heterogeneous platforms."""

import pandas as pd

from harness.compare.registry import RLLIB
from harness.papers import devices
from harness.papers.base import Claim, Finding, Outcome
from harness.papers.clocks import at_both_clocks
from harness.papers.comparisons import beside, gains
from harness.papers.number import from_text
from harness.papers.prl import figure_9, runs
from harness.papers.prl import portability as checks

LIBRARIES = ("sb3", *RLLIB)
BESIDE_LIBRARIES = beside(*LIBRARIES)


def libraries(frame: pd.DataFrame) -> Finding:
    """PRL 6.4: throughput over RLlib and Stable-Baselines3 on the same machine."""
    found = gains(frame, *LIBRARIES)
    if not found:
        return Finding(Outcome.NOT_RUN, needs="the baseline Stable-Baselines3 or RLlib beside this project")
    ours = tuple(gain.ratio for gain in found)
    faster, slower = (sum(gain.verdict == word for gain in found) for word in ("faster", "slower"))
    explanation = (
        f"Faster in {faster} of {len(ours)} comparisons with SB3 and RLlib, slower in {slower}. Other machine than "
        "the paper's, and SB3 has no prioritised replay: the factors are not comparable, the ordering is."
    )
    if faster == len(ours):
        return Finding(Outcome.IN_KIND, ours, explanation)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, ours, explanation)


CLAIMS = (
    Claim(
        "PRL-F6",
        "6.2, Fig. 6",
        "Replay operations scale better with the batch on GPU and FPGA than on the CPU",
        (),
        "a CUDA device and FPGA primitives (simulated)",
        at_both_clocks(devices.growth),
        devices.reads("cartpole-dqn"),
    ),
    Claim(
        "PRL-F7",
        "6.2, Fig. 7",
        "A gradient step is faster on the GPU than on the CPU, and fastest on the FPGA when it is small",
        (),
        "a CUDA device and an FPGA learner (simulated)",
        at_both_clocks(devices.gpu_over_cpu),
        devices.reads("cartpole-dqn"),
    ),
    Claim(
        "PRL-F8",
        "6.3, Fig. 8",
        "At small batches the replay manager's device decides, at large ones the learner's",
        from_text("PRL.small_batch", "PRL.large_batch"),
        checks.NEEDS_MAPPINGS,
        checks.composition,
        ("validation",),
        commands=checks.VALIDATE,
    ),
    Claim(
        "PRL-F9",
        "6.4, Fig. 9",
        "Faster convergence at the same reward",
        (),
        figure_9.NEEDS,
        figure_9.reallocated,
        ("claim/PRL-F9",),
    ),
    Claim(
        "PRL-T3",
        "6.4, Table 3",
        "More throughput than RLlib and SB3",
        from_text(
            "PRL.speedup_first_benchmark", "PRL.speedup_second_benchmark", "PRL.speedup_third_benchmark"
        ),
        "the baseline Stable-Baselines3 or RLlib beside this project",
        libraries,
        BESIDE_LIBRARIES,
    ),
    Claim(
        "PRL-T3-same-hardware",
        "6.4",
        "More throughput also on the same CPU and GPU",
        from_text("PRL.same_hardware_gain_low", "PRL.same_hardware_gain_high"),
        "a CUDA device, the baselines RLlib and SB3",
        checks.same_hardware,
        BESIDE_LIBRARIES,
    ),
    Claim(
        "PRL-T3-reallocation",
        "6.4",
        "Dynamic re-allocation of actor threads to training raises throughput",
        from_text("PRL.reallocation_gain_low", "PRL.reallocation_gain_high"),
        runs.NEEDS_REALLOCATION,
        runs.reallocation,
        ("run/*/seed*/*",),  # under options: a tier's own runs have none
        commands=runs.REALLOCATION,
    ),
    Claim(
        "PRL-T3-device-portability",
        "6.4, Table 3",
        "Device portability of RLlib and SB3",
        from_text("PRL.library_device_portability"),
        checks.NEEDS_MAPPINGS,
        checks.over_devices,
        ("validation", *BESIDE_LIBRARIES),
        commands=checks.VALIDATE,
    ),
    Claim(
        "PRL-T3-platform-portability",
        "6.4, Table 3",
        "Portability over platforms, and its gain over the libraries",
        from_text("PRL.portability_gain"),
        checks.NEEDS_PLATFORMS,
        checks.over_platforms,
        BESIDE_LIBRARIES,
        commands=checks.MERGE,
        everywhere=True,
    ),
    Claim(
        "PRL-6.4-earlier-work",
        "6.4",
        "More experiences per second than the earlier FPGA work from a lower peak",
        from_text("PRL.peak_deficit", "PRL.eps_gain"),
        runs.NEEDS_FPGA,
        runs.earlier_work,
        ("validation/cartpole-dqn/32", "roofs"),
        commands=("placerl validate --only cartpole-dqn/32", "placerl reproduce --only PRL-6.4-earlier-work"),
    ),
    Claim(
        "PRL-T4",
        "6.5, Table 4",
        "Dozens of lines of user code, code divergence near 0 between platforms",
        from_text("PRL.code_divergence"),
        "nothing",
        checks.user_code,
    ),
)
