"""A component that a design uses often, as a component of its own: an export writes what it holds only once."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from placerl.primitives.fpga.export.platform import shared


class SharedUnit(wiring.Component):
    """Wraps a component, with the same ports, for a design that has several equal ones.

    Args:
        make: makes the component, which has registers, and so a clock. Its name becomes that of the module.
        options: arguments of `make`, integers and booleans, which determine the component.
    """

    def __init__(self, make: Callable[..., wiring.Component], **options: Any):
        self._make, self._options = make, options
        example = make(**options)
        example._MustUse__silence = True  # Amaranth warns of components that are never elaborated
        super().__init__(example.signature)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports, m.submodules.shared = shared(platform, self._make, **self._options)
        wiring.connect(m, wiring.flipped(self), ports)
        return m
