"""Verilator's lint of exported Verilog: every warning that it has, but for those that `lint.vlt` waives with a reason.

python -m primitives.fpga.lint [BLOCK [PARAMETER=VALUE ...]]: one block of `placerl rtl`, or all with their defaults
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from primitives.fpga.simulation.verilator_build import verilator_program

WAIVERS = Path(__file__).with_name("lint.vlt")
UNUSED = {
    r"halves": "elements of one activation a word have the port of the configurable ones, and leave it",
    r"updated_\d+__ready": "new weights must be taken at once",
    r".*\$\d+": "Yosys numbers registers of one name: the copies that a pipeline carries on behind their last reader",
}
"""Inputs and registers of which bits may be not used, and why."""
_UNUSED = re.compile(
    r"^%Warning-UNUSEDSIGNAL: [^:]*:(\d+):\d+: (?:Signal is|Bits of signal are) not used: '([^']*)'"
)


def warnings(text: str, top: str = "top") -> list[str]:
    """What `verilator --lint-only -Wall` says of a Verilog text, a line each; empty when it is clean.

    Args:
        text: self-contained Verilog.
        top: its top-level module.

    Raises:
        RuntimeError: Verilator ended without a result.
    """
    unused = [line for line in _lint(text, top, []) if _is_read_by_name(line, text)]
    return _lint(text, top, [str(WAIVERS)]) + unused


def _is_read_by_name(line: str, text: str) -> bool:
    """Whether a line says that an input or a register is not used: names of other signals are for waveforms alone."""
    found = _UNUSED.match(line)
    if not found:
        return False
    kind = text.splitlines()[int(found.group(1)) - 1].split()[0]
    return kind in ("input", "reg") and not any(re.fullmatch(name, found.group(2)) for name in UNUSED)


def _lint(text: str, top: str, waivers: list[str]) -> list[str]:
    program, environment = verilator_program()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{top}.v").write_text(text)
        done = subprocess.run(
            [program, "--lint-only", "-Wall", "-Wno-fatal", *waivers, "--top-module", top, f"{top}.v"],
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
    """Prints what is left of warnings; the exit status says whether there are any."""
    from primitives.fpga import verilog
    from primitives.fpga.blocks import BLOCKS

    given = dict(pair.split("=", 1) for pair in arguments[1:])
    left = 0
    for name in arguments[:1] or BLOCKS:
        block = BLOCKS[name]
        found = warnings(verilog.export(block.make(**block.parameters(given))))
        left += len(found)
        print(f"{name}: {len(found)} warnings", *found, sep="\n  ", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
