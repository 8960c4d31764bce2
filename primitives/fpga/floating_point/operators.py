"""The float32 operators from which stream programs are built, and operations composed of several operators.

A stream program is a sequence of operators, which a stream unit runs for one element after another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placerl.primitives.fpga.floating_point import arithmetic, convert, functions, golden, logic
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.floating_point.words import Operator


@dataclass(frozen=True)
class OperatorRule:
    """An operator that stream programs use: its hardware, its golden model and its latency.

    Attributes:
        make: creates the hardware.
        golden: the golden model, which maps the operands, float32 or bool arrays, to the result.
        latency: cycles from operands to result.
    """

    make: Callable[[], Operator]
    golden: Callable[..., Array]
    latency: int


def _near_zero(name: str) -> OperatorRule:
    return OperatorRule(
        lambda: functions.NearZero(name), lambda x: functions.near_zero(name, x), functions.NearZero.latency
    )


def _logic(name: str) -> OperatorRule:
    return OperatorRule(lambda: logic.Logic(name), logic.RULES[name].golden, logic.Logic.latency)


OPERATORS: dict[str, OperatorRule] = {
    "add": OperatorRule(arithmetic.Add, golden.add, arithmetic.Add.latency),
    "sub": OperatorRule(lambda: arithmetic.Add(subtract=True), golden.subtract, arithmetic.Add.latency),
    "mul": OperatorRule(arithmetic.Multiply, golden.multiply, arithmetic.Multiply.latency),
    "div": OperatorRule(arithmetic.Divide, golden.divide, arithmetic.Divide.latency),
    "sqrt": OperatorRule(arithmetic.SquareRoot, golden.square_root, arithmetic.SquareRoot.latency),
    "exp": OperatorRule(functions.Exponential, functions.exponential, functions.Exponential.latency),
    "log": OperatorRule(functions.Logarithm, functions.logarithm, functions.Logarithm.latency),
    **{f"{name}_near_zero": _near_zero(name) for name in ("tanh", "expm1", "log1p")},
    **{name: _logic(name) for name in logic.RULES},
    "from_integer": OperatorRule(
        convert.FromInteger, lambda a: golden.from_fixed(a.astype(np.int64), 0), convert.FromInteger.latency
    ),
}


class Step(NamedTuple):
    """One step of a stream program, whose result is a new register.

    Registers are numbered as in `primitives.graph.graph.Instruction`: first the inputs, then the result of each step.

    Attributes:
        op: name of an operator, or "constant".
        arguments: numbers of the registers that it takes.
        value: the number of a "constant".
    """

    op: str
    arguments: tuple[int, ...] = ()
    value: float = 0.0


@dataclass(frozen=True)
class StreamProgram:
    """The computation of a stream unit for each element.

    Attributes:
        input_count: number of inputs, which are registers 0 to input_count - 1.
        steps: steps, in order.
        results: numbers of the registers that hold its results.
    """

    input_count: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    @property
    def latency(self) -> int:
        """Number of cycles from an element's inputs to its results."""
        ready = self.ready_cycles()
        return max((ready[register] for register in self.results), default=0)

    def ready_cycles(self) -> list[int]:
        """Return the cycle in which each register has its value, counted from the inputs.

        Constants are ready in cycle 0.
        """
        ready = [0] * self.input_count
        for step in self.steps:
            if step.op == "constant":
                ready.append(0)
            else:
                start = max(ready[argument] for argument in step.arguments)
                ready.append(start + OPERATORS[step.op].latency)
        return ready

    def golden(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the program's results for its inputs, float32 or bool arrays that broadcast: its golden model."""
        registers = list(inputs)
        for step in self.steps:
            if step.op == "constant":
                registers.append(np.asarray(step.value, np.float32))
            else:
                operands = [registers[argument] for argument in step.arguments]
                registers.append(OPERATORS[step.op].golden(*operands))
        return [registers[register] for register in self.results]


class ProgramBuilder:
    """Builds a stream program step by step, from operators and from operations composed of several operators.

    Registers are numbered from 0: first the inputs, then the result of each step.

    Args:
        input_count: number of inputs of the program.
    """

    def __init__(self, input_count: int):
        self._input_count = input_count
        self._steps: list[Step] = []
        self._constants: dict[float, int] = {}

    def constant(self, value: float) -> int:
        """Return the number of a register that holds `value`, as float32."""
        value = float(np.float32(value))
        if value not in self._constants:
            self._constants[value] = self._append(Step("constant", value=value))
        return self._constants[value]

    def apply(self, op: str, *arguments: int) -> int:
        """Add an operation to the program, and return the number of the register with its result.

        Args:
            op: name of an operator, such as "add", or of an operation composed of several ones, such as "sigmoid".
            arguments: numbers of the registers that the operation takes.

        Raises:
            KeyError: there is no such operation.
        """
        if op in COMPOSED:
            return COMPOSED[op](self, *arguments)
        if op not in OPERATORS:
            raise KeyError(op)
        return self._append(Step(op, arguments))

    def finished(self, results: Sequence[int]) -> StreamProgram:
        """Return the finished program, whose results are in the registers `results`."""
        return StreamProgram(self._input_count, tuple(self._steps), tuple(results))

    def _append(self, step: Step) -> int:
        self._steps.append(step)
        return self._input_count + len(self._steps) - 1


def _below(b: ProgramBuilder, x: int, limit: float) -> int:
    return b.apply("lt", b.apply("abs", x), b.constant(limit))


def _tanh(b: ProgramBuilder, x: int) -> int:
    power = b.apply("exp", b.apply("add", x, x))
    far = b.apply("sub", b.constant(1), b.apply("div", b.constant(2), b.apply("add", power, b.constant(1))))
    return b.apply("where", _below(b, x, 1), b.apply("tanh_near_zero", x), far)


def _expm1(b: ProgramBuilder, x: int) -> int:
    far = b.apply("sub", b.apply("exp", x), b.constant(1))
    return b.apply("where", _below(b, x, 1), b.apply("expm1_near_zero", x), far)


def _log1p(b: ProgramBuilder, x: int) -> int:
    far = b.apply("log", b.apply("add", x, b.constant(1)))
    return b.apply("where", _below(b, x, 0.5), b.apply("log1p_near_zero", x), far)


def _sigmoid(b: ProgramBuilder, x: int) -> int:
    return b.apply("div", b.constant(1), b.apply("add", b.constant(1), b.apply("exp", b.apply("neg", x))))


COMPOSED: dict[str, Callable[..., int]] = {
    "tanh": _tanh,
    "expm1": _expm1,
    "log1p": _log1p,
    "sigmoid": _sigmoid,
    "reciprocal": lambda b, x: b.apply("div", b.constant(1), x),
    "rsqrt": lambda b, x: b.apply("div", b.constant(1), b.apply("sqrt", x)),
}
