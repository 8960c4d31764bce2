"""The learner of MAP's accelerator for DQN: DP pipelines with target networks, and an update unit for each layer."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered

from placerl.primitives.fpga.export.shared_unit import SharedUnit
from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.learner_pipeline.stages import Stages
from placerl.primitives.fpga.learner_pipeline.td_loss import TdLossUnit, terms
from placerl.primitives.fpga.learner_pipeline.tensor_units import BackwardUnit, ForwardUnit, GradientUnit
from placerl.primitives.fpga.map_accelerator.learner_ports import TD_DEPTH, deal, learner_ports, sample
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
from placerl.primitives.fpga.map_accelerator.updates import NetworkUpdates


def _sizes(layer: LayerShape) -> dict[str, int]:
    return {"inputs": layer.inputs, "outputs": layer.outputs, "lanes": layer.lanes}


def _forward(inputs: int, outputs: int, lanes: int, relu: bool) -> ForwardUnit:
    return ForwardUnit(LayerShape(inputs, outputs, lanes), relu=relu)


def _backward(inputs: int, outputs: int, lanes: int) -> BackwardUnit:
    return BackwardUnit(LayerShape(inputs, outputs, lanes))


def _gradient(inputs: int, outputs: int, lanes: int) -> GradientUnit:
    return GradientUnit(LayerShape(inputs, outputs, lanes))


class DqnLearner(wiring.Component):
    """Trains a Q network on one batch after another, a sample of which goes to each pipeline in turn.

    Ports:
        begin: In(1), a batch begins. finished: Out(1), all new weights of the batch are written.
        samples_per_pipeline: In, PI; scalars: In(Scalars); huber, copy, moves: In(1): Huber's loss, and the target
            network's step (`UpdateUnit`). All are constant during a batch.
        samples: In(stream of `sample`): the batch. tds: Out(stream of Number): its TD errors, in the same order.
        load_<l>: In(stream of address and weights, updates x float32): weights of layer l and of its target, taken
            between batches (`UpdateUnit.load`). Adam's moments become 0.
        read: In(1), read_target: In(1), read_address: In(16): between batches, a part of a word of each layer is read.
        read_<l>: Out(updates x 32), the weights of layer l, a cycle later.
    """

    def __init__(self, settings: AcceleratorSettings):
        self.settings = settings
        super().__init__(learner_ports(settings))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings = self.settings
        pipelines = [self._pipeline(m, p) for p in range(settings.pipelines)]
        deal(m, self, [inputs for inputs, _, _ in pipelines], [queue for _, queue, _ in pipelines])

        updates = NetworkUpdates(
            m,
            self,
            settings.layers,
            first=0,
            begin=self.begin,
            scalars=self.scalars,
            samples=self.samples_per_pipeline,
            gradients=[stages.gradient for _, _, stages in pipelines],
        )
        for _, _, stages in pipelines:
            updates.write(stages.forward)
            updates.write(stages.backward, first=1)
            updates.write(stages.target, target=True)
            if stages.greedy:
                updates.write(stages.greedy)
        m.d.comb += self.finished.eq(updates.finished)
        return m

    def _pipeline(self, m: Module, p: int) -> tuple[stream.Interface, Any, Stages]:
        """Add one pipeline, and return its samples, the queue of its TD errors, and its units."""
        settings = self.settings
        layers = settings.layers

        def forward() -> list[Any]:
            return [
                SharedUnit(_forward, **_sizes(layer), relu=number < len(layers) - 1)
                for number, layer in enumerate(layers)
            ]

        loss = TdLossUnit(settings.actions, double=settings.double)
        stages = Stages(
            forward=forward(),
            loss=loss,
            backward=[SharedUnit(_backward, **_sizes(layer)) for layer in layers[1:]],
            gradient=[SharedUnit(_gradient, **_sizes(layer)) for layer in layers],
            target=forward(),
            greedy=forward() if settings.double else (),
        )
        m.submodules[f"terms_{p}"] = waiting = SyncFIFOBuffered(
            width=terms(settings.actions).size, depth=stages.depth
        )
        m.submodules[f"tds_{p}"] = tds = SyncFIFOBuffered(width=WORD_BITS, depth=TD_DEPTH)
        inputs = stream.Signature(sample(settings)).create()
        x = stream.Signature(vector(settings.states)).create()
        y = stream.Signature(vector(settings.states)).create()
        taken = inputs.valid & inputs.ready
        m.d.comb += [
            inputs.ready.eq(x.ready & y.ready & waiting.w_rdy),
            x.payload.eq(inputs.payload.state),
            y.payload.eq(inputs.payload.next_state),
            waiting.w_data.eq(inputs.payload.terms),
            *(valid.eq(taken) for valid in (x.valid, y.valid, waiting.w_en)),
            loss.huber.eq(self.huber),
            loss.terms.payload.as_value().eq(waiting.r_data),
            loss.terms.valid.eq(waiting.r_rdy),
            waiting.r_en.eq(loss.terms.ready),
            tds.w_data.eq(loss.tds.payload),
            tds.w_en.eq(loss.tds.valid & tds.w_rdy),
            loss.tds.ready.eq(tds.w_rdy),
        ]
        stages.add_to(m, x, y, p=p)
        return inputs, tds, stages
