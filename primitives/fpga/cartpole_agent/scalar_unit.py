"""The scalar unit: runs the programs of `program`, an instruction in five cycles, with one 32 x 32 multiplier."""

from enum import IntEnum

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent import program
from placerl.primitives.fpga.cartpole_agent.settings import STATE_BITS, STATE_FRACTION, STATES

LOW_BITS = 17  # of the lower half of an operand: with a sign bit it takes a multiplier of 18 bits


class ScalarProgram(IntEnum):
    """The programs that the scalar unit runs."""

    STEP = 0
    RESET = 1
    SAMPLE = 2


PROGRAMS = {
    ScalarProgram.STEP: program.STEP,
    ScalarProgram.RESET: program.RESET,
    ScalarProgram.SAMPLE: program.SAMPLE,
}
CYCLES = {name: 1 + 5 * len(instructions) for name, instructions in PROGRAMS.items()}
"""Cycles of each program, from `start` to `done`: one to decode the first instruction, and five for each."""

REGISTERS = (*program.STATE, *program.TEMPORARIES, "push")
NAMES = (*REGISTERS, "random", "total", *program.CONSTANTS)


class ScalarUnit(wiring.Component):
    """Runs one program at a time, and keeps the environment's state. The golden model is `golden.execute`.

    Ports:
        start: In(1), a program begins; only when none runs. program: In(2), a `ScalarProgram`.
        right: In(1), at `start`: the action, 1 to push right.
        random: In(26), random bits. draw: Out(1), an instruction takes them in this cycle, and needs others next time.
        total: In(total_bits), the sum tree's total.
        done: Out(1), the last instruction of the program is written at the end of this cycle.
        state: Out(4 x signed(32)). result: Out(signed(32)), the register "t".
    """

    def __init__(self, *, total_bits: int):
        self.total_bits = total_bits
        super().__init__(
            {
                "start": In(1),
                "program": In(range(len(ScalarProgram))),
                "right": In(1),
                "random": In(STATE_FRACTION),
                "draw": Out(1),
                "total": In(total_bits),
                "done": Out(1),
                "state": Out(data.ArrayLayout(signed(STATE_BITS), STATES)),
                "result": Out(signed(STATE_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number = signed(STATE_BITS)
        registers = {name: Signal(number, name=f"register_{name}") for name in REGISTERS}
        values = {
            **registers,
            "random": self.random,
            "total": self.total,
            **{name: Const(program.fixed(value), number) for name, value in program.CONSTANTS.items()},
        }
        operands = Array(values[name] for name in NAMES)

        # The instructions of all programs, one after another.
        code = [
            (instruction, index == len(instructions) - 1)
            for instructions in PROGRAMS.values()
            for index, instruction in enumerate(instructions)
        ]
        starts, begin = [], 0
        for instructions in PROGRAMS.values():
            starts.append(begin)
            begin += len(instructions)
        counter = Signal(range(len(code)))
        name_code = range(len(NAMES))
        layout = data.StructLayout(
            {
                "a": name_code,
                "b": name_code,
                "addend": name_code,
                "target": name_code,
                "negative": 1,
                "last": 1,
            }
        )
        decoded, current = Signal(layout), Signal(layout)  # the next instruction, and the one that runs
        with m.Switch(counter):
            for step, (instruction, is_last) in enumerate(code):
                with m.Case(step):
                    m.d.comb += [
                        *(
                            decoded[field].eq(NAMES.index(getattr(instruction, field)))
                            for field in ("a", "b", "addend", "target")
                        ),
                        decoded.negative.eq(instruction.negative),
                        decoded.last.eq(is_last),
                    ]

        first, second, third = (Signal(number, name=name) for name in ("first", "second", "third"))
        partial = [Signal(signed(2 * LOW_BITS + 2), name=f"partial_{place}") for place in range(4)]
        low_sum = Signal(signed(2 * LOW_BITS + 2))
        middle_sum = Signal(signed(2 * LOW_BITS + 3))
        product = Signal(signed(2 * STATE_BITS))
        shifted, result = Signal(number), Signal(number)
        m.d.comb += [
            shifted.eq(product >> STATE_FRACTION),
            result.eq(Mux(current.negative, third - shifted, third + shifted)),
            self.state.as_value().eq(Cat(registers[name] for name in program.STATE)),
            self.result.eq(registers["t"]),
        ]
        low = [Signal(signed(LOW_BITS + 1), name=f"low_{place}") for place in range(2)]
        high = [Signal(signed(STATE_BITS - LOW_BITS), name=f"high_{place}") for place in range(2)]
        for place, operand in enumerate((first, second)):
            m.d.comb += [
                low[place].eq(operand[:LOW_BITS]),
                high[place].eq(operand[LOW_BITS:].as_signed()),
            ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [
                    counter.eq(Array(starts)[self.program]),
                    registers["push"].eq(
                        Mux(self.right, program.fixed(program.PUSH), -program.fixed(program.PUSH))
                    ),
                ]
                m.next = "DECODE"
            with m.State("DECODE"):
                m.d.sync += [current.eq(decoded), counter.eq(counter + 1)]
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.draw.eq(
                    (current.a == NAMES.index("random")) | (current.b == NAMES.index("random"))
                )
                m.d.sync += [
                    first.eq(operands[current.a]),
                    second.eq(operands[current.b]),
                    third.eq(operands[current.addend]),
                ]
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.sync += [
                    partial[0].eq(low[0] * low[1]),
                    partial[1].eq(low[0] * high[1]),
                    partial[2].eq(high[0] * low[1]),
                    partial[3].eq(high[0] * high[1]),
                ]
                m.next = "ADD"
            with m.State("ADD"):
                m.d.sync += [
                    low_sum.eq(partial[0] + (1 << STATE_FRACTION - 1)),
                    middle_sum.eq(partial[1] + partial[2]),
                ]
                m.next = "SUM"
            with m.State("SUM"):
                m.d.sync += product.eq(low_sum + (middle_sum << LOW_BITS) + (partial[3] << 2 * LOW_BITS))
                m.next = "WRITE"
            with m.State("WRITE"):
                with m.Switch(current.target):
                    for name, register in registers.items():
                        with m.Case(NAMES.index(name)):
                            m.d.sync += register.eq(result)
                m.d.comb += self.done.eq(current.last)
                m.d.sync += [current.eq(decoded), counter.eq(counter + 1)]
                m.next = "FETCH"
                with m.If(current.last):
                    m.next = "IDLE"
        return m
