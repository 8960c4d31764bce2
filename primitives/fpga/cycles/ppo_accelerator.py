"""Cycles of PPO's accelerator (`fpga.ppo_accelerator`): of each step, and of a network's forward pass and training.

A step computes a product, then moves its rows, one per cycle, then waits until the last one is written. Exact for
one network; `tests/primitives/fpga/ppo_accelerator` compares them with the RTL. When both networks train, their
rows take turns at Adam, which adds at most `update_rows` of the other network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from primitives.fpga.cycles import gemm_float32
from primitives.fpga.cycles.ppo import PpoIteration
from primitives.fpga.gemm.arithmetic import FLOAT32
from primitives.fpga.gemm.plan import GemmShape
from primitives.fpga.ppo_accelerator.program import LayerStep, NetworkProgram

STEP_CYCLES = 7
"""Beyond product, rows and wait: fetching and starting the step, the first request, and noticing each end."""
WAITS = {
    "tanh": {"OUTPUT": 1, "ACTIVATE": 47, "DERIVE": 10, "UPDATE": 103},
    "relu": {"OUTPUT": 1, "ACTIVATE": 2, "DERIVE": 3, "UPDATE": 103},
}
"""Cycles from the last row's request until it is written, by activation function and kind of step."""


def occupied_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles from a product's first operand in the array until the array is empty.

    Args:
        shape: sizes of the product.
        side: P, rows and columns of the array.
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
    """
    # The array counts as empty after a column's total, also in NS, where there is none.
    total = FLOAT32.total_cycles if dataflow == "NS" else 0
    return gemm_float32.core_cycles(shape, side=side, dataflow=dataflow) + total + 1


def rows(step: LayerStep, *, side: int) -> int:
    """Return the rows of P words that a step moves.

    Args:
        step: the step.
        side: P.
    """
    return step.row_blocks * step.column_blocks * side


def step_cycles(step: LayerStep, program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles of a step.

    Args:
        step: a step of the program.
        program: the network's program.
        activation: "tanh" or "relu".
    """
    side = program.side
    product = occupied_cycles(step.shape, side=side, dataflow=program.dataflow(step.process))
    return product + rows(step, side=side) + WAITS[activation][step.kind] + STEP_CYCLES


def run_cycles(steps: Sequence[LayerStep], program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles of consecutive steps of one network.

    Args:
        steps: steps of the program, such as `program.forward`.
        program: the network's program.
        activation: "tanh" or "relu".
    """
    return sum(step_cycles(step, program, activation) for step in steps)


def update_rows(program: NetworkProgram, activation: str = "tanh") -> int:
    """Return the cycles for which a network's updates of one mini-batch hold Adam.

    Args:
        program: the network's program.
        activation: "tanh" or "relu".
    """
    wait = WAITS[activation]["UPDATE"] + 1
    return sum(rows(step, side=program.side) + wait for step in program.training(0) if step.kind == "UPDATE")


@dataclass(frozen=True)
class AcceleratorIteration:
    """The cycles of the accelerator in one iteration of PPO (PPO 2.1), without the host's own work.

    Attributes:
        inference: of the forward passes of all agents' steps.
        training: of the mini-batch updates: forward, backward and weight steps, with Adam.
        transfers: of rows between host and accelerator, when nothing else runs.
    """

    inference: int
    training: int
    transfers: int

    @property
    def total(self) -> int:
        """All cycles."""
        return self.inference + self.training + self.transfers


def transfer_rows(program: NetworkProgram, *, trains: bool) -> int:
    """Return the rows of P words that cross the link for a batch: inputs and outputs, and in training the deltas.

    Args:
        program: the network's program.
        trains: whether the batch is trained on.
    """
    inputs = program.activation_base(1) * program.side + 1  # with the packet's header
    outputs = program.sizes[-1] * program.batch_blocks
    last = len(program.sizes) - 1
    deltas = (program.delta_base(last + 1) - program.delta_base(last)) * program.side + 1
    return inputs + outputs + (deltas if trains else 0)


def iteration_cycles(
    networks: Sequence[NetworkProgram],
    iteration: PpoIteration,
    *,
    link_bytes_per_cycle: Fraction | int,
    activation: str = "tanh",
) -> AcceleratorIteration:
    """Return the accelerator's cycles in an iteration of PPO that trains policy and value network in every epoch.

    Both networks run at the same time. In training the one that takes longer also waits for the other one's rows at
    Adam, at most; this is counted in full. Transfers are not overlapped with runs, and go one after another.

    Args:
        networks: the programs of policy and value network; their `batch` is replaced.
        iteration: agents, steps, mini-batch and epochs.
        link_bytes_per_cycle: the link's rate; a row takes at least one cycle.
        activation: "tanh" or "relu".
    """
    updates = iteration.epochs * iteration.samples // iteration.minibatch
    row_cycles = max(Fraction(1), 4 * networks[0].side / Fraction(link_bytes_per_cycle))
    inferring = [replace(program, batch=iteration.agents) for program in networks]
    training = [replace(program, batch=iteration.minibatch) for program in networks]
    inference = max(run_cycles(program.forward, program, activation) for program in inferring)
    update = max(
        run_cycles((*program.forward, *program.training(0)), program, activation)
        + sum(update_rows(other, activation) for other in training if other is not program)
        for program in training
    )
    crossing = iteration.steps * sum(transfer_rows(program, trains=False) for program in inferring)
    crossing += updates * sum(transfer_rows(program, trains=True) for program in training)
    return AcceleratorIteration(
        inference * iteration.steps, update * updates, -int(-(crossing * row_cycles) // 1)
    )
