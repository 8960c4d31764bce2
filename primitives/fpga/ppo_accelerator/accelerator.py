"""The accelerator: two compute units, the weights of two networks, their sequencers and Adam (PPO 3, Fig. 2 and 8).

Each unit trains its own network, or both work on one network with halves of the mini-batch and one set of
weights (PPO 3.3): the unit of that network reads the weights, and the other one gets the same words in the same cycles,
because both run the same steps in lockstep. Their gradients are added before Adam (Fig. 9).

Golden model: the tests' `GoldenNetwork`. Cycles: `cycles.ppo_accelerator`.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.compute_unit.row_ports import read_row, write_row
from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.floating_point.arithmetic import Add
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.control import INDEX_BITS
from placerl.primitives.fpga.ppo_accelerator.adam_rows import AdamRows, latency
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS, GradientNorm
from placerl.primitives.fpga.ppo_accelerator.sequencer import CYCLE_BITS, NetworkSequencer
from placerl.primitives.fpga.ppo_accelerator.unit import AcceleratorUnit, output_row


class HostMemory(enum.Enum, shape=3):  # type: ignore[call-arg]
    """A memory that the host writes: of a unit (activations, deltas), or of a network (weights, Adam's moments)."""

    ACTIVATIONS = 0
    DELTAS = 1
    WEIGHTS = 2
    MEANS = 3
    SQUARES = 4


@dataclass(frozen=True)
class AcceleratorSizes:
    """The sizes of an accelerator's memories, in blocks of P x P.

    Attributes:
        side: P, rows and columns of each array.
        weight_blocks: for the weights of a network.
        activation_blocks, delta_blocks: of a unit, for the activations and deltas of a mini-batch.
        result_blocks: of a unit, for a product.
        steps: steps of a network's program.
        relu: whether the activation function is ReLU; otherwise tanh.
        accumulator_depth: most vectors that stream in a pass of WS or IS.
        clips: whether gradients are clipped by their norm.
    """

    side: int
    weight_blocks: int
    activation_blocks: int
    delta_blocks: int
    result_blocks: int
    steps: int = 32
    relu: bool = False
    accumulator_depth: int = 1024
    clips: bool = False


def _clipping_ports() -> dict[str, Any]:
    parts = data.ArrayLayout(WORD_BITS, PARTS)
    of_one = {"measures": In(1), "scale": In(WORD_BITS), "parts": Out(parts)}
    return {f"{name}_{k}": port for k in range(2) for name, port in of_one.items()}


class PpoAccelerator(wiring.Component):
    """Trains two networks on two compute units, step by step of programs that the host has loaded.

    Ports (streams, unless stated otherwise), for network and unit k of 0 and 1:
        program: In: the `step` at `index` of network `network`.
        runs_k: In: a run of steps of network k (`NetworkSequencer`). finished_k: Out: its cycles.
        writes: In: the P `words` of row `row` of block `block`, to `memory` of unit or network `owner`. Taken while
            the owner is in no run.
        outputs_k: Out: rows of z_L of unit k.
        reads: In: row `row` of block `block` of the weights of network `owner`, while it is idle; rows: Out(P x 32).
        rate_k, root_k: In(32), not streams: Adam's `corrections` of network k in float32, constant in a run.

    With `clips` also, not streams and constant in a run; the products of the gradients are computed twice:
        measures_k: In(1): a run of network k applies no gradient, but sums up squares; parts_k: Out(PARTS x 32): these
            sums, from the last such run, until the next one begins. scale_k: In(32): what other runs multiply
            gradients by.
    """

    def __init__(self, sizes: AcceleratorSizes):
        self.sizes = sizes
        side = sizes.side
        self.units = [
            AcceleratorUnit(
                side=side,
                activation_blocks=sizes.activation_blocks,
                delta_blocks=sizes.delta_blocks,
                result_blocks=sizes.result_blocks,
                relu=sizes.relu,
                adam_latency=latency(sizes.clips),
                accumulator_depth=sizes.accumulator_depth,
            )
            for _ in range(2)
        ]
        self.sequencers = [NetworkSequencer(steps=sizes.steps) for _ in range(2)]
        program = self.sequencers[0].program.payload.shape()
        words = data.ArrayLayout(WORD_BITS, side)
        place = {"owner": 1, "block": INDEX_BITS, "row": range(side)}
        super().__init__(
            {
                "program": In(stream.Signature(data.StructLayout({"network": 1, **dict(program.members)}))),
                **{
                    f"runs_{k}": In(stream.Signature(self.sequencers[k].runs.payload.shape()))
                    for k in range(2)
                },
                **{f"finished_{k}": Out(stream.Signature(CYCLE_BITS)) for k in range(2)},
                **{f"outputs_{k}": Out(stream.Signature(output_row(side))) for k in range(2)},
                "writes": In(
                    stream.Signature(data.StructLayout({**place, "memory": HostMemory, "words": words}))
                ),
                "reads": In(stream.Signature(data.StructLayout(place))),
                "rows": Out(stream.Signature(words)),
                **{f"{name}_{k}": In(WORD_BITS) for k in range(2) for name in ("rate", "root")},
                **(_clipping_ports() if sizes.clips else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sizes, units, sequencers = self.sizes, self.units, self.sequencers
        m.submodules.adam = adam = AdamRows(side=sizes.side, blocks=sizes.weight_blocks, clips=sizes.clips)
        memories = [
            BankedBuffer(
                side=sizes.side,
                width=WORD_BITS,
                blocks=sizes.weight_blocks,
                row_cycles=FLOAT32.row_cycles,
            )
            for _ in range(2)
        ]
        for k in range(2):
            m.submodules[f"unit_{k}"] = units[k]
            m.submodules[f"sequencer_{k}"] = sequencers[k]
            m.submodules[f"weights_{k}"] = memories[k]
        self._sequence(m)
        self._weights(m, memories, adam)
        self._update(m, adam)
        self._host(m, memories, adam)
        return m

    def _sequence(self, m: Module) -> None:
        """Let each sequencer drive its unit, or one of them both units."""
        program = self.program.payload
        reads = self.rows.valid | (self.reads.valid & self.reads.ready)
        m.d.comb += self.program.ready.eq(
            Mux(program.network, self.sequencers[1].program.ready, self.sequencers[0].program.ready)
        )
        for k, (mine, other) in enumerate(zip(self.sequencers, self.sequencers[::-1], strict=True)):
            unit, other_unit = self.units[k], self.units[1 - k]
            # If both could begin, one of them on both units, network 0 does.
            rival = getattr(self, f"runs_{1 - k}")
            yields = rival.valid & (k == 1)
            m.d.comb += [
                mine.program.valid.eq(self.program.valid & (program.network == k)),
                mine.program.payload.index.eq(program.index),
                mine.program.payload.step.eq(program.step),
                mine.may_start.eq(~reads & ~other.shared & ~(yields & rival.payload.shared)),
                mine.may_share.eq(~other.busy & ~yields),
                mine.idle.eq(unit.idle & (~mine.shared | other_unit.idle)),
                unit.step.eq(Mux(other.shared, other.step, mine.step)),
                unit.start.eq(Mux(other.shared, other.start, mine.start)),
            ]
            wiring.connect(m, wiring.flipped(getattr(self, f"runs_{k}")), mine.runs)
            wiring.connect(m, wiring.flipped(getattr(self, f"finished_{k}")), mine.finished)
            wiring.connect(m, wiring.flipped(getattr(self, f"outputs_{k}")), unit.outputs)

    def _weights(self, m: Module, memories: list[BankedBuffer], adam: AdamRows) -> None:
        """Connect the weights: those of network k to unit k, and to the other one if both train this network."""
        reads, writes = self.reads.payload, self.writes.payload
        for k, (memory, unit) in enumerate(zip(memories, self.units, strict=True)):
            listens, other = self.sequencers[1 - k].shared, memories[1 - k]
            port = unit.weights
            m.d.comb += [
                # A unit that listens to the other network leaves its own weights to the host.
                memory.request.eq(port.request),
                memory.request.valid.eq(port.request.valid & ~listens),
                memory.base.eq(port.base),
                memory.pitch.eq(port.pitch),
                memory.as_blocks.eq(port.as_blocks & ~listens),
                memory.flipped.eq(port.flipped),
                port.data.as_value().eq(Mux(listens, other.data.as_value(), memory.data.as_value())),
                memory.write_mask.eq(-1),
                memory.write_next.eq(0),
                *write_row(memory, adam.to_block, adam.to_row, adam.new_weights),
            ]
            for mine, theirs, word in zip(memory.weights, other.weights, port.weights, strict=True):
                m.d.comb += word.eq(Mux(listens, theirs, mine))
            from_host = self.writes.valid & self.writes.ready & (writes.owner == k)
            loads = from_host & (writes.memory == HostMemory.WEIGHTS)
            m.d.comb += memory.write_enable.eq(loads | (adam.written & (adam.to_network == k)))
            with m.If(loads):
                m.d.comb += write_row(memory, writes.block, writes.row, writes.words)
            with m.If(self.reads.valid & self.reads.ready & (reads.owner == k)):
                m.d.comb += read_row(memory, reads.block, reads.row)

    def _update(self, m: Module, adam: AdamRows) -> None:
        """Give Adam to one network at a time, and connect the gradients' rows."""
        held = Signal()  # network 1 had Adam in the last cycle, and keeps it while it asks
        asks = [s.busy & unit.updating for s, unit in zip(self.sequencers, self.units, strict=True)]
        granted = [asks[0] & ~(held & asks[1]), asks[1] & (held | ~asks[0])]
        units = self.units
        m.d.sync += held.eq(granted[1])
        for k in range(2):
            m.d.comb += units[k].granted.eq(Mux(self.sequencers[1 - k].shared, granted[1 - k], granted[k]))
        network = granted[1]
        valid = Mux(network, units[1].gradient_valid, units[0].gradient_valid)
        shared = Mux(network, self.sequencers[1].shared, self.sequencers[0].shared)
        m.d.comb += [adam.valid.eq(valid), adam.network.eq(network)]
        for k in range(2):
            mine, other = units[k], units[1 - k]
            with m.If(granted[k]):
                m.d.comb += [
                    adam.block.eq(mine.gradient.block),
                    adam.row.eq(mine.gradient.row),
                    adam.gradients[0].as_value().eq(mine.gradient.words.as_value()),
                    adam.gradients[1].as_value().eq(Mux(shared, other.gradient.words.as_value(), 0)),
                    adam.weights.as_value().eq(mine.weights.data.as_value()),
                    adam.rate.eq(getattr(self, f"rate_{k}")),
                    adam.root.eq(getattr(self, f"root_{k}")),
                ]
                if self.sizes.clips:
                    m.d.comb += adam.scale.eq(getattr(self, f"scale_{k}"))
                    m.d.comb += adam.measures.eq(getattr(self, f"measures_{k}"))
        if self.sizes.clips:
            self._measure(m, adam)

    def _measure(self, m: Module, adam: AdamRows) -> None:
        """Sum up the squares of gradients that are not applied."""
        m.submodules.norm = norm = GradientNorm(side=self.sizes.side)
        m.d.comb += [
            norm.valid.eq(delayed(m, adam.valid & adam.measures, Add.latency)),
            norm.network.eq(delayed(m, adam.network, Add.latency)),
            norm.words.as_value().eq(adam.totals.as_value()),
        ]
        for k, sequencer in enumerate(self.sequencers):
            begins = sequencer.runs.valid & sequencer.runs.ready
            m.d.comb += [
                getattr(norm, f"clear_{k}").eq(begins & getattr(self, f"measures_{k}")),
                getattr(self, f"parts_{k}").as_value().eq(getattr(norm, f"parts_{k}").as_value()),
            ]

    def _host(self, m: Module, memories: list[BankedBuffer], adam: AdamRows) -> None:
        """Take the host's rows while their owner is idle, and give rows of weights."""
        writes, payload, load = self.writes, self.writes.payload, adam.load
        taken = writes.valid & writes.ready
        first, second = self.sequencers
        busy = Mux(payload.owner, second.busy, first.busy)
        works = busy | Mux(payload.owner, first.shared, second.shared)  # the unit does
        of_unit = (payload.memory == HostMemory.ACTIVATIONS) | (payload.memory == HostMemory.DELTAS)
        moment = (payload.memory == HostMemory.MEANS) | (payload.memory == HostMemory.SQUARES)
        m.d.comb += [
            writes.ready.eq(Mux(of_unit, ~works, ~busy & ~(moment & adam.written))),
            load.valid.eq(taken & moment),
            load.payload.moment.eq(payload.memory == HostMemory.SQUARES),
            load.payload.network.eq(payload.owner),
            load.payload.block.eq(payload.block),
            load.payload.row.eq(payload.row),
            load.payload.words.as_value().eq(payload.words.as_value()),
        ]
        for k, unit in enumerate(self.units):
            mine = taken & (payload.owner == k)
            m.d.comb += [
                unit.write_activations.eq(mine & (payload.memory == HostMemory.ACTIVATIONS)),
                unit.write_deltas.eq(mine & (payload.memory == HostMemory.DELTAS)),
                unit.write.block.eq(payload.block),
                unit.write.row.eq(payload.row),
                unit.write.words.as_value().eq(payload.words.as_value()),
            ]
        owner = Signal()
        reading = self.reads.valid & self.reads.ready
        of_busy = Mux(self.reads.payload.owner, self.sequencers[1].busy, self.sequencers[0].busy)
        m.d.comb += self.reads.ready.eq(~of_busy & (~self.rows.valid | self.rows.ready))
        with m.If(reading):
            m.d.sync += [self.rows.valid.eq(1), owner.eq(self.reads.payload.owner)]
        with m.Elif(self.rows.ready):
            m.d.sync += self.rows.valid.eq(0)
        m.d.comb += self.rows.payload.as_value().eq(
            Mux(owner, memories[1].data.as_value(), memories[0].data.as_value())
        )
