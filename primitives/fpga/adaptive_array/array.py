"""FIXAR's adaptive array: N cores of P x P elements that share one layer or one batch (FIX V-A, V-B).

Each core multiplies a vector by the P x P weights that its elements hold. An activation goes to a whole row of
elements at once; the products are added down the columns, and the accumulators below add the sums of several
blocks. The cores are used in two ways:

- **Inference**: core n holds columns n, n + N, n + 2 N, ... of the layer, so that all cores work on the same
  vector; their sums are added at the output. A layer takes a vector N times faster.
- **Training**: all cores hold the same block and work on different vectors. A batch is processed N times faster.

The weight memory gives P weights per cycle, to the rows of one core (inference) or of all cores (training). The
golden model is the product of each core's block with its vector, added over blocks and, in inference, over cores.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.gemm.column_accumulator import ColumnAccumulator
from placerl.primitives.fpga.gemm.processing_element import ConfigurableMultiplier, Control
from placerl.primitives.fpga.gemm.systolic_array import delayed


def core_latency(side: int) -> int:
    """Return the cycles from a vector at a core's input to its sums, for a core of `side` x `side` elements.

    The register after the products takes one cycle, and each level of the tree of adders takes one more.
    """
    return 1 + ceil_log2(side)


class AdaptiveElement(wiring.Component):
    """An element of a core: FIX's configurable multiplier, with the current weight and the next one (FIX V-C).

    Args:
        width: bits of a weight and of an activation.
        product_width: bits of a product.

    Ports:
        halves: In(1), the activation holds two numbers of half the width.
        load: In(1), weight: In(signed(width)): stores the next weight.
        take: In(1), a vector begins that uses the next weight, which is the current one from this cycle on.
        activation: In(signed(width)).
        products: Out(2 x signed(product_width)), a cycle later; the second is of the upper half, 0 without `halves`.
    """

    def __init__(self, *, width: int, product_width: int):
        self.width, self.product_width = width, product_width
        super().__init__(
            {
                "halves": In(1),
                "load": In(1),
                "weight": In(signed(width)),
                "take": In(1),
                "activation": In(signed(width)),
                "products": Out(data.ArrayLayout(signed(product_width), 2)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting, weight = Signal(signed(self.width)), Signal(signed(self.width))
        with m.If(self.load):
            m.d.sync += waiting.eq(self.weight)
        with m.If(self.take):
            m.d.sync += weight.eq(waiting)
        m.submodules.multiplier = multiplier = ConfigurableMultiplier(width=self.width)
        m.d.comb += [
            multiplier.activation.eq(self.activation),
            multiplier.weight.eq(Mux(self.take, waiting, weight)),
            multiplier.halves.eq(self.halves),
        ]
        m.d.sync += [
            self.products[0].eq(multiplier.product),
            self.products[1].eq(multiplier.upper_product),
        ]
        return m


class AdderTree(wiring.Component):
    """Adds several numbers, with a register after each level of adders.

    Args:
        terms: how many numbers are added.
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


