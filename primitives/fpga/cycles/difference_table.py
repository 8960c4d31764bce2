"""The table of the papers' formulas beside simulated cycles, with the reasons between, for the blocks of PPO and FIX.

    python -m primitives.fpga.cycles.difference_table     # simulates small cases, prints Markdown

Sizes are multiples of P, one off them, and below P: formulas in multiples of P hide differences.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from primitives.fpga.cycles import fixar, gemm, layout
from primitives.fpga.cycles.convolution import Band, band_shape
from primitives.fpga.cycles.convolution import difference_terms as convolution_terms
from primitives.fpga.gemm_plan import DATAFLOWS, GemmShape
from primitives.fpga.layout_transform import Convolution

SIDE = 4
SHAPES = (GemmShape(8, 8, 8), GemmShape(9, 7, 5), GemmShape(3, 10, 2), GemmShape(1, 12, 1))
CONVOLUTIONS = ((Convolution(2, 8, 8, (3, 3), 1, 1, 2), 8), (Convolution(3, 9, 9, (4, 4), 2, 0, 2), 3))


@dataclass(frozen=True)
class Difference:
    """One case.

    Attributes:
        block: which hardware; case: its sizes.
        formula_cycles: the paper's, `modelled`; simulated_cycles: of the RTL, `simulated`.
        reasons: cycles beyond the formula by reason.
    """

    block: str
    case: str
    formula_cycles: int
    simulated_cycles: int
    reasons: dict[str, int]

    @property
    def difference_cycles(self) -> int:
        return self.simulated_cycles - self.formula_cycles

    @property
    def explained(self) -> bool:
        """Whether the reasons add up to the difference."""
        return sum(self.reasons.values()) == self.difference_cycles


def _size(shape: GemmShape) -> str:
    return f"{shape.a} x {shape.b} x {shape.c}"


def core_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[Difference]:
    """PPO's Equation 5 and the core, with blocks that come in row by row and at once."""
    from primitives.fpga.gemm_simulation import SimulatedGemm

    shapes = tuple(shapes)
    for block_load in (False, True):
        core = SimulatedGemm(
            side=side, width=4, accumulator_width=12, accumulator_depth=64, block_load=block_load
        )
        for shape in shapes:
            for dataflow in DATAFLOWS:
                options: dict[str, Any] = {"side": side, "dataflow": dataflow}
                yield Difference(
                    f"core, {dataflow}, blocks {'at once' if block_load else 'row by row'}",
                    _size(shape),
                    gemm.ppo_cycles(shape, **options),
                    core.cycles(shape, dataflow=dataflow),
                    gemm.difference_terms(shape, block_load=block_load, **options),
                )


def layout_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[Difference]:
    """Stalls of the plain layout when A is read across it: PPO's, a cycle for every P elements, and the unit's."""
    from primitives.fpga.unit_simulation import SimulatedUnit

    unit = SimulatedUnit(
        side=side,
        width=4,
        accumulator_width=12,
        accumulator_depth=64,
        operand_blocks=64,
        result_blocks=64,
        layout="plain",
        engine="interpreted",
    )
    for shape in shapes:
        a, b = np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)
        for dataflow in DATAFLOWS:
            stated = layout.ppo_stalls(shape, side=side)
            yield Difference(
                f"stalls of the plain layout, {dataflow}",
                _size(shape),
                stated,
                unit.multiply(a, b, dataflow=dataflow, transposed_a=dataflow == "IS").stalls,
                layout.difference_terms(shape, side=side, dataflow=dataflow),
            )


def convolution_differences(
    convolutions: Iterable[tuple[Convolution, int]], side: int = SIDE, windows: int = 64
) -> Iterator[Difference]:
    """PPO's Equation 5 and convolutions, given with their outputs, in bands of at most so many windows."""
    from primitives.fpga.convolution_simulation import SimulatedConvolution

    unit = SimulatedConvolution(
        side=side,
        width=4,
        accumulator_width=12,
        accumulator_depth=256,
        operand_blocks=1024,
        result_blocks=1024,
        tensor_words=1024,
        engine="interpreted",
    )
    for convolution, outputs in convolutions:
        c, whole = (
            convolution,
            Band(0, convolution.images, 0, convolution.out_size[0], convolution.matrix_size[0]),
        )
        images = np.zeros((c.images, c.height, c.width, c.channels), np.int64)
        kernels = np.zeros((*c.kernel, c.channels, outputs), np.int64)
        shape = band_shape(convolution, whole, outputs, transposed=False)
        for dataflow in DATAFLOWS:
            options: dict[str, Any] = {"dataflow": dataflow, "windows": windows}
            found = unit.forward(images, kernels, stride=c.stride, padding=c.padding, **options)
            yield Difference(
                f"convolution, {dataflow}",
                f"{c.images} of {c.height} x {c.width} x {c.channels}, {c.kernel[0]} x {c.kernel[1]}: {_size(shape)}",
                gemm.ppo_cycles(shape, side=side, dataflow=dataflow),
                found.cycles,
                convolution_terms(convolution, outputs, side=side, **options),
            )


def array_differences(shapes: Iterable[GemmShape], side: int = SIDE, cores: int = 2) -> Iterator[Difference]:
    """FIXAR's array: a word a cycle for each pass, and the simulated layer. FIX itself states no formula."""
    from primitives.fpga.adaptive_simulation import SimulatedAdaptiveArray

    array = SimulatedAdaptiveArray(cores=cores, side=side, width=4)
    for shape in shapes:
        matrix, vectors = np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)
        for mode in ("inference", "training"):
            inference = mode == "inference"
            passes = fixar.layer_passes(shape.a, shape.b, cores=cores, side=side, inference=inference)
            words = fixar.layer_words(shape.c, cores=cores, inference=inference, halves=False)
            load = side * (cores if inference else 1)
            yield Difference(
                f"array of {cores} cores, {mode}",
                _size(shape),
                passes * words,
                array.multiply(matrix, vectors, mode=mode).cycles,
                {
                    "first blocks": load,
                    "short passes": (passes - 1) * max(0, load - words),
                    "adders": 1 + (side - 1).bit_length(),
                },
            )


def markdown(differences: Iterable[Difference]) -> str:
    """The table; a difference that its reasons do not add up to is marked."""
    lines = [
        "| block | a x b x c | formula | simulated | difference | reasons |",
        "|---|---|---|---|---|---|",
    ]
    for row in differences:
        reasons = ", ".join(f"{name} {cycles:+d}" for name, cycles in row.reasons.items() if cycles)
        mark = "" if row.explained else " **not explained**"
        lines.append(
            f"| {row.block} | {row.case} | {row.formula_cycles} | {row.simulated_cycles} "
            f"| {row.difference_cycles:+d} | {reasons}{mark} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"P = {SIDE}; formula: `modelled`, simulated: `simulated`, both in cycles\n")
    found = (core_differences(SHAPES), layout_differences(SHAPES), array_differences(SHAPES))
    print(markdown([*chain(*found), *convolution_differences(CONVOLUTIONS)]))
