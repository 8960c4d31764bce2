"""The host of a simulated accelerator: loads networks and programs, runs steps, and reads weights back.

host = SimulatedAccelerator(sizes)
host.load(0, program, weights)
host.write_inputs(0, program, inputs)
outputs, cycles = host.forward(0)  # [z_L, (n_L, M)], and the cycles by network
host.write_deltas(0, program, deltas)
cycles = host.train(0, learning_rates=[3e-4], step=1)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.matrix_rows import row_places
from placerl.primitives.fpga.gemm.plan import padded
from placerl.primitives.fpga.host import float_word
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.accelerator import AcceleratorSizes, HostMemory, PpoAccelerator
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import clip_scale
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.gemm.float_golden import Floats, floats
from tests.primitives.fpga.interpreter import Start
from tests.primitives.fpga.ppo_accelerator.golden import with_ones

Run = tuple[int, int]
"""A run of a network's program: its first step, and the number of steps."""


def row_items(matrix: Floats, side: int, base: int) -> dict[str, NDArray[Any]]:
    """Return the rows of a matrix as it is stored: arrays `block`, `row` and `words`.

    Args:
        matrix: any float32 matrix; it is padded with zeros to whole blocks.
        side: P.
        base: its first block.
    """
    whole = padded(np.ascontiguousarray(matrix, np.float32).view(np.uint32), side)
    places = row_places(len(whole), whole.shape[1] // side, side=side, base=base)
    return {**places, "words": whole.reshape(-1, side)}


class SimulatedAccelerator:
    """A simulated accelerator, and the host that uses it.

    Args:
        sizes: of the accelerator.
        start: starts a simulation of a design.
        design: the accelerator; by default a `PpoAccelerator`.
    """

    def __init__(
        self,
        sizes: AcceleratorSizes,
        *,
        start: Start = simulation.compiled,
        design: Any = None,
    ):
        self.sizes = sizes
        self.simulation = start(design or PpoAccelerator(sizes))
        self._programs: dict[int, NetworkProgram] = {}

    def load(self, network: int, program: NetworkProgram, weights: Sequence[Floats]) -> None:
        """Load a network's steps and weights, and set Adam's moments to 0.

        Args:
            network: 0 or 1.
            program: its sizes and dataflows.
            weights: W_1 to W_L with biases, float32.
        """
        self.restep(network, program)
        for layer, matrix in zip(program.layers, weights, strict=True):
            base = program.weight_base(layer)
            self._write(network, HostMemory.WEIGHTS, matrix, base)
            for memory in (HostMemory.MEANS, HostMemory.SQUARES):
                self._write(network, memory, np.zeros_like(matrix), base)

    def restep(self, network: int, program: NetworkProgram) -> None:
        """Load a network's steps, such as those for another number of samples; its weights and moments stay."""
        self._programs[network] = program
        deltas = self.sizes.activation_blocks
        applied = program.updates(deltas) if self.sizes.clips else ()
        steps = (*program.forward, *program.training(deltas), *applied)
        self._store(network, [step.fields for step in steps])

    def write_inputs(self, unit: int, program: NetworkProgram, inputs: Floats) -> None:
        """Write samples, (n_0, M), to a unit's activations."""
        self._write(unit, HostMemory.ACTIVATIONS, with_ones(inputs), program.activation_base(0))

    def write_deltas(self, unit: int, program: NetworkProgram, deltas: Floats) -> None:
        """Write d_L, (n_L, M), to a unit's deltas: the gradient of the loss, which the host computes."""
        base = program.delta_base(len(program.sizes) - 1)
        self._write(unit, HostMemory.DELTAS, deltas, base)

    def forward(self, *networks: int, shared: bool = False) -> tuple[list[Floats], dict[int, int]]:
        """Run forward passes of networks at the same time.

        Args:
            networks: 0, 1 or both.
            shared: whether both units work for the only network.

        Returns:
            z_L, (n_L, M), of each unit that works, and the cycles of each network.
        """
        units = (0, 1) if shared else networks
        runs = {network: (0, len(self._programs[network].forward)) for network in networks}
        program = {unit: self._programs[networks[0] if shared else unit] for unit in units}
        wanted = {unit: each.sizes[-1] * each.batch_blocks for unit, each in program.items()}
        rows, cycles = self._run(runs, shared, wanted)
        return [_output(rows[unit], program[unit]) for unit in units], cycles

    def train(
        self,
        *networks: int,
        learning_rates: Sequence[float],
        step: int,
        shared: bool = False,
        clip: float | None = None,
    ) -> dict[int, int]:
        """Run the backward passes and the weight updates of networks at the same time; returns their cycles.

        Args:
            networks: 0, 1 or both.
            learning_rates: Adam's step size of each.
            step: the number of the update, from 1 on, for Adam's corrections.
            shared: whether both units work for the only network.
            clip: the norm that gradients are clipped to; the products of the gradients are then computed twice.
        """
        runs = {}
        for network, learning_rate in zip(networks, learning_rates, strict=True):
            program = self._programs[network]
            runs[network] = (len(program.forward), len(program.training(0)))
            for name, value in zip(("rate", "root"), corrections(learning_rate, step), strict=True):
                self._set(f"{name}_{network}", float_word(value))
        if clip is None:
            return self._run(runs, shared, {})[1]
        self._measure(networks)
        measured = self._run(runs, shared, {})[1]
        self._measure(())
        for network, (first, count) in runs.items():
            self._set(f"scale_{network}", float_word(clip_scale(self.norm_parts(network), clip)))
            runs[network] = (first + count, len(self._programs[network].updates(0)))
        applied = self._run(runs, shared, {})[1]
        return {network: measured[network] + applied[network] for network in networks}

    def norm_parts(self, network: int) -> list[float]:
        """Return the partial sums of the squares of a network's gradients, after they were measured."""
        words: Any = self.simulation.read(f"parts_{network}")
        return floats(words).tolist()

    def _measure(self, networks: Sequence[int]) -> None:
        """Let the runs of some networks measure their gradients."""
        for k in range(2):
            self._set(f"measures_{k}", int(k in networks))

    def weights(self, network: int) -> list[Floats]:
        """Return W_1 to W_L of a network."""
        found, program = [], self._programs[network]
        for layer in program.layers:
            rows, pitch = program.weight_size(layer)
            blocks = program.weight_base(layer) + np.arange(rows * pitch)
            words = self._read(network, blocks).reshape(rows, pitch, program.side, program.side)
            matrix = words.transpose(0, 2, 1, 3).reshape(rows * program.side, -1)
            found.append(matrix[: program.sizes[layer], : program.sizes[layer - 1] + 1])
        return found

    def _store(self, network: int, steps: Sequence[dict[str, Any]]) -> None:
        items = [{"network": network, "index": index, "step": step} for index, step in enumerate(steps)]
        self.simulation.run({"program": columns(items)}, {})

    def _write(self, owner: int, memory: Any, matrix: Floats, base: int) -> None:
        items = row_items(matrix, self.sizes.side, base)
        count = len(items["row"])
        fixed = {"owner": np.full(count, owner), "memory": np.full(count, memory.value)}
        self.simulation.run({"writes": {**fixed, **items}}, {})

    def _read(self, network: int, blocks: NDArray[Any]) -> Floats:
        """Return the rows of blocks of weights, (blocks x P, P)."""
        side = self.sizes.side
        count = len(blocks) * side
        reads = {
            "owner": np.full(count, network),
            "block": np.repeat(blocks, side),
            "row": np.tile(np.arange(side), len(blocks)),
        }
        return floats(self.simulation.run({"reads": reads}, {"rows": count}).outputs["rows"])

    def _run(
        self, runs: dict[int, Run], shared: bool, rows: dict[int, int]
    ) -> tuple[dict[int, Floats], dict[int, int]]:
        """Run steps of networks.

        Args:
            runs: first step and number of steps, by network.
            shared: whether they are on both units.
            rows: number of rows that come out, by unit.

        Returns:
            The rows, (n, P), by unit, and the cycles by network.
        """
        inputs = {
            f"runs_{network}": columns([{"first": first, "count": count, "shared": int(shared)}])
            for network, (first, count) in runs.items()
        }
        wanted: dict[str | tuple[str, ...], int] = {f"finished_{network}": 1 for network in runs}
        wanted.update({f"outputs_{unit}": count for unit, count in rows.items()})
        outputs = self.simulation.run(inputs, wanted).outputs
        found = {unit: floats(outputs[f"outputs_{unit}"]["words"]) for unit in rows}
        return found, {network: int(outputs[f"finished_{network}"][0]) for network in runs}

    def _set(self, name: str, word: int) -> None:
        self.simulation.write(name, word)


def _output(rows: Floats, program: NetworkProgram) -> Floats:
    """Return z_L, (n_L, M), from its rows as they come out: block by block, without rows that do not exist."""
    side, size, columns_ = program.side, program.sizes[-1], program.batch_blocks
    parts, at = [], 0
    for first in range(0, size, side):
        count = min(side, size - first)
        block_row = rows[at : at + count * columns_].reshape(columns_, count, side)
        parts.append(block_row.transpose(1, 0, 2).reshape(count, -1))
        at += count * columns_
    return np.concatenate(parts)[:, : program.batch]
