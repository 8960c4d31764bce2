"""Two compute units at once, with data: products, updates alone and shared, and the cycles of the pair of timers."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.compute_unit.unit import compute_unit
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, Integers
from placerl.primitives.fpga.pair.load_balancing import UnitPair
from placerl.primitives.fpga.pair.simulation import SimulatedPair
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.pair.golden import update_golden
from tests.primitives.fpga.pair.training import TrainingPair
from tests.primitives.fpga.pair.training_simulation import PairProduct, SimulatedTrainingPair

SIDE, WIDTH, SHIFT = 2, 10, 1
BLOCKS = {"operand_blocks": 16, "result_blocks": 16, "accumulator_depth": 16, "accumulator_width": 24}
ERRORS, AFTER, GRADIENT = 8, 8, 4  # blocks of A, B and C in which a step's matrices begin
SIZES = st.integers(1, 4)


@cache
def pair() -> SimulatedTrainingPair:
    return SimulatedTrainingPair(
        side=SIDE, width=WIDTH, shift=SHIFT, block_load=True, start=interpreted, **BLOCKS
    )


@cache
def timers() -> SimulatedPair:
    return SimulatedPair(interpreted(UnitPair(side=SIDE)), side=SIDE)


def steps(
    outputs: int, inputs: int, batch: int, dataflows: Sequence[str], *, shared: bool
) -> list[PairProduct]:
    """Forward, the gradient of the weights, and forward again; x and its transpose lie in B, W and errors in A."""
    forward, gradient, again = dataflows
    shape = GemmShape(outputs, inputs, batch)
    return [
        PairProduct(shape, forward),
        PairProduct(
            GemmShape(outputs, batch, inputs),
            gradient,
            base_a=ERRORS,
            base_b=AFTER,
            base_c=GRADIENT,
            updates=True,
            shared=shared,
        ),
        PairProduct(shape, again, base_c=AFTER),
    ]


def updated(weights: list[Integers], gradients: list[Integers], *, shared: bool) -> list[Integers]:
    """The golden model, row by row; where shared, both units hold network 0's."""
    shifted = [gradient >> SHIFT for gradient in gradients]
    if shared:
        rows = zip(weights[0].tolist(), *(g.tolist() for g in shifted), strict=True)
        new = [update_golden(True, (row, row), (g, h), WIDTH)[0] for row, g, h in rows]
        return [np.array(new)] * 2
    return [
        np.array([update_golden(False, (row, row), (g, g), WIDTH)[0] for row, g in zip(*each, strict=True)])
        for each in zip((w.tolist() for w in weights), (g.tolist() for g in shifted), strict=True)
    ]


def as_timed(products: Sequence[PairProduct]) -> list[dict[str, Any]]:
    """The same commands for the pair of timers."""
    found = []
    for each in products:
        command = each.command(SIDE)
        del command["weights"]
        kept = ("gemm", "transposed_a")
        found.append(command | {"product": {name: command["product"][name] for name in kept}})
    return found


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=5, deadline=None)
@given(
    sizes=st.tuples(SIZES, SIZES, SIZES),
    dataflows=st.tuples(*[st.sampled_from(DATAFLOWS)] * 3),
    seed=st.integers(0, 2**32),
)
def test_both_units_train_at_once(
    shared: bool, sizes: tuple[int, int, int], dataflows: tuple[str, str, str], seed: int
) -> None:
    outputs, inputs, batch = sizes
    rng = np.random.default_rng(seed)
    weights = [rng.integers(-(2**8), 2**8, (outputs, inputs)) for _ in range(2)]
    if shared:
        weights[1] = weights[0]
    data = [[rng.integers(-8, 8, (n, batch)) for n in (inputs, outputs)] for _ in range(2)]
    for k, (x, errors) in enumerate(data):
        pair().load(k, weights[k], base=0)
        pair().load(k, errors, base=ERRORS)
        pair().load(k, x, base=0, to_b=True)
        pair().load(k, x.T, base=AFTER, to_b=True)
    # The units' products differ in their dataflow, so that the one waits for the other where they share.
    of_units = [steps(*sizes, order, shared=shared) for order in (dataflows, dataflows[::-1])]
    cycles = pair().run(*of_units)

    gradients = [errors @ x.T for x, errors in data]
    new = updated(weights, gradients, shared=shared)
    for k, ((x, _), found) in enumerate(zip(data, of_units, strict=True)):
        for step, wanted in zip(found, (weights[k] @ x, gradients[k], new[k] @ x), strict=True):
            np.testing.assert_array_equal(pair().result(k, step), wanted)
    assert cycles == timers().cycles(*map(as_timed, of_units))


