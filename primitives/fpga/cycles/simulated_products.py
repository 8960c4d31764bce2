"""Clock cycles of matrix products of any sizes; each is simulated once and kept on disk under a hash of the RTL.

For example:

    products = SimulatedProducts(side=16, block_load=True)
    products.product_cycles(GemmShape(512, 64, 64), side=16, dataflow="IS")  # a `product_cycles` for `cycles.ppo`
    products.stalls(GemmShape(512, 64, 64), "IS")  # how many of these cycles are stalls
"""

from collections.abc import Iterable, Sequence
from typing import Any

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles.simulated_once import SimulatedOnce
from placerl.primitives.fpga.gemm.plan import GemmShape, command_fields
from placerl.primitives.fpga.gemm.timer import GemmTimer
from placerl.primitives.fpga.simulation.ports import columns

Product = tuple[GemmShape, str]  # with its dataflow


class SimulatedProducts:
    """The cycles of products on a compute unit, from earlier results or from a simulation of its timer.

    A is read by columns in every dataflow. NS and WS request the columns of A. IS requests its rows, so for IS A is
    stored transposed. The blocked layout gives both without a stall.

    Args:
        side: P, rows and columns of the array.
        block_load: whether stationary blocks are loaded at once.
        layout: layout of A's memory: `blocked`, which always answers, or `plain`, which stalls for columns.
        engine: `compiled` (Verilator) or `interpreted` (Amaranth's own simulator).
    """

    def __init__(
        self, *, side: int, block_load: bool = False, layout: str = "blocked", engine: str = "compiled"
    ):
        self.side, self.block_load, self.layout = side, block_load, layout
        self._start = simulation.engine(engine)
        self._timer: Any = None
        self._known = SimulatedOnce("placerl.primitives.fpga.gemm.timer", self._simulated)

    def product_cycles(self, shape: GemmShape, *, side: int, dataflow: str) -> int:
        """Return the simulated cycles of a product, including stalls.

        The method can be given as `product_cycles` to the functions of `cycles.ppo`.

        Args:
            shape: sizes of the product.
            side: P, rows and columns of the array; must be the unit's.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).

        Raises:
            ValueError: `side` differs from the unit's.
        """
        if side != self.side:
            raise ValueError(f"side: found {side}; allowed: {self.side}")
        return self._of(shape, dataflow)[0]

    def stalls(self, shape: GemmShape, dataflow: str) -> int:
        """Return how many of a product's cycles are stalls, in which A was requested and not ready.

        Args:
            shape: sizes of the product.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
        """
        return self._of(shape, dataflow)[1]

    def simulate(self, products: Iterable[Product]) -> None:
        """Simulate the products whose cycles are not known yet, all in one simulation, and keep their cycles.

        Args:
            products: (sizes, dataflow) of each product, such as (GemmShape(512, 64, 64), "IS").
        """
        self._known.simulate(map(self._size, products))

    def is_known(self, product: Product) -> bool:
        """Return whether a product's cycles are known, so that they need no simulation.

        Args:
            product: its sizes and its dataflow, such as (GemmShape(512, 64, 64), "IS").
        """
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
