"""The host of a simulated accelerator: loads networks and programs, runs steps, and reads weights back.

host = SimulatedAccelerator(sizes)
host.load(0, program, weights)
host.write_inputs(0, program, inputs)
outputs = host.forward(0)            # z_L, (n_L, M)
host.write_deltas(0, program, deltas)
host.train(0, learning_rate=3e-4, step=1)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from primitives.fpga import simulation
from primitives.fpga.gemm.float_golden import Floats
from primitives.fpga.gemm.plan import padded
from primitives.fpga.learner_pipeline.update_unit import corrections
from primitives.fpga.ppo_accelerator.accelerator import AcceleratorSizes, HostMemory, PpoAccelerator
from primitives.fpga.ppo_accelerator.golden import with_ones
from primitives.fpga.ppo_accelerator.program import NetworkProgram
from primitives.fpga.simulation.ports import columns


def float_word(number: float) -> int:
    """Return the 32 bits of a number in float32."""
    return int(np.float32(number).view(np.uint32))


def row_items(matrix: Floats, side: int, base: int) -> dict[str, NDArray[Any]]:
    """Return the rows of a matrix as it is stored: arrays `block`, `row` and `words`.

    Args:
        matrix: any float32 matrix; it is padded with zeros to whole blocks.
        side: P.
        base: its first block.
    """
    bits = np.ascontiguousarray(matrix, np.float32).view(np.uint32).astype(np.int64)
    whole = padded(bits, side)
    pitch = whole.shape[1] // side
    row, column = np.divmod(np.arange(whole.shape[0] * pitch), pitch)
    return {
        "block": base + row // side * pitch + column,
        "row": row % side,
        "words": whole.reshape(-1, side),
    }


class SimulatedAccelerator:
    """A simulated accelerator, and the host that uses it.

    Args:
        sizes: of the accelerator.
        engine: `compiled` (Verilator) or `interpreted` (Amaranth's own simulator, for tiny ones).
    """

    def __init__(self, sizes: AcceleratorSizes, *, engine: str = "compiled"):
        self.sizes = sizes
        self.simulation = simulation.engine(engine)(PpoAccelerator(sizes))
        self._programs: dict[int, NetworkProgram] = {}

    def load(self, network: int, program: NetworkProgram, weights: Sequence[Floats]) -> None:
        """Load a network's steps and weights, and set Adam's moments to 0.

        Args:
            network: 0 or 1.
            program: its sizes and dataflows.
            weights: W_1 to W_L with biases, float32.
        """
        self._programs[network] = program
        steps = (*program.forward, *program.training(self.sizes.activation_blocks))
        items = [
            {"network": network, "index": index, "step": step.fields} for index, step in enumerate(steps)
        ]
        self.simulation.run({"program": columns(items)}, {})
        for layer, matrix in zip(program.layers, weights, strict=True):
            base = program.weight_base(layer)
            self._write(network, HostMemory.WEIGHTS, matrix, base)
            for memory in (HostMemory.MEANS, HostMemory.SQUARES):
                self._write(network, memory, np.zeros_like(matrix), base)

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
        wanted = {f"outputs_{unit}": program[unit].sizes[-1] * program[unit].batch_blocks for unit in units}
        found = self._run(runs, shared, wanted)
        outputs = [self._output(found.outputs[f"outputs_{unit}"], program[unit]) for unit in units]
        return outputs, self._cycles(found, networks)

    def train(
        self, *networks: int, learning_rates: Sequence[float], step: int, shared: bool = False
    ) -> dict[int, int]:
        """Run the backward passes and the weight updates of networks at the same time; returns their cycles.

        Args:
            networks: 0, 1 or both.
            learning_rates: Adam's step size of each.
            step: the number of the update, from 1 on, for Adam's corrections.
            shared: whether both units work for the only network.
        """
        runs = {}
        for network, learning_rate in zip(networks, learning_rates, strict=True):
            program = self._programs[network]
            runs[network] = (len(program.forward), len(program.training(0)))
            for name, value in zip(("rate", "root"), corrections(learning_rate, step), strict=True):
                self.simulation.write(f"{name}_{network}", float_word(value))
        return self._cycles(self._run(runs, shared, {}), networks)

    def weights(self, network: int) -> list[Floats]:
        """Return W_1 to W_L of a network."""
        found, program = [], self._programs[network]
        for layer in program.layers:
            rows, pitch = program.weight_size(layer)
            shape = (program.sizes[layer], program.sizes[layer - 1] + 1)
            items = row_items(
                np.zeros((rows * program.side, pitch * program.side), np.float32),
                program.side,
                program.weight_base(layer),
            )
            reads = {
                "owner": np.full(len(items["row"]), network),
                "block": items["block"],
                "row": items["row"],
            }
            run = self.simulation.run({"reads": reads}, {"rows": len(items["row"])})
            words = run.outputs["rows"].reshape(rows * program.side, pitch * program.side)
            found.append(words.astype(np.uint32).view(np.float32)[: shape[0], : shape[1]])
        return found

    def _write(self, owner: int, memory: Any, matrix: Floats, base: int) -> None:
        items = row_items(matrix, self.sizes.side, base)
        count = len(items["row"])
        fixed = {"owner": np.full(count, owner), "memory": np.full(count, memory.value)}
        self.simulation.run({"writes": {**fixed, **items}}, {})

    def _run(self, runs: dict[int, tuple[int, int]], shared: bool, wanted: dict[str, int]) -> Any:
        inputs = {
            f"runs_{network}": columns([{"first": first, "count": count, "shared": int(shared)}])
            for network, (first, count) in runs.items()
        }
        expected: dict[str | tuple[str, ...], int] = {f"finished_{network}": 1 for network in runs}
        expected.update(wanted.items())
        return self.simulation.run(inputs, expected)

    @staticmethod
    def _cycles(found: Any, networks: Sequence[int]) -> dict[int, int]:
        return {network: int(found.outputs[f"finished_{network}"][0]) for network in networks}

    def _output(self, rows: dict[str, Any], program: NetworkProgram) -> Floats:
        side, columns_ = program.side, program.batch_blocks
        z = np.zeros((program.sizes[-1], columns_ * side), np.float32)
        for block, row, words in zip(rows["block"], rows["row"], rows["words"], strict=True):
            at = block // columns_ * side + row, block % columns_ * side
            z[at[0], at[1] : at[1] + side] = words.astype(np.uint32).view(np.float32)
        return z[:, : program.batch]


def sizes_for(*programs: NetworkProgram, **options: Any) -> AcceleratorSizes:
    """Return the sizes of an accelerator that holds these networks.

    Args:
        programs: of networks with the same side.
        options: other attributes of `AcceleratorSizes`, such as `relu`.
    """
    return AcceleratorSizes(
        side=programs[0].side,
        weight_blocks=max(p.weight_base(len(p.sizes)) for p in programs),
        activation_blocks=max(p.activation_base(len(p.sizes) - 1) for p in programs),
        delta_blocks=max(p.delta_base(len(p.sizes)) for p in programs),
        result_blocks=max(p.result_blocks for p in programs),
        **options,
    )
