"""Two compute units with memories and a shared weight update: load balancing with data (PPO 3.3, Fig. 9).

The weights of a network are in the memory of A, as in PPO; in both units' memories if they share the network. A
gradient's rows are read from the memory of C, added to the weights' rows, and written back: one row per cycle. The
memory of A has one read port, which the array uses, so its rows are stored a second time for the adders.

Golden model: the products of `compute_unit.simulation`, and `weight_update.update_golden`. The cycles are those
of `load_balancing.UnitPair`.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.compute_unit.unit import ComputeUnit
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS
from placerl.primitives.fpga.gemm.systolic_array import delayed
from placerl.primitives.fpga.pair.load_balancing import OrderedPair, Updating
from placerl.primitives.fpga.pair.weight_update import WeightUpdate


class TrainingPair(OrderedPair):
    """Two compute units that compute gradients and add them to the weights in their memories.

    It takes the same cycles as `load_balancing.UnitPair`, which has no data.

    Args:
        units: two equal units, not yet elaborated, with one activation per word.
        shift: the learning rate is 2 ** -shift: gradients are shifted right by this before they are added.

    Ports, for unit k of 0 and 1:
        commands_k: In(stream): `product`, a command of `ComputeUnit`; `updates`: the product is a gradient of weights,
            which is then added to the weights; `shared`: the other unit trains the same network and gets the same
            command in its turn; `weights`: number of the block in A's memory at which the gradient's weights begin.
            The weights' blocks have the same order as the gradient's.
        finished_k: Out(stream): `cycles` and `stalls` of the product, after its rows were added to the weights; the
            next product uses the new weights.
        writes_k: In(stream): rows of blocks for the memories of A and B. Rows of A must be written completely.
        reads_k: In(stream): requests for rows of C; rows_k: Out(stream): the requested rows. While a gradient's rows
            are added to the weights, rows must be neither written nor read from outside.
    """

    def __init__(self, units: Sequence[ComputeUnit], *, shift: int = 0):
        core = units[0].core
        if core.configurable:
            raise ValueError("units: found configurable ones; allowed: of one activation a word")
        if shift < 0 or shift + core.width > core.accumulator_width:
            allowed = f"0 to {core.accumulator_width - core.width}"
            raise ValueError(f"shift: found {shift}; allowed: {allowed}")
        self.shift = shift
        streams = {
            f"{name}_{k}": (Out if name == "rows" else In)(
                stream.Signature(getattr(unit, name).payload.shape())
            )
            for k, unit in enumerate(units)
            for name in ("writes", "reads", "rows")
        }
        super().__init__(units, side=core.side, fields={"weights": INDEX_BITS}, ports=streams)

    def _rows(self, m: Module, updating: Sequence[Updating]) -> Sequence[Any]:
        core = self.units[0].core
        m.submodules.adders = adders = WeightUpdate(side=self.side, width=core.width)
        rows, updated = adders.rows, adders.updated
        # A row is read in one cycle, added in the next, and written in the one after.
        together = updating[0].meets & updating[1].meets
        m.d.comb += [adders.shared.eq(delayed(m, together, 1)), updated.ready.eq(1)]
        arrived = [delayed(m, each.moves, 1) for each in updating]
        m.d.comb += rows.valid.eq(arrived[0] | arrived[1])
        may_move = []
        for k, (unit, now) in enumerate(zip(self.units, updating, strict=True)):
            block, offset = (
                Signal(INDEX_BITS, name=f"block_{k}"),
                Signal(range(self.side), name=f"offset_{k}"),
            )
            with m.If(now.starting):
                m.d.sync += [block.eq(0), offset.eq(0)]
            with m.Elif(now.moves):
                last = offset == self.side - 1
                m.d.sync += [block.eq(block + last), offset.eq(Mux(last, 0, offset + 1))]
            weights_block = (now.command.weights + block)[:INDEX_BITS]

            may_move.append(self._read_gradient(m, k, now.moves, arrived[k], block, offset, now.command))
            depth = unit.operand_blocks * self.side
            m.submodules[f"weights_{k}"] = weights = Ram(width=self.side * core.width, depth=depth)
            m.d.comb += [
                weights.read_enable.eq(now.moves),
                weights.read_address.eq(weights_block * self.side + offset),
                rows.payload.weights[k].as_value().eq(weights.read_data),
            ]
            for j in range(self.side):
                gradient = unit.rows.payload[j][0]
                m.d.comb += rows.payload.gradients[k][j].eq(gradient[self.shift :])

            returns, to_block, to_row = (delayed(m, value, 2) for value in (now.moves, weights_block, offset))
            back = Mux(delayed(m, together, 2), updated.payload[0].as_value(), updated.payload[k].as_value())
            writes, outside = unit.writes, getattr(self, f"writes_{k}")
            m.d.comb += [
                writes.valid.eq(outside.valid | returns),
                outside.ready.eq(~returns),
                writes.payload.eq(outside.payload),
            ]
            with m.If(returns):
                m.d.comb += [
                    writes.payload.to_b.eq(0),
                    writes.payload.block.eq(to_block),
                    writes.payload.row.eq(to_row),
                    writes.payload.words.as_value().eq(back),
                ]
                if core.block_load:
                    m.d.comb += [writes.payload.mask.eq(-1), writes.payload.next.eq(0)]
            m.d.comb += [
                weights.write_enable.eq(writes.valid & ~writes.payload.to_b),
                weights.write_address.eq(writes.payload.block * self.side + writes.payload.row),
                weights.write_data.eq(writes.payload.words.as_value()),
            ]
        return may_move

    def _read_gradient(
        self, m: Module, k: int, moves: Any, arrived: Any, block: Signal, offset: Signal, command: Any
    ) -> Any:
        """Request a row from the memory of C if one moves, otherwise for the outside; returns whether that is
        possible.
        """
        unit, reads, rows = self.units[k], getattr(self, f"reads_{k}"), getattr(self, f"rows_{k}")
        m.d.comb += [
            unit.reads.valid.eq(reads.valid | moves),
            unit.reads.payload.eq(reads.payload),
            reads.ready.eq(unit.reads.ready & ~moves),
            rows.payload.eq(unit.rows.payload),
            rows.valid.eq(unit.rows.valid & ~arrived),
            unit.rows.ready.eq(rows.ready | arrived),
        ]
        with m.If(moves):
            m.d.comb += [
                unit.reads.payload.block.eq(command.product.base_c + block),
                unit.reads.payload.row.eq(offset),
            ]
        return unit.reads.ready
