"""Compares the cycles of the papers' formulas with simulated ones, and gives the reasons for the differences.

The table has the hardware blocks of every paper. `placerl bench fpga-tables differences` prints it (with `--json` for
a script). Sizes include multiples of P, multiples plus or minus one, and sizes below P, because formulas in multiples
of P hide differences.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import fixar, gemm, layout, learner, replay
from placerl.primitives.fpga.cycles.convolution import Band, band_shape
from placerl.primitives.fpga.cycles.convolution import difference_terms as convolution_terms
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape

SIDE = 4
SHAPES = (GemmShape(8, 8, 8), GemmShape(9, 7, 5), GemmShape(3, 10, 2), GemmShape(1, 12, 1))
CONVOLUTIONS = ((Convolution(2, 8, 8, (3, 3), 1, 1, 2), 8), (Convolution(3, 9, 9, (4, 4), 2, 0, 2), 3))

ReplayTree = tuple[int, int, int]
"""A tree of a replay: (fanout, capacity, banks)."""
# Depths 4 to 8, fanouts that are no power of two, capacities that fill no level.
TREES: tuple[ReplayTree, ...] = ((4, 4**8, 1), (16, 10_000, 1), (3, 1000, 1), (4, 4**5, 4), (5, 2000, 3))
BATCH_SIZES = (32, 1000)

# MAP's networks: CartPole's critic alone, and Hopper's with the target networks before its loss.
_CARTPOLE = (LayerShape(5, 8, 8), LayerShape(8, 8, 8), LayerShape(8, 1, 1))
_ACTOR = (LayerShape(11, 256, 4), LayerShape(256, 256, 52), LayerShape(256, 3, 1))
_CRITIC = (LayerShape(14, 256, 4), LayerShape(256, 256, 52), LayerShape(256, 1, 1))
PASSES = (
    learner.Pass(_CARTPOLE),
    learner.Pass(_CRITIC, target=(*_ACTOR, *_CRITIC), policy=len(_ACTOR)),
)
PIPELINES = ((1, 32), (2, 128))
COLUMNS = ("block", "case", "formula", "simulated", "difference", "reasons")


@dataclass(frozen=True)
class CycleDifference:
    """A row of the table that compares formulas with simulations: one size of one hardware block.

    Attributes:
        block: name of the hardware block.
        case: the simulated sizes, as text.
        formula_cycles: cycles by the paper's formula (`modelled`).
        simulated_cycles: cycles of the hardware in a simulation (`simulated`).
        reasons: cycles beyond the formula, by reason.
    """

    block: str
    case: str
    formula_cycles: float
    simulated_cycles: int
    reasons: Mapping[str, float]

    @property
    def difference_cycles(self) -> float:
        """Simulated cycles minus the formula's."""
        return self.simulated_cycles - self.formula_cycles

    @property
    def explained(self) -> bool:
        """Whether the reasons add up to the difference."""
        return abs(sum(self.reasons.values()) - self.difference_cycles) < 1e-6

    def cells(self) -> tuple[str, ...]:
        """Return the row as texts, one for each of `COLUMNS`.

        The text of the reasons ends with "**not explained**" if they do not add up to the difference.
        """
        reasons = ", ".join(f"{name} {cycles:+.10g}" for name, cycles in self.reasons.items() if cycles)
        return (
            self.block,
            self.case,
            f"{self.formula_cycles:.10g}",
            str(self.simulated_cycles),
            f"{self.difference_cycles:+.10g}",
            reasons if self.explained else f"{reasons} **not explained**",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the row as a dict for JSON.

        Its keys are the attributes, "difference_cycles", "explained", and "formula_provenance" and
        "simulated_provenance", which say that the first number is `modelled` and the second `simulated`.
        """
        return {
            "block": self.block,
            "case": self.case,
            "formula_cycles": self.formula_cycles,
            "formula_provenance": "modelled",
            "simulated_cycles": self.simulated_cycles,
            "simulated_provenance": "simulated",
            "difference_cycles": self.difference_cycles,
            "reasons": {name: value for name, value in self.reasons.items() if value},
            "explained": self.explained,
        }


def _size(shape: GemmShape) -> str:
    return f"{shape.a} x {shape.b} x {shape.c}"


def core_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the systolic core differ from PPO's Equation 5, in each dataflow.

    The core is simulated with stationary blocks that are loaded row by row, and with blocks that are loaded at once.

    Args:
        shapes: sizes of products.
        side: P, rows and columns of the array.
    """
    from placerl.primitives.fpga.gemm.simulation import SimulatedGemm

    shapes = tuple(shapes)
    for block_load in (False, True):
        core = SimulatedGemm(
            side=side, width=4, accumulator_width=12, accumulator_depth=64, block_load=block_load
        )
        for shape in shapes:
            for dataflow in DATAFLOWS:
                options: dict[str, Any] = {"side": side, "dataflow": dataflow}
                yield CycleDifference(
                    f"core, {dataflow}, blocks {'at once' if block_load else 'row by row'}",
                    _size(shape),
                    gemm.ppo_cycles(shape, **options),
                    core.cycles(shape, dataflow=dataflow),
                    gemm.difference_terms(shape, block_load=block_load, **options),
                )


def layout_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[CycleDifference]:
    """Yield how the simulated stalls of the plain layout differ from PPO's, which are one cycle per P elements.

    The stalls are the cycles in which the compute unit waits for A, which is read by columns in every dataflow.

    Args:
        shapes: sizes of products.
        side: P, rows and columns of the array.
    """
    from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit

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
            yield CycleDifference(
                f"stalls of the plain layout, {dataflow}",
                _size(shape),
                stated,
                unit.multiply(a, b, dataflow=dataflow, transposed_a=dataflow == "IS").stalls,
                layout.difference_terms(shape, side=side, dataflow=dataflow),
            )


def convolution_differences(
    convolutions: Iterable[tuple[Convolution, int]], side: int = SIDE, windows: int = 64
) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of convolutions differ from PPO's Equation 5, in each dataflow.

    Args:
        convolutions: each convolution with its number of output channels.
        side: P, rows and columns of the array.
        windows: most output pixels of a band. A convolution is computed in bands, one after another.
    """
    from placerl.primitives.fpga.convolution.simulation import SimulatedConvolution

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
            yield CycleDifference(
                f"convolution, {dataflow}",
                f"{c.images} of {c.height} x {c.width} x {c.channels}, {c.kernel[0]} x {c.kernel[1]}: {_size(shape)}",
                gemm.ppo_cycles(shape, side=side, dataflow=dataflow),
                found.cycles,
                convolution_terms(convolution, outputs, side=side, **options),
            )


def array_differences(
    shapes: Iterable[GemmShape], side: int = SIDE, cores: int = 2
) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of FIXAR's array differ from one cycle per word in each pass.

    A pass is the use of one block of weights. FIX itself has no formula. Layers are simulated in inference and in
    training.

    Args:
        shapes: layers, as outputs x inputs x vectors.
        side: P, rows and columns of a core.
        cores: N, number of cores.
    """
    from placerl.primitives.fpga.adaptive_array.simulation import SimulatedAdaptiveArray

    array = SimulatedAdaptiveArray(cores=cores, side=side, width=4)
    for shape in shapes:
        matrix, vectors = np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)
        for mode in ("inference", "training"):
            inference = mode == "inference"
            passes = fixar.layer_passes(shape.a, shape.b, cores=cores, side=side, inference=inference)
            words = fixar.layer_words(shape.c, cores=cores, inference=inference, halves=False)
            load = side * (cores if inference else 1)
            yield CycleDifference(
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


def replay_differences(trees: Iterable[ReplayTree], batch_sizes: Sequence[int]) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the replay pipeline differ from MAP's B / S x cycles per request (VI-A2).

    Every tree and batch size is simulated in both forms, wide and narrow, with samples and with updates.

    Args:
        trees: (fanout, capacity, banks S) each.
        batch_sizes: numbers of requests, B.
    """
    from placerl.primitives.sum_tree import fpga_backend

    for form in fpga_backend.FORMS:
        for fanout, capacity, banks in trees:
            tree = fpga_backend.create(capacity, fanout, form=form, banks=banks)
            assert isinstance(tree, fpga_backend.FpgaSumTree)
            tree.update(np.arange(capacity), np.ones(capacity))
            for batch_size in batch_sizes:
                rng = np.random.default_rng(batch_size)
                for call in ("sample", "update"):
                    yield replay_difference(tree, form, call, batch_size, rng)


def replay_difference(
    tree: Any, form: str, call: str, batch_size: int, rng: np.random.Generator
) -> CycleDifference:
    """Request a batch of a replay pipeline, and return how its cycles differ from MAP's formula (VI-A2).

    Args:
        tree: a filled `FpgaSumTree`.
        form: the form that it was created with, "wide" or "narrow".
        call: "sample" or "update"; with several banks the batch before it must have been of the other kind.
        batch_size: number of requests, B.
        rng: source of the requests.
    """
    from placerl.primitives.fpga.cycles.blocks.narrow_replay import requested

    loads = requested(tree, call, batch_size, rng)
    return batch_difference(form, call, tree.last_call_cycles, loads, fanout=tree.fanout, levels=tree.levels)


def batch_difference(
    form: str, call: str, cycles: int, loads: list[int], *, fanout: int, levels: int
) -> CycleDifference:
    """Return how a batch's simulated cycles on a replay pipeline differ from MAP's formula (VI-A2).

    Args:
        form: "wide" or "narrow".
        call: "sample" or "update"; with several banks the batch before it was of the other kind.
        cycles: the simulated cycles.
        loads: number of requests for each bank.
        fanout: children of a node, K.
        levels: levels of each bank's tree.
    """
    timing = replay.level_timing(fanout=fanout, narrow=form == "narrow", samples=call == "sample")
    # Reads and writes alternate here, so that each batch changes the phase.
    terms = replay.difference_terms(cycles, loads, levels=levels, timing=timing, phase_changed=True)
    batch_size, banks = sum(loads), len(loads)
    return CycleDifference(
        f"replay pipeline, {form}, {call}",
        f"B = {batch_size}, K = {fanout}, depth {levels}, S = {banks}",
        batch_size / banks * timing.interval,
        cycles,
        terms,
    )


def learner_differences(
    passes: Iterable[learner.Pass], cases: Sequence[tuple[int, int]]
) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the learner pipeline differ from MAP's T_pipeline + T_WU (VI-A2).

    Args:
        passes: the layers that samples go through.
        cases: (DP, PI) each: the number of pipelines, and the number of samples that each pipeline takes.
    """
    from placerl.primitives.fpga.cycles.simulated_units import pass_cycles
    from placerl.primitives.fpga.learner_pipeline.update_unit import adam_latency

    for work in passes:
        sizes = " x ".join(str(layer.inputs) for layer in work.layers)
        lanes = ", ".join(str(layer.lanes) for layer in work.layers)
        for pipelines, samples in cases:
            latency = adam_latency(pipelines * samples)
            update = learner.update_cycles(work, adam_latency=latency)
            yield CycleDifference(
                "learner pipeline" + (", targets by networks" if work.target else ""),
                f"{sizes} x {work.layers[-1].outputs}, lanes {lanes}, DP = {pipelines}, PI = {samples}",
                learner.map_cycles(work, samples=samples, pipelines=pipelines),
                pass_cycles(work, samples=samples, update=update),
                learner.difference_terms(work, samples=samples, pipelines=pipelines, adam_latency=latency),
            )


def small_cases() -> Iterator[CycleDifference]:
    """Yield the table's rows for the hardware blocks of PPO and FIX, simulated in Amaranth's own simulator."""
    yield from core_differences(SHAPES)
    yield from layout_differences(SHAPES)
    yield from array_differences(SHAPES)
    yield from convolution_differences(CONVOLUTIONS)


def large_cases() -> Iterator[CycleDifference]:
    """Yield the table's rows for the hardware blocks of MAP, simulated with Verilator.

    Building the simulations takes a minute if they are not cached.
    """
    yield from replay_differences(TREES, BATCH_SIZES)
    yield from learner_differences(PASSES, PIPELINES)
