"""The reduction unit: sums and extremes of groups of float32 numbers, one word of several lanes per cycle.

A floating-point adder with several cycles of latency cannot accumulate a stream of one number per cycle. MAP (IV-C4)
has the same problem in the sum tree, and uses fixed point, where an addition takes one cycle. So does this unit:
every number is scaled by a power of two that depends on the tensor's largest magnitude and converted to `ITEM_BITS`
bits; the sum is exact in any order, and is rounded to float32 once. The scale is an input of the stream: the writer
of the tensor knows its largest exponent (`block_exponent`).
"""

from typing import Any

import numpy as np
from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.floating_point.convert import SCALE_BITS, FromFixed, Scale, ToFixed
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed, registered

ITEM_BITS = 40
SUM_BITS = 64  # room for 2^24 numbers
OPERATIONS = ("sum", "max", "min", "argmax", "argmin")
ORDER_BITS, POSITION_BITS = 32, 32


def block_exponent(values: Array) -> int:
    """Return the exponent e of the largest magnitude of float32 numbers, 2^e <= |x| < 2^(e+1).

    If all numbers are 0 it is 0.
    """
    largest = float(np.abs(golden.flushed(values)).max(initial=0))
    return int(np.frexp(largest)[1]) - 1 if largest else 0


def reduction_latency(operation: str, lanes: int) -> int:
    """Return the cycles that a `ReduceUnit` takes from a group's last word to its result.

    Args:
        operation: "sum", "max", "min", "argmax" or "argmin".
        lanes: numbers in a word, a power of two.
    """
    tree = (lanes - 1).bit_length()
    if operation == "sum":
        return Scale.latency + ToFixed.latency + tree + 1 + FromFixed.latency + Scale.latency
    return tree + 1


def reduce_golden(operation: str, groups: Array) -> Array:
    """Return the results that a `ReduceUnit` must give for groups of numbers: its golden model.

    Args:
        operation: "sum", "max", "min", "argmax" or "argmin".
        groups: (G, R) float32, a group per row. For "sum" the largest magnitude of all groups sets the scale.

    Returns:
        (G,) float32, zeros positive; or for "argmax" and "argmin" (G,) int64 positions within the groups.
    """
    groups = golden.flushed(groups)
    if operation.startswith("arg"):
        return {"argmax": np.argmax, "argmin": np.argmin}[operation](groups, axis=1)
    if operation in ("max", "min"):
        extremes: Array = groups.max(axis=1) if operation == "max" else groups.min(axis=1)
        return extremes + np.float32(0)  # a zero is positive
    exponent = block_exponent(groups)
    places = ITEM_BITS - 2 - exponent
    whole = np.floor(np.ldexp(groups.astype(np.float64), places) + 0.5).astype(np.int64)
    return golden.scaled(golden.from_fixed(whole.sum(axis=1), ITEM_BITS - 2), exponent)


