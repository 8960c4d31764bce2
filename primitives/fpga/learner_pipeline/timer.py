"""Times a pass of a batch through the learner pipeline without computing it: its stages have no datapaths.

Units, FIFOs and the start of the update are those of `pipeline`, and the tests compare the cycles; samples carry
no numbers, and sizes are registers. So one simulation serves every network with the same number of layers,
hundreds of times as fast.

DP pipelines with equally many samples each take the same cycles, so one of them is timed.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cycles.learner import Pass, stage_cycles
from placerl.primitives.fpga.learner_pipeline.layer import CYCLE_BITS, all_of
from placerl.primitives.fpga.learner_pipeline.layer_shape import TANH_CYCLES
from placerl.primitives.fpga.learner_pipeline.policy_units import TimedPolicyBackward, TimedPolicyForward
from placerl.primitives.fpga.learner_pipeline.stages import Stages
from placerl.primitives.fpga.learner_pipeline.tensor_units import (
    BackwardUnit,
    ForwardUnit,
    GradientUnit,
    LossUnit,
)

COUNT_BITS = 32


@dataclass(frozen=True)
class Topology:
    """The number of stages of each kind in a pass of samples through the learner pipeline.

    Attributes:
        forward: number of layers from the samples to the loss.
        trained: how many of these layers, counted from the samples, have a gradient unit.
        target: number of layers that compute the loss's targets from samples of their own; 0: the targets are inputs.
        loss_cycles: cycles from the loss's inputs to its errors: 1, or those of a `TdLossUnit`.
        policy: number of layers of an actor, the first of `target`, or without targets of `forward`; 0: none.
    """

    forward: int
    trained: int
    target: int = 0
    loss_cycles: int = 1
    policy: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a count out of range."""
        for name, value, low, high in (
            ("forward", self.forward, 1, 64),
            ("trained", self.trained, 1, self.forward),
            ("target", self.target, 0, 64),
            ("loss_cycles", self.loss_cycles, 1, 64),
            ("policy", self.policy, 0, (self.target or self.forward) - 1),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name}: found {value}; allowed: {low} to {high}")

    @property
    def backward(self) -> int:
        """Number of stages that send errors back: one for every layer after the first."""
        return self.forward - 1

    @property
    def stage_count(self) -> int:
        """Number of stages, MAP's n; 3 L if all L layers are trained and `target` is 0 (MAP IV-B3)."""
        return self.target + self.forward + 1 + self.backward + self.trained


def command_layout(topology: Topology) -> data.StructLayout:
    """Return the Amaranth layout of a `PipelineTimer`'s command.

    The fields are `samples`, their number; `update`, the cycles of the update; and `target`, `forward`, `backward` and
    `gradient`, the cycles that a sample takes in each stage of that kind.
    """
    stages = {
        name: data.ArrayLayout(CYCLE_BITS, count)
        for name, count in (
            ("target", topology.target),
            ("forward", topology.forward),
            ("backward", topology.backward),
            ("gradient", topology.trained),
        )
        if count
    }
    return data.StructLayout({"samples": COUNT_BITS, "update": COUNT_BITS, **stages})


def topology_of(work: Pass) -> Topology:
    """Return the number of stages of each kind that a pass needs."""
    return Topology(
        len(work.layers), len(work.trained_layers), len(work.target), work.loss_cycles, work.policy
    )


def command_fields(work: Pass, *, samples: int, update: int) -> dict[str, object]:
    """Return the fields of a `PipelineTimer`'s command for a pass, which `command_layout` describes.

    Args:
        update: cycles from the start of the update to its last weight.
    """
    stages = {name: times for name, times in stage_cycles(work).items() if times and name != "loss"}
    return {"samples": samples, "update": update, **stages}


def _forward(count: int, policy: int) -> list[Any]:
    """Return forward units without datapaths, of which number `policy` ends an actor; none does if it is -1."""
    return [TimedPolicyForward() if number == policy else ForwardUnit(None) for number in range(count)]


class PipelineTimer(wiring.Component):
    """Counts the cycles of passes, one after another, with samples that are always available.

    Args:
        topology: number of stages of each kind.

    Ports:
        commands: In(stream of `command_layout`), a pass each: its samples, and the cycles of its stages and update.
        cycles: Out(stream of 32): the cycles from the first sample taken to the last new weight written.
    """

    def __init__(self, topology: Topology):
        self.topology = topology
        super().__init__(
            {
                "commands": In(stream.Signature(command_layout(topology))),
                "cycles": Out(stream.Signature(COUNT_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        topology = self.topology
        command = Signal(command_layout(topology))
        running, begun, since = Signal(), Signal(), Signal(COUNT_BITS)
        starting = self.commands.valid & self.commands.ready
        m.d.comb += self.commands.ready.eq(~running & ~self.cycles.valid)

        def source(name: str) -> stream.Interface:
            """Return a stream whose samples are always available, as many as the command says."""
            samples = stream.Signature(1).create()
            accepted = Signal(COUNT_BITS, name=f"{name}_accepted")
            taken = samples.valid & samples.ready
            m.d.comb += samples.valid.eq(running & (accepted != command.samples) & samples.ready)
            with m.If(taken):
                m.d.sync += [accepted.eq(accepted + 1), begun.eq(1)]
            with m.If(starting):
                m.d.sync += accepted.eq(0)
            return samples

        policy = topology.policy - 1  # its last layer, and the errors' last stage before it
        stages = Stages(
            forward=_forward(topology.forward, -1 if topology.target else policy),
            loss=LossUnit(None, latency=topology.loss_cycles),
            backward=[
                TimedPolicyBackward() if number == policy and not topology.target else BackwardUnit(None)
                for number in range(topology.backward)
            ],
            gradient=[GradientUnit(None) for _ in range(topology.trained)],
            target=_forward(topology.target, policy),
            held=TANH_CYCLES if topology.policy else 0,
        )
        stages.add_to(m, source("samples"), source("targets"))
        for kind in ("target", "forward", "backward", "gradient"):
            for number, unit in enumerate(getattr(stages, kind)):
                m.d.comb += unit.cycles.eq(command[kind][number])
        finished = []
        for number, unit in enumerate(stages.gradient):
            added = Signal(COUNT_BITS, name=f"added_{number}")
            with m.If(unit.added):
                m.d.sync += added.eq(added + 1)
            with m.If(starting):
                m.d.sync += added.eq(0)
            finished.append(added == command.samples)

        updating = Signal()
        updated = Signal(COUNT_BITS)
        m.d.comb += updating.eq(running & begun & all_of(finished))
        with m.If(begun):
            m.d.sync += since.eq(since + 1)
        with m.If(updating):
            m.d.sync += updated.eq(updated + 1)
            with m.If(updated == command.update):
                m.d.sync += [running.eq(0), self.cycles.valid.eq(1), self.cycles.payload.eq(since + 1)]
        with m.If(self.cycles.valid & self.cycles.ready):
            m.d.sync += self.cycles.valid.eq(0)
        with m.If(starting):  # last, so that it overrides what remains of the previous pass
            m.d.sync += [running.eq(1), begun.eq(0), since.eq(0), updated.eq(0)]
            m.d.sync += command.eq(self.commands.payload)
        return m
