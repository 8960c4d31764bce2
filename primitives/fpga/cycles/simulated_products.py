"""Clock cycles of matrix products of any shape, simulated once each and kept on disk under a hash of the RTL.

products = SimulatedProducts(side=16, block_load=True)
products.product_cycles(GemmShape(512, 64, 64), side=16, dataflow="IS")  # fits `cycles.ppo` as its product_cycles
products.stalls(...)                                                     # of these, waiting for the plain layout
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from primitives import disk_cache
from primitives.fpga import simulation
from primitives.fpga.cycles.simulated_units import GEMM_SOURCES, rtl_key
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
        self._found: dict[Product, tuple[int, int]] = {}

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
        new = [product for product in dict.fromkeys(products) if not self.is_known(product)]
        if not new:
            return
        if self._timer is None:
            self._timer = self._start(
                GemmTimer(side=self.side, block_load=self.block_load, layout=self.layout)
            )
        commands = [
            {
                "gemm": command_fields(shape, side=self.side, dataflow=dataflow),
                "transposed_a": dataflow == "IS",
            }
            for shape, dataflow in new
        ]
        run = self._timer.run({"commands": columns(commands)}, {"finished": len(new)})
        finished = run.outputs["finished"]
        for product, cycles, stalls in zip(new, finished["cycles"], finished["stalls"], strict=True):
            self._found[product] = int(cycles), int(stalls)
            text = json.dumps(self._found[product])
            disk_cache.made(self._name(product), lambda path, text=text: path.write_text(text) and None)  # type: ignore[misc]

    def _of(self, shape: GemmShape, dataflow: str) -> tuple[int, int]:
        self.simulate([(shape, dataflow)])
        return self._found[shape, dataflow]

    def is_known(self, product: Product) -> bool:
        """Whether a product's cycles need no simulation any more."""
        if product not in self._found:
            path = Path(disk_cache.folder() / self._name(product))
            if not path.exists():
                return False
            cycles, stalls = json.loads(path.read_text())
            self._found[product] = cycles, stalls
        return True

    def _name(self, product: Product) -> str:
        shape, dataflow = product
        unit = (self.side, self.block_load, self.layout)
        sizes = json.dumps((*unit, shape.a, shape.b, shape.c, dataflow))
        return f"cycles/{disk_cache.key(rtl_key(GEMM_SOURCES), sizes)}.json"
