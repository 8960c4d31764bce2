"""The files that are exported next to a block's Verilog: its bench, its FuseSoC core, and its registers."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives.fpga.bench.core_file import Board, core_file
from placerl.primitives.fpga.bench.stimuli import Stimuli

HERE = Path(__file__).parent
LINT = HERE.parent / "tools" / "lint.vlt"

Bench = Callable[[Any, str], dict[str, str]]
"""Returns the files of a bench by name, `test_MODULE.py` among them, from a block and its module's name."""


def recorded(stimuli: Callable[[Any], Stimuli]) -> Bench:
    """Return the bench that replays a record of a simulation with these stimuli (`cocotb_bench`)."""

    def files(design: Any, module: str) -> dict[str, str]:
        from placerl.primitives.fpga.bench.recorder import record

        return {
            f"test_{module}.py": (HERE / "cocotb_bench.py").read_text(),
            f"{module}_vectors.json": record(design, stimuli(design)),
        }

    return files


def companions(
    design: Any, module: str, description: str, bench: Bench | None, board: Board | None = None
) -> dict[str, str]:
    """Return the files that belong to a block's Verilog, by name.

    Args:
        design: the block, not yet elaborated. A block with registers has them as its attribute `register_map`.
        module: the name of its module in Verilog.
        description: a line.
        bench: makes the bench's files; None if there shall be none.
        board: on which the block runs, if there is one.
    """
    from placerl.primitives.fpga.host.register_texts import c_header, markdown

    files = {"lint.vlt": LINT.read_text()}
    if register_map := getattr(design, "register_map", None):
        files[f"{module}_registers.h"] = c_header(register_map)
        files[f"{module}_registers.md"] = markdown(register_map)
    if bench is not None:
        files["cocotb_status.py"] = (HERE / "cocotb_status.py").read_text()
        files |= bench(design, module)
    if board is not None:
        files |= board.files
    files[f"{module}.core"] = core_file(module, description, version("placerl"), sorted(files), board)
    return files
