"""What the stages of a pipeline share: values that move on with it, and the selection of one of several values."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Module, Signal, Value


def delayed(m: Module, value: Any, moves: int, advance: Value) -> Any:
    """Return what a value was before a pipeline's last moves, 0 at first.

    Args:
        value: a signal or a view of one.
        moves: how many moves; with 0 the value itself is returned.
        advance: whether the pipeline moves on in a cycle.
    """
    for _ in range(moves):
        register = Signal(value.shape())
        with m.If(advance):
            m.d.sync += register.eq(value)
        value = register
    return value


def one_of(takes: Sequence[Value], values: Sequence[Value]) -> Value:
    """Return the value whose condition holds, of which exactly one does, without a chain of selections.

    Args:
        takes: a condition for each value, 1 bit.
        values: unsigned, or signed and not negative where its condition holds.
    """
    return reduce(
        or_, (take.replicate(len(value)) & value for take, value in zip(takes, values, strict=True))
    )
