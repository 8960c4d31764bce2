"""The vector unit: a lane for each hidden neuron, a tree that adds their products, and the sequencer of both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent.lane import Lane, Left, control, saturated
from placerl.primitives.fpga.cartpole_agent.settings import (
    ACTIONS,
    BIAS_ROW,
    DISCOUNT_SHIFT,
    ONE,
    ROWS,
    STATES,
    WEIGHT_BITS,
    WORD_BITS,
    WORD_FRACTION,
)
from placerl.primitives.fpga.export.platform import shared

RADIX = 4  # products or sums that a stage of the tree adds


class Task(IntEnum):
    """What the vector unit does from one `start` to `done`."""

    EVALUATE = 0  # the values of both actions in the state `x`
    TRAIN = 1  # the TD error of a transition, and its gradients
    UPDATE = 2  # the weights, from the gradients of all transitions since the last update


class Right(IntEnum):
    """The right operand of the lanes' multiplications."""

    BEFORE = 0  # feature number `row` of the state before the action
    AFTER = 1  # of the state after it
    ONE = 2
    HIDDEN = 3  # each lane's activation
    ERROR = 4


class Sink(IntEnum):
    """Where the products of an operation go; the lanes' names are in `lane.control`."""

    NONE = 0
    SUM = 1  # to each lane's sum
    ACTIVATE = 2  # to each lane's sum, which then becomes the activation
    VALUE = 3  # through the tree, to the value of the action of this row
    TD_ERROR = 4  # through the tree: a value whose TD error is taken
    DELTA = 5  # each lane's delta
    GRADIENT = 6  # the gradient of this row
    UPDATE = 7  # nowhere: the row is updated


@dataclass(frozen=True)
class LaneOperation:
    """An operation of all lanes on one row.

    Attributes:
        sink, left, right: what is multiplied, and where it goes.
        row: of the weights. of_action: the row of the transition's action instead.
        first: whether the product begins a new sum.
    """

    sink: Sink = Sink.NONE
    left: Left = Left.WEIGHT
    right: Right = Right.ONE
    row: int = 0
    of_action: bool = False
    first: bool = False


IDLE = LaneOperation()


def _hidden(left: Left, right: Right) -> Iterator[LaneOperation]:
    """Yield the operations of the first layer, and wait until the next can use the activations."""
    for row in range(STATES):
        yield LaneOperation(Sink.SUM, left, right, row, first=row == 0)
    yield LaneOperation(Sink.ACTIVATE, left, Right.ONE, BIAS_ROW)
    yield from [IDLE] * 3


def _values(left: Left) -> Iterator[LaneOperation]:
    for row in range(BIAS_ROW + 1, ROWS):
        yield LaneOperation(Sink.VALUE, left, Right.HIDDEN, row)


def tasks(tree_stages: int) -> dict[Task, list[LaneOperation]]:
    """Return the operations of each task, one per cycle.

    Args:
        tree_stages: cycles in which the tree adds the lanes' products.
    """
    train = [
        *_hidden(Left.TARGET, Right.AFTER),
        *_values(Left.TARGET),
        *_hidden(Left.WEIGHT, Right.BEFORE),
        LaneOperation(Sink.TD_ERROR, Left.WEIGHT, Right.HIDDEN, of_action=True),
        *[IDLE] * (3 + tree_stages),
        LaneOperation(Sink.GRADIENT, Left.HIDDEN, Right.ERROR, of_action=True),
        LaneOperation(Sink.DELTA, Left.WEIGHT, Right.ERROR, of_action=True),
        *[IDLE] * 2,
        *(LaneOperation(Sink.GRADIENT, Left.DELTA, Right.BEFORE, row) for row in range(STATES)),
        LaneOperation(Sink.GRADIENT, Left.DELTA, Right.ONE, BIAS_ROW),
        IDLE,  # until the last operands are selected
    ]
    return {
        Task.EVALUATE: [
            *_hidden(Left.WEIGHT, Right.BEFORE),
            *_values(Left.WEIGHT),
            *[IDLE] * (4 + tree_stages),
        ],
        Task.TRAIN: train,
        Task.UPDATE: [*(LaneOperation(Sink.UPDATE, row=row) for row in range(ROWS)), *[IDLE] * 6],
    }


