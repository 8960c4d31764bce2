"""The Amaranth platform for exporting Verilog, with which a component that is used often is written only once.

Otherwise Amaranth elaborates and Yosys converts every use of a component separately: the 256 elements of a 16 x 16
array took most of the export's time.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import ClockSignal, Instance, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class ExportPlatform:
    """The platform that is passed to Amaranth during an export; with it, memories become instances of `placerl_ram`.

    Attributes:
        reset: whether registers have a reset.
        components: components that are used as instances of a module, by the module's name. The export must write
            each of these modules, too.
    """

    def __init__(self, *, reset: bool = True) -> None:
        self.reset = reset
        self.components: dict[str, Any] = {}


def shared(platform: object, make: Callable[..., wiring.Component], **options: Any) -> tuple[Any, Any]:
    """Make a component that a design uses often; an export writes its module only once.

    Args:
        platform: the argument `platform` of the design's `elaborate`.
        make: the component's class; the component has registers, and so a clock.
        options: arguments of `make`, integers and booleans, which determine the component.

    Returns:
        The ports of the component, and the submodule to add: the component itself, or with an `ExportPlatform` an
        instance of its module.
    """
    if not isinstance(platform, ExportPlatform):
        component = make(**options)
        return component, component
    name = "_".join([make.__name__.strip("_"), *(f"{key}{int(value)}" for key, value in options.items())])
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
