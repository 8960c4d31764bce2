"""How long a pass through the learner pipeline takes: its control alone, without what it computes.

Stages, queues and the start of the update are those of `pipeline`, whose cycles the tests compare; samples carry no
numbers and sizes are registers. So one simulation serves every network of so many layers, hundreds of times as fast.

DP pipelines with as many samples each take the same cycles: one of them is timed.
"""

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from primitives.fpga.cycles.learner import Pass, stage_cycles
from primitives.fpga.floating_point.words import registered
from primitives.fpga.learner_pipeline.layer import Issue
from primitives.fpga.learner_pipeline.pipeline import CHAIN_DEPTH, all_of, bypass_depth

COUNT_BITS = 32
STAGE_BITS = 24  # of the cycles that a stage takes for one sample
_SAMPLE = 1  # bits: samples carry nothing


@dataclass(frozen=True)
class Topology:
    """The stages of a pass.

    Attributes:
        forward: layers from the samples to the loss.
        trained: how many of them, from the samples on, have a gradient unit.
        target: layers that make what the loss compares with, out of samples of their own; 0: it comes with them.
    """

    forward: int
    trained: int
    target: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a count out of range."""
        for name, value, low, high in (
            ("forward", self.forward, 1, 64),
            ("trained", self.trained, 1, self.forward),
            ("target", self.target, 0, 64),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name}: found {value}; allowed: {low} to {high}")

    @property
    def backward(self) -> int:
        """Stages that send errors back: of every layer behind the first."""
        return self.forward - 1

    @property
    def stage_count(self) -> int:
        """n: 3 L where all L layers are trained and the targets come with the samples (MAP IV-B3)."""
        return self.target + self.forward + 1 + self.backward + self.trained


def command_layout(topology: Topology) -> data.StructLayout:
    """One pass: samples of a pipeline, cycles of each stage for a sample, and of the update that follows."""
    stages = {
        name: data.ArrayLayout(STAGE_BITS, count)
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
    """The stages that a pass needs."""
    return Topology(len(work.layers), len(work.trained_layers), len(work.target))


def command_fields(work: Pass, *, samples: int, update: int) -> dict[str, object]:
    """The command of a pass, as the fields of `command_layout`.

    Args:
        samples: of each pipeline.
        update: cycles from the start of the update to its last weight.
    """
    stages = {name: times for name, times in stage_cycles(work).items() if times and name != "loss"}
    return {"samples": samples, "update": update, **stages}


class Stage(wiring.Component):
    """The control of a forward or backward unit, which takes `cycles` for a sample.

    Ports:
        samples: In(stream). results: Out(stream). cycles: In(24), steady while samples are under way.
    """

    def __init__(self) -> None:
        signature = stream.Signature(_SAMPLE)
        super().__init__({"samples": In(signature), "results": Out(signature), "cycles": In(STAGE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pending = Signal()
        issue = Issue(
            m,
            outer=1,
            inner=self.cycles,
            start=self.samples.valid,
            may_end=~pending & (~self.results.valid | self.results.ready),
        )
        m.d.comb += [self.samples.ready.eq(issue.free), pending.eq(registered(m, issue.go & issue.last))]
        with m.If(pending):
            m.d.sync += self.results.valid.eq(1)
        with m.Elif(self.results.ready):
            m.d.sync += self.results.valid.eq(0)
        return m


class PipelineTimer(wiring.Component):
    """Counts the cycles of passes, one after the other, with samples that are always there.

    Ports:
        commands: In(stream of `command_layout`).
        cycles: Out(stream of 32): from the first sample taken to the last new weight written.
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
        topology, depth = self.topology, bypass_depth(self.topology.stage_count)
        command = Signal(command_layout(topology))
        running, begun, since = Signal(), Signal(), Signal(COUNT_BITS)
        starting = self.commands.valid & self.commands.ready
        m.d.comb += self.commands.ready.eq(~running & ~self.cycles.valid)

        def source(name: str) -> stream.Interface:
            """Samples that are always there, as many as the command says."""
            samples, accepted = (
                stream.Signature(_SAMPLE).create(),
                Signal(COUNT_BITS, name=f"{name}_accepted"),
            )
            taken = samples.valid & samples.ready
            m.d.comb += samples.valid.eq(running & (accepted != command.samples) & samples.ready)
            with m.If(taken):
                m.d.sync += [accepted.eq(accepted + 1), begun.eq(1)]
            with m.If(starting):
                m.d.sync += accepted.eq(0)
            return samples

        def queue(name: str, width: int, depth: int) -> SyncFIFOBuffered:
            m.submodules[f"queue_{name}"] = made = SyncFIFOBuffered(width=width, depth=depth)
            return made

        def joined(name: str, sender: stream.Interface, *sinks: tuple[stream.Interface, int]) -> None:
            queues = [queue(f"{name}_{number}", _SAMPLE, depth) for number, (_, depth) in enumerate(sinks)]
            for made, (sink, _) in zip(queues, sinks, strict=True):
                m.d.comb += [
                    sink.valid.eq(made.r_rdy),
                    made.r_en.eq(sink.ready),
                    made.w_en.eq(sender.valid & sender.ready),
                ]
            m.d.comb += sender.ready.eq(all_of([made.w_rdy for made in queues]))

        def stage(name: str, number: int, cycles: Value) -> Stage:
            m.submodules[f"{name}_{number}"] = made = Stage()
            m.d.comb += made.cycles.eq(cycles)
            return made

        def both(first: stream.Interface, second: stream.Interface, ready: Value) -> Value:
            """Two streams taken together."""
            valid = first.valid & second.valid
            m.d.comb += [first.ready.eq(valid & ready), second.ready.eq(valid & ready)]
            return valid

        def streams(count: int) -> list[stream.Interface]:
            return [stream.Signature(_SAMPLE).create() for _ in range(count)]

        forward = [stage("forward", n, command.forward[n]) for n in range(topology.forward)]
        backward = [stage("backward", n, command.backward[n]) for n in range(topology.backward)]
        # Of each unit that joins two streams: the errors, and the activations on the layer's inputs.
        errors, active = streams(topology.backward), streams(topology.backward)
        gradient_errors, gradient_inputs = streams(topology.trained), streams(topology.trained)
        outputs, targets = streams(2)

        sample = source("samples")
        inputs = [sample, *(unit.results for unit in forward)]
        for number in range(topology.forward):  # what goes into each layer
            sinks = [(forward[number].samples, CHAIN_DEPTH)]
            if number < topology.trained:
                sinks.append((gradient_inputs[number], depth))
            if number:
                sinks.append((active[number - 1], depth))
            joined(f"inputs{number}", inputs[number], *sinks)
        joined("outputs", inputs[-1], (outputs, CHAIN_DEPTH))

        wanted = source("targets")
        for number in range(topology.target):
            unit = stage("target", number, command.target[number])
            joined(f"target{number}", wanted, (unit.samples, CHAIN_DEPTH))
            wanted = unit.results
        joined("targets", wanted, (targets, depth))

        (loss,) = streams(1)
        free = ~loss.valid | loss.ready
        compared = both(outputs, targets, free)
        with m.If(free):
            m.d.sync += loss.valid.eq(compared)

        behind = [*(unit.results for unit in backward), loss]  # the errors behind each layer
        for number, sender in enumerate(behind):
            sinks = []
            if number < topology.trained:
                sinks.append((gradient_errors[number], CHAIN_DEPTH))
            if number:
                sinks.append((errors[number - 1], CHAIN_DEPTH))
            joined(f"errors{number}", sender, *sinks)
        for number, unit in enumerate(backward):
            m.d.comb += unit.samples.valid.eq(both(errors[number], active[number], unit.samples.ready))

        finished = []
        for number in range(topology.trained):
            start, added = Signal(name=f"gradient_{number}_start"), Signal(COUNT_BITS, name=f"added_{number}")
            issue = Issue(m, outer=1, inner=command.gradient[number], start=start, may_end=Const(1))
            m.d.comb += start.eq(both(gradient_errors[number], gradient_inputs[number], issue.free))
            with m.If(registered(m, issue.go & issue.last)):
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
        with m.If(starting):  # last: it comes before what is left of the pass before
            m.d.sync += [running.eq(1), begun.eq(0), since.eq(0), updated.eq(0)]
            m.d.sync += command.eq(self.commands.payload)
        return m
