"""The memories of weights, targets, gradients and moments, with the update that changes them (FIX III, V-B).

Weights, targets and gradients are in P banks of P words of 32 bits each: a block of P x P is read, or its gradients
written, in one cycle. With P = 16 these are FIX's 16 banks of 512 bits. The paper gives the weight and the gradient
memory 1.05 MB each, and has 128 URAMs that it does not explain (Table I); it does not mention targets and moments.

An update takes a word of P weights per cycle, and may run alongside passes. It reads a copy of its own of weights and
targets, next to the moments, and only writes to the banks. Each network has banks of gradients, so that one's are read
and cleared while the other's grow. Of what passes read during an update, the critic's weights (the actor is trained
through them) and the actor's targets, the banks have two copies: an update writes the one that is not read, until
`publish`.
"""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.fixar.adam import (
    MOMENT_LATENCY,
    RATE_BITS,
    STEP_LATENCY,
    TAU_FRACTION,
    FixedAdamLane,
)
from placerl.primitives.fpga.fixar.shape import MEAN_BITS, SQUARE_BITS, WORD_BITS, FixarShape
from placerl.primitives.fpga.gemm.systolic_array import delayed

UPDATE_LATENCY = STEP_LATENCY + 4
"""Cycles from an update's last word to its end."""


def state_word(side: int) -> data.StructLayout:
    """Return the layout of what the accelerator knows of P weights, raw values."""
    return data.StructLayout(
        {
            "weights": data.ArrayLayout(signed(WORD_BITS), side),
            "targets": data.ArrayLayout(signed(WORD_BITS), side),
            "means": data.ArrayLayout(signed(MEAN_BITS), side),
            "squares": data.ArrayLayout(SQUARE_BITS, side),
        }
    )


