"""Fixed-point training in C++, to the same bits as NumPy's: 32- and 16-bit integer products by the widest vectors.

A product of operands that fit 16 bits runs on 16-bit multipliers, any other on 32-bit ones; both are exact, so that
only the time tells which it was. What the kernels do not have (products in batches, gathers, sums that 64 bits
cannot hold) is done by the definition in NumPy.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from primitives.algorithms import checks
from primitives.learner.graph import Graph, Node
from primitives.learner.native_elementwise import merged
from primitives.quantization.executable import FixedPointExecutable, Located, Product, Step, product_factor
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.precision import Precision
from primitives.quantization.roles import Operand

SIMD = ("", "avx512vnni", "avx512", "avx2", "portable")
# `Kind` in operations.hpp; fixed-point comes first.
_KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "bool": 5, "uint8": 6}
_LARGEST_SHIFT = 62
_AS_IT_IS = (False, 0.0, 0.0, 0.0)


def unavailable_reason() -> str:
    """Why this backend cannot be used here; empty when it can."""
    try:
        from primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """The graphs, made ready to run on the widest instruction set of this processor."""
    return NativeExecutable(graphs, precision)


class NativeExecutable(FixedPointExecutable):
    """See the module's text.

    Attributes:
        simd: the instruction set in use.
        narrow_products: how many products ran on 16-bit multipliers so far.
        wide_products: on 32-bit ones.
    """

    def __init__(self, graphs: Mapping[str, Graph], precision: Precision, *, simd: str = "") -> None:
        """As `FixedPointExecutable`.

        Args:
            simd: one of `SIMD`; empty for the widest that this processor has.

        Raises:
            ValueError: the processor lacks the instruction set.
        """
        from primitives import _native

        checks.one_of("simd", simd, SIMD)
        self._native: Any = _native.quantization
        self.simd: str = self._native.simd(simd)
        self._op_codes = {name: i for i, name in enumerate(self._native.OPERATIONS.split())}
        self.narrow_products = self.wide_products = 0
        super().__init__(graphs, precision)

    def _matmul(self, product: Product) -> Step:
        by_definition = super()._matmul(product)
        if product.c.array.ndim != 2:
            return by_definition
        a_format, b_format, c_format = product.formats()
        a_operand, b_operand = product.operands
        sides = [
            (_address(p.array), *p.array.shape, *_steps(p.array)) for p in (product.a, product.b, product.c)
        ]
        native = self._native.Product(self.simd, *sides, c_format.lowest, c_format.highest)
        labels = (f"{a_operand.role} codes", f"{b_operand.role} codes", product.c.label)

        def run() -> None:
            self.capture(a_operand, product.a.array)
            self.capture(b_operand, product.b.array)
            a_reading, a_step = self._reading(a_operand, a_format)
            b_reading, b_step = self._reading(b_operand, b_format)
            factor = product_factor(a_step, b_step, c_format)
            mantissa, exponent = math.frexp(factor)
            scaled, places = mantissa != 0.5, 1 - exponent
            within = scaled or abs(places) <= _LARGEST_SHIFT
            if not within or not native.run(a_reading, b_reading, scaled, 0 if scaled else places, factor):
                by_definition()
                return
            if native.used_narrow:
                self.narrow_products += 1
            else:
                self.wide_products += 1
            for label, saturated in zip(labels, native.saturated, strict=True):
                self.count(label, saturated)

        return run

    def _reading(self, operand: Operand, fmt: Q) -> tuple[tuple[bool, float, float, float], float]:
        affine = self.affine.get(operand.key)
        if affine is None:
            return _AS_IT_IS, fmt.resolution
        return (True, affine.factor(fmt), float(affine.lowest), float(affine.highest)), affine.delta

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        if not _in_floats(node):
            return super()._elementwise(node, inputs, outputs)
        places = [*inputs, *outputs]
        shape, strides = merged(outputs[0].array.shape, [_steps(place.array) for place in places])
        if not shape:
            shape, strides = [1], [[0]] * len(places)
        program = _Program(node, len(inputs), self._op_codes)
        native = self._native.Elementwise(self.simd, shape, program.slots)
        for slot, value in program.constants:
            native.add_constant(slot, value)
        for i, place in enumerate(inputs):
            step = place.storage.resolution if isinstance(place.storage, Q) else 1.0
            native.add_input(_address(place.array), _kind(place), step, strides[i], program.slot_of[i])
        for instruction in program.instructions:
            native.add_instruction(*instruction)
        for i, place in enumerate(outputs):
            fmt = place.storage
            limits = (float(fmt.lowest), float(fmt.highest)) if isinstance(fmt, Q) else (0.0, 0.0)
            scale = 2.0**fmt.fraction_bits if isinstance(fmt, Q) else 1.0
            slot = program.slot_of[node.results[i]]
            native.add_output(
                _address(place.array), _kind(place), scale, *limits, strides[len(inputs) + i], slot
            )
        labels = [place.label for place in outputs]

        def run() -> None:
            if native.run():
                for label, saturated in zip(labels, native.saturated, strict=True):
                    self.count(label, saturated)

        return run

    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        array, fmt = source.array, source.storage
        over_rows = node.attributes["op"] == "sum" and node.attributes["axes"] == (0,) and array.ndim == 2
        if not (over_rows and isinstance(fmt, Q) and _steps(array)[1] == 1):
            return super()._reduce(node, source, target)
        rows, columns = array.shape
        sums = np.zeros(columns, np.int64)
        call = (_address(array), _steps(array)[0], rows, columns, _address(sums), self.simd)

        def run() -> None:
            self._native.sum_rows(*call)
            self._move(sums.reshape(target.array.shape), fmt, target)

        return run


class _Program:
    """An element-wise program on as few slots as its values' lives allow.

    Attributes:
        slots: how many.
        slot_of: of each register that is read or stored.
        constants: (slot, value).
        instructions: (operation's code, target slot, three argument slots or -1).
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
        # Inputs that are one number, and constants, are filled in once: their slots stay theirs.
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


def _in_floats(node: Node) -> bool:
    """Whether a program computes in floats and flags alone, and makes no flag of a float but by comparing."""
    for instruction in node.program:
        if instruction.dtype not in ("float32", "float64", "bool"):
            return False
        if instruction.op in ("copy", "constant") and instruction.dtype == "bool":
            return False
    return True


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _steps(array: Array) -> Sequence[int]:
    """Strides in elements; 0 along dimensions of size 1, which have none."""
    return [
        stride // array.itemsize if size > 1 else 0
        for stride, size in zip(array.strides, array.shape, strict=True)
    ]


def _kind(place: Located) -> int:
    return 0 if isinstance(place.storage, Q) else _KINDS[str(place.array.dtype)]
