"""The weight update of one layer (MAP's WU): adds the pipelines' gradients, runs Adam, and writes the new weights."""

import math

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.convert import FromFixed, ToFixed
from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed, registered
from placerl.primitives.fpga.learner_pipeline.layer import SUM_BITS, all_of, word_and_part, word_write
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape
from placerl.primitives.fpga.vector.stream_unit import StreamLane

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def adam_program(batch_size: int) -> StreamProgram:
    """Return the stream program of one weight's Adam step, for batches of `batch_size` samples.

    With a `batch_size` of 1 the gradient is used as it is, without a multiplier.

    It is Algorithm 1 of Kingma and Ba 2015, as in `primitives.algorithms.updates`. A stream program is a sequence of
    float32 operations that hardware does for one element after another.

    Inputs: gradient summed over the batch, weight, mean, square, and the two `corrections`, r / (1 - beta1^t) and
    sqrt(1 - beta2^t). Results: new weight, mean and square.
    """
    b = ProgramBuilder(6)
    summed, weight, mean, square, rate, root = range(6)
    scale = None if batch_size == 1 else b.constant(1 / batch_size)
    return b.finished(_adam(b, summed, weight, mean, square, rate, root, scale))


def target_program() -> StreamProgram:
    """Return the stream program of one weight's Adam step and of the step of its target network.

    Inputs: gradient summed over the batch, weight, mean, square, target weight, the two `corrections`, 1 / B, tau, and
    a truth value `copy`. Results: new weight, mean, square and target weight. The target moves by tau (Lillicrap et
    al. 2015, Algorithm 1), or with `copy` it becomes the new weight.
    """
    b = ProgramBuilder(10)
    summed, weight, mean, square, target, rate, root, scale, tau, copy = range(10)
    weight, mean, square = _adam(b, summed, weight, mean, square, rate, root, scale)
    moved = b.apply("add", target, b.apply("mul", tau, b.apply("sub", weight, target)))
    return b.finished([weight, mean, square, b.apply("where", copy, weight, moved)])


def _adam(
    b: ProgramBuilder,
    summed: int,
    weight: int,
    mean: int,
    square: int,
    rate: int,
    root: int,
    scale: int | None,
) -> list[int]:
    """Add Adam's step to a program, and return the registers of the new weight, mean and square."""
    gradient = summed if scale is None else b.apply("mul", summed, scale)
    mean = b.apply(
        "add", b.apply("mul", b.constant(BETA1), mean), b.apply("mul", b.constant(1 - BETA1), gradient)
    )
    part = b.apply("mul", b.apply("mul", b.constant(1 - BETA2), gradient), gradient)
    square = b.apply("add", b.apply("mul", b.constant(BETA2), square), part)
    divisor = b.apply("add", b.apply("div", b.apply("sqrt", square), root), b.constant(EPSILON))
    change = b.apply("mul", rate, b.apply("div", mean, divisor))
    return [b.apply("sub", weight, change), mean, square]


def corrections(learning_rate: float, step: int) -> tuple[float, float]:
    """Return Adam's corrections for the bias of its moments in step number t = `step`, counted from 1.

    Returns:
        The rate, learning_rate / (1 - beta1^t), and the root, sqrt(1 - beta2^t).
    """
    return learning_rate / (1 - BETA1**step), math.sqrt(1 - BETA2**step)


def adam_latency(batch_size: int) -> int:
    """Return the cycles from the last word of sums that an update reads to the last new weights that it writes.

    Args:
        batch_size: samples of a batch, by which the sums are divided.
    """
    return _latency(adam_program(batch_size))


def target_latency() -> int:
    """Return the same cycles as `adam_latency` for a unit that also keeps a target network."""
    return _latency(target_program())


def _latency(program: StreamProgram) -> int:
    return 2 + FromFixed.latency + program.latency + ToFixed.latency


class AdamLane(StreamLane):
    """A stream lane that does Adam's step for one weight per cycle, for batches of one size."""

    def __init__(self, *, batch_size: int):
        super().__init__(adam_program(batch_size))


class TargetLane(StreamLane):
    """A stream lane that does Adam's step and the target network's step for one weight per cycle."""

    def __init__(self) -> None:
        super().__init__(target_program())


