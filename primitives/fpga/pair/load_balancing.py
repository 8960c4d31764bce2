"""The load balancing module: two compute units that train one network each, or share one (PPO 3.3, Fig. 8, 9).

Each unit processes its own products. After a product that is a gradient of weights, the rows of the gradient are
added to the weights, one per cycle, by `weight_update.WeightUpdate`. If the units share a network, the rows of both
gradients are added together, and the unit that is ready first waits for the other.

`UnitPair` consists of `gemm.timer.GemmTimer`s, without data; the tests' `TrainingPair` is the same with data and
takes the same cycles. The golden model of the cycles is `cycles.load_balancing.pair_update_cycles`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.gemm.timer import COUNT_BITS, GemmTimer


class UnitState(enum.Enum):
    """The state of a compute unit: idle, computing a product, or adding a gradient to weights row by row."""

    IDLE = 0
    PRODUCT = 1
    UPDATE = 2


@dataclass(frozen=True)
class Updating:
    """The signals that show how far a unit is with its current command.

    Attributes:
        command: the unit's current command, a view of its fields.
        starting: the command is taken in this cycle.
        meets: rows of the unit's gradient are to be added together with rows of the other unit's.
        moves: a row of the unit's gradient goes to the weights in this cycle.
    """

    command: Any
    starting: Signal
    meets: Signal
    moves: Signal


class OrderedPair(wiring.Component):
    """Two compute units, and the control that makes each do its products and weight updates in order.

    Args:
        units: components with the ports `commands` and `finished`, not yet elaborated; `finished` must hold its
            value until it is taken.
        fields: further fields of a command, with their Amaranth shapes.
        ports: further ports.

    Ports, for unit k of 0 and 1:
        commands_k: In(stream): `product`, a command of the unit; `updates`: the product is a gradient of weights,
            which is then added to the weights; `shared`: the other unit trains the same network and gets the same
            command in its turn.
        finished_k: Out(stream): the item of the unit's port `finished`, after the rows of a gradient were added.
    """

    def __init__(
        self,
        units: Sequence[Any],
        *,
        side: int,
        fields: Mapping[str, Any] | None = None,
        ports: Mapping[str, Any] | None = None,
    ):
        self.side, self.units = side, tuple(units)
        product = units[0].commands.payload.shape()
        command = data.StructLayout({"product": product, "updates": 1, "shared": 1, **(fields or {})})
        finished = units[0].finished.payload.shape()
        super().__init__(
            {
                **{f"commands_{k}": In(stream.Signature(command)) for k in range(2)},
                **{f"finished_{k}": Out(stream.Signature(finished)) for k in range(2)},
                **(ports or {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        updating = []
        for k, unit in enumerate(self.units):
            m.submodules[f"unit_{k}"] = unit
            signals = (Signal(name=f"{name}_{k}") for name in ("starting", "meets", "moves"))
            updating.append(Updating(Signal.like(getattr(self, f"commands_{k}").payload), *signals))
        may_move = self._rows(m, updating)
        together = updating[0].meets & updating[1].meets & may_move[0] & may_move[1]
        for k, unit in enumerate(self.units):
            self._order(m, k, unit, updating[k], may_move[k], together)
        return m

    def _rows(self, m: Module, updating: Sequence[Updating]) -> Sequence[Any]:
        """Move the rows of the gradients; return for each unit whether a row may move."""
        return [Const(1), Const(1)]

    def _order(self, m: Module, k: int, unit: Any, updating: Updating, may_move: Any, together: Any) -> None:
        commands, finished = getattr(self, f"commands_{k}"), getattr(self, f"finished_{k}")
        state = Signal(UnitState, name=f"state_{k}")
        command = updating.command
        rows, row = Signal(COUNT_BITS, name=f"rows_{k}"), Signal(COUNT_BITS, name=f"row_{k}")
        gemm = command.product.gemm
        m.d.comb += [
            rows.eq(gemm.a_blocks * gemm.c_blocks * self.side),
            unit.commands.payload.eq(commands.payload.product),
            unit.commands.valid.eq(commands.valid & (state == UnitState.IDLE)),
            commands.ready.eq(unit.commands.ready & (state == UnitState.IDLE)),
            updating.starting.eq(commands.valid & commands.ready),
            finished.payload.eq(unit.finished.payload),
            updating.meets.eq((state == UnitState.UPDATE) & command.shared),
        ]
        with m.Switch(state):
            with m.Case(UnitState.IDLE), m.If(updating.starting):
                m.d.sync += [state.eq(UnitState.PRODUCT), command.eq(commands.payload), row.eq(0)]
            with m.Case(UnitState.PRODUCT), m.If(unit.finished.valid):
                m.d.comb += finished.valid.eq(~command.updates)
                with m.If(command.updates):
                    m.d.sync += state.eq(UnitState.UPDATE)
                with m.Elif(finished.ready):
                    m.d.comb += unit.finished.ready.eq(1)
                    m.d.sync += state.eq(UnitState.IDLE)
            with m.Case(UnitState.UPDATE):
                with m.If(row != rows):
                    m.d.comb += updating.moves.eq((~command.shared & may_move) | together)
                    m.d.sync += row.eq(row + updating.moves)
                with m.Else():  # the adders' register
                    m.d.comb += finished.valid.eq(1)
                    with m.If(finished.ready):
                        m.d.comb += unit.finished.ready.eq(1)
                        m.d.sync += state.eq(UnitState.IDLE)


class UnitPair(OrderedPair):
    """The timers of two compute units that share a weight update, for counting cycles without data.

    Args:
        block_load: whether stationary blocks are loaded at once.
        layout: layout of A's memory: `blocked`, which always answers, or `plain`, which stalls for columns.

    Ports, for unit k of 0 and 1:
        commands_k: In(stream): `product`, a command of `GemmTimer`; `updates`: the product is a gradient of
            weights, which is then added to the weights; `shared`: the other unit trains the same network and gets the
            same command in its turn.
        finished_k: Out(stream): `cycles` and `stalls` of the product, after its rows were added to the weights.
    """

    def __init__(self, *, side: int, block_load: bool = True, layout: str = "blocked"):
        timers = [GemmTimer(side=side, block_load=block_load, layout=layout) for _ in range(2)]
        super().__init__(timers, side=side)
