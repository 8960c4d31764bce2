"""The update units of one network of MAP's accelerator, and when they start."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import all_of, word_and_part
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.learner_pipeline.update_unit import UpdateUnit

# Float32 numbers that are constant during a step: Adam's corrections, 1 / B, and the target's step.
Scalars = data.StructLayout(dict.fromkeys(("rate", "root", "scale", "tau"), WORD_BITS))


class NetworkUpdates:
    """Update units for the layers of a network, which start when all gradients of a batch are added.

    Args:
        learner: the learner: of its ports, `copy`, `moves`, `read`, `read_target`, `read_address`, `load_<l>` and
            `read_<l>` are connected.
        first: number of the first layer among those of the learner.
        begin: a batch of this network begins.
        scalars: `Scalars`.
        gradients: of each pipeline, the gradient units of all layers.

    Attributes:
        finished: all new weights of the batch are written.
    """

    def __init__(
        self,
        m: Module,
        learner: Any,
        layers: Sequence[LayerShape],
        *,
        first: int,
        begin: Value,
        scalars: Any,
        samples: Signal,
        gradients: Sequence[Sequence[Any]],
    ):
        self._m = m
        self.units: list[Any] = []
        start, started = Signal(name=f"start_{first}"), Signal(name=f"started_{first}")
        finished = Signal(len(layers), name=f"finished_{first}")
        all_added = []
        for at, layer in enumerate(layers):
            number = first + at
            update = UpdateUnit(layer, pipelines=len(gradients), batch_size=None)
            self.units.append(update)
            m.submodules[f"update_{number}"] = update
            wiring.connect(m, wiring.flipped(getattr(learner, f"load_{number}")), update.load)
            m.d.comb += [
                update.start.eq(start),
                *(getattr(update, name).eq(scalars[name]) for name in ("rate", "root", "scale", "tau")),
                update.copy.eq(learner.copy),
                update.moves.eq(learner.moves),
                update.read.eq(learner.read),
                update.read_target.eq(learner.read_target),
                update.read_address.eq(learner.read_address),
                getattr(learner, f"read_{number}").eq(update.read_data),
            ]
            loaded, _ = word_and_part(layer, update.load.payload.address)
            for p, units in enumerate(gradients):
                gradient = units[at]
                added = Signal.like(samples, name=f"added_{p}_{number}")
                with m.If(begin):
                    m.d.sync += added.eq(0)
                with m.Elif(gradient.added):
                    m.d.sync += added.eq(added + 1)
                all_added.append(added == samples)
                m.d.comb += [
                    # New weights clear the sums, of which a reset within a step leaves some.
                    gradient.take.eq(update.take | update.load.valid),
                    gradient.address.eq(Mux(update.load.valid, loaded, update.address)),
                    update.sums[p].eq(gradient.sums),
                ]
            with m.If(begin):
                m.d.sync += finished[at].eq(0)
            with m.Elif(update.written & (update.write.address == layer.words - 1)):
                m.d.sync += finished[at].eq(1)
        m.d.comb += start.eq(started & all_of(all_added))
        with m.If(begin):
            m.d.sync += started.eq(1)
        with m.Elif(start):
            m.d.sync += started.eq(0)
        self.finished = finished.all()

    def write(self, units: Sequence[Any], *, target: bool = False, first: int = 0) -> None:
        """Connect the weight memories of units of a pass, one for each layer from `first` on.

        Args:
            units: forward or backward units.
            target: they hold the target network's weights.
            first: the first unit's layer in this network.
        """
        for unit, update in zip(units, self.units[first:], strict=True):
            source = update.write_target if target else update.write
            self._m.d.comb += [
                getattr(unit.write, name).eq(getattr(source, name)) for name in ("enable", "address", "data")
            ]
