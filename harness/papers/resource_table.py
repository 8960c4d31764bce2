"""Cells of this project's blocks beside the papers' tables of resources (MAP Table VI, PPO Table 1, FIX Table I)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from harness.papers import published
from primitives.fpga.tools import counted
from primitives.fpga.tools.counted import Counted
from primitives.fpga.tools.resources import Resources

ULTRA_RAM_BYTES, BLOCK_RAM_BYTES = 36_864, 4_608  # 288 and 36 Kibit
COLUMNS = {"luts": "LUT", "flip_flops": "FF", "block_rams": "BRAM36", "ultra_rams": "URAM", "dsps": "DSP"}


@dataclass(frozen=True)
class Share:
    """What a counted block adds to a counterpart.

    Attributes:
        subject: its name in `counted.SUBJECTS`.
        copies: how many of it.
        parts: of the block only the parts whose names begin so.
    """

    subject: str
    copies: int = 1
    parts: str = ""

    def __str__(self) -> str:
        copies = f"{self.copies} x " if self.copies > 1 else ""
        return f"{copies}{f'{self.parts}* of ' if self.parts else ''}{self.subject}"

    def resources(self) -> dict[str, float]:
        """By resource; KeyError where the block was not counted."""
        found = counted.committed()[self.subject]
        one = found.resources_of(self.parts) if self.parts else found.resources
        numbers = {name: float(value) for name, value in asdict(one).items()} | {"sram_mb": sram_mb(one)}
        return {name: self.copies * value for name, value in numbers.items()}


@dataclass(frozen=True)
class Counterpart:
    """A row of a paper's table, and what here comes nearest to it.

    Attributes:
        claim: key of the claim that compares them.
        table, row: the published row.
        columns: the published column of each resource; "sram_mb" is all memory.
        shares: the blocks that make it up.
        differs: what else the paper's has, or has not.
        unknown: what the paper leaves out that decides the resources; no verdict rests on such a row.
    """

    claim: str
    table: str
    row: str
    columns: dict[str, str]
    shares: tuple[Share, ...]
    differs: str
    unknown: str = ""

    @property
    def name(self) -> str:
        """The paper's row, for a reader."""
        return f"{published.table(self.table).cells[0].source}, {self.row}"

    def published(self) -> dict[str, float]:
        """The paper's numbers by resource."""
        table = published.table(self.table)
        return {resource: table.value(self.row, column) for resource, column in self.columns.items()}

    def ours(self) -> dict[str, float]:
        """This project's, all together; KeyError where a block was not counted."""
        each = [share.resources() for share in self.shares]
        return {resource: sum(numbers[resource] for numbers in each) for resource in self.columns}

    @property
    def made_of(self) -> str:
        """The blocks, for a reader."""
        return " + ".join(map(str, self.shares))


def sram_mb(found: Resources) -> float:
    """All memory blocks, 10^6 bytes."""
    return (found.ultra_rams * ULTRA_RAM_BYTES + found.block_rams * BLOCK_RAM_BYTES) / 1e6


_CRITIC = "learner-pipeline inputs=5 hidden=8 outputs=1 lanes=8 pipelines=2"

COUNTERPARTS = (
    Counterpart(
        "MAP-T6-cells",
        "map_table_6",
        "RMM (S=32)",
        {"luts": "LUT", "flip_flops": "REG", "dsps": "DSP", "sram_mb": "SRAM"},
        (
            Share("replay-pipeline fanout=2 levels=15", 32),
            Share("lane-route banks=32 fanout=2 levels=15", 32),
            Share("bank-arbiter banks=32 fanout=2 levels=15", 32),
        ),
        "32 sub-trees of K = 2 (MAP VII-A) with 2^20 leaves in all (MAP IV-C4: a typical replay has a million; the "
        "table names no size) and the crossbar that brings requests to them, by its halves, without the registers "
        "between the two; priorities are fixed point, as MAP's, but their adders are look-up tables, and nothing "
        "takes a DSP; the SRAM is of whole blocks: 8.7 MB of sums at 32 bits a leaf and 4.2 MB of a second copy of "
        "the leaves, from which an update knows its change before it walks down; 2^20 leaves in MAP's 4.5 MB would be "
        "18 bits a node",
    ),
    Counterpart(
        "MAP-T6-cells",
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
    Counterpart(
        "PPO-T1-cells",
        "ppo_table_1",
        "Hopper and Humanoid",
        {"luts": "logic", "flip_flops": "flip-flop", "dsps": "DSP"},
        (Share("gemm-core side=16", 2),),
        "two cores of 16 x 16 elements in fixed point of 32 bits, where PPO has float32; with their control and "
        "accumulators, without the memories of operands, the layout transformation and the host's interface",
        unknown="PPO's row is of its whole accelerator, with buffers and load balancing (PPO 5.2), and the paper does "
        "not say what the two cores take of it",
    ),
    Counterpart(
        "FIX-T1",
        "fix_table_1",
        "PEs",
        {"luts": "LUT", "flip_flops": "FF", "dsps": "DSP"},
        (Share("processing-element width=32 configurable=true", 512),),
        "the elements of two cores of 16 x 16 alone, with the same datapath; their row has 247 DSPs more than four for "
        "every element, and FIX does not say whether it holds the adders of the columns and the accumulators",
    ),
    Counterpart(
        "FIX-T1-adam",
        "fix_table_1",
        "Adam optimizer",
        {"luts": "LUT", "flip_flops": "FF", "dsps": "DSP"},
        (Share("adam-unit"),),
        "one weight a cycle in float32, seven products of two DSPs each",
        unknown="FIX names neither the format of its optimiser's numbers nor how many weights a cycle it updates",
    ),
)


def rows() -> Iterator[tuple[Counted, list[Counterpart]]]:
    """Everything that was counted, each with the papers' rows that it is the first block of."""
    for name, found in counted.committed().items():
        yield found, [item for item in COUNTERPARTS if item.shares[0].subject == name]


TREE = "replay-pipeline fanout=16 levels=5"


def tree_note() -> str:
    """Where the cells of the 16^5 tree go; KeyError where it was not counted."""
    found = counted.committed()[TREE]
    whole, front = found.resources, found.resources_of("front_end")
    levels = [found.resources_of(f"level_{number}") for number in range(5)]
    deepest = levels[-1]
    without = whole.ultra_rams - front.ultra_rams
    luts = ", ".join(f"{level.luts:,}" for level in levels)
    return (
        f"The 16^5 tree by module ({whole.luts:,} LUT, {whole.ultra_rams} URAM). URAM: {deepest.ultra_rams} hold the "
        f"2^20 leaves as words of 16 x 32 bits, {levels[-2].ultra_rams} the level above (16 x 36 bits), and "
        f"{front.ultra_rams} a second copy of the leaves, from which an update knows its change before it walks down; "
        f"without that copy {without}. LUT: the front end {front.luts:,} (the multiplexers behind {front.ultra_rams} "
        f"URAM, the path memory), levels 0 to 4 {luts}; a level has sixteen adders for an update, fifteen for the "
        "prefix sums, and a row of multiplexers for what was written a cycle before, each as wide as its sums."
    )
