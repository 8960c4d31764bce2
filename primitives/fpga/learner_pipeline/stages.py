"""The units of one pipeline and the FIFOs between them (MAP Fig. 3), with or without datapaths."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from amaranth.hdl import Module, Value
from amaranth.lib import stream
from amaranth.lib.fifo import SyncFIFOBuffered

from placerl.primitives.fpga.learner_pipeline.layer import all_of
from placerl.primitives.fpga.learner_pipeline.policy_units import AscentLoss
from placerl.primitives.fpga.learner_pipeline.td_loss import TdLossUnit
from placerl.primitives.fpga.learner_pipeline.tensor_units import (
    BackwardUnit,
    ForwardUnit,
    GradientUnit,
    LossUnit,
)

CHAIN_DEPTH = 2  # samples in the FIFO between neighbouring stages

_Sink = tuple[stream.Interface, int]
"""Destination of samples, and the capacity of the FIFO before it."""


@dataclass(frozen=True)
class Stages:
    """The hardware units of one pipeline of the learner.

    Attributes:
        forward: forward unit of every layer, from the samples on.
        loss: loss unit after the last layer. The terms of a `TdLossUnit` and its TD errors are not connected here.
        backward: backward unit of every layer but the first.
        gradient: gradient unit of each trained layer, from the first on.
        target: layers that compute the loss's targets from samples of their own; empty if the targets are inputs.
        greedy: layers, as many as of `target`, that compute the values of double DQN's greedy actions in parallel with
            it; empty if the loss takes none.
        held: samples that a policy's tanh holds, beyond those of the stages.
    """

    forward: Sequence[ForwardUnit]
    loss: LossUnit | TdLossUnit | AscentLoss
    backward: Sequence[BackwardUnit]
    gradient: Sequence[GradientUnit]
    target: Sequence[ForwardUnit] = ()
    greedy: Sequence[ForwardUnit] = ()
    held: int = 0

    @property
    def depth(self) -> int:
        """Capacity, in samples, of a FIFO parallel to the stages: more than these hold."""
        return 3 * self.count + self.held

    @property
    def count(self) -> int:
        """Number of stages, MAP's n; 3 L if all L layers are trained and `target` is empty (MAP IV-B3)."""
        return len([*self.target, *self.forward, self.loss, *self.backward, *self.gradient])

    def add_to(self, m: Module, x: stream.Interface, y: stream.Interface, *, p: int = 0) -> None:
        """Add the units to `m`, and connect them with FIFOs.

        Args:
            x: samples of the first layer.
            y: the loss's targets, or samples of the first target layer.
            p: number of the pipeline, which is a part of the submodules' names.
        """
        kinds = {"forward": self.forward, "backward": self.backward, "gradient": self.gradient}
        for kind, units in {**kinds, "target": self.target, "greedy": self.greedy}.items():
            for number, unit in enumerate(units):
                m.submodules[f"{kind}_{p}_{number}"] = unit
        m.submodules[f"loss_{p}"] = self.loss

        def joined(name: str, source: stream.Interface, *sinks: _Sink) -> None:
            join(m, f"fifo_{name}_{p}", source, sinks)

        depth = self.depth
        others = list(self.greedy)
        for number, unit in enumerate(self.target):
            sinks = [(unit.inputs, CHAIN_DEPTH)]
            sinks += [(other.inputs, CHAIN_DEPTH) for other in others[:1] if number == 0]
            joined(f"target{number}", y, *sinks)
            y = unit.outputs
        joined("y", y, (self.loss.targets, depth))
        for number, (unit, following) in enumerate(pairwise(others), 1):
            joined(f"greedy{number}", unit.outputs, (following.inputs, CHAIN_DEPTH))
        if others:
            assert isinstance(self.loss, TdLossUnit), "only this loss takes greedy values"
            joined("greedy", others[-1].outputs, (self.loss.greedy, depth))
        for number, inputs in enumerate([x, *(unit.outputs for unit in self.forward[:-1])]):  # of each layer
            sinks = [(self.forward[number].inputs, CHAIN_DEPTH)]
            sinks += [(unit.inputs, depth) for unit in self.gradient[number : number + 1]]
            if number:
                sinks.append((self.backward[number - 1].inputs, depth))
            joined(f"inputs{number}", inputs, *sinks)
        # Outputs wait for targets that come through more layers; samples for both enter together, so that full queues
        # here would hold up the targets too.
        waiting = depth if self.target else CHAIN_DEPTH
        joined("outputs", self.forward[-1].outputs, (self.loss.outputs, waiting))
        behind = [*(unit.back for unit in self.backward), self.loss.errors]
        for number, errors in enumerate(behind):  # behind each layer
            sinks = [(unit.errors, CHAIN_DEPTH) for unit in self.gradient[number : number + 1]]
            if number:
                sinks.append((self.backward[number - 1].errors, CHAIN_DEPTH))
            joined(f"errors{number}", errors, *sinks)


def join(m: Module, name: str, source: stream.Interface, sinks: Sequence[_Sink]) -> None:
    """Add a FIFO before each sink of a stream; a sample enters all of them at once.

    Args:
        name: beginning of the names of the FIFOs, which are submodules.
        source: the stream.
        sinks: streams that get every sample, each with the capacity of its FIFO.
    """
    queues = [SyncFIFOBuffered(width=len(Value.cast(sink.payload)), depth=depth) for sink, depth in sinks]
    for number, (queue, (sink, _)) in enumerate(zip(queues, sinks, strict=True)):
        m.submodules[f"{name}_{number}"] = queue
        m.d.comb += [
            Value.cast(sink.payload).eq(queue.r_data),
            sink.valid.eq(queue.r_rdy),
            queue.r_en.eq(sink.ready),
            queue.w_data.eq(source.payload),
            queue.w_en.eq(source.valid & source.ready),
        ]
    m.d.comb += source.ready.eq(all_of([queue.w_rdy for queue in queues]))
