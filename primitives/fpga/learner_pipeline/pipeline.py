"""The learner pipeline: DP copies of all units of a pipeline, with one update unit per layer (MAP Fig. 3)."""

from collections.abc import Sequence
from itertools import pairwise

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import all_of, vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.learner_pipeline.stages import Stages
from placerl.primitives.fpga.learner_pipeline.tensor_units import (
    BackwardUnit,
    ForwardUnit,
    GradientUnit,
    LossUnit,
)
from placerl.primitives.fpga.learner_pipeline.update_unit import UpdateUnit


class LearnerPipeline(wiring.Component):
    """Trains a network: takes a batch in `pipelines` equal parts, and then gives the new weights.

    The next batch is taken after the update. The network has ReLU between its layers, a squared
    error as loss, and Adam.

    Args:
        layers: layers from the input on; each layer's outputs are the next one's inputs.
        samples: PI, samples per pipeline and batch: the batch has DP x PI.

    Ports:
        samples_<p>: In(stream of x: vector(inputs), y: vector(outputs)): the samples of pipeline p with their targets.
        load_<l>: In(stream of address and weights, updates x float32): initial weights of layer l, taken between
            updates (`UpdateUnit.load`).
        rate, root: In(32): Adam's `corrections` for bias in float32, constant while batches are in the pipeline.
        updated_<l>: Out(stream of address and weights, lanes x float32): layer l's new weights, which the
            consumer must take at once.
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
            part = {
                "address": range(layer.update_words),
                "weights": data.ArrayLayout(WORD_BITS, layer.updates),
            }
            members[f"load_{number}"] = In(stream.Signature(data.StructLayout(part)))
            word = {"address": range(layer.words), "weights": data.ArrayLayout(WORD_BITS, layer.lanes)}
            members[f"updated_{number}"] = Out(stream.Signature(data.StructLayout(word)))
        super().__init__(members)

    @property
    def stage_count(self) -> int:
        """Number of stages, MAP's n = 3 L: L forward, the loss, L - 1 backward, L gradients (MAP IV-B3)."""
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
        running = Signal()  # an update is in progress
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
        """Add one pipeline's units, connected; returns the gradient units, by layer."""
        layers, samples = self.layers, getattr(self, f"samples_{p}")
        stages = Stages(
            forward=[ForwardUnit(layer, relu=layer is not layers[-1]) for layer in layers],
            loss=LossUnit(layers[-1].outputs),
            backward=[BackwardUnit(layer) for layer in layers[1:]],
            gradient=[GradientUnit(layer) for layer in layers],
        )
        for number, update in enumerate(self.updates):
            backward = stages.backward[number - 1 : number]
            for write in (stages.forward[number].write, *(unit.write for unit in backward)):
                m.d.comb += [
                    write.enable.eq(update.write.enable),
                    write.address.eq(update.write.address),
                    write.data.eq(update.write.data),
                ]

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
        stages.add_to(m, x, y, p=p)
        return list(stages.gradient)
