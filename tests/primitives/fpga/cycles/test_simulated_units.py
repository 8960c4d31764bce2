"""The FPGA learner through its simulated RTL: exact products, and cycles of the table or of a simulation."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from placerl.primitives.learner.fpga.fpga_backend import FpgaExecutable
from placerl.primitives.learner.graph_learner import step_graph
from tests.primitives.learner.graph_cases import make, named_leaves, random_batch, random_state

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles.blocks import every_block, gemm
from placerl.primitives.fpga.cycles.blocks.learner_pipeline import stalled_after
from placerl.primitives.fpga.cycles.convolution import MOVE_CYCLES
from placerl.primitives.fpga.cycles.simulated_units import GemmUnit
from placerl.primitives.fpga.cycles.timed_block import SIMULATE_VARIABLE, MissingCyclesError
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.gemm.plan import GemmShape
from placerl.primitives.fpga.simulation.base import LIMIT_CYCLES
from tests.primitives.fpga.interpreter import interpreted

BATCH_SIZE = 4
needs_tools = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)


def test_a_long_pass_is_no_stalled_one() -> None:
    """Hopper's step at batch size 16384 takes 270 million cycles in two streams."""
    assert stalled_after(1000) == LIMIT_CYCLES
    assert stalled_after(LIMIT_CYCLES) == 2 * LIMIT_CYCLES


def test_products_larger_than_the_memories_are_cut_into_parts_that_fit() -> None:
    unit = GemmUnit(side=4, memory_blocks=6, accumulator_depth=16)
    for shape in (GemmShape(50, 30, 9), GemmShape(3, 200, 5), GemmShape(100, 4, 20)):
        covered = np.zeros((shape.a, shape.b), int)
        for rows, inner, part in unit.parts(shape):
            covered[rows, inner] += 1
            for size in (part.a * part.b, part.b * part.c, part.a * part.c):
                assert size <= 6 * 16
        assert (covered == 1).all()


@pytest.mark.parametrize(
    ("shape", "parts", "added"),
    [
        (GemmShape(3, 200, 5), 17, 16 * 3 * 2),  # 2 blocks of sums a row
        (GemmShape(50, 30, 9), 4 * 7, 3 * 50 * 3),
        (GemmShape(100, 4, 20), 25, 0),  # each part has the whole inner dimension
    ],
)
def test_the_sums_of_parts_of_the_inner_dimension_are_added(
    shape: GemmShape, parts: int, added: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = GemmUnit(side=4, memory_blocks=6, accumulator_depth=16)
    products = SimpleNamespace(product_cycles=lambda part, *, side, dataflow: 1000)
    monkeypatch.setattr(unit, "_products", products)
    assert unit.cycles(shape) == 1000 * parts + added


def test_a_convolution_is_charged_its_first_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACERL_CACHE", str(tmp_path))
    monkeypatch.setenv(SIMULATE_VARIABLE, "1")
    monkeypatch.setattr(
        simulation, "built", lambda design: SimpleNamespace(start=lambda: interpreted(design))
    )
    # A window has 3 rows of 6 words, 2 moves each; half of the memory holds 8 blocks, 5 to a row: a row of 4 windows.
    unit = GemmUnit(side=4, memory_blocks=16)
    assert unit.first_band_cycles((2, 3, 4, 2, 3, 3)) == 4 * 3 * 2 + MOVE_CYCLES


@needs_tools
@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
def test_exact_steps_agree_bit_for_bit() -> None:
    algorithm = make("ddpg", torch.float32)
    graphs = {"full": step_graph(algorithm, BATCH_SIZE, "full")}
    generator = torch.Generator().manual_seed(0)
    state = named_leaves("state", random_state(algorithm, generator))
    inputs = named_leaves("batch", random_batch(algorithm, BATCH_SIZE, generator))
    outcomes = []
    for exact in (False, True):
        executable = FpgaExecutable(graphs, side=4, exact=exact)
        for name, value in state.items():
            executable.write_state(name, value)
        outputs = executable.step("full", inputs)
        outcomes.append({**outputs, **{name: np.array(value) for name, value in executable.state().items()}})
    for name, value in outcomes[0].items():
        np.testing.assert_array_equal(outcomes[1][name], value, err_msg=name)


@needs_tools
@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
def test_cycles_are_those_of_the_table_or_simulated_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACERL_CACHE", str(tmp_path))
    monkeypatch.setenv(SIMULATE_VARIABLE, "0")
    graphs = {"full": step_graph(make("dqn", torch.float32), BATCH_SIZE, "full")}
    executable = FpgaExecutable(graphs, side=4)
    assert executable.cycles == 0
    with pytest.raises(MissingCyclesError, match=r'^"gemm" \[4, false, "blocked"\]: found no design'):
        executable.step_cycles("full")
    monkeypatch.setenv(SIMULATE_VARIABLE, "1")
    first = executable.step_cycles("full")
    units = {node.unit for node in executable.node_cycles("full")}
    assert units == {"core", "stream", "reduction"}

    def refuse(*arguments: object) -> int:
        raise AssertionError("simulated again")

    for block in every_block().values():
        monkeypatch.setattr(block, "_library", refuse)
    assert FpgaExecutable(graphs, side=4).step_cycles("full") == first
    with pytest.raises(AssertionError, match="simulated again"):
        gemm.BLOCK([4, False, "blocked"], [12_345, 6, 7, "NS"])
