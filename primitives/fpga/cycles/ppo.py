"""Cycles of one PPO iteration on PPOAccel, by PPO's Equations 6 to 8.

`T_comm` depends on the platform: transfers take no time unless a `Communication` states it. `product_cycles` gives
the cycles of every product: `gemm.ppo_cycles` (Equation 5, the default) or `gemm.core_cycles` (the RTL here).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.communication import UNCOUNTED, Communication, moved_words
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, blocks

ProductCycles = Callable[..., int]  # (shape, *, side, dataflow)
PROCESSES = ("FW", "BW", "WU")


@dataclass(frozen=True)
class PpoIteration:
    """Hyper-parameters of one iteration (PPO 2.1).

    Attributes:
        agents: N, number of parallel agents.
        steps: T, steps of each agent.
        minibatch: M, samples of a mini-batch.
        epochs: K, how often all samples are used.
    """

    agents: int
    steps: int
    minibatch: int
    epochs: int

    @property
    def samples(self) -> int:
        return self.agents * self.steps

    @property
    def updates(self) -> int:
        """Number of mini-batch updates of one iteration; a last, partly filled mini-batch of an epoch counts as one."""
        return self.epochs * blocks(self.samples, self.minibatch)


def shapes(layers: Sequence[GemmLayer], process: str, batch: int) -> list[GemmShape]:
    """Return the sizes of the matrix products of one process of a training step (Equation 6).

    In "FW" and "BW" Equation 6 has the samples as rows of A, so that of these products "WS" keeps samples in the array
    and "IS" weights.

    Args:
        process: "FW" (forward), "BW" (backward, last layer first, without the first layer) or "WU"
            (gradients of the weights).

    Raises:
        ValueError: there is no such process.
    """
    match process:
        case "FW":
            return [layer.forward(batch) for layer in layers]
        case "BW":
            return [layer.backward(batch) for layer in layers[:0:-1]]
        case "WU":
            return [layer.weight_gradient(batch) for layer in layers]
    raise ValueError(f"process: found {process!r}; allowed: {', '.join(PROCESSES)}")


def process_cycles(
    layers: Sequence[GemmLayer],
    process: str,
    batch: int,
    *,
    side: int,
    dataflow: str,
    product_cycles: ProductCycles = gemm.ppo_cycles,
    communication: Communication = UNCOUNTED,
) -> int:
    """Return the cycles of one process of a training step, for one batch in one dataflow (Equation 6).

    Args:
        process: "FW" (forward), "BW" (backward) or "WU" (gradients of the weights).
        communication: the external memory, if any; the link to the host is not used.
    """
    cycles = [product_cycles(s, side=side, dataflow=dataflow) for s in shapes(layers, process, batch)]
    return sum(map(communication.product_cycles, cycles, moved_words(layers, process, batch)))


def best_dataflows(
    layers: Sequence[GemmLayer],
    batch: int,
    *,
    side: int,
    processes: Sequence[str] = PROCESSES,
    product_cycles: ProductCycles = gemm.ppo_cycles,
    communication: Communication = UNCOUNTED,
) -> dict[str, str]:
    """Return the dataflow with the fewest cycles for each process; among equal ones the first of NS, WS, IS.

    All layers of a process have the same dataflow (PPO 4).

    Args:
        processes: "FW" (forward), "BW" (backward) and "WU" (gradients of the weights), or some of them.
        communication: as for `process_cycles`.
    """
    return {
        process: min(
            DATAFLOWS,
            key=lambda dataflow, process=process: process_cycles(  # type: ignore[misc]
                layers,
                process,
                batch,
                side=side,
                dataflow=dataflow,
                product_cycles=product_cycles,
                communication=communication,
            ),
        )
        for process in processes
    }


@dataclass(frozen=True)
class IterationCycles:
    """Cycles of one PPO iteration on one compute unit.

    Attributes:
        inference: cycles of the network's forward passes for the agents' steps, with their transfers (Equation 7).
        training: cycles of all mini-batch updates, with their transfers (Equation 8).
    """

    inference: int
    training: int

    @property
    def total(self) -> int:
        return self.inference + self.training


def iteration_cycles(
    layers: Sequence[GemmLayer],
    iteration: PpoIteration,
    *,
    side: int,
    dataflow: str | None = None,
    product_cycles: ProductCycles = gemm.ppo_cycles,
    communication: Communication = UNCOUNTED,
) -> IterationCycles:
    """Return the cycles of one PPO iteration on one compute unit.

    Args:
        dataflow: what stays in the array: "NS" (only sums), "WS" (A of `shapes`) or "IS" (its B); None: the best
            choice for each process.
        communication: the transfers; by default they take no time.
    """
    options: dict[str, Any] = {
        "side": side,
        "product_cycles": product_cycles,
        "communication": communication,
    }

    def cycles(process: str, batch: int) -> int:
        chosen = dataflow
        if chosen is None:
            chosen = best_dataflows(layers, batch, processes=(process,), **options)[process]
        return process_cycles(layers, process, batch, dataflow=chosen, **options)

    inference = cycles("FW", iteration.agents) + communication.inference_cycles(layers, iteration.agents)
    update = communication.minibatch_cycles(layers, iteration.minibatch)
    update += sum(cycles(process, iteration.minibatch) for process in PROCESSES)
    return IterationCycles(inference * iteration.steps, update * iteration.updates)


@dataclass(frozen=True)
class DataflowGain:
    """The gain in speed of the best dataflows over NS for everything, in one PPO iteration (PPO Fig. 12, 13).

    In NS only the sums stay in the array.

    Attributes:
        inference, training, total: cycles with NS over cycles with the best dataflows, minus 1.
    """

    inference: float
    training: float
    total: float


def dataflow_gain(
    layers: Sequence[GemmLayer],
    iteration: PpoIteration,
    *,
    side: int,
    product_cycles: ProductCycles = gemm.ppo_cycles,
) -> DataflowGain:
    """Return how much faster an iteration is with the best dataflows than with NS for everything.

    The gain is never negative, because NS (only sums stay in the array) is one of the dataflows to choose from.
    """
    fixed = iteration_cycles(layers, iteration, side=side, dataflow="NS", product_cycles=product_cycles)
    best = iteration_cycles(layers, iteration, side=side, product_cycles=product_cycles)
    return DataflowGain(
        fixed.inference / best.inference - 1,
        fixed.training / best.training - 1,
        fixed.total / best.total - 1,
    )
