"""A core: P x P elements that use a block of weights in one cycle each, with adders and accumulators (FIX V-A).

Weights arrive as a whole block in every cycle, for a single vector.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.fixar.shape import ACTIVATIONS, CODES, CORES, SUM_BITS, WORD_BITS
from placerl.primitives.fpga.gemm.processing_element import ConfigurableMultiplier
from placerl.primitives.fpga.gemm.systolic_array import delayed

PRODUCT_LATENCY = 2  # from the operands to an element's products


class AdderTree(wiring.Component):
    """Adds several numbers, with a register after each level of adders.

    Args:
        width: bits of a number and of the sum.

    Ports:
        terms: In(terms x signed(width)). total: Out(signed(width)), modulo 2**width, ceil(log2(terms)) cycles later.
    """

    def __init__(self, *, terms: int, width: int):
        self.width = width
        super().__init__({"terms": In(data.ArrayLayout(signed(width), terms)), "total": Out(signed(width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = [self.terms[k] for k in range(self.terms.shape().length)]
        while len(terms) > 1:
            pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
            terms = [Signal(signed(self.width)) for _ in pairs]
            for register, pair in zip(terms, pairs, strict=True):
                m.d.sync += register.eq(sum(pair[1:], pair[0]))
        m.d.comb += self.total.eq(terms[0])
        return m


def sum_latency(side: int) -> int:
    """Return the cycles from the operands at a core's ports to its accumulated sums."""
    return PRODUCT_LATENCY + ceil_log2(side) + 1


class BlockElement(wiring.Component):
    """An element: registers for its operands, FIX's configurable multiplier, and a register for the products.

    Ports:
        take: In(1), the operands are stored. halves: In(1), the activation holds two numbers, constant meanwhile.
        weight, activation: In(signed(32)).
        product, upper_product: Out(signed(64)), two cycles after the operands.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "take": In(1),
                "halves": In(1),
                "weight": In(signed(WORD_BITS)),
                "activation": In(signed(WORD_BITS)),
                "product": Out(signed(SUM_BITS)),
                "upper_product": Out(signed(SUM_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multiplier = multiplier = ConfigurableMultiplier(width=WORD_BITS)
        with m.If(self.take):
            m.d.sync += [multiplier.weight.eq(self.weight), multiplier.activation.eq(self.activation)]
        taken = delayed(m, self.take, 1)
        m.d.comb += multiplier.halves.eq(self.halves)
        with m.If(taken):
            m.d.sync += [
                self.product.eq(multiplier.product),
                self.upper_product.eq(multiplier.upper_product),
            ]
        return m


class GradientAdder(wiring.Component):
    """Adds the products of both cores' samples to a gradient, rounded once.

    Ports:
        products: In(2 x signed(64)), 40 fraction bits; gradient: In(signed(32)).
        total: Out(signed(32)), a cycle later, limited to its range.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "products": In(data.ArrayLayout(signed(SUM_BITS), CORES)),
                "gradient": In(signed(WORD_BITS)),
                "total": Out(signed(WORD_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places = ACTIVATIONS.fraction_bits
        # Rounding can carry into one more bit: two products of 2**63 - 1 give 2**48, which takes 50 bits with its sign.
        joined, change = Signal(signed(SUM_BITS + 1)), Signal(signed(SUM_BITS + 2 - places))
        m.d.comb += [
            joined.eq(self.products[0] + self.products[1]),
            change.eq((joined + (1 << places - 1)) >> places),
        ]
        m.d.sync += self.total.eq(saturated(m, self.gradient + change, WORD_BITS))
        return m


class BlockCore(wiring.Component):
    """P x P elements. Each row takes an activation; the products are added down the columns, and over blocks.

    Args:
        side: P, rows and columns, a power of two.

    Ports:
        take: In(1), the core uses a block in this cycle. restart: In(1), the block begins new sums.
        halves: In(1), activations hold two numbers each; constant while operands are in the core.
        weights_0 to weights_(P-1): In(P x signed(32)), the weights of each row of elements.
        activations: In(P x signed(32)), one for each row.
        products_0 to products_(P-1): Out(P x signed(64)), each row's products, `PRODUCT_LATENCY` cycles later.
        totals: Out(P x 2 x signed(64)), the sums of each column and half, modulo 2**64, `sum_latency` cycles later;
            they stay until the next block's are there.
    """

    def __init__(self, *, side: int):
        self.side = side
        row = data.ArrayLayout(signed(WORD_BITS), side)
        products = data.ArrayLayout(signed(SUM_BITS), side)
        totals = data.ArrayLayout(data.ArrayLayout(signed(SUM_BITS), CODES), side)
        super().__init__(
            {
                "take": In(1),
                "restart": In(1),
                "halves": In(1),
                "activations": In(row),
                "totals": Out(totals),
                **{f"weights_{i}": In(row) for i in range(side)},
                **{f"products_{i}": Out(products) for i in range(side)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        elements = [[shared(platform, BlockElement) for _ in range(side)] for _ in range(side)]
        for i, row in enumerate(elements):
            weights, products = getattr(self, f"weights_{i}"), getattr(self, f"products_{i}")
            for j, (element, module) in enumerate(row):
                m.submodules[f"element_{i}_{j}"] = module
                m.d.comb += [
                    element.take.eq(self.take),
                    element.halves.eq(self.halves),
                    element.weight.eq(weights[j]),
                    element.activation.eq(self.activations[i]),
                    products[j].eq(element.product),
                ]
        cycles = sum_latency(side) - 1
        valid, restart = delayed(m, self.take, cycles), delayed(m, self.restart, cycles)
        for j in range(side):
            for half, name in enumerate(("product", "upper_product")):
                tree, m.submodules[f"adders_{j}_{half}"] = shared(
                    platform, AdderTree, terms=side, width=SUM_BITS
                )
                m.d.comb += [tree.terms[i].eq(getattr(row[j][0], name)) for i, row in enumerate(elements)]
                total = self.totals[j][half]
                before = Signal(signed(SUM_BITS), name=f"before_{j}_{half}")
                m.d.comb += before.eq(Mux(restart, 0, total))
                with m.If(valid):
                    m.d.sync += total.eq(before + tree.total)
        return m
