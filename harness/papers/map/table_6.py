"""Defines which blocks of this project are compared with which rows of MAP Table VI, by their logic cells."""

from placerl.harness.papers.resources import Counterpart, Share

_CRITIC = "learner-pipeline inputs=5 hidden=8 outputs=1 lanes=8 pipelines=2"
COUNTERPARTS = (
    Counterpart(
        "map_table_6",
        "RMM (S=32)",
        {"luts": "LUT", "flip_flops": "REG", "dsps": "DSP", "sram_mb": "SRAM"},
        (
            Share("replay-pipeline fanout=2 levels=15", 32),
            Share("lane-route banks=32 fanout=2 levels=15", 32),
            Share("bank-queues banks=32 fanout=2 levels=15", 32),
        ),
        "32 sub-trees of K = 2 (MAP VII-A) with 2^20 leaves in all (MAP IV-C4: a typical replay has a million; the "
        "table names no size) and the crossbar that brings requests to them, by its halves, without the registers "
        "between the two; priorities are fixed point, as MAP's, but their adders are look-up tables, and nothing "
        "takes a DSP; the SRAM is of whole blocks: 8.7 MB of sums at 32 bits a leaf and 4.2 MB of a second copy of "
        "the leaves, from which an update knows its change before it walks down; 2^20 leaves in MAP's 4.5 MB would be "
        "18 bits a node",
    ),
    Counterpart(
        "map_table_6",
        "DDPG learner",
        {"luts": "LUT", "flip_flops": "REG", "dsps": "DSP", "sram_mb": "SRAM"},
        (Share(_CRITIC, 2), Share(_CRITIC, 2, parts="forward_")),
        "actor and critic of CartPole (hidden size 8, MAP Table III; the table here names no network) with a "
        "multiplier for every neuron, DP = 2, and the forward units of both target networks, the actor's counted as "
        "the critic's, which has one input more; products are fixed point "
        "of 32 bits, Adam is float32; without the stage that brings the critic's errors to the actor, and without "
        "MAP's data storage, batches in flight and host interface; the DQN learner's network has convolutions, for "
        "which there are no tensor units here",
    ),
)
