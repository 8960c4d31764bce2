"""T_comm of PPO's performance model (PPO 4, Equations 7 to 9): transfers over PCIe, and streaming from external memory.

A bulk transfer takes volume / bandwidth + overhead. The host waits for each of its transfers: observations there and
outputs back, and for a mini-batch also the gradients of the outputs. External memory is double-buffered: while one
product is computed, the operands of the next one come and the results of the last one go, so that a product takes the
longer of its own cycles and those of its words, which is PPO's scaling by required over actual bandwidth. Windows of
convolutions are built on the chip (`fpga.convolution`), so each map is moved once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from placerl.primitives.fpga.cycles.networks import GemmLayer


@dataclass(frozen=True)
class Channel:
    """A path between the accelerator and the host, or external memory.

    Attributes:
        bytes_per_cycle: bandwidth in bytes per cycle of the accelerator's clock; by default transfers take no time.
        overhead_cycles: cycles before the first byte of each bulk transfer.
    """

    bytes_per_cycle: float = inf
    overhead_cycles: int = 0

    @classmethod
    def at_clock(cls, bytes_per_s: float, overhead_s: float, clock_hz: float) -> "Channel":
        """Return a channel from its bandwidth and overhead in real time."""
        return cls(bytes_per_s / clock_hz, ceil(overhead_s * clock_hz))

    def transfer_cycles(self, moved_bytes: int) -> int:
        """Return the cycles of a bulk transfer."""
        return self.overhead_cycles + ceil(moved_bytes / self.bytes_per_cycle)


@dataclass(frozen=True)
class Communication:
    """The transfers of PPO's accelerator.

    Attributes:
        host: the link to the host.
        memory: external memory, with activations and gradients; None if all of them are on the chip.
        word_bytes: bytes of a number.
    """

    host: Channel = Channel()
    memory: Channel | None = None
    word_bytes: int = 4

    def inference_cycles(self, layers: Sequence[GemmLayer], agents: int) -> int:
        """Return the cycles of the transfers of one inference: observations, and the outputs back."""
        return sum(map(self.host.transfer_cycles, self._host_bytes(layers, agents)))

    def minibatch_cycles(self, layers: Sequence[GemmLayer], minibatch: int) -> int:
        """Return the cycles of the transfers of one mini-batch: observations, the outputs back, and their gradients."""
        observations, outputs = self._host_bytes(layers, minibatch)
        return sum(map(self.host.transfer_cycles, (observations, outputs, outputs)))

    def product_cycles(self, cycles: int, words: int) -> int:
        """Return the cycles of a product with its words from and to external memory.

        Args:
            cycles: those of the product alone.
            words: numbers that are read and written (`moved_words`).
        """
        if self.memory is None:
            return cycles
        streamed = ceil(self.word_bytes * words / self.memory.bytes_per_cycle)
        return self.memory.overhead_cycles + max(cycles, streamed)

    def _host_bytes(self, layers: Sequence[GemmLayer], samples: int) -> tuple[int, int]:
        """Return the bytes of observations, and of outputs: the policy's and a value."""
        first, last = layers[0], layers[-1]
        observation = first.inputs * first.in_size[0] * first.in_size[1]
        return self.word_bytes * samples * observation, self.word_bytes * samples * (last.outputs + 1)


UNCOUNTED = Communication()
"""Transfers that take no time, with all data on the chip."""


def moved_words(layers: Sequence[GemmLayer], process: str, batch: int) -> list[int]:
    """Return the numbers that each product of a process moves from and to external memory, as `ppo.shapes` orders them.

    FW reads a layer's input maps and writes its output maps. BW reads the gradients of the outputs and the inputs,
    whose activation function it derives, and writes the gradients of the inputs. WU reads both. Weights are on chip.

    Args:
        process: "FW" (forward), "BW" (backward, last layer first, without the first layer) or "WU" (gradients of the
            weights).
    """
    outputs = [batch * layer.outputs * layer.out_size[0] * layer.out_size[1] for layer in layers]
    inputs = [batch * layer.inputs * layer.in_size[0] * layer.in_size[1] for layer in layers]
    if process == "BW":
        return [back + 2 * forth for back, forth in zip(outputs[:0:-1], inputs[:0:-1], strict=True)]
    return [forth + back for forth, back in zip(inputs, outputs, strict=True)]
