"""Cycles of the pieces of an iteration that PPO's accelerator runs between transfers to and from the host (PPO 3).

The host computes advantages and the objective, so a mini-batch takes two runs of the accelerator: the forward pass,
whose outputs go to the host, and the rest, after the gradients of the outputs have come back. Each network has a
compute unit, and both work at the same time. Another design, or another model of one, takes the place of
`DesignSteps` by having the methods of `Propagation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from placerl.primitives.fpga.cycles.ppo_accelerator import run_cycles, update_rows
from placerl.primitives.fpga.gemm.plan import DATAFLOWS
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram


class Propagation(Protocol):
    """The cycles of an accelerator's runs."""

    def forward_cycles(self, batch: int) -> int:
        """Return the cycles of the forward pass of all networks."""

    def training_cycles(self, batch: int) -> int:
        """Return the cycles from the gradients of the outputs to the new weights of all networks."""


@dataclass(frozen=True)
class DesignSteps:
    """The runs of this project's float32 accelerator for two networks (`fpga.ppo_accelerator`), without transfers.

    Each process of each batch has the dataflow with the fewest cycles. The cycles are the closed form that its tests
    compare with the RTL; a network that waits for the other one's rows at Adam waits for all of them.

    Attributes:
        programs: the programs of the networks; their batch and dataflows are replaced.
        activation: the function after hidden layers, "tanh" or "relu".
    """

    programs: tuple[NetworkProgram, ...]
    activation: str

    def forward_cycles(self, batch: int) -> int:
        """Return the cycles of the forward pass of the network that takes longest."""
        return max(self._fewest(program, batch, ("FW",)) for program in self.programs)

    def training_cycles(self, batch: int) -> int:
        """Return the cycles of the backward and weight steps, with Adam, of the network that takes longest."""
        sized = [replace(program, batch=batch) for program in self.programs]
        return max(
            self._fewest(program, batch, ("BW", "WU"))
            + sum(
                (1 + other.clips) * update_rows(other, self.activation)
                for other in sized
                if other is not program
            )
            for program in sized
        )

    def _fewest(self, program: NetworkProgram, batch: int, processes: Sequence[str]) -> int:
        return sum(
            min(self._process(program, batch, process, dataflow) for dataflow in DATAFLOWS)
            for process in processes
        )

    def _process(self, program: NetworkProgram, batch: int, process: str, dataflow: str) -> int:
        sized = replace(program, batch=batch, dataflows=(dataflow,) * 3)
        applied = sized.updates(0) if sized.clips else ()
        steps = [step for step in (*sized.forward, *sized.training(0), *applied) if step.process == process]
        return run_cycles(steps, sized, self.activation)
