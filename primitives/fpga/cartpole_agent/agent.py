"""The top level of the CartPole agent: its units, its replay memory, and the sequencer that runs them."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out

from placerl.primitives.fpga.cartpole_agent import program
from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.cartpole_agent.scalar_unit import ScalarProgram, ScalarUnit
from placerl.primitives.fpga.cartpole_agent.settings import (
    ACTIONS,
    ANGLE_LIMIT,
    FANOUT,
    FEATURE_SHIFTS,
    FIRST_PRIORITY,
    LEAST_PRIORITY,
    POSITION_LIMIT,
    PRIORITY_BITS,
    ROWS,
    STATE_BITS,
    STATE_FRACTION,
    STATES,
    WEIGHT_BITS,
    WEIGHT_FRACTION,
    WORD_BITS,
    AgentSettings,
)
from placerl.primitives.fpga.cartpole_agent.vector_unit import AgentVectorUnit, Task
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.replay_pipeline import Operation, PipelineLayout, ReplayPipeline
from placerl.primitives.fpga.vector.random_generator import WORD_BITS as RANDOM_BITS
from placerl.primitives.fpga.vector.random_generator import Xorshift, seeds

FEATURES = data.ArrayLayout(signed(WORD_BITS), STATES)
TRANSITION = data.StructLayout({"before": FEATURES, "after": FEATURES, "action": 1, "fell": 1})
REPORT = data.StructLayout(
    {
        "values": data.ArrayLayout(signed(WORD_BITS), ACTIONS),
        "action": 1,
        "state": data.ArrayLayout(signed(STATE_BITS), STATES),
        "terminated": 1,
        "truncated": 1,
    }
)
RETURN_BITS = 16


class CartPoleAgent(wiring.Component):
    """Learns CartPole from reset on, without any input. The golden model is `golden.GoldenAgents`.

    It must start with memories of zeros, as after the configuration of the device: a reset does not clear them.

    Args:
        settings: sizes and hyper-parameters.

    Ports:
        reports: Out(stream of `REPORT`), what happened in each environment step, after its gradient step. The agent
            waits until it is taken: where nobody reads it, `ready` must be 1.
        steps, episodes: Out(32), environment steps and finished episodes. last_return: Out(16), of the last episode.
        learning: Out(1), 0 when the task is solved: the agent then acts without exploration, and trains no more.
    """

    def __init__(self, seed: int = 0, settings: AgentSettings = AgentSettings()) -> None:  # noqa: B008
        self.seed, self.settings = seed, settings
        super().__init__(
            {
                "reports": Out(stream.Signature(REPORT)),
                "steps": Out(32),
                "episodes": Out(32),
                "last_return": Out(RETURN_BITS),
                "learning": Out(1, init=1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        settings = self.settings
        layout = PipelineLayout(FANOUT, settings.levels, PRIORITY_BITS, tag_bits=4)
        m.submodules.generator = generator = Xorshift(seeds(self.seed, 1)[0])
        m.submodules.scalar = scalar = ScalarUnit(total_bits=layout.total_bits)
        m.submodules.vector = vector = AgentVectorUnit(hidden=settings.hidden)
        m.submodules.tree = tree = ReplayPipeline(layout, remembers=False)
        m.submodules.replay = replay = Ram(width=TRANSITION.size, depth=settings.capacity)

        # What the units share.
        now, stored = Signal(TRANSITION), Signal(TRANSITION)
        trains = Signal()  # a stored transition is in the vector unit, not the present one
        seen = Signal(TRANSITION)
        outstanding = Signal(range(settings.batch + 2))  # requests to the tree without response
        taken, answered = Signal(), Signal()
        fields = {name: field.shape for name, field in layout.request() if name != "remembered"}
        request, response = Signal(data.StructLayout(fields)), tree.responses.payload
        leaves = Array(Signal(layout.path_bits, name=f"leaf_{number}") for number in range(settings.batch))
        m.d.comb += [
            vector.before.eq(seen.before),
            vector.after.eq(seen.after),
            vector.action.eq(seen.action),
            vector.fell.eq(seen.fell),
            scalar.random.eq(generator.word[-STATE_FRACTION:]),
            scalar.right.eq(now.action),
            scalar.total.eq(tree.total),
            tree.responses.ready.eq(1),
            Value.cast(tree.requests.payload).eq(
                Cat(request.operation, Const(0, 1), request.tag, request.path, request.value)
            ),
            tree.last_leaf.eq(settings.capacity - 1),
            taken.eq(tree.requests.valid & tree.requests.ready),
            answered.eq(tree.responses.valid),
        ]
        # Both are there when the first operation selects its operands, two cycles after a task's start.
        m.d.sync += [stored.eq(replay.read_data), seen.eq(Mux(trains, stored, now))]
        m.d.sync += outstanding.eq(outstanding + taken - answered)
        with m.If(answered & (response.operation == Operation.SAMPLE)):
            m.d.sync += leaves[response.tag].eq(response.path)

        state_features = Cat(
            saturated(m, scalar.state[number] >> shift, WORD_BITS)
            for number, shift in enumerate(FEATURE_SHIFTS)
        )
        values = Signal.like(vector.values)  # of the present state; TRAIN replaces the vector unit's
        length = Signal(RETURN_BITS)
        streak = Signal(range(settings.solved_episodes + 1))
        explore = Signal(17, init=1 << 16)
        truncated = Signal()
        place = Signal(layout.path_bits)
        item = Signal(range(settings.batch))
        last_item = item == settings.batch - 1
        gradient_steps = Signal(range(settings.target_period))
        report = self.reports.payload
        m.d.comb += [
            truncated.eq(~now.fell & (length == settings.episode_steps)),
            vector.copy.eq(gradient_steps == settings.target_period - 1),
            report.values.eq(values),
            report.action.eq(now.action),
            report.state.eq(scalar.state),
            report.terminated.eq(now.fell),
            report.truncated.eq(truncated),
            generator.enable.eq(scalar.draw),
        ]
        with m.FSM():
            self._initialise(m, generator, vector)
            with m.State("RESET"):
                m.d.comb += [scalar.start.eq(1), scalar.program.eq(ScalarProgram.RESET)]
                m.d.sync += length.eq(0)
                m.next = "RESET-WAIT"
            with m.State("RESET-WAIT"), m.If(scalar.done):
                m.next = "OBSERVE"

            # An environment step.
            with m.State("OBSERVE"):
                m.d.comb += [vector.start.eq(1), vector.task.eq(Task.EVALUATE)]
                m.d.sync += now.before.eq(state_features)
                m.next = "EVALUATE"
            with m.State("EVALUATE"), m.If(vector.done):
                m.next = "ACT"
            with m.State("ACT"):
                word = generator.word
                explores = self.learning & (word[:16] < explore)
                m.d.comb += generator.enable.eq(1)
                m.d.sync += [
                    values.eq(vector.values),
                    now.action.eq(Mux(explores, word[-1], vector.values[1] > vector.values[0])),
                ]
                m.next = "STEP"
            with m.State("STEP"):
                m.d.comb += [scalar.start.eq(1), scalar.program.eq(ScalarProgram.STEP)]
                m.next = "STEP-WAIT"
            with m.State("STEP-WAIT"), m.If(scalar.done):
                m.next = "OUTCOME"
            with m.State("OUTCOME"):
                m.d.sync += [
                    now.after.eq(state_features),
                    now.fell.eq(
                        _beyond(scalar.state[0], POSITION_LIMIT) | _beyond(scalar.state[2], ANGLE_LIMIT)
                    ),
                    length.eq(length + 1),
                    self.steps.eq(self.steps + 1),
                ]
                m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [
                    replay.write_data.eq(now),
                    replay.write_address.eq(place),
                    request.operation.eq(Operation.UPDATE),
                    request.path.eq(place),
                    request.value.eq(FIRST_PRIORITY),
                ]
                with m.If(~self.learning):
                    m.next = "REPORT"
                with m.Else():
                    m.d.comb += [replay.write_enable.eq(1), tree.requests.valid.eq(1)]
                    with m.If(tree.requests.ready):
                        m.d.sync += place.eq(place + 1)
                        m.next = "STORE-WAIT"
            with m.State("STORE-WAIT"), m.If(outstanding == 0):
                with m.If(self.steps >= settings.warm_steps):
                    m.next = "DRAW"
                with m.Else():
                    m.next = "REPORT"

            # A gradient step: first all leaves are sampled, then trained with.
            with m.State("DRAW"):
                m.d.comb += [scalar.start.eq(1), scalar.program.eq(ScalarProgram.SAMPLE)]
                m.next = "DRAW-WAIT"
            with m.State("DRAW-WAIT"), m.If(scalar.done):
                m.next = "SAMPLE"
            with m.State("SAMPLE"):
                m.d.comb += [
                    tree.requests.valid.eq(1),
                    request.operation.eq(Operation.SAMPLE),
                    request.tag.eq(item),
                    request.value.eq(scalar.result),
                ]
                with m.If(tree.requests.ready):
                    m.d.sync += item.eq(Mux(last_item, 0, item + 1))
                    with m.If(last_item):
                        m.next = "SAMPLE-WAIT"
                    with m.Else():
                        m.next = "DRAW"
            with m.State("SAMPLE-WAIT"), m.If(outstanding == 0):
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += [replay.read_enable.eq(1), replay.read_address.eq(leaves[item])]
                m.next = "TRAIN"
            with m.State("TRAIN"):
                m.d.comb += [vector.start.eq(1), vector.task.eq(Task.TRAIN)]
                m.d.sync += trains.eq(1)
                m.next = "TRAIN-WAIT"
            with m.State("TRAIN-WAIT"), m.If(vector.done):
                m.next = "PRIORITY"
            with m.State("PRIORITY"):
                error = vector.error
                m.d.comb += [
                    tree.requests.valid.eq(1),
                    request.operation.eq(Operation.UPDATE),
                    request.path.eq(leaves[item]),
                    request.value.eq(Mux(error < 0, -error, error) + LEAST_PRIORITY),
                ]
                with m.If(tree.requests.ready):
                    m.d.sync += item.eq(Mux(last_item, 0, item + 1))
                    with m.If(last_item):
                        m.next = "UPDATE"
                    with m.Else():
                        m.next = "READ"
            with m.State("UPDATE"):
                m.d.comb += [vector.start.eq(1), vector.task.eq(Task.UPDATE)]
                m.d.sync += trains.eq(0)
                m.next = "UPDATE-WAIT"
            with m.State("UPDATE-WAIT"), m.If(vector.done):
                m.d.sync += gradient_steps.eq(gradient_steps + 1)
                m.next = "REPORT"

            # The end of the step, and perhaps of the episode.
            with m.State("REPORT"):
                m.d.comb += self.reports.valid.eq(1)
                with m.If(self.reports.ready):
                    with m.If(explore > settings.explore_last):
                        m.d.sync += explore.eq(explore - settings.explore_decay)
                    m.next = "OBSERVE"
                    with m.If(now.fell | truncated):
                        m.d.sync += [
                            self.episodes.eq(self.episodes + 1),
                            self.last_return.eq(length),
                            streak.eq(Mux(now.fell, 0, streak + self.learning)),
                        ]
                        with m.If(truncated & (streak + 1 == settings.solved_episodes)):
                            m.d.sync += self.learning.eq(0)
                        m.next = "RESET"
        return m

    def _initialise(self, m: Module, generator: Any, vector: Any) -> None:
        """Add the first states, which draw all weights, a row after another."""
        hidden = self.settings.hidden
        row, lane = Signal(range(ROWS)), Signal(range(hidden))
        weights = Signal(data.ArrayLayout(signed(WEIGHT_BITS), hidden))
        drawn = Signal(signed(WEIGHT_BITS))
        word = generator.word.as_signed() >> (RANDOM_BITS - WEIGHT_FRACTION)
        m.d.comb += [
            drawn.eq(Mux(row >= ROWS - ACTIONS, word >> 1, word)),
            vector.load_row.eq(row),
            vector.load_weights.eq(weights),
        ]
        with m.State("INITIAL-DRAW"):
            m.d.comb += generator.enable.eq(1)
            m.d.sync += [
                weights.as_value().eq(Cat(weights.as_value()[WEIGHT_BITS:], drawn)),
                lane.eq(lane + 1),
            ]
            with m.If(lane == hidden - 1):
                m.next = "INITIAL-WRITE"
        with m.State("INITIAL-WRITE"):
            m.d.comb += vector.load.eq(1)
            m.d.sync += row.eq(row + 1)
            with m.If(row == ROWS - 1):
                m.next = "RESET"
            with m.Else():
                m.next = "INITIAL-DRAW"


def _beyond(value: Any, limit: float) -> Any:
    bound = program.fixed(limit)
    return (value > bound) | (value < -bound)
