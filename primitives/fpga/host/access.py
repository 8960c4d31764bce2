"""Reads and writes the registers of a simulated design, as its host does."""

from typing import Any

from placerl.primitives.fpga.host.register_map import WORD_BYTES, AxiResponse, RegisterMap
from placerl.primitives.fpga.simulation.base import Simulation

ALL_BYTES = (1 << WORD_BYTES) - 1


class HostAccess:
    """The host's end of a simulated design's AXI4-Lite port. Each access runs the simulation for a few cycles.

    Args:
        simulation: of a design with a port of signature `AxiLite`.
        register_map: the registers at this port.
        port: its name.
    """

    def __init__(self, simulation: Simulation, register_map: RegisterMap, port: str = "s_axil") -> None:
        self.simulation, self.register_map, self.port = simulation, register_map, port

    def write(self, **values: int) -> None:
        """Write registers by name, in this order.

        Raises:
            ValueError: a register has fewer bits than its value, or the value is negative; nothing is written.
            RuntimeError: the design answered with an error.
        """
        for name, value in values.items():
            highest = (1 << self.register_map[name].width) - 1
            if not 0 <= value <= highest:
                raise ValueError(f"register {name}: found {value}; allowed: 0 to {highest:#x}")
        for name, value in values.items():
            response = self.write_address(self.register_map[name].address, value)
            self._check(name, response)

    def read(self, name: str) -> int:
        """Return the value of a register.

        Raises:
            RuntimeError: the design answered with an error.
        """
        value, response = self.read_address(self.register_map[name].address)
        self._check(name, response)
        return value

    def write_address(self, address: int, value: int, strobe: int = ALL_BYTES, **stalls: Any) -> int:
        """Write a word, and return the response; `stalls` are the options `gaps` and `ready` of `Simulation.run`."""
        inputs = {
            f"{self.port}__aw": {"address": [address]},
            f"{self.port}__w": {"data": [value], "strobe": [strobe]},
        }
        run = self.simulation.run(inputs, {f"{self.port}__b": 1}, **stalls)
        return int(run.outputs[f"{self.port}__b"]["response"][0])

    def read_address(self, address: int, **stalls: Any) -> tuple[int, int]:
        """Read a word, and return it and the response; `stalls` as in `write_address`."""
        run = self.simulation.run(
            {f"{self.port}__ar": {"address": [address]}}, {f"{self.port}__r": 1}, **stalls
        )
        answer = run.outputs[f"{self.port}__r"]
        return int(answer["data"][0]), int(answer["response"][0])

    @staticmethod
    def _check(name: str, response: int) -> None:
        if response != AxiResponse.OKAY:
            raise RuntimeError(f"register {name}: the design answered with {AxiResponse(response).name}")
