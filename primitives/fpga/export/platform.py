"""The platform for exporting Verilog, with components that are written once however often they are used.

Amaranth elaborates and Yosys converts every use of a component separately: the 256 elements of a 16 x 16 array
took most of the export's time.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import ClockSignal, Instance, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class ExportPlatform:
    """Passed as Amaranth's platform during the export; memories become `placerl_ram`.

    Attributes:
        reset: whether registers have a reset.
        components: components used as instances, by the name of their module; each must be written, too.
    """

    def __init__(self, *, reset: bool = True) -> None:
        self.reset = reset
        self.components: dict[str, Any] = {}


def shared(platform: object, make: Callable[..., wiring.Component], **options: Any) -> tuple[Any, Any]:
    """Return the ports of `make(**options)`, and the submodule to add: the component, or an instance of its
    module.

    Args:
        make: a class of components with a clock.
        options: integers and booleans that determine the component.
    """
    if not isinstance(platform, ExportPlatform):
        component = make(**options)
        return component, component
    name = "_".join([make.__name__, *(f"{key}{int(value)}" for key, value in options.items())])
    if name not in platform.components:
        platform.components[name] = make(**options)
    signature = platform.components[name].signature
    ports = signature.create()
    connections = {
        f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}": value
        for path, member, value in signature.flatten(ports)
    }
    if platform.reset:
        connections["i_rst"] = ResetSignal()
    return ports, Instance(name, i_clk=ClockSignal(), **connections)