class WordCounter(wiring.Component):
    """Gives the words of an update, one per cycle, and says how long the update goes on.

    Ports:
        update: In(1), first, last: In: an update of these words begins. busy: Out(1), until its last word is written.
        issuing: Out(1), word: Out: the word to read.
    """

    def __init__(self, words: int):
        super().__init__(
            {
                "update": In(1),
                "first": In(range(words)),
                "last": In(range(words)),
                "busy": Out(1),
                "issuing": Out(1),
                "word": Out(range(words)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting = Signal(range(UPDATE_LATENCY + 1))
        with m.If(self.update):
            m.d.sync += [self.issuing.eq(1), self.word.eq(self.first)]
        with m.Elif(self.issuing):
            m.d.sync += [self.issuing.eq(self.word != self.last), self.word.eq(self.word + 1)]
        with m.If(self.update | self.issuing):
            m.d.sync += waiting.eq(UPDATE_LATENCY)
        with m.Elif(waiting != 0):
            m.d.sync += waiting.eq(waiting - 1)
        m.d.comb += self.busy.eq(self.issuing | (waiting != 0))
        return m


class ParameterMemory(wiring.Component):
    """Weights with all that belongs to them, and the units that update them.

    One of these may use it at a time: passes (blocks), `load`, `dump`. An update may go on during passes that neither
    read the trained weights of the actor if it is the actor's, nor the targets of the critic if it is the critic's, nor
    add gradients of the network; not during `load` and `dump`.

    Args:
        datapath: whether there are memories and lanes; without them an update takes the same cycles, and no more.

    Ports:
        block: In, the block to read. target: In(1), its target weights are read, not the trained ones. What an update
            wrote is read after `publish`.
        weights_0 to weights_(P-1): Out(P x signed(32)), the block's rows, a cycle later.
        gradient_block: In, the block whose gradients are read. gradients_0 ..: Out, its rows, a cycle later.
        write: In(1), write_block: In, new_0 ..: In: gradients to write.
        update: In(1), an update begins, of the critic: In(1) or else of the actor. rate, epsilon, tau: In, with
            `update`, as `adam` describes them. busy: Out(1), it goes on. Gradients are 0 afterwards.
        publish: In(1), between updates: passes read what the last update wrote; idempotent.
        load: In(stream of state_word), the words of all blocks, one after another, from the first again after the last;
            taken between updates and dumps. The gradients of a loaded word become 0.
        dump: In(1), all words are to be sent. words: Out(stream of state_word). dumping: Out(1).
    """

    def __init__(self, shape: FixarShape, *, datapath: bool = True):
        self.shape, self.datapath = shape, datapath
        side = shape.side
        row = data.ArrayLayout(signed(WORD_BITS), side)
        banks = {
            f"{name}_{r}": flow(row)
            for name, flow in (("weights", Out), ("gradients", Out), ("new", In))
            for r in range(side)
        }
        super().__init__(
            {
                "block": In(range(shape.blocks)),
                "target": In(1),
                "gradient_block": In(range(shape.blocks)),
                "write": In(1),
                "write_block": In(range(shape.blocks)),
                "update": In(1),
                "critic": In(1),
                "publish": In(1),
                "rate": In(RATE_BITS),
                "epsilon": In(24),
                "tau": In(TAU_FRACTION),
                "busy": Out(1),
                "load": In(stream.Signature(state_word(side))),
                "dump": In(1),
                "words": Out(stream.Signature(state_word(side))),
                "dumping": Out(1),
                **banks,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, side = self.shape, self.shape.side
        actor_words = shape.actor_blocks * side
        m.submodules.counter = counter = WordCounter(shape.words)
        of_critic = Signal()  # the last update
        with m.If(self.update):
            m.d.sync += of_critic.eq(self.critic)
        m.d.comb += [
            counter.update.eq(self.update),
            counter.first.eq(Mux(self.critic, actor_words, 0)),
            counter.last.eq(Mux(of_critic, shape.words - 1, actor_words - 1)),
            self.busy.eq(counter.busy),
            self.load.ready.eq(~self.busy & ~self.dumping),
        ]
        if not self.datapath:
            return m
        row_bits = side.bit_length() - 1
        width = side * WORD_BITS
        depths = {
            "weight": shape.blocks + shape.critic_blocks,
            "target": shape.blocks + shape.actor_blocks,
            "actor_gradient": shape.actor_blocks,
            "critic_gradient": shape.critic_blocks,
        }
        # Left to itself, synthesis would take more block RAMs than FIX's board has, and leave most UltraRAMs.
        banks = {
            name: [Ram(width=width, depth=depth, ultra=name in ("weight", "target")) for _ in range(side)]
            for name, depth in depths.items()
        }
        moments = Ram(width=side * (MEAN_BITS + SQUARE_BITS), depth=shape.words)
        copies = Ram(width=2 * width, depth=shape.words)  # of weights and targets
        m.submodules.moments, m.submodules.copies = moments, copies
        for name, memories in banks.items():
            for r, memory in enumerate(memories):
                m.submodules[f"{name}_{r}"] = memory

        # What the last update has, and which copies are read: 1 for those after all blocks.
        pending, weights_copy, targets_copy = (
            Signal(name=name) for name in ("pending", "weights_copy", "targets_copy")
        )
        rate, epsilon, tau = (Signal.like(port) for port in (self.rate, self.epsilon, self.tau))
        with m.If(self.publish & pending):
            m.d.sync += [
                pending.eq(0),
                weights_copy.eq(weights_copy ^ of_critic),
                targets_copy.eq(targets_copy ^ ~of_critic),
            ]
        with m.If(self.update):
            m.d.sync += [
                pending.eq(1),
                rate.eq(self.rate),
                epsilon.eq(self.epsilon),
                tau.eq(self.tau),
            ]

        def is_critics(block: Value) -> Value:
            return block >= shape.actor_blocks

        def weight_address(block: Value, copy: Value) -> Value:
            return block + Mux(is_critics(block) & copy, shape.critic_blocks, 0)

        def target_address(block: Value, copy: Value) -> Value:
            return block + Mux(~is_critics(block) & copy, shape.blocks, 0)

        # The word that is read for an update (its weights much later than its gradients) or to be sent.
        word, late_word = Signal(range(shape.words)), Signal(range(shape.words))
        by_word, late_by_word = Signal(), Signal()
        uses_target, critics_gradients = (
            delayed(m, value, 1) for value in (self.target, is_critics(self.gradient_block))
        )
        state = self.words.payload
        m.d.comb += [
            moments.read_enable.eq(by_word),
            moments.read_address.eq(word),
            copies.read_enable.eq(late_by_word),
            copies.read_address.eq(late_word),
        ]
        for r in range(side):
            weight, target = banks["weight"][r], banks["target"][r]
            actors, critics = banks["actor_gradient"][r], banks["critic_gradient"][r]
            m.d.comb += [
                weight.read_enable.eq(1),
                weight.read_address.eq(weight_address(self.block, weights_copy)),
                target.read_enable.eq(1),
                target.read_address.eq(target_address(self.block, targets_copy)),
                getattr(self, f"weights_{r}")
                .as_value()
                .eq(Mux(uses_target, target.read_data, weight.read_data)),
                getattr(self, f"gradients_{r}")
                .as_value()
                .eq(Mux(critics_gradients, critics.read_data, actors.read_data)),
            ]
            for memory, base, updated in ((actors, 0, ~of_critic), (critics, shape.actor_blocks, of_critic)):
                block = Mux(counter.issuing & updated, word >> row_bits, self.gradient_block)
                own = is_critics(block) == bool(base)
                m.d.comb += [memory.read_enable.eq(1), memory.read_address.eq(Mux(own, block - base, 0))]
        row = delayed(m, word, 1)[:row_bits]
        m.d.comb += [
            state.weights.as_value().eq(copies.read_data[:width]),
            state.targets.as_value().eq(copies.read_data[width:]),
            state.means.as_value().eq(moments.read_data[: side * MEAN_BITS]),
            state.squares.as_value().eq(moments.read_data[side * MEAN_BITS :]),
        ]
        gradients = Signal(data.ArrayLayout(signed(WORD_BITS), side))
        m.d.comb += gradients.as_value().eq(
            Mux(
                of_critic,
                *(
                    Array(memory.read_data for memory in banks[f"{name}_gradient"])[row]
                    for name in ("critic", "actor")
                ),
            )
        )

        # The update: a word in every cycle.
        marks: list[Value] = [counter.issuing]
        places: list[Value] = [counter.word]
        for _ in range(UPDATE_LATENCY):
            marks.append(delayed(m, marks[-1], 1))
            places.append(delayed(m, places[-1], 1))
        new_moments = Signal(side * (MEAN_BITS + SQUARE_BITS))
        new_weights, old_targets, new_targets = (
            Signal(data.ArrayLayout(signed(WORD_BITS), side), name=name)
            for name in ("new_weights", "old_targets", "new_targets")
        )
        for j in range(side):
            lane, m.submodules[f"adam_{j}"] = shared(platform, FixedAdamLane)
            change = Signal(signed(WORD_BITS + 2), name=f"change_{j}")
            way = Signal(signed(WORD_BITS + 2), name=f"way_{j}")
            mean = slice(j * MEAN_BITS, (j + 1) * MEAN_BITS)
            start = side * MEAN_BITS + j * SQUARE_BITS
            square = slice(start, start + SQUARE_BITS)
            m.d.comb += [
                lane.gradient.eq(gradients[j]),
                lane.mean.eq(state.means[j]),
                lane.square.eq(state.squares[j]),
                lane.rate.eq(rate),
                lane.epsilon.eq(epsilon),
                new_moments[mean].eq(lane.new_mean),
                new_moments[square].eq(lane.new_square),
                change.eq(state.weights[j] - lane.change),
                way.eq(
                    old_targets[j]
                    + (((new_weights[j] - old_targets[j]) * tau + (1 << TAU_FRACTION - 1)) >> TAU_FRACTION)
                ),
            ]
            m.d.sync += [
                new_weights[j].eq(saturated(m, change, WORD_BITS)),
                old_targets[j].eq(state.targets[j]),
                new_targets[j].eq(saturated(m, way, WORD_BITS)),
            ]
        written = STEP_LATENCY + 3  # after the word's gradients are asked for
        late_weights = delayed(m, new_weights.as_value(), 1)

        # Loading, and sending.
        loaded, sent = Signal(range(shape.words)), Signal(range(shape.words))
        given = self.load.payload
        loads = self.load.valid & self.load.ready
        with m.If(loads):
            m.d.sync += [loaded.eq(Mux(loaded == shape.words - 1, 0, loaded + 1)), pending.eq(0)]
        with m.FSM():
            with m.State("IDLE"), m.If(self.dump):
                m.d.sync += sent.eq(0)
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += [by_word.eq(1), late_by_word.eq(1), late_word.eq(sent), self.dumping.eq(1)]
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.words.valid.eq(1), self.dumping.eq(1)]
                with m.If(self.words.ready):
                    m.d.sync += sent.eq(sent + 1)
                    m.next = "READ"
                    with m.If(sent == shape.words - 1):
                        m.next = "IDLE"
        m.d.comb += word.eq(Mux(counter.issuing, counter.word, sent))
        with m.If(counter.issuing):
            m.d.comb += by_word.eq(1)
        with m.If(marks[STEP_LATENCY]):
            m.d.comb += [late_by_word.eq(1), late_word.eq(places[STEP_LATENCY])]

        moment_place = MOMENT_LATENCY + 1
        m.d.comb += [
            moments.write_enable.eq(marks[moment_place] | loads),
            moments.write_address.eq(Mux(loads, loaded, places[moment_place])),
            moments.write_data.eq(Mux(loads, given.as_value()[2 * width :], new_moments)),
        ]
        place, block = Signal(range(shape.words)), Signal(range(shape.blocks))
        m.d.comb += [
            place.eq(Mux(loads, loaded, places[written])),
            block.eq(place >> row_bits),
            copies.write_enable.eq(loads | marks[written]),
            copies.write_address.eq(place),
            copies.write_data.eq(Mux(loads, given.as_value(), Cat(late_weights, new_targets.as_value()))),
        ]
        # A reset within a step leaves sums of gradients, so that loading clears them, as an update does.
        clears, cleared = Signal(), Signal(range(shape.words))
        m.d.comb += [clears.eq(marks[1] | loads), cleared.eq(Mux(loads, loaded, places[1]))]
        for r in range(side):
            here = (loads | marks[written]) & (place[:row_bits] == r)
            for name, part, address in (
                ("weight", slice(width), weight_address(block, weights_copy ^ ~loads)),
                ("target", slice(width, None), target_address(block, targets_copy ^ ~loads)),
            ):
                memory = banks[name][r]
                m.d.comb += [
                    memory.write_enable.eq(here),
                    memory.write_address.eq(address),
                    memory.write_data.eq(copies.write_data[part]),
                ]
            for name, base in (("actor", 0), ("critic", shape.actor_blocks)):
                gradient = banks[f"{name}_gradient"][r]
                written_block, cleared_block = self.write_block, cleared >> row_bits
                own = [is_critics(place) == bool(base) for place in (written_block, cleared_block)]
                cleared_here = clears & own[1]
                m.d.comb += [
                    gradient.write_enable.eq(
                        (self.write & own[0]) | (cleared_here & (cleared[:row_bits] == r))
                    ),
                    gradient.write_address.eq(Mux(cleared_here, cleared_block, written_block) - base),
                    gradient.write_data.eq(Mux(cleared_here, 0, getattr(self, f"new_{r}").as_value())),
                ]
        return m