class ReduceUnit(wiring.Component):
    """Reduces the groups of a stream of numbers, one after another; all lanes of a word belong to one group.

    Args:
        operation: "sum", "max", "min", "argmax" or "argmin"; the last two give the position of the first extreme in
            its group.
        lanes: numbers in a word, a power of two.

    Ports:
        items: In(stream of words): `numbers` (lanes x 32), float32; `count`: how many of them are valid, from lane 0
            on, at least 1; `last`: this word ends its group; `scale`: signed, the `block_exponent` of the whole
            tensor, used for "sum" only.
        results: Out(stream of 32): for each group a float32 number or a position.

    Latency: `reduction_latency` cycles from a group's last word. The unit stalls while a result is not taken.
    """

    def __init__(self, operation: str, *, lanes: int):
        if operation not in OPERATIONS:
            raise ValueError(f"operation: found {operation!r}; allowed: {', '.join(OPERATIONS)}")
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"lanes: found {lanes}; allowed: a power of two")
        self.operation, self.lanes = operation, lanes
        item = data.StructLayout(
            {
                "numbers": data.ArrayLayout(WORD_BITS, lanes),
                "count": range(lanes + 1),
                "last": 1,
                "scale": signed(SCALE_BITS),
            }
        )
        super().__init__({"items": In(stream.Signature(item)), "results": Out(stream.Signature(WORD_BITS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = ~self.results.valid | self.results.ready
        m.d.comb += self.items.ready.eq(running)
        datapath = _Datapath(self.operation, self.lanes, self.items.payload.shape())
        m.submodules.datapath = EnableInserter(running)(datapath)
        m.d.comb += [
            datapath.item.eq(self.items.payload),
            datapath.valid.eq(self.items.valid),
            self.results.payload.eq(datapath.result),
            self.results.valid.eq(datapath.done),
        ]
        return m


class _Datapath(wiring.Component):
    def __init__(self, operation: str, lanes: int, item: Any):
        self._operation, self._lanes = operation, lanes
        super().__init__({"item": In(item), "valid": In(1), "result": Out(WORD_BITS), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values: list[Value]
        if self._operation == "sum":
            values, cycles = self._fixed(m)
        else:
            values, cycles = self._placed(m), 0
        present = [delayed(m, self.item.count > lane, cycles) for lane in range(self._lanes)]
        valid, last = (delayed(m, bit, cycles) for bit in (self.valid, self.item.last))
        while len(values) > 1:
            pairs = list(zip(values[::2], values[1::2], present[::2], present[1::2], strict=True))
            values = [registered(m, self._joined(a, b, has_a, has_b)) for a, b, has_a, has_b in pairs]
            present = [registered(m, has_a | has_b) for _, _, has_a, has_b in pairs]
            valid, last = registered(m, valid), registered(m, last)
            cycles += 1
        shape = signed(SUM_BITS) if self._operation == "sum" else ORDER_BITS + POSITION_BITS
        total, fresh, ended = Signal(shape), Signal(init=1), Signal()
        joined = self._joined(total, values[0], ~fresh, present[0])
        m.d.sync += ended.eq(valid & last)
        with m.If(valid):
            m.d.sync += [total.eq(joined), fresh.eq(last)]
        if self._operation != "sum":
            is_position = self._operation.startswith("arg")
            result = total[ORDER_BITS:] if is_position else _word(total[:ORDER_BITS].as_signed())
            m.d.comb += [self.result.eq(result), self.done.eq(ended)]
            return m
        m.submodules.convert = convert = FromFixed(bits=SUM_BITS, fraction_bits=ITEM_BITS - 2)
        m.submodules.scale = scale = Scale()
        m.d.comb += [
            convert.operands[0].eq(total),
            scale.operands[0].eq(convert.result),
            scale.operands[1].eq(delayed(m, self.item.scale, cycles + 1 + FromFixed.latency)),
            self.result.eq(scale.result),
            self.done.eq(delayed(m, ended, FromFixed.latency + Scale.latency)),
        ]
        return m

    def _fixed(self, m: Module) -> tuple[list[Value], int]:
        values: list[Value] = []
        for lane in range(self._lanes):
            m.submodules[f"scale_{lane}"] = scale = Scale()
            m.submodules[f"convert_{lane}"] = convert = ToFixed(bits=ITEM_BITS, fraction_bits=ITEM_BITS - 2)
            m.d.comb += [
                scale.operands[0].eq(self.item.numbers[lane]),
                scale.operands[1].eq((-self.item.scale)[:WORD_BITS]),
                convert.operands[0].eq(scale.result),
            ]
            values.append(convert.result.value)
        return values, Scale.latency + ToFixed.latency

    def _placed(self, m: Module) -> list[Value]:
        """Return each lane's number in the form of `_order`, with its position in the group."""
        begin = Signal(POSITION_BITS)
        with m.If(self.valid):
            m.d.sync += begin.eq(Mux(self.item.last, 0, begin + self._lanes))
        return [
            Cat(_order(self.item.numbers[lane]), (begin + lane)[:POSITION_BITS])
            for lane in range(self._lanes)
        ]

    def _joined(self, a: Value, b: Value, has_a: Value, has_b: Value) -> Value:
        if self._operation == "sum":
            return Mux(has_a, a, 0) + Mux(has_b, b, 0)
        a_order, b_order = a[:ORDER_BITS].as_signed(), b[:ORDER_BITS].as_signed()
        b_wins = b_order > a_order if self._operation.endswith("max") else b_order < a_order
        return Mux(has_b & (~has_a | b_wins), b, a)


def _order(word: Value) -> Value:
    """Return a signed number of `ORDER_BITS` bits in the order of the floats."""
    magnitude = Mux(word[23:31] == 0, 0, word[:31])
    return Mux(word[31], -magnitude, magnitude)[:ORDER_BITS]


def _word(order: Value) -> Value:
    """Return the inverse of `_order`."""
    return Mux(order < 0, (-order)[:31] | 1 << 31, order[:31])[:WORD_BITS]
