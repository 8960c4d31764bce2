"""Lists the claims, the statements to check, of the paper PPO on a systolic accelerator for this algorithm."""

from placerl.harness.papers import resources
from placerl.harness.papers.base import Claim
from placerl.harness.papers.clocks import at_both_clocks
from placerl.harness.papers.number import from_cell, from_text
from placerl.harness.papers.ppo import (
    block_rams,
    environment_steps,
    figures_10_11,
    figures_12_15,
    networks,
    shared_trunk,
    table_1,
    table_2,
)

ITERATIONS = ("claim/PPO-T2/hopper", "claim/PPO-T2/humanoid")


CLAIMS = (
    Claim(
        "PPO-T1-cells",
        "5.2, Table 1",
        "FPGA resources of two arrays of 16 x 16 for MuJoCo",
        tuple(
            from_cell("ppo_table_1", "Hopper and Humanoid", column)
            for column in ("DSP", "logic", "flip-flop")
        ),
        "nothing",
        resources.check(*table_1.COUNTERPARTS, could_be=""),
    ),
    Claim(
        "PPO-T1-memory",
        "5.2, Table 1",
        "Block RAMs grow with the mini-batch and with the network: MuJoCo",
        block_rams.published(),
        "nothing",
        block_rams.by_minibatch,
    ),
    Claim(
        "PPO-T2",
        "5.3.1, Table 2",
        "Inferences per second of PPO on CPU, CPU-GPU and CPU-FPGA: MuJoCo",
        from_text("PPO.robotics_speedup_low", "PPO.robotics_speedup_high"),
        f"{table_2.NEEDS}; {table_2.NEEDS_CUDA}",
        at_both_clocks(table_2.platforms),
        (*ITERATIONS, "compare/hopper-ppo/sb3", "compare/humanoid-ppo/sb3"),
    ),
    Claim(
        "PPO-T2-CPU",
        "5.3.1, Table 2, rows C and C-F",
        "1.39 to 27.1 times as many inferences a second with the accelerator as on the CPU alone, most with the "
        "smallest mini-batches",
        tuple(
            number for benchmark in table_2.MUJOCO for _, number in table_2.published_gains(benchmark, "M")
        ),
        table_2.NEEDS,
        at_both_clocks(table_2.over_cpu),
        ITERATIONS,
    ),
    Claim(
        "PPO-5.2-side",
        "5.2",
        "In all three dataflows performance grows with the side of the array",
        from_text("PPO.systolic_mujoco", "PPO.systolic_atari"),
        "nothing",
        networks.larger_arrays,
    ),
    Claim(
        "PPO-5.2-choice",
        "4, 5.2",
        "The exploration chooses an array of 16 x 16 for MuJoCo on an Alveo U200",
        from_text("PPO.systolic_mujoco"),
        "nothing",
        block_rams.explored_side,
    ),
    Claim(
        "PPO-5.2-clock",
        "5.2",
        "Clocks of the placed designs",
        from_text("PPO.clock_mujoco", "PPO.clock_atari"),
        "placement on an Alveo U200 (Vivado)",
    ),
    Claim(
        "PPO-5.3.1-shared",
        "5.3.1",
        "Networks that share their layers train about twice as fast",
        from_text("PPO.shared_network_gain"),
        shared_trunk.NEEDS_NETWORKS,
        shared_trunk.shared_networks_train_faster,
        ("claim/PPO-5.3.1-shared",),
    ),
    Claim(
        "PPO-5.3.1-environment",
        "5.3.1",
        "An environment step of Baselines takes about 8 times as long as one of Spinning Up",
        from_text("PPO.subproc_step_slowdown"),
        environment_steps.NEEDS_STEPS,
        environment_steps.environment_step,
        ("claim/PPO-5.3.1-environment",),
    ),
    Claim(
        "PPO-3.1",
        "3.1",
        "Memory of the largest MLP of robotics, and of the CNN policy",
        from_text("PPO.largest_mlp", "PPO.cnn_policy"),
        "nothing",
        networks.memory,
    ),
    Claim(
        "PPO-F10",
        "5.3.1, Fig. 10",
        "MuJoCo trains and infers faster on the FPGA, whose training slows down less with small mini-batches",
        (),
        table_2.NEEDS,
        at_both_clocks(figures_10_11.mujoco_times),
        ITERATIONS,
        draw=figures_10_11.draw("Hopper", "Humanoid"),
    ),
    Claim(
        "PPO-F11",
        "5.3.1, Fig. 11",
        "Pong trains slightly slower on the FPGA than on the GPU and infers faster, for more inferences a second",
        (),
        f"{table_2.NEEDS}; {table_2.NEEDS_CUDA}",
        at_both_clocks(figures_10_11.pong_times),
        ("claim/PPO-T2/pong",),
        draw=figures_10_11.draw("Pong"),
    ),
    Claim(
        "PPO-F12",
        "5.3.2, Fig. 12",
        "Choosing the dataflow gains most when the batch is smaller than the array: MuJoCo",
        from_text("PPO.systolic_mujoco"),
        "nothing",
        figures_12_15.dataflow_mujoco,
        reads=("claim/PPO-F12",),
        draw=figures_12_15.draw_dataflows,
    ),
    Claim(
        "PPO-F13",
        "5.3.2, Fig. 13",
        "The same for Pong, and more where the array divides no layer",
        from_text("PPO.systolic_atari", "PPO.systolic_odd"),
        "nothing",
        figures_12_15.dataflow_pong,
        reads=("claim/PPO-F13",),
        draw=figures_12_15.draw_dataflows_pong,
    ),
    Claim(
        "PPO-F14",
        "5.3.3, Fig. 14",
        "The blocked layout raises throughput",
        from_text("PPO.layout_gain_hopper", "PPO.layout_gain_humanoid", "PPO.layout_gain_pong"),
        "nothing",
        figures_12_15.blocked_layout,
        reads=("claim/PPO-F14",),
        draw=figures_12_15.draw_layouts,
    ),
    Claim(
        "PPO-F15",
        "5.3.4, Fig. 15",
        "Load balancing raises throughput in the first iterations",
        from_text(
            "PPO.balance_gain_hopper_high",
            "PPO.balance_gain_hopper_low",
            "PPO.balance_gain_humanoid_high",
            "PPO.balance_gain_humanoid_low",
        ),
        "nothing",
        figures_12_15.balancing,
        reads=("claim/PPO-F15",),
        draw=figures_12_15.draw_balancing,
    ),
    Claim(
        "PPO-2.4",
        "2.4",
        "Launches and synchronisation take most of a small PPO training on a GPU",
        from_text("PPO.gpu_overhead_mlp", "PPO.gpu_overhead_cnn"),
        "a CUDA device, and an experiment that traces launches, synchronisation and kernels of training on it, which "
        "this project lacks",
    ),
)
