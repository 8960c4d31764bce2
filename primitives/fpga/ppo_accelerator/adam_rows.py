"""Adam for rows of P weights of one or of both networks, with gradients of one or of both units (PPO 3.3, Fig. 9).

Golden model: the tests' `GoldenTraining.update`.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.arithmetic import Add, Multiply
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed
from placerl.primitives.fpga.gemm.control import INDEX_BITS
from placerl.primitives.fpga.learner_pipeline.update_unit import AdamLane, adam_program

PROGRAM = adam_program(1)
LATENCY = Add.latency + PROGRAM.latency
"""Cycles from a row's gradient to its new weights, without clipping."""


def latency(clips: bool) -> int:
    """Return the cycles from a row's gradient to its new weights.

    Args:
        clips: whether gradients are clipped.
    """
    return LATENCY + clips * Multiply.latency


class SharedAdd(Add):
    """Adds the gradients of two units; a class of its own, so that an export writes its module once."""


class ScaleMultiply(Multiply):
    """Scales a gradient; a class of its own, so that an export writes its module once."""


class Moment(enum.Enum):
    """Adam's moments of a weight: the running means of its gradient and of the gradient's square."""

    MEAN = 0
    SQUARE = 1


class AdamRows(wiring.Component):
    """Adds a row of gradients to Adam's moments and gives the new weights, a row per cycle.

    Args:
        side: P, numbers in a row.
        blocks: blocks of P x P of a network's weights.
        clips: whether gradients are clipped: multiplied by a factor that follows from their norm.
        networks: 1 or 2.

    Ports:
        valid: In(1), a row comes. network: In(1), block: In(INDEX_BITS), row: In(range(P)): its place.
        gradients: In(2 x P x 32), of unit 0 and 1, which are added; weights: In(P x 32).
        rate, root: In(32): Adam's `corrections` in float32, of this row.
        written: Out(1), to_network, to_block, to_row, new_weights: `latency` cycles later, the new weights of the row.
        load: In(stream): sets a row of `moment`; only while no row is in the unit.

    With `clips` also:
        scale: In(32): the factor in float32, of this row. measures: In(1), the row is not applied.
        totals: Out(P x 32): the sums of the gradients, `Add.latency` cycles later.
    """

    def __init__(self, *, side: int, blocks: int, clips: bool = False, networks: int = 2):
        self.side, self.blocks, self.clips, self.networks = side, blocks, clips, networks
        words = data.ArrayLayout(WORD_BITS, side)
        load = {
            "moment": Moment,
            "network": 1,
            "block": INDEX_BITS,
            "row": range(side),
            "words": words,
        }
        super().__init__(
            {
                "valid": In(1),
                "network": In(1),
                "block": In(INDEX_BITS),
                "row": In(range(side)),
                "gradients": In(data.ArrayLayout(words, 2)),
                "weights": In(words),
                "rate": In(WORD_BITS),
                "root": In(WORD_BITS),
                "written": Out(1),
                "to_network": Out(1),
                "to_block": Out(INDEX_BITS),
                "to_row": Out(range(side)),
                "new_weights": Out(words),
                "load": In(stream.Signature(data.StructLayout(load))),
                **({"scale": In(WORD_BITS), "measures": In(1), "totals": Out(words)} if clips else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        side, load = self.side, self.load
        depth = self.networks * self.blocks * side
        memories = {name: Ram(width=side * WORD_BITS, depth=depth) for name in ("mean", "square")}

        def address(network: Any, block: Any, row: Any) -> Any:
            return (Mux(network, self.blocks, 0) + block) * side + row

        # The moments are read so that they come together with the sum of the gradients, scaled if they are clipped.
        summed = latency(self.clips) - PROGRAM.latency
        place = Cat(self.network, self.block, self.row)
        at_read = delayed(m, place, summed - 1)
        reads = delayed(m, self.valid & ~self.measures if self.clips else self.valid, summed - 1)
        at_write = delayed(m, at_read, 1 + PROGRAM.latency)
        writes = delayed(m, reads, 1 + PROGRAM.latency)

        def parts(joined: Any) -> tuple[Any, Any, Any]:
            return joined[0], joined[1 : 1 + INDEX_BITS], joined[1 + INDEX_BITS :]

        m.d.comb += [
            Cat(self.to_network, self.to_block, self.to_row).eq(at_write),
            self.written.eq(writes),
            load.ready.eq(1),
        ]
        results: dict[str, list[Any]] = {"mean": [], "square": []}
        for j in range(side):
            add, m.submodules[f"add_{j}"] = shared(platform, SharedAdd)
            lane, m.submodules[f"adam_{j}"] = shared(platform, AdamLane, batch_size=1)
            part = slice(j * WORD_BITS, (j + 1) * WORD_BITS)
            m.d.comb += [
                add.operands[0].eq(self.gradients[0][j]),
                add.operands[1].eq(self.gradients[1][j]),
                lane.inputs[0].eq(self._clipped(m, platform, j, add.result) if self.clips else add.result),
                lane.inputs[1].eq(delayed(m, self.weights[j], summed)),
                lane.inputs[2].eq(memories["mean"].read_data[part]),
                lane.inputs[3].eq(memories["square"].read_data[part]),
                lane.inputs[4].eq(delayed(m, self.rate, summed)),
                lane.inputs[5].eq(delayed(m, self.root, summed)),
                self.new_weights[j].eq(lane.results[0]),
            ]
            results["mean"].append(lane.results[1])
            results["square"].append(lane.results[2])
        for number, (name, memory) in enumerate(memories.items()):
            m.submodules[name] = memory
            loads = Signal(name=f"loads_{name}")
            to = address(load.payload.network, load.payload.block, load.payload.row)
            m.d.comb += [
                loads.eq(load.valid & (load.payload.moment == number)),
                memory.read_enable.eq(reads),
                memory.read_address.eq(address(*parts(at_read))),
                memory.write_enable.eq(writes | loads),
                memory.write_address.eq(Mux(writes, address(*parts(at_write)), to)),
                memory.write_data.eq(Mux(writes, Cat(results[name]), load.payload.words.as_value())),
            ]
        return m

    def _clipped(self, m: Module, platform: Any, lane: int, total: Any) -> Any:
        """Return a sum of gradients times the factor."""
        multiply, m.submodules[f"scale_{lane}"] = shared(platform, ScaleMultiply)
        m.d.comb += [
            self.totals[lane].eq(total),
            multiply.operands[0].eq(total),
            multiply.operands[1].eq(delayed(m, self.scale, Add.latency)),
        ]
        return multiply.result