class AgentVectorUnit(wiring.Component):
    """Evaluates and trains the network. The golden model is in `golden.GoldenAgents`.

    Args:
        hidden: number of lanes, a power of 4.

    Ports:
        start: In(1), a task begins; only when none is running. task: In(2), a `Task`. done: Out(1), its last cycle.
        before, after: In(4 x signed(18)), features; action: In(1); fell: In(1), `after` is terminal. All constant
            during a task.
        copy: In(1), during UPDATE: the target network becomes the network.
        load: In(1), an initial row is written; load_row: In(3); load_weights: In(hidden x signed(26)).
        values: Out(2 x signed(18)), of the actions, after EVALUATE.
        error: Out(signed(18)), the TD error, after TRAIN.
    """

    def __init__(self, *, hidden: int):
        self.hidden = hidden
        word = signed(WORD_BITS)
        super().__init__(
            {
                "start": In(1),
                "task": In(range(len(Task))),
                "done": Out(1),
                "before": In(data.ArrayLayout(word, STATES)),
                "after": In(data.ArrayLayout(word, STATES)),
                "action": In(1),
                "fell": In(1),
                "copy": In(1),
                "load": In(1),
                "load_row": In(range(ROWS)),
                "load_weights": In(data.ArrayLayout(signed(WEIGHT_BITS), hidden)),
                "values": Out(data.ArrayLayout(word, ACTIONS)),
                "error": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = 0
        while RADIX**stages < self.hidden:
            stages += 1
        issued = self._sequencer(m, tasks(stages))
        # The operation of each stage. The tree's sum is complete in stage 3 + stages, and rounded in the one after.
        op = [issued]
        for stage in range(1, 6 + stages):
            op.append(Signal.like(issued, name=f"operation_{stage}"))
            m.d.sync += op[stage].eq(op[stage - 1])

        c = Signal(control())
        feature = op[1].row[:2]
        has_gradient = Signal(ROWS)
        scalar = Signal(signed(WORD_BITS))
        with m.Switch(op[1].right):
            with m.Case(Right.BEFORE):
                m.d.comb += scalar.eq(self.before[feature])
            with m.Case(Right.AFTER):
                m.d.comb += scalar.eq(self.after[feature])
            with m.Case(Right.ERROR):
                m.d.comb += scalar.eq(self.error)
            with m.Default():
                m.d.comb += scalar.eq(ONE)
        m.d.comb += [
            c.read_row_0.eq(Mux(op[4].sink == Sink.UPDATE, op[4].row, op[0].row)),
            c.left_1.eq(op[1].left),
            c.hidden_1.eq(op[1].right == Right.HIDDEN),
            c.scalar_1.eq(scalar),
            c.gradient_row_2.eq(op[2].row),
            c.row_3.eq(op[3].row),
            c.clear_3.eq(op[3].first),
            c.accumulate_3.eq((op[3].sink == Sink.SUM) | (op[3].sink == Sink.ACTIVATE)),
            c.add_gradient_3.eq(op[3].sink == Sink.GRADIENT),
            c.take_delta_3.eq(op[3].sink == Sink.DELTA),
            c.has_gradient_3.eq(has_gradient.bit_select(op[3].row, 1)),
            c.activate_4.eq(op[4].sink == Sink.ACTIVATE),
            c.row_5.eq(op[5].row),
            c.momentum_5.eq(op[5].sink == Sink.UPDATE),
            c.row_6.eq(Mux(self.load, self.load_row, op[6].row)),
            c.weight_6.eq(op[6].sink == Sink.UPDATE),
            c.copy_6.eq((op[6].sink == Sink.UPDATE) & self.copy),
            c.load_6.eq(self.load),
        ]
        with m.If(op[3].sink == Sink.GRADIENT):
            m.d.sync += has_gradient.bit_select(op[3].row, 1).eq(1)
        with m.Elif(op[3].sink == Sink.UPDATE):
            m.d.sync += has_gradient.bit_select(op[3].row, 1).eq(0)

        products = []
        for number in range(self.hidden):
            lane, m.submodules[f"lane_{number}"] = shared(platform, Lane, bias=number == 0)
            m.d.comb += [lane.control.eq(c), lane.load.eq(self.load_weights[number])]
            products.append(lane.product)
        rounded = Signal(signed(WORD_BITS))
        m.d.sync += rounded.eq(saturated(m, _tree(m, products), WORD_BITS))
        self._error(m, op[4 + stages], rounded)
        return m

    def _sequencer(self, m: Module, programs: dict[Task, list[LaneOperation]]) -> Any:
        """Add the counter and the memory of operations, and return the operation of this cycle."""
        code = [operation for each in programs.values() for operation in each]
        starts, ends, place = [], [], 0
        for each in programs.values():
            starts.append(place)
            place += len(each)
            ends.append(place - 1)
        layout = data.StructLayout(
            {
                "sink": range(len(Sink)),
                "left": range(len(Left)),
                "right": range(len(Right)),
                "row": range(ROWS),
                "first": 1,
            }
        )
        counter, running = Signal(range(len(code) + 1)), Signal()
        issued, of_action, row = Signal(layout), Signal(), Signal(range(ROWS))
        with m.If(running):
            with m.Switch(counter):
                for number, operation in enumerate(code):
                    with m.Case(number):
                        m.d.comb += [
                            issued.sink.eq(operation.sink),
                            issued.left.eq(operation.left),
                            issued.right.eq(operation.right),
                            row.eq(operation.row),
                            of_action.eq(operation.of_action),
                            issued.first.eq(operation.first),
                            self.done.eq(number in ends),
                        ]
            m.d.comb += issued.row.eq(Mux(of_action, BIAS_ROW + 1 + self.action, row))
            m.d.sync += [counter.eq(counter + 1), running.eq(~self.done)]
        with m.Elif(self.start):
            m.d.sync += [counter.eq(Array(starts)[self.task]), running.eq(1)]
        return issued

    def _error(self, m: Module, operation: Any, rounded: Signal) -> None:
        """Add the registers of values and of the TD error, which `rounded` enters."""
        with m.If(operation.sink == Sink.VALUE):
            with m.If(operation.row == BIAS_ROW + 1):
                m.d.sync += self.values[0].eq(rounded)
            with m.Else():
                m.d.sync += self.values[1].eq(rounded)
        # The values of the next state are there long before the present one's.
        greater, best = Signal(signed(WORD_BITS)), Signal(signed(WORD_BITS))
        wanted = Signal(signed(WORD_BITS))
        m.d.sync += [
            greater.eq(Mux(self.values[1] > self.values[0], self.values[1], self.values[0])),
            best.eq(_limited(greater, -ONE, 0)),
            wanted.eq(Mux(self.fell, -ONE, best - (best >> DISCOUNT_SHIFT))),
        ]
        with m.If(operation.sink == Sink.TD_ERROR):
            m.d.sync += self.error.eq(_limited(rounded - wanted, -ONE, ONE - 1))


def _limited(value: Any, low: int, high: int) -> Any:
    return Mux(
        value < low, Const(low, signed(WORD_BITS)), Mux(value > high, Const(high, signed(WORD_BITS)), value)
    )


def _tree(m: Module, products: Sequence[Value]) -> Value:
    """Return the sum of the products in a word's format, after a stage of registers for every factor of `RADIX`."""
    values = list(products)
    while len(values) > 1:
        sums = []
        for place in range(0, len(values), RADIX):
            group = values[place : place + RADIX]
            total = sum(group[1:], group[0])
            if len(values) == RADIX:
                total = total >> WORD_FRACTION
            register = Signal(signed(len(total)), name=f"sum_{len(values)}_{place}")
            m.d.sync += register.eq(total)
            sums.append(register)
        values = sums
    return values[0]
