"""The throughput gains of PPO's optimisations: Fig. 14 (blocked layout) and Fig. 15 (load balancing).

A gain in throughput depends on the host's time as well as on the accelerator's. The paper does not give the host's
time, but the published inferences per second (Table 2) give the time of a whole iteration, and the models here give
the accelerator's. The gain is the time of the saved cycles divided by that of the published iteration. Nothing is
fitted to the published gains.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.cycles.layout import plain_stalls, ppo_stalls
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.cycles.ppo import PpoIteration, iteration_cycles, shapes
from placerl.primitives.fpga.gemm.plan import GemmShape


def transposed_operands(layers: Sequence[GemmLayer], batch: int) -> list[GemmShape]:
    """Return the sizes of the products of an update whose first operand, A, is read transposed.

    In the backward pass (BW) A holds the weights, in the gradient of the weights (WU) the activations.
    """
    return [*backward_operands(layers, batch), *shapes(layers, "WU", batch)]


def backward_operands(layers: Sequence[GemmLayer], batch: int) -> list[GemmShape]:
    """Return the sizes of the backward pass's products A B, in which A holds the weights.

    Each product is (inputs x outputs) weights times the gradients of all pixels of the batch. The first layer needs no
    such product.
    """
    return [
        GemmShape(
            layer.weights // layer.outputs, layer.outputs, batch * layer.out_size[0] * layer.out_size[1]
        )
        for layer in layers[1:]
    ]


def update_stalls(layers: Sequence[GemmLayer], batch: int, *, side: int, dataflow: str | None = None) -> int:
    """Return the cycles for which one mini-batch update waits because matrices have the plain layout.

    Args:
        dataflow: "NS", "WS" or "IS" (what stays in the array), in which the stalls of this project's hardware count;
            None: the stalls that PPO states count instead.
    """
    operands = transposed_operands(layers, batch)
    if dataflow is None:
        return sum(ppo_stalls(shape, side=side) for shape in operands)
    return sum(plain_stalls(shape, side=side, dataflow=dataflow) for shape in operands)


@dataclass(frozen=True)
class PublishedThroughput:
    """A published throughput of the whole platform, host and accelerator.

    Attributes:
        samples_per_s: inferences per second (IPS) of PPO Table 2, with the optimisation whose gain is computed.
        clock_hz: clock frequency of the accelerator in Hz.
    """

    samples_per_s: float
    clock_hz: float

    def gain(self, iteration: PpoIteration, saved_cycles: float) -> float:
        """Return this throughput over the throughput without the optimisation, minus 1.

        Args:
            saved_cycles: how many more cycles an iteration takes without the optimisation.
        """
        iteration_s = iteration.samples / self.samples_per_s
        return saved_cycles / self.clock_hz / iteration_s


def layout_gain(
    layers: Sequence[GemmLayer],
    iteration: PpoIteration,
    published: PublishedThroughput,
    *,
    side: int,
    dataflow: str | None = None,
) -> float:
    """Return the throughput with the blocked layout over that with the plain layout, minus 1 (Fig. 14).

    Args:
        published: the published throughput, with the blocked layout.
        dataflow: "NS", "WS" or "IS" (what stays in the array), in which the stalls of this project's hardware count;
            None: the stalls that PPO states count instead.
    """
    stalls = update_stalls(layers, iteration.minibatch, side=side, dataflow=dataflow)
    return published.gain(iteration, stalls * iteration.updates)


def accelerator_layout_gain(layers: Sequence[GemmLayer], iteration: PpoIteration, *, side: int) -> float:
    """Return the gain of the blocked layout in the time of the accelerator alone, as a ratio minus 1.

    It leaves out the host and transfers, so it is an upper bound of the published gains.
    """
    stalls = update_stalls(layers, iteration.minibatch, side=side) * iteration.updates
    return stalls / iteration_cycles(layers, iteration, side=side).total
