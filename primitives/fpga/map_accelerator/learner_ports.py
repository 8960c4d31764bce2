"""The ports that the learners of MAP's accelerator share, and how samples are dealt to their pipelines."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import Number, vector
from placerl.primitives.fpga.learner_pipeline.td_loss import terms
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
from placerl.primitives.fpga.map_accelerator.updates import Scalars

TD_DEPTH = 4  # TD errors of a pipeline that wait until those of the others are there


def sample(settings: AcceleratorSettings) -> data.StructLayout:
    """Return the layout of what a learner takes of a transition: states, DDPG's action, and the `terms` of the loss."""
    action = {"action": vector(settings.actions)} if settings.actor else {}
    return data.StructLayout(
        {
            "state": vector(settings.states),
            "next_state": vector(settings.states),
            **action,
            "terms": terms(settings.layers[-1].outputs),
        }
    )


def learner_ports(settings: AcceleratorSettings) -> dict[str, Any]:
    """Return the ports of a learner, which `DqnLearner` describes; layers are those of `settings.networks`."""
    ports: dict[str, Any] = {
        "begin": In(1),
        "finished": Out(1),
        "samples_per_pipeline": In(range(settings.largest_batch // settings.pipelines + 1)),
        "scalars": In(Scalars),
        "huber": In(1),
        "copy": In(1),
        "moves": In(1),
        "samples": In(stream.Signature(sample(settings))),
        "tds": Out(stream.Signature(Number)),
        "read": In(1),
        "read_target": In(1),
        "read_address": In(range(max(2, *(layer.update_words for layer in settings.networks)))),
    }
    for number, layer in enumerate(settings.networks):
        word = {"address": range(layer.update_words), "weights": data.ArrayLayout(WORD_BITS, layer.updates)}
        ports[f"load_{number}"] = In(stream.Signature(data.StructLayout(word)))
        ports[f"read_{number}"] = Out(data.ArrayLayout(WORD_BITS, layer.updates))
    return ports


def deal(m: Module, learner: Any, inputs: list[Any], queues: list[Any]) -> None:
    """Give samples to the pipelines in turn, and take their TD errors in the same turn.

    Args:
        learner: the learner, with `begin`, `samples` and `tds`.
        inputs: the samples of each pipeline.
        queues: FIFOs with the TD errors of each pipeline.
    """
    count = len(inputs)
    to, of = Signal(range(max(2, count)), name="to"), Signal(range(max(2, count)), name="of")
    for turn, moves in (
        (to, learner.samples.valid & learner.samples.ready),
        (of, learner.tds.valid & learner.tds.ready),
    ):
        with m.If(learner.begin):
            m.d.sync += turn.eq(0)
        with m.Elif(moves):
            m.d.sync += turn.eq(Mux(turn == count - 1, 0, turn + 1))
    for p, (into, queue) in enumerate(zip(inputs, queues, strict=True)):
        m.d.comb += into.payload.eq(learner.samples.payload)
        with m.If(to == p):
            m.d.comb += [into.valid.eq(learner.samples.valid), learner.samples.ready.eq(into.ready)]
        with m.If(of == p):
            m.d.comb += [
                learner.tds.valid.eq(queue.r_rdy),
                learner.tds.payload.eq(queue.r_data.as_signed()),
                queue.r_en.eq(learner.tds.ready),
            ]