class AdaptiveCore(wiring.Component):
    """A core of the array: P x P elements, an adder tree for each column and each half, and accumulators.

    Args:
        side: P, rows and columns of the core.
        width: bits of a word.
        accumulator_width: bits of a sum.
        accumulator_depth: most words that stream in a pass, which is the use of one block of weights.

    Ports:
        halves: In(1), words hold two activations each; constant while vectors are in the core.
        load: In(1), load_row: In(range(P)), weights: In(P x signed(width)), one row of the next block.
        control: In(Control), activations: In(P x signed(width)), a vector: `first` makes the next block the current
            one, `restart` begins new sums, `last` ends them.
        totals: Out(P x 2 x signed(accumulator_width)), valid: Out(1), `core_latency` cycles after the vector.
    """

    def __init__(self, *, side: int, width: int, accumulator_width: int, accumulator_depth: int):
        self.side, self.width = side, width
        self.accumulator_width, self.accumulator_depth = accumulator_width, accumulator_depth
        vector = data.ArrayLayout(signed(width), side)
        super().__init__(
            {
                "halves": In(1),
                "load": In(1),
                "load_row": In(range(side)),
                "weights": In(vector),
                "control": In(Control),
                "activations": In(vector),
                "totals": Out(data.ArrayLayout(data.ArrayLayout(signed(accumulator_width), 2), side)),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        take = self.control.valid & self.control.first
        columns: list[list[list[Any]]] = [[[] for _ in range(2)] for _ in range(side)]
        for i in range(side):
            for j in range(side):
                element, m.submodules[f"element_{i}_{j}"] = shared(
                    platform, AdaptiveElement, width=self.width, product_width=self.accumulator_width
                )
                m.d.comb += [
                    element.halves.eq(self.halves),
                    element.load.eq(self.load & (self.load_row == i)),
                    element.weight.eq(self.weights[j]),
                    element.take.eq(take),
                    element.activation.eq(self.activations[i]),
                ]
                for lane, terms in enumerate(columns[j]):
                    terms.append(element.products[lane])
        m.submodules.accumulator = accumulator = ColumnAccumulator(
            width=self.accumulator_width, depth=self.accumulator_depth, lanes=2 * side
        )
        for j, lanes in enumerate(columns):
            for lane, terms in enumerate(lanes):
                tree, m.submodules[f"adders_{j}_{lane}"] = shared(
                    platform, AdderTree, terms=side, width=self.accumulator_width
                )
                m.d.comb += [tree.terms[k].eq(term) for k, term in enumerate(terms)]
                m.d.comb += accumulator.sums[2 * j + lane].eq(tree.total)
                m.d.comb += self.totals[j][lane].eq(accumulator.totals[2 * j + lane])
        # The accumulator needs the control one cycle before the sums.
        m.d.comb += accumulator.control.eq(delayed(m, self.control, core_latency(side) - 1))
        m.d.comb += self.valid.eq(accumulator.valid)
        return m


class AdaptiveArray(wiring.Component):
    """N cores that share a layer or a batch, with the distribution of weights to them and the sum of their results.

    Args:
        cores: N, number of cores.
        side: P, rows and columns of a core.
        width: bits of a word.
        accumulator_width: bits of a sum.
        accumulator_depth: most words that stream in a pass.

    Ports:
        inference: In(1), the cores share a layer (1) or a batch (0); constant while vectors are in the cores.
        halves: In(1), words hold two activations of half the width each; constant while vectors are in the cores.
        load: In(1), load_row: In(range(P)), weights: In(P x signed(width)): stores one row of the next block of
            weights. load_core: In(range(N)), the core that stores it in inference; in training all cores do.
        control: In(Control), for the vectors of all cores: `first` makes the next block the current one, `restart`
            begins new sums, `last` ends them.
        activations: In(N x P x signed(width)), the words of each core.
        sums: Out(N x P x 2 x signed(accumulator_width)), valid: Out(1), `core_latency` + 1 cycles after the vectors.
            In inference the first of the N holds the total; otherwise each holds its core's sums.
    """

    def __init__(
        self,
        *,
        cores: int,
        side: int,
        width: int = 32,
        accumulator_width: int = 64,
        accumulator_depth: int = 1024,
    ):
        if cores < 1 or side < 2:
            raise ValueError(f"cores, side: found {cores}, {side}; allowed: 1 or more cores, side 2 or more")
        self.cores, self.side = cores, side
        self._options = {
            "side": side,
            "width": width,
            "accumulator_width": accumulator_width,
            "accumulator_depth": accumulator_depth,
        }
        vector = data.ArrayLayout(signed(width), side)
        core_sums = data.ArrayLayout(data.ArrayLayout(signed(accumulator_width), 2), side)
        super().__init__(
            {
                "inference": In(1),
                "halves": In(1),
                "load": In(1),
                "load_core": In(range(cores)),
                "load_row": In(range(side)),
                "weights": In(vector),
                "control": In(Control),
                "activations": In(data.ArrayLayout(vector, cores)),
                "sums": Out(data.ArrayLayout(core_sums, cores)),
                "valid": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cores = [AdaptiveCore(**self._options) for _ in range(self.cores)]
        for n, core in enumerate(cores):
            m.submodules[f"core_{n}"] = core
            m.d.comb += [
                core.halves.eq(self.halves),
                core.load.eq(self.load & (~self.inference | (self.load_core == n))),
                core.load_row.eq(self.load_row),
                core.weights.eq(self.weights),
                core.control.eq(self.control),
                core.activations.eq(self.activations[n]),
            ]
        m.d.sync += self.valid.eq(cores[0].valid)
        for j in range(self.side):
            for lane in range(2):
                own = [core.totals[j][lane] for core in cores]
                m.d.sync += self.sums[0][j][lane].eq(Mux(self.inference, sum(own[1:], own[0]), own[0]))
                for n in range(1, self.cores):
                    m.d.sync += self.sums[n][j][lane].eq(own[n])
        return m
