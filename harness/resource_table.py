"""Cells of this project's blocks beside the papers' tables of resources (MAP Table VI, PPO Table 1, FIX Table I)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from harness.claims import published
from primitives.fpga import counted
from primitives.fpga.counted import Counted
from primitives.fpga.resources import Resources

ULTRA_RAM_BYTES, BLOCK_RAM_BYTES = 36_864, 4_608  # 288 and 36 Kibit
COLUMNS = {"luts": "LUT", "flip_flops": "FF", "block_rams": "BRAM36", "ultra_rams": "URAM", "dsps": "DSP"}


@dataclass(frozen=True)
class Counterpart:
    """A row of a paper's table, and what here comes nearest to it.

    Attributes:
        claim: key of the claim that compares them.
        table, row: the published row.
        columns: the published column of each resource; "sram_mb" is all memory.
        subject: name of the block in `counted.SUBJECTS`.
        copies: how many of it the paper's design has.
        differs: what else the paper's has, or has not.
    """

    claim: str
    table: str
    row: str
    columns: dict[str, str]
    subject: str
    copies: int
    differs: str

    @property
    def name(self) -> str:
        """The paper's row, for a reader."""
        return f"{published.table(self.table).cells[0].source}, {self.row}"

    def published(self) -> dict[str, float]:
        """The paper's numbers by resource."""
        table = published.table(self.table)
        return {resource: table.value(self.row, column) for resource, column in self.columns.items()}

    def ours(self) -> dict[str, float]:
        """This project's, all copies together; KeyError where the block was not counted."""
        found = counted.committed()[self.subject].resources
        numbers = {name: float(value) for name, value in asdict(found).items()} | {"sram_mb": sram_mb(found)}
        return {resource: self.copies * numbers[resource] for resource in self.columns}


def sram_mb(found: Resources) -> float:
    """All memory blocks, 10^6 bytes."""
    return (found.ultra_rams * ULTRA_RAM_BYTES + found.block_rams * BLOCK_RAM_BYTES) / 1e6


COUNTERPARTS = (
    Counterpart(
        "MAP-T6-cells",
        "map_table_6",
        "RMM (S=32)",
        {"luts": "LUT", "flip_flops": "REG", "dsps": "DSP", "sram_mb": "SRAM"},
        "replay-pipeline fanout=2 levels=15",
        32,
        "32 sub-trees of K = 2 (MAP VII-A) with 2^20 leaves in all (MAP IV-C4: a typical replay has a million; the "
        "table names no size), without what brings requests to them; priorities are fixed point, as MAP's, but their "
        "adders are look-up tables, and nothing takes a DSP; the SRAM is of whole blocks: 8.7 MB of sums at 32 bits a "
        "leaf and 4.2 MB of a second copy of the leaves, from which an update knows its change before it walks down; "
        "2^20 leaves in MAP's 4.5 MB would be 18 bits a node",
    ),
    Counterpart(
        "PPO-T1-cells",
        "ppo_table_1",
        "Hopper and Humanoid",
        {"luts": "logic", "flip_flops": "flip-flop", "dsps": "DSP"},
        "gemm-core side=16",
        2,
        "two cores of 16 x 16 elements in fixed point of 32 bits, where PPO has float32; with their control and "
        "accumulators, without the memories of operands, the layout transformation and the host's interface",
    ),
    Counterpart(
        "FIX-T1",
        "fix_table_1",
        "PEs",
        {"luts": "LUT", "flip_flops": "FF", "dsps": "DSP"},
        "processing-element width=32 configurable=true",
        512,
        "two cores of 16 x 16 elements of the same datapath",
    ),
)


def rows() -> Iterator[tuple[Counted, list[Counterpart]]]:
    """Everything that was counted, each with the papers' rows that it stands beside."""
    for name, found in counted.committed().items():
        yield found, [item for item in COUNTERPARTS if item.subject == name]
