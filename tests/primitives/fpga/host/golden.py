"""The golden model of a register file: what reads and writes do, one after the other."""

from fractions import Fraction

from placerl.primitives.fpga.host.register_map import WORD_BYTES, AxiResponse, Register, RegisterMap


class GoldenRegisters:
    """The registers of a map as the host sees them; the design's side is `inputs`, `outputs` and `raise_events`.

    Args:
        register_map: the registers.

    Attributes:
        inputs: the values that the design drives, by the name of each "ro" register.
        outputs: the values of "rw" and "w1c" registers, by name.
        pulses: the bits that the last write to each "pulse" register has set, by name.
    """

    def __init__(self, register_map: RegisterMap) -> None:
        self._at = {register.address: register for register in register_map.registers}
        registers = register_map.registers
        self.inputs = {register.name: 0 for register in registers if register.access == "ro"}
        self.outputs = {
            register.name: register.reset for register in registers if register.access in ("rw", "w1c")
        }
        self.pulses = {register.name: 0 for register in registers if register.access == "pulse"}

    def raise_events(self, name: str, bits: int) -> None:
        """Set flags of a "w1c" register."""
        self.outputs[name] |= bits

    def read(self, address: int) -> tuple[int, AxiResponse]:
        """Return the data and the response of a read at a byte address."""
        register = self._register(address)
        if register is None:
            return 0, AxiResponse.SLVERR
        if register.access == "ro":
            return self.inputs[register.name], AxiResponse.OKAY
        return self.outputs.get(register.name, 0), AxiResponse.OKAY

    def write(self, address: int, data: int, strobe: int = 0xF) -> AxiResponse:
        """Write the bytes of `data` that `strobe` selects, and return the response."""
        register = self._register(address)
        if register is None or register.access == "ro":
            return AxiResponse.SLVERR
        written = sum(0xFF << 8 * byte for byte in range(WORD_BYTES) if strobe >> byte & 1)
        written &= (1 << register.width) - 1
        if register.access == "pulse":
            self.pulses[register.name] = data & written
        elif register.access == "w1c":
            self.outputs[register.name] &= ~(data & written)
        else:
            self.outputs[register.name] = self.outputs[register.name] & ~written | data & written
        return AxiResponse.OKAY

    def _register(self, address: int) -> Register | None:
        return self._at.get(address // WORD_BYTES * WORD_BYTES)


def delivery_cycle(word: int, latency_cycles: int, words_per_cycle: Fraction | int = 1) -> int:
    """Return the cycle in which a link delivers a word of a burst that is offered from cycle 0 on, without stalls.

    latency + ceil(word / rate). The words of a burst of N take `delivery_cycle(N - 1, ...) + 1` cycles.

    Args:
        word: position of the word in the burst, from 0.
        latency_cycles: from taking a word to delivering it.
        words_per_cycle: the link's rate, at most 1.
    """
    return latency_cycles - (-word // Fraction(words_per_cycle))
