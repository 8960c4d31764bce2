"""Compares the logic cells that Yosys counted for this project's blocks with the papers' tables of FPGA resources.

A paper's module on such a table states which of its rows are compared with which blocks (`COUNTERPARTS`).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from placerl.harness.papers import discovery, published
from placerl.primitives.fpga.tools import counted
from placerl.primitives.fpga.tools.counted import Counted
from placerl.primitives.fpga.tools.resources import Resources

ULTRA_RAM_BYTES, BLOCK_RAM_BYTES = 36_864, 4_608  # 288 and 36 Kibit
COLUMNS = {"luts": "LUT", "flip_flops": "FF", "block_rams": "BRAM36", "ultra_rams": "URAM", "dsps": "DSP"}
FACTOR = 2
"""Largest factor between the counts of a resource at which two designs of one architecture count as alike."""
TREE = "replay-pipeline fanout=16 levels=5"


@dataclass(frozen=True)
class Share:
    """Copies of one block, or of parts of a block, which are compared with a row of a paper's table.

    Attributes:
        subject: name of the block, such as "adam-unit" or "replay-pipeline fanout=2 levels=15".
        copies: number of copies.
        parts: if set, only the parts of the block whose names begin with this text, such as "forward_".
    """

    subject: str
    copies: int = 1
    parts: str = ""

    def __str__(self) -> str:
        copies = f"{self.copies} x " if self.copies > 1 else ""
        return f"{copies}{f'{self.parts}* of ' if self.parts else ''}{self.subject}"

    def resources(self) -> dict[str, float]:
        """Return the resources of all copies by name, such as "luts" or "sram_mb".

        Raises:
            KeyError: the block was not counted.
        """
        block = counted.committed()[self.subject]
        one = block.resources_of(self.parts) if self.parts else block.resources
        numbers = {name: float(value) for name, value in asdict(one).items()} | {"sram_mb": sram_mb(one)}
        return {name: self.copies * value for name, value in numbers.items()}


@dataclass(frozen=True)
class Counterpart:
    """A row of a paper's table of FPGA resources, and the blocks of this project that are closest to it.

    Attributes:
        table, row: name of the published table, such as "map_table_6", and heading of the row.
        columns: heading of the published column of each resource ("luts", "flip_flops", "dsps", "sram_mb"); "sram_mb"
            is all memory.
        shares: the blocks of which the closest design here consists.
        differs: further differences between the paper's design and these blocks.
    """

    table: str
    row: str
    columns: dict[str, str]
    shares: tuple[Share, ...]
    differs: str

    @property
    def name(self) -> str:
        """Return the paper's table and row as text, such as "MAP Table VI, DDPG learner"."""
        return f"{published.table(self.table).cells[0].source}, {self.row}"

    @property
    def is_counted(self) -> bool:
        """Return whether Yosys has counted the logic cells of all blocks of the counterpart."""
        return {share.subject for share in self.shares} <= counted.committed().keys()

    def published(self) -> dict[str, float]:
        """Return the paper's numbers by resource, such as "luts"."""
        table = published.table(self.table)
        return {resource: table.value(self.row, column) for resource, column in self.columns.items()}

    def ours(self) -> dict[str, float]:
        """Return the resources of this project's blocks, added up, by the name of the resource, such as "luts"."""
        each = [share.resources() for share in self.shares]
        return {resource: sum(numbers[resource] for numbers in each) for resource in self.columns}

    @property
    def made_of(self) -> str:
        """Return the names of the blocks as text, with their numbers of copies."""
        return " + ".join(map(str, self.shares))


def sram_mb(resources: Resources) -> float:
    """Return the capacity of all memory blocks of a design, in 10^6 bytes."""
    return (resources.ultra_rams * ULTRA_RAM_BYTES + resources.block_rams * BLOCK_RAM_BYTES) / 1e6


def tree_note() -> str:
    """Return a text that says which modules of a large sum tree take its look-up tables and its memories.

    The tree has 5 levels with 16 children per node.
    """
    tree = counted.committed()[TREE]
    whole, front = tree.resources, tree.resources_of("front_end")
    levels = [tree.resources_of(f"level_{number}") for number in range(5)]
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


def counterparts() -> list[Counterpart]:
    """Return the rows of the papers' tables that are compared with blocks of this project, paper by paper."""
    return [item for module in discovery.modules() for item in getattr(module, "COUNTERPARTS", ())]


def rows() -> Iterator[tuple[Counted, list[Counterpart]]]:
    """Yield every block that Yosys counted, each with the papers' table rows that are compared with it.

    A table row that is compared with several blocks is listed with the first of them.
    """
    every = counterparts()
    for name, block in counted.committed().items():
        yield block, [item for item in every if item.shares[0].subject == name]
