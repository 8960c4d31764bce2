"""Translate element-wise programs for the native backend: to operations on binary64, or on integers where possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from placerl.primitives.graph.graph import Instruction, Node, UnsupportedOperationError
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.places import Located
from placerl.primitives.quantization.roles import Plain


class SlotProgram:
    """An element-wise program whose registers share memory where their lifetimes allow it.

    A slot is a piece of memory that holds one register for the elements of a block, in binary64.

    Args:
        node: the element-wise node of a step graph that has the program.
        input_count: number of the program's inputs, which are its first registers.
        op_codes: the code of each operation, by its name.

    Attributes:
        slots: number of slots.
        slot_of: slot of each register that is read or stored.
        constants: (slot, value) of each constant.
        instructions: (operation's code, target slot, three argument slots or -1) of each instruction.
    """

    def __init__(self, node: Node, input_count: int, op_codes: Mapping[str, int]) -> None:
        program = node.program
        alias = list(range(input_count + len(program)))
        for i, instruction in enumerate(program):
            if instruction.op == "copy":
                alias[input_count + i] = alias[instruction.arguments[0]]
        last = {alias[register]: len(program) for register in node.results}
        for i, instruction in enumerate(program):
            for argument in instruction.arguments:
                last[alias[argument]] = max(last.get(alias[argument], 0), i)
        # Constants and inputs that are one number are written once, so their slots are never reused.
        self.slot_of = {i: i for i in range(input_count)}
        self.slots = input_count
        self.constants: list[tuple[int, float]] = []
        self.instructions: list[tuple[int, int, int, int, int]] = []
        free: list[int] = []
        for i, instruction in enumerate(program):
            register = input_count + i
            if instruction.op == "copy":
                self.slot_of[register] = self.slot_of[alias[register]]
                continue
            if instruction.op == "constant":
                self.slot_of[register] = self._new_slot()
                assert instruction.value is not None
                self.constants.append((self.slot_of[register], float(instruction.value)))
                continue
            arguments = [self.slot_of[alias[argument]] for argument in instruction.arguments]
            for argument in {alias[a] for a in instruction.arguments}:
                made_here = argument >= input_count and program[argument - input_count].op != "constant"
                if made_here and last[argument] == i:
                    free.append(self.slot_of[argument])
            self.slot_of[register] = free.pop() if free else self._new_slot()
            first, second, third = [*arguments, -1, -1, -1][:3]
            code = op_codes[instruction.op]
            self.instructions.append((code, self.slot_of[register], first, second, third))

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


_OF_WHOLE_NUMBERS = (
    "constant",
    "copy",
    "neg",
    "abs",
    "sign",
    "add",
    "sub",
    "mul",
    "maximum",
    "minimum",
    "where",
)


def in_binary64(node: Node, dtypes: Sequence[str]) -> Node:
    """Return the node with its operations on integers and flags replaced by operations on binary64.

    Integers are exact up to 2^53.

    Args:
        node: an element-wise node.
        dtypes: dtypes of its inputs.

    Raises:
        UnsupportedOperationError: binary64 lacks an integer operation; the message names the user's line.
    """
    kinds = [_kind(dtype) for dtype in dtypes]
    program: list[Instruction] = []
    register = list(range(len(dtypes)))  # the program's register for each register of the node

    def add(op: str, *arguments: int, dtype: str = "float64", value: float | None = None) -> int:
        program.append(Instruction(op, arguments, dtype, value))
        return len(dtypes) + len(program) - 1

    for instruction in node.program:
        kind, op = _kind(instruction.dtype), instruction.op
        arguments = [register[i] for i in instruction.arguments]
        if instruction.dtype == "uint8" or (kind == "whole" and op not in _OF_WHOLE_NUMBERS):
            where = node.source or "unknown line"
            raise UnsupportedOperationError(
                f"{op} at {where}: backend 'native' has no {op} to {instruction.dtype} in fixed point"
            )
        converts = op == "copy" and kind != kinds[instruction.arguments[0]]
        kinds.append(kind)
        if converts and kind == "flag":
            index = add("ne", *arguments, add("constant", value=0.0), dtype="bool")
        elif converts and kind == "whole" and kinds[instruction.arguments[0]] == "float":
            (x,) = arguments
            negative = add("lt", x, add("constant", value=0.0), dtype="bool")
            index = add("where", negative, add("ceil", x), add("floor", x))
        else:
            value = None if instruction.value is None else float(instruction.value)
            index = add(op, *arguments, dtype="bool" if kind == "flag" else "float64", value=value)
        register.append(index)
    return replace(node, program=tuple(program), results=tuple(register[i] for i in node.results))


def _kind(dtype: str) -> str:
    return "float" if dtype.startswith("float") else "flag" if dtype == "bool" else "whole"


MOST_PLACES = 31


@dataclass(frozen=True)
class AddRectify:
    """The integer operation y = max(0, x + bias), a layer's bias and ReLU.

    Attributes:
        y, x: dense matrices of one format.
        bias: one row, which is added to every row of `x`.
        places: number of fraction bits that `bias` has more than `x`, 0 to 30.
    """

    y: Located
    x: Located
    bias: Located
    places: int


@dataclass(frozen=True)
class Mask:
    """The integer operation y = g where x + bias is positive, else 0: ReLU's derivative.

    Attributes:
        y, x, g: dense matrices; `y` and `g` have one format.
        bias: one row, which is added to every row of `x`; None: nothing is added.
        places: number of fraction bits that `bias` has more than `x`, 0 to 30.
    """

    y: Located
    x: Located
    bias: Located | None
    g: Located
    places: int


@dataclass(frozen=True)
class AdamStep:
    """One update of `primitives.algorithms.updates`: Adam, and Polyak averaging if there is a target. Arrays are dense.

    Attributes:
        parameter, gradient: the parameters and their gradients, in fixed point.
        target: the target network's parameters; None: there are none.
        mean, square: Adam's moments.
        rate: the learning rate after the correction of the first moment's bias, one number.
        root_correction: the root of the second moment's bias correction, one number.
        constants: decay and weight of `mean`, decay and weight of `square`, epsilon, tau.
    """

    parameter: Located
    target: Located | None
    gradient: Located
    mean: Located
    square: Located
    rate: Located
    root_correction: Located
    constants: tuple[float, float, float, float, float, float]


def adam_step(node: Node, inputs: Sequence[Located], outputs: Sequence[Located]) -> AdamStep | None:
    """Return the Adam update that gives the same bits as an element-wise node's program.

    Args:
        inputs, outputs: its arrays and their formats.

    Returns:
        None if the program is not an Adam update, or if the formats or the layouts of its arrays do not allow it.
    """
    if len(outputs) not in (3, 4):
        return None
    expressions = [_expression(node, len(inputs), result) for result in node.results]
    tau, target = 0.0, None
    match expressions:
        case [
            ("add", ("mul", int(m), float(mean_kept)), ("mul", int(g), float(mean_taken))) as mean,
            (
                "add",
                ("mul", int(v), float(square_kept)),
                ("mul", ("mul", _, float(square_taken)), _),
            ) as square,
            ("sub", int(p), ("mul", int(rate), ("div", mean_again, denominator))) as parameter,
            *averaged,
        ]:
            pass
        case _:
            return None
    match denominator:
        case ("add", ("div", ("sqrt", square_again), int(root)), float(epsilon)):
            pass
        case _:
            return None
    squared = ("add", ("mul", v, square_kept), ("mul", ("mul", g, square_taken), g))
    if mean_again != mean or square_again != square or square != squared:
        return None
    if averaged:
        match averaged[0]:
            case ("add", int(t), ("mul", ("sub", new, old), float(tau))) if new == parameter and t == old:
                target = inputs[t]
            case _:
                return None
    step = AdamStep(
        parameter=inputs[p],
        target=target,
        gradient=inputs[g],
        mean=inputs[m],
        square=inputs[v],
        rate=inputs[rate],
        root_correction=inputs[root],
        constants=(mean_kept, mean_taken, square_kept, square_taken, epsilon, tau),
    )
    written = [step.mean, step.square, step.parameter, *([target] if target else [])]
    in_place = all(_same(place, y) for place, y in zip(written, outputs, strict=True))
    return step if in_place and _fits(step) else None


def _fits(step: AdamStep) -> bool:
    """Whether the extension has an update for such places."""
    fixed = [step.parameter, step.gradient, *([step.target] if step.target else [])]
    floats, numbers = (step.mean, step.square), (step.rate, step.root_correction)
    return (
        all(isinstance(place.storage, Q) for place in fixed)
        and (step.target is None or step.target.storage == step.parameter.storage)
        and all(place.storage is Plain.BINARY32 for place in floats)
        and all(place.storage is Plain.BINARY64 and not any(place.array.strides) for place in numbers)
        and all(place.array.flags.c_contiguous for place in (*fixed, *floats))
    )


def _same(a: Located, b: Located) -> bool:
    """Whether two places are the same."""
    return bool(a.array.__array_interface__ == b.array.__array_interface__)


def integer_operations(
    node: Node, inputs: Sequence[Located], outputs: Sequence[Located]
) -> list[AddRectify | Mask] | None:
    """Return integer operations that give the same bits as an element-wise node's program, one per result.

    Args:
        inputs, outputs: its arrays and their formats.

    Returns:
        None if a result is neither a bias with ReLU (`AddRectify`) nor ReLU's derivative (`Mask`), or if the formats
        or the layouts of its arrays do not allow the operation.
    """
    operations = []
    for result, y in zip(node.results, outputs, strict=True):
        operation = _integer_operation(node, result, inputs, y)
        if operation is None:
            return None
        operations.append(operation)
    return operations


def _integer_operation(
    node: Node, result: int, inputs: Sequence[Located], y: Located
) -> AddRectify | Mask | None:
    match _expression(node, len(inputs), result):
        case ("maximum", ("add", int(x), int(bias)), 0.0):
            return _add_rectify(y, inputs[x], inputs[bias])
        case ("where", ("le", int(x), 0.0), 0.0, int(g)) if _alike(y, inputs[g]) and _dense(y, inputs[x]):
            return Mask(y, inputs[x], None, inputs[g], 0)
        case ("where", ("le", ("maximum", ("add", int(x), int(bias)), 0.0), 0.0), 0.0, int(g)):
            rectified = _add_rectify(inputs[x], inputs[x], inputs[bias])
            if rectified and _alike(y, inputs[g]) and _dense(y, inputs[x]):
                return Mask(y, inputs[x], inputs[bias], inputs[g], rectified.places)
    return None


def _expression(node: Node, input_count: int, register: int) -> object:
    """Return a register's value: the number of an input, a constant as a float, or (operation, arguments ..)."""
    if register < input_count:
        return register
    instruction = node.program[register - input_count]
    if instruction.op == "constant":
        assert instruction.value is not None
        return float(instruction.value)
    return (instruction.op, *(_expression(node, input_count, one) for one in instruction.arguments))


def _add_rectify(y: Located, x: Located, bias: Located) -> AddRectify | None:
    if not (_alike(y, x) and isinstance(x.storage, Q) and isinstance(bias.storage, Q)):
        return None
    places = bias.storage.fraction_bits - x.storage.fraction_bits
    array: Array = bias.array
    one_row = array.ndim == 2 and array.strides[0] == 0 and array.strides[1] == array.itemsize
    return AddRectify(y, x, bias, places) if one_row and 0 <= places < MOST_PLACES else None


def _alike(*places: Located) -> bool:
    """Whether all are dense and have one shape and one format."""
    return _dense(*places) and len({place.storage for place in places}) == 1


def _dense(*places: Located) -> bool:
    """Whether all are in fixed point, dense, and of one two-dimensional shape."""
    shape = places[0].array.shape
    return len(shape) == 2 and all(
        isinstance(place.storage, Q) and place.array.shape == shape and place.array.flags.c_contiguous
        for place in places
    )
