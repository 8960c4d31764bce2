"""Claims of MAP: mapping DRL with prioritised replay onto CPU, GPU and FPGA."""

from harness.compare.registry import RLLIB
from harness.papers import devices
from harness.papers.base import Claim
from harness.papers.clocks import at_both_clocks
from harness.papers.comparisons import beside
from harness.papers.map import figure_10, figure_12_threads, predictions, tables, throughput
from harness.papers.map.tables import FPGA_AND_GPU
from harness.papers.number import from_cell, from_text

CLAIMS = (
    Claim(
        "MAP-T3-CartPole",
        "Table III, row CartPole",
        "Multiply-accumulates of CartPole's network",
        (from_cell("map_table_3", "CartPole", "MACs"),),
        "nothing",
        lambda _: tables.table_3("CartPole", 4, 1, 8),
    ),
    Claim(
        "MAP-T3-Hopper",
        "Table III, row Hopper",
        "Multiply-accumulates of Hopper's network",
        (from_cell("map_table_3", "Hopper", "MACs"),),
        "nothing",
        lambda _: tables.table_3("Hopper", 11, 3, 256),
    ),
    Claim(
        "MAP-T3-Pong",
        "Table III, row Pong",
        "Multiply-accumulates of Pong's network",
        (from_cell("map_table_3", "Pong", "MACs"),),
        "nothing",
        tables.table_3_pong,
    ),
    Claim(
        "MAP-IV-C4",
        "IV-C4",
        "A binary sum tree over a million priorities has at most so many nodes",
        from_text("MAP.binary_tree_nodes"),
        "nothing",
        tables.tree_nodes,
    ),
    Claim(
        "MAP-IV-C4-memory",
        "IV-C4 against Tables IV and VI",
        "That tree fits the FPGA's on-chip memory",
        (
            from_cell("map_table_4", "last-level cache or SRAM", "FPGA"),
            from_cell("map_table_6", "RMM (S=32)", "SRAM"),
        ),
        "nothing",
        tables.tree_memory,
    ),
    Claim(
        "MAP-VI-B",
        "VI-B, Equation 3",
        "Throughput is the smallest over learner and replay manager: prediction against achievement",
        (),
        predictions.NEEDS,
        predictions.prediction_error,
        ("validation",),
        predictions.COMMANDS,
    ),
    Claim(
        "MAP-F10",
        "VII-B, Fig. 10",
        "50 pre-sampled batches cost no reward; 200 visibly do on Hopper",
        from_text("MAP.presampled_batches_chosen", "MAP.presampled_batches_visible", "MAP.seeds"),
        figure_10.NEEDS,
        figure_10.presampled,
        ("claim/MAP-F10",),
    ),
    Claim(
        "MAP-F11",
        "VII-C, Fig. 11",
        "Hopper trains fastest on the FPGA at small batches and on the GPU at large ones",
        from_text("MAP.fpga_training_best_below_hopper", "MAP.gpu_training_best_above_hopper"),
        FPGA_AND_GPU,
        at_both_clocks(
            lambda frame: devices.crossover(
                frame,
                "hopper-ddpg",
                "MAP.fpga_training_best_below_hopper",
                "MAP.gpu_training_best_above_hopper",
            )
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F11-Pong",
        "VII-C, Fig. 11",
        "Pong trains fastest on the FPGA at small batches and on the GPU at large ones",
        from_text("MAP.fpga_training_best_below_pong", "MAP.gpu_training_best_above_pong"),
        FPGA_AND_GPU,
        at_both_clocks(
            lambda frame: devices.crossover(
                frame, "pong-dqn", "MAP.fpga_training_best_below_pong", "MAP.gpu_training_best_above_pong"
            )
        ),
        devices.reads("pong-dqn"),
        devices.commands("pong-dqn", 8, 64),
    ),
    Claim(
        "MAP-F11-CartPole",
        "VII-C, Fig. 11",
        "CartPole, whose network is small, trains fastest on the FPGA at every batch size",
        (),
        FPGA_AND_GPU,
        at_both_clocks(devices.smallest_network),
        devices.reads("cartpole-ddpg"),
    ),
    Claim(
        "MAP-F12-sampling",
        "VII-C, Fig. 12",
        "Prefix sum index: the FPGA is faster than the GPU at small batches and slower at large ones",
        from_text("MAP.prefix_sum_fpga_over_gpu_high", "MAP.prefix_sum_gpu_over_fpga_high"),
        FPGA_AND_GPU,
        at_both_clocks(
            lambda frame: devices.fpga_over_gpu(
                frame,
                "sum_tree.sample",
                "MAP.prefix_sum_gpu_over_fpga_high",
                "MAP.prefix_sum_fpga_over_gpu_high",
            )
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F12-GPU",
        "VII-C, Fig. 12",
        "On the GPU the prefix sum index takes the same time at every batch size, the update grows in proportion",
        (),
        "a CUDA device",
        devices.gpu_constant,
        ("profile/hopper-ddpg",),
    ),
    Claim(
        "MAP-F12-linear",
        "VII-C, Fig. 12",
        "On the FPGA the time of replay operations is linear in the batch above a size, and grows less below",
        from_text("MAP.fpga_replay_linear_above"),
        "the FPGA's sum tree at two batch sizes on either side of that (simulated)",
        at_both_clocks(devices.fpga_linear),
        devices.reads("hopper-ddpg", timed=False),
    ),
    Claim(
        "MAP-F12-update",
        "VII-C, Fig. 12",
        "Priority update: the FPGA is always faster than the GPU",
        from_text("MAP.priority_update_fpga_over_gpu_low", "MAP.priority_update_fpga_over_gpu_high"),
        FPGA_AND_GPU,
        at_both_clocks(
            lambda frame: devices.fpga_over_gpu(
                frame,
                "sum_tree.update",
                "MAP.priority_update_fpga_over_gpu_low",
                "MAP.priority_update_fpga_over_gpu_high",
            )
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F12-threads",
        "VII-C, Fig. 12",
        "CPU threads speed up sampling and do not speed up priority updates",
        (),
        figure_12_threads.NEEDS,
        figure_12_threads.threads_in_a_call,
        ("claim/MAP-F12-threads",),
    ),
    Claim(
        "MAP-F13",
        "VII-D, Fig. 13",
        "Achieved throughput is near the theoretical optimum, the fastest learner's rate",
        from_text("MAP.optimum_gap"),
        predictions.NEEDS,
        predictions.optimum_gap,
        ("validation",),
        predictions.COMMANDS,
    ),
    Claim(
        "MAP-F13-hidden",
        "VII-D",
        "A replay manager on the CPU hides behind Hopper's learner on the GPU from batch size 256 on, not at 16384",
        from_text("MAP.hopper_learner_on_gpu_above", "MAP.hopper_replay_on_fpga_at"),
        throughput.NEEDS_HIDDEN,
        throughput.replay_hidden,
        ("profile/hopper-ddpg",),
    ),
    Claim(
        "MAP-F13-CartPole",
        "VII-D",
        "Above a batch size CartPole's replay hides behind the learner",
        from_text("MAP.cartpole_replay_hidden_above"),
        "CartPole's learner and sum tree on the FPGA above that batch size (simulated)",
        at_both_clocks(devices.replay_behind_learner),
        devices.reads("cartpole-ddpg", timed=False),
        commands=("placerl profile cartpole-ddpg --batch-size 16384 --device fpga:u200", "placerl report"),
    ),
    Claim(
        "MAP-F13-sharing",
        "VII-D",
        "A replay manager on the learner's GPU costs throughput",
        from_text("MAP.shared_gpu_loss"),
        "a CUDA device",
        throughput.shared_gpu,
        ("validation",),
        commands=("placerl validate --tier quick", "placerl report"),
    ),
    Claim(
        "MAP-T5",
        "VII-D, Table V",
        "Optimal mapping by batch size",
        (throughput.printed_mappings(),),
        throughput.NEEDS_TABLE_5,
        throughput.table_5,
        ("claim/MAP-T5",),
    ),
    Claim(
        "MAP-T5-gains",
        "VII-D, Table V",
        "Gain of the optimal mapping over the second best and over the worst",
        throughput.printed_gains(),
        throughput.NEEDS_TABLE_5,
        throughput.table_5_gains,
        ("claim/MAP-T5",),
    ),
    Claim(
        "MAP-T6",
        "Table VI",
        "FPGA resources of replay manager and learners",
        tuple(
            from_cell("map_table_6", row, column)
            for row in ("RMM (S=32)", "DQN learner", "DDPG learner")
            for column in ("LUT", "LUT share")
        ),
        "FPGA resources from synthesis",
        tables.table_6,
    ),
    Claim(
        "MAP-T6-cells",
        "Table VI",
        "FPGA resources of the replay manager and of the DDPG learner",
        tuple(
            from_cell("map_table_6", row, column)
            for row in ("RMM (S=32)", "DDPG learner")
            for column in ("SRAM", "REG", "LUT", "DSP")
        ),
        "nothing",
        tables.table_6_cells,
    ),
    Claim(
        "MAP-F14",
        "VII-E, Fig. 14",
        "Gain over RLlib",
        from_text("MAP.rllib_speedup_low", "MAP.rllib_speedup_high"),
        throughput.NEEDS_RLLIB_ON_GPU,
        throughput.rllib,
        beside(*RLLIB),
    ),
    Claim(
        "MAP-F14-CartPole",
        "VII-E, Fig. 14",
        "The largest gain over RLlib is CartPole's",
        from_text("MAP.rllib_speedup_high"),
        throughput.NEEDS_ALONE,
        throughput.rllib_cartpole,
        throughput.ALONE,
        commands=(
            "placerl compare cartpole-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
            "placerl compare cartpole-dqn --alone --baselines rllib --batch-size 32",
            "placerl compare hopper-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
            "placerl compare pong-dqn --alone --baselines rllib --batch-size 32",
            "placerl report",
        ),
    ),
    Claim(
        "MAP-F14-Hopper",
        "VII-E against Table VII",
        "Hopper's gain over RLlib falls with the batch size, to the low end of its range",
        from_text("MAP.rllib_speedup_hopper_low", "MAP.rllib_speedup_hopper_high"),
        tables.RLLIB_BESIDE,
        tables.table_7_throughput,
    ),
    Claim(
        "MAP-F14-Pong",
        "VII-E against Table VII",
        "Range of Pong's gain over RLlib",
        from_text("MAP.rllib_speedup_pong_low", "MAP.rllib_speedup_pong_high"),
        "nothing",
        tables.table_7_pong,
    ),
    Claim(
        "MAP-T7",
        "VII-E, Table VII",
        "Gradient steps per second and watt, and their gain over RLlib",
        from_text("MAP.power_efficiency_gain"),
        tables.NEEDS_WATTS,
        tables.table_7,
        ("run",),
    ),
)
