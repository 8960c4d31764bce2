"""Translate an element-wise node of the step graph to the program of a stream unit of the FPGA."""

from collections.abc import Sequence

from placerl.primitives.fpga.floating_point.operators import (
    COMPOSED,
    OPERATORS,
    ProgramBuilder,
    StreamProgram,
)
from placerl.primitives.graph.graph import COMPARISONS, Instruction, Node

LOGIC = frozenset({"logical_not", "logical_and", "logical_or"})
# The operators of the element-wise units, and operations composed of them.
OPERATIONS = frozenset({"constant", *OPERATORS, *COMPOSED}) - {"from_bool", "from_integer"}
INPUT_DTYPES = ("float32", "bool", "int64", "int32", "uint8")


def stream_program(node: Node, dtypes: Sequence[str]) -> StreamProgram:
    """Return the program with which a stream unit runs an `elementwise` node.

    A register holds a float32 number or a truth value; integers (pixels, indices) are converted at the input.

    Args:
        node: a node whose operations are all in `OPERATIONS`.
        dtypes: dtypes of its inputs, each in `INPUT_DTYPES`.
    """
    builder = ProgramBuilder(len(node.inputs))
    # For each register of the node: the program's register, and whether it is a truth value.
    registers: list[tuple[int, bool]] = []
    for place, dtype in enumerate(dtypes):
        is_integer = dtype not in ("float32", "bool")
        registers.append((builder.apply("from_integer", place) if is_integer else place, dtype == "bool"))
    for instruction in node.program:
        registers.append(_translated(builder, instruction, registers))
    return builder.finished([registers[register][0] for register in node.results])


def _translated(
    builder: ProgramBuilder, instruction: Instruction, registers: list[tuple[int, bool]]
) -> tuple[int, bool]:
    op, is_truth = instruction.op, instruction.dtype == "bool"
    arguments = [registers[argument] for argument in instruction.arguments]
    if op == "constant":
        assert instruction.value is not None
        number = builder.constant(float(instruction.value))
        return (_as_truth(builder, (number, False)) if is_truth else number), is_truth
    if op == "copy":
        return _as(builder, arguments[0], is_truth), is_truth
    if op == "where":
        condition = _as_truth(builder, arguments[0])
        chosen = [_as(builder, argument, is_truth) for argument in arguments[1:]]
        return builder.apply("where", condition, *chosen), is_truth
    assert is_truth == (op in LOGIC or op in COMPARISONS), f"{op} gives {instruction.dtype}"
    return builder.apply(op, *(_as(builder, argument, op in LOGIC) for argument in arguments)), is_truth


def _as(builder: ProgramBuilder, register: tuple[int, bool], truth: bool) -> int:
    if truth:
        return _as_truth(builder, register)
    return builder.apply("from_bool", register[0]) if register[1] else register[0]


def _as_truth(builder: ProgramBuilder, register: tuple[int, bool]) -> int:
    return register[0] if register[1] else builder.apply("ne", register[0], builder.constant(0))
