"""The tensor units of the learner pipeline: forward, loss, backward and gradient of one layer, a sample at a time.

A unit takes the next sample while it finishes the one before: one every `words` cycles (BW: `blocks * inputs`).
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga.export.ram import Ram
from primitives.fpga.floating_point.words import registered
from primitives.fpga.learner_pipeline.layer import (
    SUM_BITS,
    Issue,
    Number,
    saturated,
    stored,
    vector,
    word_write,
)
from primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape

ONE = 1 << FORMAT.fraction_bits


def _memory(m: Module, layer: LayerShape, write: wiring.PureInterface) -> Ram:
    m.submodules.weights = memory = Ram(width=layer.word_bits, depth=layer.words)
    m.d.comb += [
        memory.write_enable.eq(write.enable),
        memory.write_address.eq(write.address),
        memory.write_data.eq(write.data),
    ]
    return memory


def _with_one(values: data.View, size: int) -> Array:
    """The inputs of a layer, and the 1 that the biases multiply."""
    return Array([*(values[i] for i in range(size)), Const(ONE, Number)])


def _blocks(values: data.View, layer: LayerShape) -> list[Array]:
    """For each lane, its output of each block; 0 beyond the last output."""
    zero = Const(0, Number)
    return [
        Array(
            values[block * layer.lanes + lane] if block * layer.lanes + lane < layer.outputs else zero
            for block in range(layer.blocks)
        )
        for lane in range(layer.lanes)
    ]


class ForwardUnit(wiring.Component):
    """a_l = f(W a_{l-1} + b).

    Ports:
        inputs: In(stream of vector(inputs)). outputs: Out(stream of vector(outputs)).
        write: In(word_write): a word of weights.
    """

    def __init__(self, layer: LayerShape, *, relu: bool):
        self.layer, self.relu = layer, relu
        super().__init__(
            {
                "inputs": In(stream.Signature(vector(layer.inputs))),
                "outputs": Out(stream.Signature(vector(layer.outputs))),
                "write": In(word_write(layer)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layer = self.layer
        memory = _memory(m, layer, self.write)
        current, pending = Signal(vector(layer.inputs)), Signal()
        issue = Issue(
            m,
            outer=layer.blocks,
            inner=layer.inputs + 1,
            start=self.inputs.valid,
            may_end=~pending & (~self.outputs.valid | self.outputs.ready),
        )
        m.d.comb += self.inputs.ready.eq(issue.free)
        with m.If(self.inputs.valid & issue.free):
            m.d.sync += current.eq(self.inputs.payload)
        address = issue.outer * (layer.inputs + 1) + issue.inner
        m.d.comb += [memory.read_enable.eq(issue.go), memory.read_address.eq(address)]
        # The word is there a cycle later, with all that belongs to it.
        number = registered(m, _with_one(current, layer.inputs)[issue.inner], Number)
        valid, first = registered(m, issue.go), registered(m, issue.inner == 0)
        block_ends, ends = registered(m, issue.inner_last), registered(m, issue.go & issue.last)
        block = registered(m, issue.outer)
        m.d.comb += pending.eq(ends)
        weights = data.View(vector(layer.lanes), memory.read_data)
        result = Result(m, self.outputs, pending)
        for lane in range(layer.lanes):
            total, before = Signal(signed(SUM_BITS)), Signal(signed(SUM_BITS))
            m.d.comb += total.eq(Mux(first, 0, before) + weights[lane] * number)
            with m.If(valid):
                m.d.sync += before.eq(total)
            value = stored(m, total)
            value = Mux(value < 0, 0, value) if self.relu else value
            for at in range(lane, layer.outputs, layer.lanes):
                result.set(m, at, value, valid & block_ends & (block == at // layer.lanes))
        return m


class LossUnit(wiring.Component):
    """d_L = a_L - y, saturated.

    Ports:
        outputs, targets: In(stream of vector(size)), taken together. errors: Out(stream of vector(size)).
    """

    def __init__(self, size: int):
        self.size = size
        signature = stream.Signature(vector(size))
        super().__init__({"outputs": In(signature), "targets": In(signature), "errors": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        both = self.outputs.valid & self.targets.valid
        free = ~self.errors.valid | self.errors.ready
        m.d.comb += [self.outputs.ready.eq(free & both), self.targets.ready.eq(free & both)]
        with m.If(free):
            m.d.sync += self.errors.valid.eq(both)
            for at in range(self.size):
                difference = self.outputs.payload[at] - self.targets.payload[at]
                m.d.sync += self.errors.payload[at].eq(saturated(difference))
        return m


class BackwardUnit(wiring.Component):
    """d_{l-1} = f'(a_{l-1}) W^T d_l: the words of weights are read as they lie, input by input.

    Ports:
        errors: In(stream of vector(outputs)), inputs: In(stream of vector(inputs)): d_l and a_{l-1}, taken together.
        back: Out(stream of vector(inputs)): d_{l-1}.
        write: In(word_write): a word of weights.
    """

    def __init__(self, layer: LayerShape):
        self.layer = layer
        super().__init__(
            {
                "errors": In(stream.Signature(vector(layer.outputs))),
                "inputs": In(stream.Signature(vector(layer.inputs))),
                "back": Out(stream.Signature(vector(layer.inputs))),
                "write": In(word_write(layer)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layer = self.layer
        memory = _memory(m, layer, self.write)
        errors, active, pending = Signal(vector(layer.outputs)), Signal(layer.inputs), Signal()
        issue = Issue(
            m,
            outer=layer.inputs,
            inner=layer.blocks,
            start=self.errors.valid & self.inputs.valid,
            may_end=~pending & (~self.back.valid | self.back.ready),
        )
        both = self.errors.valid & self.inputs.valid
        m.d.comb += [self.errors.ready.eq(both & issue.free), self.inputs.ready.eq(both & issue.free)]
        with m.If(both & issue.free):
            m.d.sync += errors.eq(self.errors.payload)
            m.d.sync += active.eq(Cat(self.inputs.payload[k] > 0 for k in range(layer.inputs)))
        address = issue.inner * (layer.inputs + 1) + issue.outer
        m.d.comb += [memory.read_enable.eq(issue.go), memory.read_address.eq(address)]
        lanes = [registered(m, of_block[issue.inner], Number) for of_block in _blocks(errors, layer)]
        valid, first = registered(m, issue.go), registered(m, issue.inner == 0)
        ended, ends = registered(m, issue.go & issue.inner_last), registered(m, issue.go & issue.last)
        neuron, passes = registered(m, issue.outer), registered(m, active.bit_select(issue.outer, 1))
        m.d.comb += pending.eq(ends)
        weights = data.View(vector(layer.lanes), memory.read_data)
        total, before = Signal(signed(SUM_BITS)), Signal(signed(SUM_BITS))
        products = sum((weights[lane] * lanes[lane] for lane in range(layer.lanes)), Const(0, 1))
        m.d.comb += total.eq(Mux(first, 0, before) + products)
        with m.If(valid):
            m.d.sync += before.eq(total)
        value = Mux(passes, stored(m, total), 0)
        result = Result(m, self.back, pending)
        for at in range(layer.inputs):
            result.set(m, at, value, ended & (neuron == at))
        return m


class GradientUnit(wiring.Component):
    """Adds d_l a_{l-1}^T, and d_l for the biases, to the sums of the batch.

    Ports:
        errors: In(stream of vector(outputs)), inputs: In(stream of vector(inputs)), taken together.
        added: Out(1), a sample's sums are all added in this cycle.
        take: In(1), address: In: the word of sums to give and clear, while no sample is under way.
        sums: Out(lanes x signed(SUM_BITS)), a cycle later.
    """

    def __init__(self, layer: LayerShape):
        self.layer = layer
        super().__init__(
            {
                "errors": In(stream.Signature(vector(layer.outputs))),
                "inputs": In(stream.Signature(vector(layer.inputs))),
                "added": Out(1),
                "take": In(1),
                "address": In(range(layer.words)),
                "sums": Out(data.ArrayLayout(signed(SUM_BITS), layer.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layer = self.layer
        m.submodules.memory = memory = Ram(width=layer.lanes * SUM_BITS, depth=layer.words)
        errors, inputs = Signal(vector(layer.outputs)), Signal(vector(layer.inputs))
        both = self.errors.valid & self.inputs.valid
        issue = Issue(m, outer=layer.blocks, inner=layer.inputs + 1, start=both, may_end=Const(1))
        m.d.comb += [self.errors.ready.eq(both & issue.free), self.inputs.ready.eq(both & issue.free)]
        with m.If(both & issue.free):
            m.d.sync += [errors.eq(self.errors.payload), inputs.eq(self.inputs.payload)]
        address = Mux(issue.go, issue.outer * (layer.inputs + 1) + issue.inner, self.address)
        m.d.comb += [memory.read_enable.eq(issue.go | self.take), memory.read_address.eq(address)]
        number = registered(m, _with_one(inputs, layer.inputs)[issue.inner], Number)
        lanes = [registered(m, of_block[issue.outer], Number) for of_block in _blocks(errors, layer)]
        adds, clears = registered(m, issue.go), registered(m, self.take)
        m.d.comb += self.added.eq(registered(m, issue.go & issue.last))
        m.d.comb += [
            self.sums.as_value().eq(memory.read_data),
            memory.write_enable.eq(adds | clears),
            memory.write_address.eq(registered(m, address, range(layer.words))),
        ]
        for lane in range(layer.lanes):
            new = Signal(signed(SUM_BITS))
            with m.If(adds):
                m.d.comb += new.eq(self.sums[lane] + lanes[lane] * number)
            m.d.comb += memory.write_data[lane * SUM_BITS : (lane + 1) * SUM_BITS].eq(new)
        return m


class Result:
    """A unit's result: its numbers are kept as they come, and delivered with the last of them."""

    def __init__(self, m: Module, target: stream.Interface, ends: Value):
        self._kept = Signal.like(target.payload)
        self._complete = Signal.like(target.payload)
        m.d.sync += self._kept.eq(self._complete)
        with m.If(ends):
            m.d.sync += [target.payload.eq(self._complete), target.valid.eq(1)]
        with m.Elif(target.ready):
            m.d.sync += target.valid.eq(0)

    def set(self, m: Module, at: int, value: Value, now: Value) -> None:
        """Number `at` is `value` when `now`; it keeps it until then."""
        m.d.comb += self._complete[at].eq(Mux(now, value, self._kept[at]))
