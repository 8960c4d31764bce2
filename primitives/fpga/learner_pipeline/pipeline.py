"""The learner pipeline: DP copies of forward, loss, backward and gradient units, one update (MAP Fig. 3)."""

from collections.abc import Sequence
from itertools import pairwise

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from primitives.fpga.floating_point.words import WORD_BITS
from primitives.fpga.learner_pipeline.layer import vector
from primitives.fpga.learner_pipeline.layer_shape import LayerShape
from primitives.fpga.learner_pipeline.tensor_units import BackwardUnit, ForwardUnit, GradientUnit, LossUnit
from primitives.fpga.learner_pipeline.update_unit import UpdateUnit

CHAIN_DEPTH = 2  # samples in the FIFO between neighbouring stages


class LearnerPipeline(wiring.Component):
    """Takes a batch in `pipelines` equal parts, then gives the new weights, and takes the next batch.

    Args:
        layers: from the input on; the outputs of each are the inputs of the next.
        pipelines: DP.
        samples: PI, of each pipeline in a batch: the batch has DP x PI.

    Ports:
        samples_<p>: In(stream of x: vector(inputs), y: vector(outputs)) of pipeline p.
        load_<l>: In(stream): initial weights of layer l, see `UpdateUnit`.
        rate, root: In(32): Adam's `corrections`, steady while batches are under way.
        updated_<l>: Out(stream of address and weights, lanes x float32): layer l's new weights, which the consumer
            must take at once.
    """

    def __init__(self, layers: Sequence[LayerShape], *, pipelines: int = 1, samples: int):
        for before, after in pairwise(layers):
            if before.outputs != after.inputs:
                raise ValueError(
                    f"layers: found {before.outputs} outputs before {after.inputs} inputs; allowed: as many"
                )
        if not layers or pipelines < 1 or samples < 1:
            raise ValueError(
                f"found {len(layers)} layers, pipelines {pipelines}, samples {samples}; allowed: 1 or more of each"
            )
        self.layers, self.pipelines, self.samples = tuple(layers), pipelines, samples
        sample = data.StructLayout({"x": vector(layers[0].inputs), "y": vector(layers[-1].outputs)})
        self.updates = [
            UpdateUnit(layer, pipelines=pipelines, batch_size=pipelines * samples) for layer in layers
        ]
        members: dict[str, wiring.Member] = {"rate": In(WORD_BITS), "root": In(WORD_BITS)}
        for p in range(pipelines):
            members[f"samples_{p}"] = In(stream.Signature(sample))
        for number, layer in enumerate(layers):
            word = {"address": range(layer.words), "weights": data.ArrayLayout(WORD_BITS, layer.lanes)}
            members[f"load_{number}"] = In(stream.Signature(data.StructLayout(word)))
            members[f"updated_{number}"] = Out(stream.Signature(data.StructLayout(word)))
        super().__init__(members)

    @property
    def stage_count(self) -> int:
        """n = 3 L: L forward, the loss, L - 1 backward, L gradients (MAP IV-B3)."""
        return 3 * len(self.layers)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gradients = [self._pipeline(m, p) for p in range(self.pipelines)]
        start, finished = Signal(), Signal(len(self.layers))
        all_added = []
        for number, (layer, update) in enumerate(zip(self.layers, self.updates, strict=True)):
            m.submodules[f"update_{number}"] = update
            m.d.comb += [update.start.eq(start), update.rate.eq(self.rate), update.root.eq(self.root)]
            wiring.connect(m, wiring.flipped(getattr(self, f"load_{number}")), update.load)
            for p in range(self.pipelines):
                unit = gradients[p][number]
                added = Signal(range(self.samples + 1), name=f"added_{p}_{number}")
                with m.If(start):
                    m.d.sync += added.eq(0)
                with m.Elif(unit.added):
                    m.d.sync += added.eq(added + 1)
                all_added.append(added == self.samples)
                m.d.comb += [unit.take.eq(update.take), unit.address.eq(update.address)]
                m.d.comb += update.sums[p].eq(unit.sums)
            updated = getattr(self, f"updated_{number}")
            m.d.comb += [
                updated.valid.eq(update.written),
                updated.payload.address.eq(update.write.address),
                updated.payload.weights.eq(update.weights),
            ]
            with m.If(start):
                m.d.sync += finished[number].eq(0)
            with m.Elif(update.written & (update.write.address == layer.words - 1)):
                m.d.sync += finished[number].eq(1)
        running = Signal()  # an update is under way
        complete = Signal()
        m.d.comb += complete.eq(all_of(all_added))
        m.d.comb += start.eq(complete & ~running)
        with m.If(start):
            m.d.sync += running.eq(1)
        with m.Elif(finished.all()):
            m.d.sync += running.eq(0)
        for p in range(self.pipelines):
            accepted = self._accepted[p]
            with m.If(running & finished.all()):
                m.d.sync += accepted.eq(0)
        return m

    def _pipeline(self, m: Module, p: int) -> list[GradientUnit]:
        """One pipeline's units, joined; returns the gradient units, by layer."""
        layers, samples = self.layers, getattr(self, f"samples_{p}")
        depth = bypass_depth(self.stage_count)
        forward = [ForwardUnit(layer, relu=layer is not layers[-1]) for layer in layers]
        backward = [BackwardUnit(layer) for layer in layers[1:]]
        gradient = [GradientUnit(layer) for layer in layers]
        loss = LossUnit(layers[-1].outputs)
        for kind, units in (("forward", forward), ("backward", backward), ("gradient", gradient)):
            for number, unit in enumerate(units):
                m.submodules[f"{kind}_{p}_{number}"] = unit
        m.submodules[f"loss_{p}"] = loss
        for number, update in enumerate(self.updates):
            for write in (forward[number].write, *(unit.write for unit in backward[number - 1 : number])):
                m.d.comb += [
                    write.enable.eq(update.write.enable),
                    write.address.eq(update.write.address),
                    write.data.eq(update.write.data),
                ]

        def joined(name: str, source: stream.Interface, *sinks: tuple[stream.Interface, int]) -> None:
            queues = [
                SyncFIFOBuffered(width=len(sink.payload.as_value()), depth=depth) for sink, depth in sinks
            ]
            for number, (queue, (sink, _)) in enumerate(zip(queues, sinks, strict=True)):
                m.submodules[f"fifo_{name}_{p}_{number}"] = queue
                m.d.comb += [
                    sink.payload.as_value().eq(queue.r_data),
                    sink.valid.eq(queue.r_rdy),
                    queue.r_en.eq(sink.ready),
                    queue.w_data.eq(source.payload.as_value()),
                    queue.w_en.eq(source.valid & source.ready),
                ]
            m.d.comb += source.ready.eq(all_of([queue.w_rdy for queue in queues]))

        accepted = Signal(range(self.samples + 1), name=f"accepted_{p}")
        self._accepted = [*getattr(self, "_accepted", []), accepted]
        x = stream.Signature(vector(layers[0].inputs)).create()
        y = stream.Signature(vector(layers[-1].outputs)).create()
        taken = samples.valid & samples.ready
        m.d.comb += [
            samples.ready.eq((accepted != self.samples) & x.ready & y.ready),
            *(s.eq(v) for s, v in ((x.payload, samples.payload.x), (y.payload, samples.payload.y))),
            *(s.valid.eq(taken) for s in (x, y)),
        ]
        with m.If(taken):
            m.d.sync += accepted.eq(accepted + 1)
        joined("x", x, (forward[0].inputs, CHAIN_DEPTH), (gradient[0].inputs, depth))
        joined("y", y, (loss.targets, depth))
        for number, unit in enumerate(forward[:-1]):
            joined(
                f"forward{number}",
                unit.outputs,
                (forward[number + 1].inputs, CHAIN_DEPTH),
                (gradient[number + 1].inputs, depth),
                (backward[number].inputs, depth),
            )
        joined("outputs", forward[-1].outputs, (loss.outputs, CHAIN_DEPTH))
        sources = [*(unit.back for unit in backward), loss.errors]  # of the errors behind each layer
        for number, source in enumerate(sources):
            sinks = [(gradient[number].errors, CHAIN_DEPTH)]
            if number:
                sinks.append((backward[number - 1].errors, CHAIN_DEPTH))
            joined(f"errors{number}", source, *sinks)
        return gradient


def bypass_depth(stage_count: int) -> int:
    """Samples in a FIFO around other stages: more than those can hold."""
    return 3 * stage_count


def all_of(conditions: Sequence[Value]) -> Value:
    """Whether every condition holds; of one or more."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result