class UpdateUnit(wiring.Component):
    """Updates the weights of one layer, a part of a word, `updates` weights, per cycle.

    For each word it takes the sums of all pipelines, adds them in a tree of adders, does Adam's step, and writes the
    new weights when it has all parts of the word. It keeps the weights and Adam's moments in float32.

    Args:
        batch_size: samples of a batch, in all pipelines; None: 1 / B is a port, and the unit also keeps the layer's
            weights in a target network, and gives its weights to a reader.

    Ports:
        start: In(1), an update begins. rate, root: In(32): Adam's `corrections` in float32, constant during an update.
        take: Out(1), address: Out: for the gradient units: the word of sums that they output and clear.
        sums: In(pipelines x lanes x signed(SUM_BITS)): these sums, from a cycle after `take` until the next.
        load: In(stream): `weights`, `updates` initial weights in float32, for `address`, which counts these parts of
            words; only between updates.
        write: Out(word_write): a word of weights in fixed point for the forward and backward units.
        written: Out(1), `write` belongs to an update, not to `load`. weights: Out(lanes x 32): the updated word in
            float32.
    If `batch_size` is None, also:
        scale: In(32), 1 / B; tau: In(32); copy: In(1), the target becomes the weights instead of moving by tau; moves:
            In(1), the target network changes at all. All are constant during an update; the first two are float32.
        write_target: Out(word_write): a word of the target's weights; `load` loads them with those of the network.
        read: In(1), read_address: In: between updates, the part of a word of weights (or, with read_target: In(1), of
            the target's weights) that is on `read_data`: Out(updates x 32), in float32, a cycle later.
    """

    def __init__(self, layer: LayerShape, *, pipelines: int, batch_size: int | None):
        self.layer, self.pipelines, self.batch_size = layer, pipelines, batch_size
        self.program = target_program() if batch_size is None else adam_program(batch_size)
        lanes = layer.lanes
        sums = data.ArrayLayout(data.ArrayLayout(signed(SUM_BITS), lanes), pipelines)
        part = data.ArrayLayout(WORD_BITS, layer.updates)
        load = data.StructLayout({"address": range(layer.update_words), "weights": part})
        target: dict[str, wiring.Member] = {
            "scale": In(WORD_BITS),
            "tau": In(WORD_BITS),
            "copy": In(1),
            "moves": In(1),
            "write_target": Out(word_write(layer)),
            "read": In(1),
            "read_target": In(1),
            "read_address": In(range(layer.update_words)),
            "read_data": Out(part),
        }
        super().__init__(
            {
                "start": In(1),
                "rate": In(WORD_BITS),
                "root": In(WORD_BITS),
                "take": Out(1),
                "address": Out(range(layer.words)),
                "sums": In(sums),
                "load": In(stream.Signature(load)),
                "write": Out(word_write(layer)),
                "written": Out(1),
                "weights": Out(data.ArrayLayout(WORD_BITS, lanes)),
                **(target if batch_size is None else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layer, lanes = self.layer, self.layer.updates
        running, place = self.take, self.address
        if layer.parts > 1:
            running, place = Signal(name="running"), Signal(range(layer.update_words), name="place")
            word, part = word_and_part(layer, place)
            m.d.comb += [self.take.eq(running & (part == 0)), self.address.eq(word)]
        m.d.comb += self.load.ready.eq(1)
        with m.If(self.start):
            m.d.sync += [running.eq(1), place.eq(0)]
        with m.Elif(running):
            last = place == layer.update_words - 1
            m.d.sync += [running.eq(~last), place.eq(Mux(last, 0, place + 1))]

        # From the word's address to Adam's inputs, and from there to its results.
        before = 2 + FromFixed.latency
        after = self.program.latency
        result_valid = delayed(m, running, before + after)
        result_address = delayed(m, place, before + after)
        keeps_target = self.batch_size is None
        names = ("weight", "mean", "square", *(("target",) if keeps_target else ()))
        state = {name: Ram(width=lanes * WORD_BITS, depth=layer.update_words) for name in names}
        for name, memory in state.items():
            m.submodules[name] = memory
            if keeps_target:
                m.d.comb += [
                    memory.read_enable.eq(running | self.read),
                    memory.read_address.eq(Mux(running, place, self.read_address)),
                ]
            else:
                m.d.comb += [memory.read_enable.eq(running), memory.read_address.eq(place)]
        sums = self._sums(m, place)
        fixed, numbers, fixed_targets = [], [], []
        for lane in range(lanes):
            part = slice(lane * WORD_BITS, (lane + 1) * WORD_BITS)
            if self.batch_size is None:
                adam, m.submodules[f"adam_{lane}"] = shared(platform, TargetLane)
            else:
                adam, m.submodules[f"adam_{lane}"] = shared(platform, AdamLane, batch_size=self.batch_size)
            gradient, m.submodules[f"from_fixed_{lane}"] = shared(
                platform, FromFixed, bits=SUM_BITS, fraction_bits=2 * FORMAT.fraction_bits
            )
            weight, m.submodules[f"to_fixed_{lane}"] = shared(
                platform, ToFixed, bits=FORMAT.bits, fraction_bits=FORMAT.fraction_bits
            )
            total = sum((sums[p][lane] for p in range(1, self.pipelines)), sums[0][lane])
            m.d.comb += gradient.operands[0].eq(registered(m, total, signed(SUM_BITS)))
            inputs = [gradient.result]
            inputs += [delayed(m, memory.read_data[part], before - 1) for memory in state.values()]
            scalars = [self.rate, self.root]
            scalars += [self.scale, self.tau, self.copy] if keeps_target else []
            for place, value in enumerate([*inputs, *scalars]):
                m.d.comb += adam.inputs[place].eq(value)
            number = Mux(self.load.valid, self.load.payload.weights[lane], adam.results[0])
            m.d.comb += weight.operands[0].eq(number)
            fixed.append(weight.result.value)
            numbers.append(number)
            for place, memory in enumerate(state.values()):
                loaded = self.load.payload.weights[lane] if place == 3 else number if place == 0 else 0
                value = Mux(self.load.valid, loaded, adam.results[place])
                m.d.comb += memory.write_data[part].eq(value)
            if keeps_target:
                target, m.submodules[f"target_{lane}"] = shared(
                    platform, ToFixed, bits=FORMAT.bits, fraction_bits=FORMAT.fraction_bits
                )
                m.d.comb += target.operands[0].eq(state["target"].write_data[part])
                fixed_targets.append(target.result.value)
        address = Mux(self.load.valid, self.load.payload.address, result_address)
        for name, memory in state.items():
            updates = result_valid & self.moves if name == "target" else result_valid
            m.d.comb += memory.write_enable.eq(self.load.valid | updates)
            m.d.comb += memory.write_address.eq(address)
        cycles = ToFixed.latency
        new = delayed(m, self.load.valid | result_valid, cycles)
        word, part = word_and_part(layer, delayed(m, address, cycles))
        ends = [part == layer.parts - 1] if layer.parts > 1 else []

        def write(port: wiring.PureInterface, numbers: list[Value], valid: Value) -> None:
            """Write a word of numbers in fixed point when its last part comes."""
            m.d.comb += [
                port.enable.eq(all_of([valid, *ends])),
                port.address.eq(word),
                port.data.eq(self._word(m, Cat(numbers), valid)),
            ]

        write(self.write, fixed, new)
        updated = delayed(m, result_valid & ~self.load.valid, cycles)
        weights = delayed(m, Cat(number[:WORD_BITS] for number in numbers), cycles)
        m.d.comb += [
            self.written.eq(all_of([updated, *ends])),
            self.weights.as_value().eq(self._word(m, weights, new)),
        ]
        if keeps_target:
            read_target = registered(m, self.read_target)
            moved = delayed(m, self.load.valid | (result_valid & self.moves), cycles)
            write(self.write_target, fixed_targets, moved)
            m.d.comb += self.read_data.as_value().eq(
                Mux(read_target, state["target"].read_data, state["weight"].read_data)
            )
        return m

    def _sums(self, m: Module, place: Value) -> list[list[Value]]:
        """Return for each pipeline the sums of the part of a word that `place` named in the cycle before."""
        layer = self.layer
        if layer.parts == 1:
            return [[self.sums[p][lane] for lane in range(layer.lanes)] for p in range(self.pipelines)]
        _, part = word_and_part(layer, place)
        at = registered(m, part)
        return [
            [
                Array(self.sums[p][other] for other in range(lane, layer.lanes, layer.updates))[at]
                for lane in range(layer.updates)
            ]
            for p in range(self.pipelines)
        ]

    def _word(self, m: Module, part: Value, valid: Value) -> Value:
        """Return the word that ends with this part, of which the parts before came with `valid`."""
        if self.layer.parts == 1:
            return part
        before = Signal(len(part) * (self.layer.parts - 1), name="before")
        word = Cat(before, part)
        with m.If(valid):
            m.d.sync += before.eq(word[len(part) :])
        return word
