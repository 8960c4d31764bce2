"""Operators that move, compare and select numbers, in one cycle each. A truth value is a word of 0 or 1."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Value

from placerl.primitives.fpga.floating_point.golden import Array, flushed
from placerl.primitives.fpga.floating_point.words import Float, Operator

ONE = 0x3F800000  # 1.0


@dataclass(frozen=True)
class LogicRule:
    """An operation that moves, compares or selects numbers, which the operator `Logic` does.

    Attributes:
        operands: number of operands.
        hardware: maps operand words to the result word, as Amaranth values.
        golden: the golden model, which maps arrays to an array.
    """

    operands: int
    hardware: Callable[..., Value]
    golden: Callable[..., Array]


class Logic(Operator):
    """Does one operation of `RULES`, such as "maximum", in one cycle.

    Args:
        name: name of the operation, which determines its number of operands.

    Ports:
        operands: In(number of operands x 32): float32 numbers, or truth values as words of 0 or 1.
        result: Out(32), a cycle later.
    """

    latency = 1

    def __init__(self, name: str):
        self.rule = RULES[name]
        super().__init__(self.rule.operands)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [self.operands[i] for i in range(self.rule.operands)]
        m.d.sync += self.result.eq(self.rule.hardware(*words))
        return m


def _zero(word: Value) -> Value:
    return Float(word).exponent == 0


def _order(word: Value) -> Value:
    """Return an unsigned number in the order of the floats; the same one for both zeros."""
    negative = word[31] & ~_zero(word)
    magnitude = Mux(_zero(word), 0, word[:31])
    return Cat(magnitude ^ negative.replicate(31), ~negative)


def _plain(word: Value) -> Value:
    """Return the word, with a subnormal number replaced by a zero of its sign."""
    return Cat(Mux(_zero(word), 0, word[:31]), word[31])


def _sign_word(word: Value) -> Value:
    return Mux(_zero(word), word & 0x80000000, Cat(Const(ONE, 31), word[31]))


def _compared(
    hardware: Callable[[Value, Value], Value], golden: Callable[[Array, Array], Array]
) -> LogicRule:
    return LogicRule(
        2,
        lambda a, b: hardware(_order(a), _order(b)),
        lambda a, b: golden(flushed(a), flushed(b)),
    )


def _chosen(second: Callable[[Value, Value], Value], golden: Callable[[Array, Array], Array]) -> LogicRule:
    return LogicRule(2, lambda a, b: Mux(second(_order(a), _order(b)), _plain(b), _plain(a)), golden)


def _floats(model: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *operands: model(*map(flushed, operands)).astype(np.float32)


def _sign(a: Array) -> Array:
    return np.asarray(np.where(a == 0, a, np.copysign(np.float32(1), a)))


def _maximum(a: Array, b: Array) -> Array:
    return np.asarray(np.where(a < b, b, a))


def _minimum(a: Array, b: Array) -> Array:
    return np.asarray(np.where(a > b, b, a))


RULES: dict[str, LogicRule] = {
    "copy": LogicRule(1, _plain, flushed),
    "neg": LogicRule(1, lambda a: Cat(_plain(a)[:31], ~a[31]), _floats(np.negative)),
    "abs": LogicRule(1, lambda a: _plain(a)[:31], _floats(np.abs)),
    "sign": LogicRule(1, _sign_word, _floats(_sign)),
    "maximum": _chosen(lambda a, b: a < b, _floats(_maximum)),
    "minimum": _chosen(lambda a, b: a > b, _floats(_minimum)),
    "lt": _compared(lambda a, b: a < b, np.less),
    "le": _compared(lambda a, b: a <= b, np.less_equal),
    "gt": _compared(lambda a, b: a > b, np.greater),
    "ge": _compared(lambda a, b: a >= b, np.greater_equal),
    "eq": _compared(lambda a, b: a == b, np.equal),
    "ne": _compared(lambda a, b: a != b, np.not_equal),
    "logical_not": LogicRule(1, lambda a: ~a[0], np.logical_not),
    "logical_and": LogicRule(2, lambda a, b: a[0] & b[0], np.logical_and),
    "logical_or": LogicRule(2, lambda a, b: a[0] | b[0], np.logical_or),
    "where": LogicRule(3, lambda c, a, b: Mux(c[0], a, b), np.where),
    "from_bool": LogicRule(1, lambda a: Mux(a[0], ONE, 0), lambda a: a.astype(np.float32)),
}
