"""The host of a simulated accelerator with its host interface: it uses registers and streams only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.host import HostAccess
from placerl.primitives.fpga.ppo_accelerator.accelerator import AcceleratorSizes
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS
from placerl.primitives.fpga.ppo_accelerator.host_registers import registers
from placerl.primitives.fpga.ppo_accelerator.step import Step
from placerl.primitives.fpga.ppo_accelerator.top import PpoAcceleratorTop
from placerl.primitives.fpga.simulation.ports import columns, pack
from tests.primitives.fpga.gemm.float_golden import Floats, floats
from tests.primitives.fpga.interpreter import Start
from tests.primitives.fpga.ppo_accelerator.simulation import Run, SimulatedAccelerator, row_items


class HostedAccelerator(SimulatedAccelerator):
    """A simulated accelerator with its host interface, used as a host uses it: by registers and streams.

    Args:
        sizes: of the accelerator.
        start: starts a simulation of a design.

    Attributes:
        ready: in which cycles the host takes rows of outputs and weights: a pattern, repeated.
    """

    def __init__(self, sizes: AcceleratorSizes, *, start: Start = simulation.compiled):
        super().__init__(sizes, start=start, design=PpoAcceleratorTop(sizes))
        self.registers = HostAccess(self.simulation, registers(clips=sizes.clips))
        self.ready: Sequence[bool] = [True]

    def _store(self, network: int, steps: Sequence[dict[str, Any]]) -> None:
        for index, step in enumerate(steps):
            words = pack(Step, columns([step]))[0]
            values = {f"step_word_{n}": int(word) for n, word in enumerate(words)}
            self.registers.write(**values, store_step=index | network << 16 | 1 << 17)

    def _write(self, owner: int, memory: Any, matrix: Floats, base: int) -> None:
        items = row_items(matrix, self.sizes.side, base)
        header = np.zeros((1, self.sizes.side), np.int64)
        header[0, 0] = owner | memory.value << 1 | base << 16
        # Rows are sent in the order of their places.
        order = np.lexsort((items["row"], items["block"]))
        beats = np.concatenate([header, items["words"][order]])
        last = np.zeros(len(beats), np.int64)
        last[-1] = 1
        self.simulation.run({"s_axis_rows": {"data": _beats(beats), "last": last}}, {})

    def _read(self, network: int, blocks: NDArray[Any]) -> Floats:
        found = []
        for block in blocks:
            self.registers.write(read_weights=int(block) | network << 16 | 1 << 17)
            rows = self._taken({"m_axis_weights": self.sizes.side})["m_axis_weights"]
            found.append(_words(rows["data"], self.sizes.side))
        return floats(np.concatenate(found))

    def _run(
        self, runs: dict[int, Run], shared: bool, rows: dict[int, int]
    ) -> tuple[dict[int, Floats], dict[int, int]]:
        begins = sum((1 << network) | (int(shared) << 2 + network) for network in runs)
        steps = {f"steps_{network}": first | count << 8 for network, (first, count) in runs.items()}
        self.registers.write(events=1, runs=begins, **steps, control=1)
        found = {}
        if rows:
            outputs = self._taken({f"m_axis_outputs_{unit}": count for unit, count in rows.items()})
            for unit in rows:
                sent = outputs[f"m_axis_outputs_{unit}"]
                assert sent["last"].tolist() == [0] * (rows[unit] - 1) + [1], (
                    "the packet ends with its last row"
                )
                found[unit] = floats(_words(sent["data"], self.sizes.side))
        while not self.registers.read("events") & 1:
            self.simulation.step(100)
        return found, {network: self.registers.read(f"cycles_{network}") for network in runs}

    def norm_parts(self, network: int) -> list[float]:
        """Return the partial sums of the squares of a network's gradients, after they were measured."""
        words = [self.registers.read(f"square_{network}_{part}") for part in range(PARTS)]
        return floats(words).tolist()

    def _measure(self, networks: Sequence[int]) -> None:
        self.registers.write(measures=sum(1 << network for network in networks))

    def _taken(self, wanted: dict[str, int]) -> dict[str, Any]:
        """Return the transfers of streams, of which the number is given, to a host that is ready as `ready` says."""
        ready = dict.fromkeys(wanted, self.ready)
        return self.simulation.run({}, dict(wanted.items()), ready=ready).outputs

    def _set(self, name: str, word: int) -> None:
        self.registers.write(**{name: word})


def _beats(words: NDArray[Any]) -> NDArray[Any]:
    """Return rows of 32-bit words, (n, P), as a stream's numbers: (n,) up to 64 bits, words beyond."""
    if words.shape[1] > 2:
        return words
    return words[:, 0].astype(np.uint64) | words[:, 1].astype(np.uint64) << np.uint64(32)


def _words(numbers: NDArray[Any], side: int) -> NDArray[Any]:
    """Return a stream's numbers as rows of 32-bit words, (n, P): the inverse of `_beats`."""
    if side > 2:
        return numbers
    wide = numbers.astype(np.uint64)
    return np.stack([wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)], axis=1)
