"""Clock cycles of matrix products of any sizes on a compute unit, which simulations of its timer counted.

For example:

    products = SimulatedProducts(side=16, block_load=True)
    products.product_cycles(GemmShape(512, 64, 64), side=16, dataflow="IS")  # a `product_cycles` for `cycles.ppo`
    products.stalls(GemmShape(512, 64, 64), "IS")  # how many of these cycles are stalls
"""

from collections.abc import Iterable
from typing import Any

from placerl.primitives.fpga.cycles.blocks import gemm, gemm_float32
from placerl.primitives.fpga.gemm.plan import GemmShape, streamed_parts

Product = tuple[GemmShape, str]  # with its dataflow


class SimulatedProducts:
    """The cycles of products on a compute unit.

    A product that streams more vectors than a command counts takes several commands, whose cycles add up.

    Args:
        block_load: whether stationary blocks are loaded at once.
        layout: layout of A's memory: `blocked`, which always answers, or `plain`, which stalls for columns.
        float32: whether the unit is one of float32, which loads blocks at once.
    """

    def __init__(
        self, *, side: int, block_load: bool = False, layout: str = "blocked", float32: bool = False
    ):
        self.side = side
        self._block = gemm_float32.BLOCK if float32 else gemm.BLOCK
        of_layout = [layout] if layout != "blocked" else []
        self._design = [side, *of_layout] if float32 else [side, block_load, layout]

    def product_cycles(self, shape: GemmShape, *, side: int, dataflow: str) -> int:
        """Return the simulated cycles of a product, including stalls.

        The method can be given as `product_cycles` to the functions of `cycles.ppo`.

        Args:
            side: P, rows and columns of the array; must be the unit's.

        Raises:
            ValueError: `side` differs from the unit's.
            MissingCyclesError: the table of cycles lacks the product.
        """
        if side != self.side:
            raise ValueError(f"side: found {side}; allowed: {self.side}")
        return self._of(shape, dataflow)[0]

    def stalls(self, shape: GemmShape, dataflow: str) -> int:
        """Return how many of a product's cycles are stalls, in which A was requested and not ready."""
        return self._of(shape, dataflow)[1]

    def prepare(self, products: Iterable[Product]) -> None:
        """Let new products be simulated all in one simulation, where cycles are simulated.

        Args:
            products: (sizes, dataflow) of each product, such as (GemmShape(512, 64, 64), "IS").
        """
        self._block.results(self._design, [size for product in products for size in _sizes(*product)])

    def _of(self, shape: GemmShape, dataflow: str) -> tuple[int, int]:
        results = self._block.results(self._design, _sizes(shape, dataflow))
        cycles, stalls = map(sum, zip(*results, strict=True))
        return cycles, stalls


def _sizes(shape: GemmShape, dataflow: str) -> list[list[Any]]:
    return [[part.a, part.b, part.c, dataflow] for part in streamed_parts(shape, dataflow)]
