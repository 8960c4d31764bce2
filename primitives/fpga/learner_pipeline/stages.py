"""The units of one pipeline and the FIFOs between them (MAP Fig. 3), with or without datapaths."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import stream
from amaranth.lib.fifo import SyncFIFOBuffered

from placerl.primitives.fpga.learner_pipeline.layer import all_of
from placerl.primitives.fpga.learner_pipeline.policy_units import PassesLoss
from placerl.primitives.fpga.learner_pipeline.td_loss import TdLossUnit
from placerl.primitives.fpga.learner_pipeline.tensor_units import (
    BackwardUnit,
    ForwardUnit,
    GradientUnit,
    LossUnit,
)

CHAIN_DEPTH = 2  # samples in the FIFO between neighbouring stages


class Sink(NamedTuple):
    """A destination of samples.

    Attributes:
        stream: gets the samples.
        depth: capacity of the FIFO before it.
        now: In(1), whether it gets the samples that come now; None: it always does.
    """

    stream: stream.Interface
    depth: int = CHAIN_DEPTH
    now: Value | None = None


@dataclass(frozen=True)
class LaterEntry:
    """Samples of another pass, which enter the layers of a pass at a later layer and train the layers from there on.

    The passes take turns: while one has samples in the stages, the other has none.

    Attributes:
        layer: number of the layer where they enter.
        samples: the samples.
        open: In(1), it is their turn. Otherwise samples take all layers, and train those before `layer`.
    """

    layer: int
    samples: stream.Interface
    open: Value

    def merged(self, m: Module, before: stream.Interface) -> stream.Interface:
        """Return the samples of the layer where the passes meet, of which one has its turn."""
        merged: stream.Interface = before.signature.create()
        m.d.comb += [
            merged.payload.eq(Mux(self.open, self.samples.payload, before.payload)),
            merged.valid.eq(Mux(self.open, self.samples.valid, before.valid)),
            self.samples.ready.eq(self.open & merged.ready),
            before.ready.eq(~self.open & merged.ready),
        ]
        return merged


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
        later: samples of another pass that enter at a later layer; None if there is no other.
    """

    forward: Sequence[ForwardUnit]
    loss: LossUnit | TdLossUnit | PassesLoss
    backward: Sequence[BackwardUnit]
    gradient: Sequence[GradientUnit]
    target: Sequence[ForwardUnit] = ()
    greedy: Sequence[ForwardUnit] = ()
    held: int = 0
    later: LaterEntry | None = None

    @property
    def depth(self) -> int:
        """Capacity, in samples, of a FIFO parallel to the stages: more than these hold."""
        unused = 0
        if (
            self.later
        ):  # a pass uses the stages before the later entry, or the targets and the gradients behind it
            before = self.later.layer
            unused = min(3 * before, len(self.target) + len(self.gradient) - before)
        return 3 * (self.count - unused) + self.held

    @property
    def count(self) -> int:
        """Number of stages, MAP's n; 3 L if all L layers are trained and `target` is empty (MAP IV-B3)."""
        return len([*self.target, *self.forward, self.loss, *self.backward, *self.gradient])

    def _of_gradient(self, layer: int) -> Value | None:
        """Return whether a layer trains now; None: in every pass with samples in it."""
        return self.later.open if self.later and layer >= self.later.layer else None

    def _of_backward(self, layer: int) -> Value | None:
        """Return whether a layer sends errors back now; None: in every pass with samples in it."""
        return ~self.later.open if self.later and layer == self.later.layer else None

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

        def joined(name: str, source: stream.Interface, *sinks: Sink) -> None:
            join(m, f"fifo_{name}_{p}", source, sinks)

        depth = self.depth
        others = list(self.greedy)
        for number, unit in enumerate(self.target):
            sinks = [Sink(unit.inputs)]
            sinks += [Sink(other.inputs) for other in others[:1] if number == 0]
            joined(f"target{number}", y, *sinks)
            y = unit.outputs
        joined("y", y, Sink(self.loss.targets, depth))
        for number, (unit, following) in enumerate(pairwise(others), 1):
            joined(f"greedy{number}", unit.outputs, Sink(following.inputs))
        if others:
            assert isinstance(self.loss, TdLossUnit), "only this loss takes greedy values"
            joined("greedy", others[-1].outputs, Sink(self.loss.greedy, depth))
        for number, inputs in enumerate([x, *(unit.outputs for unit in self.forward[:-1])]):  # of each layer
            if self.later and number == self.later.layer:
                inputs = self.later.merged(m, inputs)
            sinks = [Sink(self.forward[number].inputs)]
            sinks += [
                Sink(unit.inputs, depth, self._of_gradient(number))
                for unit in self.gradient[number : number + 1]
            ]
            if number:
                sinks.append(Sink(self.backward[number - 1].inputs, depth, self._of_backward(number)))
            joined(f"inputs{number}", inputs, *sinks)
        # Outputs wait for targets that come through more layers; samples for both enter together, so that full queues
        # here would hold up the targets too.
        waiting = depth if self.target else CHAIN_DEPTH
        joined("outputs", self.forward[-1].outputs, Sink(self.loss.outputs, waiting))
        behind = [*(unit.back for unit in self.backward), self.loss.errors]
        for number, errors in enumerate(behind):  # behind each layer
            sinks = [
                Sink(unit.errors, now=self._of_gradient(number))
                for unit in self.gradient[number : number + 1]
            ]
            if number:
                sinks.append(Sink(self.backward[number - 1].errors, now=self._of_backward(number)))
            joined(f"errors{number}", errors, *sinks)


def join(m: Module, name: str, source: stream.Interface, sinks: Sequence[Sink]) -> None:
    """Add a FIFO before each sink of a stream; a sample enters at once all of those that get samples now.

    Args:
        name: beginning of the names of the FIFOs, which are submodules.
        source: the stream.
    """
    free: list[Value] = []
    for number, (sink, depth, now) in enumerate(sinks):
        queue = SyncFIFOBuffered(width=len(Value.cast(sink.payload)), depth=depth)
        m.submodules[f"{name}_{number}"] = queue
        taken = source.valid & source.ready
        m.d.comb += [
            Value.cast(sink.payload).eq(queue.r_data),
            sink.valid.eq(queue.r_rdy),
            queue.r_en.eq(sink.ready),
            queue.w_data.eq(source.payload),
            queue.w_en.eq(taken if now is None else taken & now),
        ]
        free.append(queue.w_rdy if now is None else queue.w_rdy | ~now)
    m.d.comb += source.ready.eq(all_of(free))
