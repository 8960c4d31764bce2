"""Replay pipeline: MAP's formulas beside simulated cycles, the difference by reason; with --cells, its resources.

make fpga-replay
"""

import argparse

import numpy as np

from primitives.fpga import blocks, resources, toolchain
from primitives.fpga.cycles import replay
from primitives.sum_tree import fpga_backend

# Fanout, capacity, banks: depths 4 to 8, fanouts that are no power of two, capacities that fill no level.
TREES = (
    (4, 4**8, 1),
    (16, 10_000, 1),
    (3, 1000, 1),
    (4, 4**5, 4),
    (5, 2000, 3),
)
BATCH_SIZES = (32, 1000)
COLUMNS = ("form", "K", "depth", "S", "call", "B", "formula", "simulated", "difference")
CELLS = (
    ("replay-pipeline", {"fanout": "16", "levels": "5", "leaf_bits": "32"}),
    ("replay-pipeline", {"fanout": "16", "levels": "4", "leaf_bits": "32"}),
    ("replay-pipeline", {"fanout": "4", "levels": "8", "leaf_bits": "32"}),
    ("replay-pipeline", {"fanout": "16", "levels": "4", "leaf_bits": "32", "form": "narrow"}),
    ("banked-replay-pipeline", {"banks": "4", "fanout": "16", "levels": "3", "leaf_bits": "32"}),
)


def cycle_rows() -> list[list[str]]:
    """One row a form, tree, call and batch size; cycles."""
    rows = []
    for form in fpga_backend.FORMS:
        for fanout, capacity, banks in TREES:
            tree = fpga_backend.create(capacity, fanout, form=form, banks=banks)
            assert isinstance(tree, fpga_backend.FpgaSumTree)
            tree.update(np.arange(capacity), np.ones(capacity))
            for batch_size in BATCH_SIZES:
                rows += _calls(tree, form, batch_size)
    return rows


def _calls(tree: fpga_backend.FpgaSumTree, form: str, batch_size: int) -> list[list[str]]:
    rng = np.random.default_rng(batch_size)
    rows = []
    for call in ("sample", "update"):
        narrow_samples = form == "narrow" and call == "sample"
        interval = replay.interval_cycles(fanout=tree.fanout, narrow_samples=narrow_samples)
        if call == "sample":
            leaves = tree.sample(batch_size, rng)
        else:
            leaves = rng.integers(0, tree.capacity, batch_size)
            tree.update(leaves, np.ones(batch_size))
        loads = np.bincount(leaves // tree.bank_leaves, minlength=tree.banks).tolist()
        # Reads and writes take turns here, so that each batch changes the phase.
        terms = replay.difference_terms(
            tree.last_call_cycles, loads, levels=tree.levels, interval=interval, phase_changed=True
        )
        formula = batch_size / tree.banks * interval
        reasons = ", ".join(f"{name} {value:+g}" for name, value in terms.items() if value)
        numbers = (
            tree.fanout,
            tree.levels,
            tree.banks,
            call,
            batch_size,
            f"{formula:g}",
            tree.last_call_cycles,
        )
        rows.append([form, *map(str, numbers), reasons])
    return rows


def aligned(rows: list[list[str]]) -> str:
    """Rows as text, columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", action="store_true", help="count cells with Yosys too: minutes")
    arguments = parser.parse_args()
    if reason := toolchain.unavailable_reason() or (arguments.cells and resources.unavailable_reason()):
        raise SystemExit(f"not run: {reason}")
    print(
        "Cycles of a batch. formula: MAP VI-A2, B/S x cycles a request (K for samples of the narrow form, else 1),"
    )
    print("modelled; simulated: the RTL in Verilator.")
    print(aligned([list(COLUMNS), *cycle_rows()]))
    if arguments.cells:
        found = {}
        for name, given in CELLS:
            block = blocks.BLOCKS[name]
            label = " ".join([name, *(f"{key}={value}" for key, value in given.items())])
            found[label] = resources.count(block.make(**block.parameters(given)))
        print(
            "\nCells after synthesis by Yosys for UltraScale+. MAP Table VI, published, S=32: 181K LUT, 263K REG,"
        )
        print("4.5 MB SRAM, 1280 DSP.")
        print(resources.table(found))


if __name__ == "__main__":
    main()
