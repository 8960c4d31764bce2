"""Clock cycles of matrix products of any shape, simulated once each and kept on disk under a hash of the RTL.

products = SimulatedProducts(side=16, block_load=True)
products.product_cycles(GemmShape(512, 64, 64), side=16, dataflow="IS")  # fits `cycles.ppo` as its product_cycles
products.stalls(...)                                                     # of these, waiting for the plain layout
"""

from collections.abc import Iterable, Sequence
from typing import Any

from primitives.fpga import simulation
from primitives.fpga.cycles.simulated_once import SimulatedOnce
from primitives.fpga.gemm.plan import GemmShape, command_fields
from primitives.fpga.gemm.timer import GemmTimer
from primitives.fpga.simulation.ports import columns

Product = tuple[GemmShape, str]  # with its dataflow


class SimulatedProducts:
    """The timer of a compute unit and what it said before.

    A is read by columns, across its layout, whatever the dataflow: what NS and WS ask for of A as it is, and IS of its
    transpose. The blocked layout gives either without a stall.

    Args:
        side, block_load, layout: of the unit, as `GemmTimer`.
        engine: `compiled` (Verilator) or `interpreted` (Amaranth's own).
    """

    def __init__(
        self, *, side: int, block_load: bool = False, layout: str = "blocked", engine: str = "compiled"
    ):
        self.side, self.block_load, self.layout = side, block_load, layout
        self._start = simulation.engine(engine)
        self._timer: Any = None
        self._known = SimulatedOnce("primitives.fpga.gemm.timer", self._simulated)

    def product_cycles(self, shape: GemmShape, *, side: int, dataflow: str) -> int:
        """Simulated cycles, stalls among them; a `cycles.ppo.ProductCycles`.

        Raises:
            ValueError: another side than that of the unit.
        """
        if side != self.side:
            raise ValueError(f"side: found {side}; allowed: {self.side}")
        return self._of(shape, dataflow)[0]

    def stalls(self, shape: GemmShape, dataflow: str) -> int:
        """Cycles of these in which A was asked for and not there."""
        return self._of(shape, dataflow)[1]

    def simulate(self, products: Iterable[Product]) -> None:
        """Simulates all that are not known yet in one go."""
        self._known.simulate(map(self._size, products))

    def is_known(self, product: Product) -> bool:
        """Whether a product's cycles need no simulation any more."""
        return self._known.is_known(self._size(product))

    def _of(self, shape: GemmShape, dataflow: str) -> tuple[int, int]:
        cycles, stalls = self._known(self._size((shape, dataflow)))
        return cycles, stalls

    def _size(self, product: Product) -> list[Any]:
        shape, dataflow = product
        return [self.side, self.block_load, self.layout, shape.a, shape.b, shape.c, dataflow]

    def _simulated(self, sizes: Sequence[Any]) -> list[tuple[int, int]]:
        if self._timer is None:
            self._timer = self._start(
                GemmTimer(side=self.side, block_load=self.block_load, layout=self.layout)
            )
        commands = [
            {
                "gemm": command_fields(GemmShape(a, b, c), side=self.side, dataflow=dataflow),
                "transposed_a": dataflow == "IS",
            }
            for *_, a, b, c, dataflow in sizes
        ]
        run = self._timer.run({"commands": columns(commands)}, {"finished": len(commands)})
        finished = run.outputs["finished"]
        return list(zip(finished["cycles"].tolist(), finished["stalls"].tolist(), strict=True))