def test_one_unit_trains_while_the_other_stands_still() -> None:
    rng = np.random.default_rng(0)
    weights, other, x, errors = (rng.integers(-8, 8, (3, 3)) for _ in range(4))
    pair().load(1, other, base=0)
    pair().load(1, x, base=0, to_b=True)
    for to_b, matrices in ((False, (weights, errors)), (True, (x, x.T))):
        for base, matrix in zip((0, ERRORS), matrices, strict=True):
            pair().load(0, matrix, base=base, to_b=to_b)
    found = steps(3, 3, 3, ("NS", "NS", "NS"), shared=False)
    pair().run(found, [])
    pair().run([], found[:1])
    (new,) = updated([weights], [errors @ x.T], shared=False)
    np.testing.assert_array_equal(pair().result(0, found[2]), new @ x)
    np.testing.assert_array_equal(pair().result(1, found[0]), other @ x)


def test_a_row_that_nobody_takes_holds_the_update_back_and_is_not_lost() -> None:
    """A row of C asked for from outside before an update, and taken long after it could have begun."""
    units = [compute_unit(side=2, width=WIDTH, **BLOCKS) for _ in range(2)]
    model = interpreted(TrainingPair(units))
    a, b = [[3, 0], [0, 3]], [[1, 0], [0, 1]]
    operands = {"to_b": [0, 0, 1, 1], "block": [0] * 4, "row": [0, 1] * 2, "words": [*a, *b]}
    model.run({"writes_0": operands}, {})
    first, second = (
        PairProduct(GemmShape(2, 2, 2), base_c=base, updates=base == 1).command(2) for base in (0, 1)
    )
    model.run({"commands_0": columns([first])}, {"finished_0": 1})
    model.run({"reads_0": {"block": [0], "row": [0]}}, {})  # nobody takes the row
    run = model.run(
        {"commands_0": columns([second])},
        {"finished_0": 1, "rows_0": 1},
        ready={"rows_0": [False] * 40 + [True]},
    )
    assert run.output_cycles["rows_0"][0] == 40 < run.output_cycles["finished_0"][0]
    assert run.outputs["rows_0"].reshape(-1).tolist() == [3, 0]
    model.run({"commands_0": columns([first])}, {"finished_0": 1})
    rows = model.run({"reads_0": {"block": [0, 0], "row": [0, 1]}}, {"rows_0": 2}).outputs["rows_0"]
    # The weights doubled: their gradient was themselves.
    assert rows.reshape(2, 2).tolist() == [[6, 0], [0, 6]]


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_what_the_pair_refuses() -> None:
    with pytest.raises(ValueError, match="units: found configurable ones"):
        TrainingPair([compute_unit(side=2, configurable=True)] * 2)
    with pytest.raises(ValueError, match="shift: found 33; allowed: 0 to 32"):
        TrainingPair([compute_unit(side=2)] * 2, shift=33)
    with pytest.raises(ValueError, match="a: found blocks 15 to 16; allowed: 0 to 15"):
        pair().load(0, np.zeros((3, 2), int), base=15)
    shared = PairProduct(GemmShape(1, 1, 1), updates=True, shared=True)
    with pytest.raises(ValueError, match="shared: found 1 and 0 gradients; allowed: as many"):
        pair().run([shared], [])
    with pytest.raises(ValueError, match="c: found blocks 16 to 16; allowed: 0 to 15"):
        pair().run([PairProduct(GemmShape(1, 1, 1), base_c=16)], [])
