"""Stream and reduction units in their RTL against their golden models: the same bits, in the cycles that they state."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.vector.reduce_unit import (
    ReduceUnit,
    block_exponent,
    reduce_golden,
    reduction_latency,
)
from placerl.primitives.fpga.vector.stream_unit import StreamUnit
from tests.primitives.fpga.floating_point.operator_runs import awkward_words
from tests.primitives.fpga.interpreter import interpreted

WORDS = 12


def program_of(*operations: str) -> StreamProgram:
    """The operations one after the other, each of the last value and, where it takes two, the second input."""
    builder, value = ProgramBuilder(2), 0
    for name in operations:
        value = (
            builder.apply(name, value, 1) if name in ("add", "mul", "maximum") else builder.apply(name, value)
        )
    return builder.finished([value, 0])


def payload(inputs: np.ndarray, lanes: int) -> np.ndarray:
    """(inputs, words * lanes) words as the unit takes them: lane by lane."""
    return inputs.reshape(len(inputs), -1, lanes).transpose(1, 2, 0).reshape(-1, lanes * len(inputs))


@pytest.mark.parametrize(
    ("operations", "lanes"), [(("add", "maximum"), 1), (("add", "maximum"), 3), (("sigmoid", "add"), 1)]
)
def test_a_unit_computes_its_program_an_element_a_cycle(operations: tuple[str, ...], lanes: int) -> None:
    program = program_of(*operations)
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((2, WORDS * lanes)).astype(np.float32)
    run = interpreted(StreamUnit(program, lanes=lanes)).run(
        {"inputs": payload(inputs.view(np.uint32), lanes)}, {"results": WORDS}
    )
    expected = np.stack(program.golden(list(inputs))).view(np.uint32)
    np.testing.assert_array_equal(run.outputs["results"], payload(expected, lanes))
    np.testing.assert_array_equal(run.output_cycles["results"], np.arange(WORDS) + program.latency)


def test_a_unit_waits_for_its_consumer() -> None:
    program = program_of("add")
    inputs = np.random.default_rng(2).standard_normal((2, WORDS)).astype(np.float32)
    run = interpreted(StreamUnit(program)).run(
        {"inputs": payload(inputs.view(np.uint32), 1)},
        {"results": WORDS},
        gaps={"inputs": [0, 1, 0, 3] * (WORDS // 4)},
        ready={"results": [False, True, True, False, False]},
    )
    expected = np.stack(program.golden(list(inputs))).view(np.uint32)
    np.testing.assert_array_equal(run.outputs["results"], payload(expected, 1))


@pytest.mark.parametrize("operation", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize(("lanes", "size"), [(1, 3), (4, 10)])
def test_reductions(operation: str, lanes: int, size: int) -> None:
    groups = awkward_words(np.random.default_rng(3), 5 * size).view(np.float32).reshape(5, size)
    groups = np.clip(groups, -1e30, 1e30)
    groups[1, 0] = groups[1, 2]  # of equals, the first is the extreme
    words_a_group = -(-size // lanes)
    padded = np.zeros((5, words_a_group * lanes), np.float32)
    padded[:, :size] = groups
    count = np.full(words_a_group, lanes)
    count[-1] = size - (words_a_group - 1) * lanes
    total = 5 * words_a_group
    run = interpreted(ReduceUnit(operation, lanes=lanes)).run(
        {
            "items": {
                "numbers": padded.view(np.uint32).reshape(total, lanes),
                "count": np.tile(count, 5),
                "last": np.tile(np.arange(words_a_group) == words_a_group - 1, 5).astype(np.int64),
                "scale": np.full(total, block_exponent(groups)),
            }
        },
        {"results": 5},
    )
    expected = reduce_golden(operation, groups)
    np.testing.assert_array_equal(run.outputs["results"], expected.view(f"u{expected.itemsize}"))
    ends = words_a_group * np.arange(1, 6) - 1
    np.testing.assert_array_equal(run.output_cycles["results"], ends + reduction_latency(operation, lanes))


@pytest.mark.parametrize("operation", ["sum", "max", "min"])
def test_a_reduction_to_zero_gives_a_positive_one(operation: str) -> None:
    """The order of numbers has one zero, which also stands for numbers that are too small to be normal."""
    groups = np.array([[-0.0, -0.0], [-0.0, 0.0], [0.0, -0.0], [-1e-40, 1e-40]], np.float32)
    expected = reduce_golden(operation, groups)
    items = {
        "numbers": groups.view(np.uint32),
        "count": np.full(4, 2),
        "last": np.ones(4, np.int64),
        "scale": np.full(4, block_exponent(groups)),
    }
    run = interpreted(ReduceUnit(operation, lanes=2)).run({"items": items}, {"results": 4})
    np.testing.assert_array_equal(run.outputs["results"], expected.view(np.uint32))
    np.testing.assert_array_equal(expected.view(np.uint32), 0)


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="lanes: found 0"):
        StreamUnit(program_of("add"), lanes=0)
    with pytest.raises(ValueError, match="lanes: found 3"):
        ReduceUnit("sum", lanes=3)
    with pytest.raises(ValueError, match="operation: found 'mean'"):
        ReduceUnit("mean", lanes=4)
