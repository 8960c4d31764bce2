"""The replay pipeline: a first stage, then a stage and a memory per level of the tree (MAP IV-C4, IV-D4; PRL 4.1.1)."""

from typing import Any

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.replay_pipeline.front_end import FrontEnd
from placerl.primitives.fpga.replay_pipeline.layout import Form, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.levels import LEVELS


class ReplayPipeline(wiring.Component):
    """A sum tree that takes a stream of requests, of all kinds mixed, and answers them in order.

    Every request sees the results of all requests before it, however closely it follows them: it passes each level
    after them, and a level forwards what it is about to write. The golden model is the tests' `GoldenTree`.

    Throughput: in the form WIDE it takes one request per cycle; in the form NARROW a sample takes K cycles and
    another request one. `fpga.cycles.replay` has the formulas.

    Ports:
        requests (in, stream of `PipelineLayout.request`), responses (out, stream of `PipelineLayout.response`).
        last_leaf (in, path): the last leaf that INSERT fills, if it is in use; it then starts again at leaf 0.
        total (out, total_bits): the sum of all priorities once all taken requests have been answered.
        unsettled (out, 1): `total` is about to change.

    Args:
        form: how a level reads a node: all children at once (`Form.WIDE`) or one per cycle (`Form.NARROW`).
        remembers: whether the paths of samples are kept, so that an UPDATE with the field `remembered` can name its
            leaf by the sample's tag; otherwise the field has no effect.
        clears: whether the tree is cleared after a reset, in as many cycles as it has leaves in use, in which it takes
            no request. Otherwise it must start with memories of zeros, as after the configuration of the device.
    """

    def __init__(
        self,
        layout: PipelineLayout,
        form: Form = Form.WIDE,
        remembers: bool = True,
        clears: bool = False,
    ) -> None:
        self.layout, self.form, self.remembers, self.clears = layout, form, remembers, clears
        super().__init__(
            {
                "requests": In(stream.Signature(layout.request())),
                "responses": Out(stream.Signature(layout.response())),
                "last_leaf": In(layout.path_bits),
                "total": Out(layout.total_bits),
                "unsettled": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.front_end = front_end = FrontEnd(self.layout, self.remembers, self.clears)
        wiring.connect(m, wiring.flipped(self.requests), front_end.requests)
        steps = front_end.steps
        for number in range(self.layout.levels):
            level = LEVELS[self.form](self.layout, number, self.clears)
            m.submodules[f"level_{number}"] = level
            wiring.connect(m, steps, level.steps)
            steps = level.next_steps
        response = self.responses.payload
        m.d.comb += [
            response.eq(steps.payload.response),
            self.responses.valid.eq(steps.valid),
            steps.ready.eq(self.responses.ready),
            front_end.last_leaf.eq(self.last_leaf),
            front_end.sampled_valid.eq(
                steps.valid & self.responses.ready & (response.operation == Operation.SAMPLE)
            ),
            front_end.sampled_tag.eq(response.tag),
            front_end.sampled_path.eq(response.path),
            self.total.eq(front_end.total),
            self.unsettled.eq(front_end.unsettled),
        ]
        return m
