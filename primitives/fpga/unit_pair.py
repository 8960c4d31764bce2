"""Two compute units that train two networks, or share one: the load balancing module in time (PPO 3.3, Fig. 8, 9).

Each unit works through its own products. Behind a product that is a gradient of weights its rows go to the weights, one
a cycle through `weight_update.WeightUpdate`. Where the units share a network, both gradients' rows go together: the
unit that is there first waits for the other. Units are `gemm_timer.GemmTimer`: no data.

Golden model: `cycles.balance.pair_cycles`.
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga.gemm_timer import COUNT_BITS, GemmTimer


class State(enum.Enum):
    """What a unit does."""

    IDLE = 0
    PRODUCT = 1
    UPDATE = 2


class UnitPair(wiring.Component):
    """Two timers of compute units and the weight update between them.

    Args:
        side, block_load, layout: of the units, as `GemmTimer`.

    Ports, for unit k of 0 and 1:
        commands_k: In(stream): `product`, a command of `GemmTimer`; `updates`: it is a gradient of weights; `shared`:
            of a network that the other unit trains, too, with the same command in its turn.
        finished_k: Out(stream): `cycles` and `stalls` of the product, once its rows are in the weights.
    """

    def __init__(self, *, side: int, block_load: bool = True, layout: str = "blocked"):
        self.side = side
        self._timers = [GemmTimer(side=side, block_load=block_load, layout=layout) for _ in range(2)]
        payload = self._timers[0].commands.payload.shape()
        command = data.StructLayout({"product": payload, "updates": 1, "shared": 1})
        finished = self._timers[0].finished.payload.shape()
        super().__init__(
            {
                **{f"commands_{k}": In(stream.Signature(command)) for k in range(2)},
                **{f"finished_{k}": Out(stream.Signature(finished)) for k in range(2)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        meets = [
            Signal(name=f"meets_{k}") for k in range(2)
        ]  # unit k has rows of the network that both train
        for k, timer in enumerate(self._timers):
            m.submodules[f"unit_{k}"] = timer
            self._unit(m, k, timer, meets[k], meets[0] & meets[1])
        return m

    def _unit(self, m: Module, k: int, timer: GemmTimer, meets: Signal, together: Any) -> None:
        commands, finished = getattr(self, f"commands_{k}"), getattr(self, f"finished_{k}")
        state = Signal(State, name=f"state_{k}")
        command = Signal.like(commands.payload, name=f"command_{k}")
        rows, row = Signal(COUNT_BITS, name=f"rows_{k}"), Signal(COUNT_BITS, name=f"row_{k}")
        gemm = command.product.gemm
        m.d.comb += [
            rows.eq(gemm.a_blocks * gemm.c_blocks * self.side),
            timer.commands.payload.eq(commands.payload.product),
            timer.commands.valid.eq(commands.valid & (state == State.IDLE)),
            commands.ready.eq(timer.commands.ready & (state == State.IDLE)),
            finished.payload.eq(timer.finished.payload),
            meets.eq((state == State.UPDATE) & command.shared),
        ]
        with m.Switch(state):
            with m.Case(State.IDLE), m.If(commands.valid & commands.ready):
                m.d.sync += [state.eq(State.PRODUCT), command.eq(commands.payload), row.eq(0)]
            with m.Case(State.PRODUCT), m.If(timer.finished.valid):
                m.d.comb += finished.valid.eq(~command.updates)
                with m.If(command.updates):
                    m.d.sync += state.eq(State.UPDATE)
                with m.Elif(finished.ready):
                    m.d.comb += timer.finished.ready.eq(1)
                    m.d.sync += state.eq(State.IDLE)
            with m.Case(State.UPDATE):
                with m.If(row != rows):
                    m.d.sync += row.eq(row + (~command.shared | together))
                with m.Else():  # the adders' register
                    m.d.comb += finished.valid.eq(1)
                    with m.If(finished.ready):
                        m.d.comb += timer.finished.ready.eq(1)
                        m.d.sync += state.eq(State.IDLE)
