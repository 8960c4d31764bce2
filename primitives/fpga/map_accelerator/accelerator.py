"""The top level of MAP's accelerator: host interface, transition memory, and the sequencer of gradient steps."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.host import AxiLite, RegisterFile, axi_stream, float_word, run_control
from placerl.primitives.fpga.learner_pipeline.layer import Number, vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import FRACTION
from placerl.primitives.fpga.map_accelerator.ddpg_learner import DdpgLearner
from placerl.primitives.fpga.map_accelerator.dqn_learner import DqnLearner
from placerl.primitives.fpga.map_accelerator.programs import corrections_program
from placerl.primitives.fpga.map_accelerator.registers import REGISTERS
from placerl.primitives.fpga.map_accelerator.replay_manager import WEIGHT_LATENCY, ReplayManager, row_of
from placerl.primitives.fpga.map_accelerator.settings import PRIORITY_BITS, AcceleratorSettings
from placerl.primitives.fpga.map_accelerator.weight_ports import WeightLoader, WeightReader
from placerl.primitives.fpga.vector.stream_unit import StreamLane


def transition(settings: AcceleratorSettings) -> data.StructLayout:
    """Return the layout of a transition in words of 32 bits, as the host sends it and the memory keeps it.

    States, reward and DDPG's action are in `FORMAT`; `terminated` is 0 or 1.
    """
    return data.StructLayout(
        {
            "state": vector(settings.states),
            "next_state": vector(settings.states),
            "action": vector(settings.actions) if settings.actor else WORD_BITS,
            "reward": Number,
            "terminated": WORD_BITS,
        }
    )


class MapAccelerator(wiring.Component):
    """Trains a Q network, or DDPG's actor and critic, on its own, between a host's writes to `registers.REGISTERS`.

    After a reset it clears its sum tree, a leaf of every bank per cycle. Meanwhile it takes at most one transition, or
    two with several banks. A run that starts then ends without a step; with several banks, once a transition was
    taken, it waits for the cleared tree, then takes its steps. The host must send all weights again; Adam's moments
    and the sums of gradients then become 0, too. Runs are then as after the configuration of the device.

    Ports:
        s_axil: In(AxiLite): the registers. A run starts with `control.start`, if a transition is stored, and after the
            weights that are being sent.
        s_axis_transitions: In(axi_stream(32)): for each new transition its priority, in `PRIORITY`, and the words of
            `transition`. Taken between runs.
        s_axis_weights: In(axi_stream(32)): all weights, for the network and the target network (`weight_ports`);
            between runs, and not while weights are sent. Adam's moments become 0, and its steps count from 1 again,
            also those of `target_interval`.
        Packets of both hold one or more transitions, or all weights; a host may also do without `last`. A packet that
            ends within a transition or within the weights sets `events.packet`. What it has of them is dropped (the
            weights that it has replaced are lost), and the next packet begins with the first word.
        m_axis_weights: Out(axi_stream(32)): the weights, on request.
    """

    register_map = REGISTERS

    def __init__(self, settings: AcceleratorSettings):
        self.settings = settings
        super().__init__(
            {
                "s_axil": In(AxiLite(REGISTERS.address_bits)),
                "s_axis_transitions": In(axi_stream(WORD_BITS)),
                "s_axis_weights": In(axi_stream(WORD_BITS)),
                "m_axis_weights": Out(axi_stream(WORD_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings = self.settings
        m.submodules.registers = registers = RegisterFile(REGISTERS)
        m.submodules.replay = replay = ReplayManager(settings)
        learner: Any = DdpgLearner(settings) if settings.actor else DqnLearner(settings)
        m.submodules.learner = learner
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        control, busy = run_control(m, registers), Signal()
        m.d.comb += [
            control.works.eq(busy),
            replay.batch.eq(registers.batch),
            *(getattr(replay, name).eq(getattr(registers, name)) for name in ("alpha", "beta", "epsilon")),
            learner.samples_per_pipeline.eq(registers.batch >> ceil_log2(settings.pipelines)),
            learner.huber.eq(registers.options.huber),
            learner.scalars.scale.eq(registers.inverse_batch),
            learner.scalars.tau.eq(registers.tau),
            learner.copy.eq(registers.tau == float_word(1)),
            replay.tds.payload.eq(learner.tds.payload),
            replay.tds.valid.eq(learner.tds.valid),
            learner.tds.ready.eq(replay.tds.ready),
        ]
        breaks = self._transitions(m, registers, replay, learner, busy)
        sends = self._weights(m, registers, learner, control.busy, breaks)
        self._sequencer(m, registers, replay, learner, busy, control, sends)
        return m

    def _transitions(
        self, m: Module, registers: RegisterFile, replay: ReplayManager, learner: Any, busy: Signal
    ) -> Signal:
        """Add the memory of transitions, which the host fills, and from which the learner gets its batch.

        Returns:
            Whether a packet ends within a transition.
        """
        settings = self.settings
        layout = transition(settings)
        m.submodules.storage = storage = Ram(width=layout.size, depth=settings.capacity)
        words = Signal(WORD_BITS + layout.size)
        count = Signal(range(settings.transition_words + 2))
        complete = count == settings.transition_words + 1
        stored = replay.inserts.valid & replay.inserts.ready
        given = self.s_axis_transitions
        breaks = Signal()
        m.d.comb += breaks.eq(
            given.valid & given.ready & given.payload.last & (count != settings.transition_words)
        )
        m.d.comb += [
            given.ready.eq(~complete),
            replay.inserts.valid.eq(complete & ~busy),
            replay.inserts.payload.eq(words[:PRIORITY_BITS]),
            storage.write_enable.eq(stored),
            storage.write_address.eq(row_of(settings, replay.place)),
            storage.write_data.eq(words[WORD_BITS:]),
        ]
        with m.If(given.valid & ~complete):
            m.d.sync += [
                words.eq(Cat(words[WORD_BITS:], given.payload.data)),
                count.eq(Mux(breaks, 0, count + 1)),
            ]
        with m.If(stored):
            m.d.sync += [count.eq(0), registers.stored.eq(registers.stored + 1)]

        held, weight = Signal(), Signal.like(replay.items.payload.weight)
        advance = ~held | learner.samples.ready
        found = data.View(layout, storage.read_data)
        sample = learner.samples.payload
        m.d.comb += [
            replay.items.ready.eq(advance),
            storage.read_enable.eq(advance & replay.items.valid),
            storage.read_address.eq(row_of(settings, replay.items.payload.path)),
            learner.samples.valid.eq(held),
            sample.state.eq(found.state),
            sample.next_state.eq(found.next_state),
            (sample.action if settings.actor else sample.terms.action).eq(found.action),
            sample.terms.reward.eq(found.reward),
            sample.terms.discount.eq(
                Mux(found.terminated[0], 0, registers.gamma[: FRACTION.bits].as_signed())
            ),
            sample.terms.weight.eq(weight),
        ]
        with m.If(advance):
            m.d.sync += [held.eq(replay.items.valid), weight.eq(replay.items.payload.weight)]
        return breaks

    def _weights(
        self, m: Module, registers: RegisterFile, learner: Any, busy: Value, breaks: Signal
    ) -> Value:
        """Add the ways of the weights from and to the host, one at a time; returns whether weights are being sent."""
        layers = self.settings.networks
        m.submodules.loader = loader = WeightLoader(layers)
        m.submodules.reader = reader = WeightReader(layers)
        free = ~busy & ~reader.busy
        starts = free & (registers.send.weights | registers.send.target)
        with m.If(starts):
            m.d.sync += learner.read_target.eq(registers.send.target)
        m.d.comb += [
            loader.words.valid.eq(self.s_axis_weights.valid & free),
            loader.words.payload.eq(self.s_axis_weights.payload),
            self.s_axis_weights.ready.eq(loader.words.ready & free),
            reader.start.eq(starts),
            learner.read.eq(reader.read),
            learner.read_address.eq(reader.address),
        ]
        m.d.comb += registers.events.packet.eq(breaks | loader.breaks)
        wiring.connect(m, reader.words, wiring.flipped(self.m_axis_weights))
        for number in range(len(layers)):
            wiring.connect(m, getattr(loader, f"load_{number}"), getattr(learner, f"load_{number}"))
            m.d.comb += getattr(reader, f"read_{number}").eq(getattr(learner, f"read_{number}"))
        sends: Value = reader.busy
        return sends

    def _sequencer(
        self,
        m: Module,
        registers: RegisterFile,
        replay: ReplayManager,
        learner: Any,
        busy: Signal,
        control: Any,
        sends: Value,
    ) -> None:
        """Add the sequencer: draw, learn and update, as often as the host has asked for."""
        program = corrections_program()
        assert program.latency < WEIGHT_LATENCY, "the corrections are there before the first weight's update"
        m.submodules.corrections = corrections = StreamLane(program)
        powers = [Signal(WORD_BITS, name=f"one_minus_power_{number}") for number in range(2)]
        left, since_target = Signal(WORD_BITS), Signal(WORD_BITS)
        m.d.comb += [
            *(corrections.inputs[number].eq(power) for number, power in enumerate(powers)),
            corrections.inputs[2].eq(registers.learning_rate),
            learner.scalars.rate.eq(corrections.results[2]),
            learner.scalars.root.eq(corrections.results[3]),
            learner.moves.eq(since_target + 1 >= registers.target_interval),
        ]
        if self.settings.actor:
            m.submodules.actor_corrections = of_actor = StreamLane(program)
            m.d.comb += [
                *(of_actor.inputs[number].eq(power) for number, power in enumerate(powers)),
                of_actor.inputs[2].eq(registers.actor_learning_rate),
                learner.actor_scalars.rate.eq(of_actor.results[2]),
                learner.actor_scalars.root.eq(of_actor.results[3]),
                learner.actor_scalars.scale.eq(registers.inverse_batch),
                learner.actor_scalars.tau.eq(registers.tau),
            ]
        with m.If(busy):
            m.d.sync += registers.cycles.eq(registers.cycles + 1)
        with m.If(self.s_axis_weights.valid & self.s_axis_weights.ready):
            m.d.sync += [*(power.eq(0) for power in powers), since_target.eq(0)]
        with m.FSM():
            with m.State("IDLE"), m.If(control.wanted & ~sends):
                m.d.comb += control.takes.eq(1)
                m.d.sync += [busy.eq(1), left.eq(registers.steps), registers.cycles.eq(0)]
                m.next = "SETTLE"
            with m.State("SETTLE"), m.If(replay.settled):
                with m.If((replay.total == 0) | (left == 0)):
                    m.next = "END"
                with m.Else():
                    m.next = "DRAW"
            with m.State("DRAW"):
                m.d.comb += replay.draw.eq(1)
                m.next = "DRAWING"
            with m.State("DRAWING"), m.If(replay.drawn):
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [replay.serve.eq(1), learner.begin.eq(1)]
                m.next = "LEARN"
            with m.State("LEARN"), m.If(learner.finished & replay.updated):
                if self.settings.actor:
                    m.d.sync += learner.acts.eq(1)
                    m.next = "BEGIN-ACTOR"
                else:
                    m.next = "STEP"
            if self.settings.actor:  # the same batch again, now with the new critic
                with m.State("BEGIN-ACTOR"):
                    m.d.comb += [replay.serve.eq(1), learner.begin.eq(1)]
                    m.next = "LEARN-ACTOR"
                with m.State("LEARN-ACTOR"), m.If(learner.finished):
                    m.d.sync += learner.acts.eq(0)
                    m.next = "STEP"
            with m.State("STEP"):
                m.d.sync += [
                    left.eq(left - 1),
                    since_target.eq(Mux(learner.moves, 0, since_target + 1)),
                    registers.finished_steps.eq(registers.finished_steps + 1),
                    *(power.eq(corrections.results[number]) for number, power in enumerate(powers)),
                ]
                with m.If(left == 1):
                    m.next = "END"
                with m.Else():
                    m.next = "DRAW"
            with m.State("END"):
                m.d.sync += busy.eq(0)
                m.next = "IDLE"
