"""The tensor units of the learner pipeline: forward, loss, backward and gradient of one layer, a sample at a time.

A unit takes the next sample while it finishes the previous one: one every `words` cycles, or in the backward unit
`blocks * inputs` (`LayerShape`).

If its `layer` (or `size`) is None, a unit has no datapath, which is enough to count cycles. Then its samples and
results carry one meaningless bit, it has no other data ports, and it takes for a sample the number of cycles at the
port `cycles`, In(24), which must be constant while samples are in it. Its control is that of the whole unit.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.words import registered
from placerl.primitives.fpga.learner_pipeline.layer import (
    CYCLE_BITS,
    SUM_BITS,
    Control,
    Number,
    saturated,
    stored,
    vector,
    word_write,
)
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape

ONE = 1 << FORMAT.fraction_bits
EMPTY = stream.Signature(1)
_CYCLES = {"cycles": In(CYCLE_BITS)}


def _memory(m: Module, layer: LayerShape, write: wiring.PureInterface) -> Ram:
    m.submodules.weights = memory = Ram(width=layer.word_bits, depth=layer.words)
    m.d.comb += [
        memory.write_enable.eq(write.enable),
        memory.write_address.eq(write.address),
        memory.write_data.eq(write.data),
    ]
    return memory


def _with_one(values: data.View, size: int) -> Array:
    """Return the inputs of a layer, followed by the 1 that the biases multiply."""
    return Array([*(values[i] for i in range(size)), Const(ONE, Number)])


def _blocks(values: data.View, layer: LayerShape) -> list[Array]:
    """Return for each lane its output of each block; 0 beyond the last output."""
    zero = Const(0, Number)
    return [
        Array(
            values[block * layer.lanes + lane] if block * layer.lanes + lane < layer.outputs else zero
            for block in range(layer.blocks)
        )
        for lane in range(layer.lanes)
    ]


class ForwardUnit(wiring.Component):
    """Computes the outputs of one layer for a sample, a_l = f(W a_{l-1} + b_l).

    Args:
        layer: the layer; None for a unit without a datapath, which only counts cycles.
        relu: whether f is ReLU; otherwise it is the identity.

    Ports:
        inputs: In(stream of vector(inputs)): a_{l-1}. outputs: Out(stream of vector(outputs)): a_l.
        write: In(word_write): a word of weights to store.
    """

    def __init__(self, layer: LayerShape | None, *, relu: bool = True):
        self.layer, self.relu = layer, relu
        if layer is None:
            super().__init__({"inputs": In(EMPTY), "outputs": Out(EMPTY), **_CYCLES})
            return
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
        outer, inner = (1, self.cycles) if layer is None else (layer.blocks, layer.inputs + 1)
        control = Control(m, [self.inputs], self.outputs, outer=outer, inner=inner)
        if layer is not None:
            self._add_datapath(m, layer, control)
        return m

    def _add_datapath(self, m: Module, layer: LayerShape, control: Control) -> None:
        memory, issue = _memory(m, layer, self.write), control.issue
        current = Signal(vector(layer.inputs))
        with m.If(control.taken):
            m.d.sync += current.eq(self.inputs.payload)
        address = issue.outer * (layer.inputs + 1) + issue.inner
        m.d.comb += [memory.read_enable.eq(issue.go), memory.read_address.eq(address)]
        # The word is available one cycle later, together with everything that belongs to it.
        number = registered(m, _with_one(current, layer.inputs)[issue.inner], Number)
        valid, first = registered(m, issue.go), registered(m, issue.inner == 0)
        block_ends, block = registered(m, issue.inner_last), registered(m, issue.outer)
        weights = data.View(vector(layer.lanes), memory.read_data)
        result = KeptResult(m, self.outputs.payload, control.ends)
        for lane in range(layer.lanes):
            total, before = Signal(signed(SUM_BITS)), Signal(signed(SUM_BITS))
            m.d.comb += total.eq(Mux(first, 0, before) + weights[lane] * number)
            with m.If(valid):
                m.d.sync += before.eq(total)
            value = stored(m, total)
            value = Mux(value < 0, 0, value) if self.relu else value
            for at in range(lane, layer.outputs, layer.lanes):
                result.set(m, at, value, valid & block_ends & (block == at // layer.lanes))


class LossUnit(wiring.Component):
    """Computes the errors of the last layer for a sample, d_L = a_L - y, saturated.

    Args:
        size: number of outputs; None for a unit without a datapath, which only counts cycles.
        latency: cycles from the inputs to the errors, for a unit without a datapath; otherwise it is 1.

    Ports:
        outputs, targets: In(stream of vector(size)): a_L and y, taken together.
        errors: Out(stream of vector(size)): d_L.
    """

    def __init__(self, size: int | None, *, latency: int = 1):
        self.size, self.latency = size, latency
        signature = EMPTY if size is None else stream.Signature(vector(size))
        super().__init__({"outputs": In(signature), "targets": In(signature), "errors": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        both = self.outputs.valid & self.targets.valid
        free = ~self.errors.valid | self.errors.ready
        m.d.comb += [self.outputs.ready.eq(free & both), self.targets.ready.eq(free & both)]
        with m.If(free):
            valid: Value = both
            for _ in range(self.latency - 1):
                register = Signal()
                m.d.sync += register.eq(valid)
                valid = register
            m.d.sync += self.errors.valid.eq(valid)
            for at in range(self.size or 0):
                difference = self.outputs.payload[at] - self.targets.payload[at]
                m.d.sync += self.errors.payload[at].eq(saturated(difference))
        return m


class BackwardUnit(wiring.Component):
    """Computes the errors of a layer's inputs from the errors of its outputs, for a sample.

    The former are d_{l-1} = f'(a_{l-1}) W^T d_l. The weight words are read in their stored order, input
    by input.

    Args:
        layer: the layer; None for a unit without a datapath, which only counts cycles.
        relu: whether f is ReLU; otherwise it is the identity.

    Ports:
        errors: In(stream of vector(outputs)), inputs: In(stream of vector(inputs)): d_l and a_{l-1}, taken together.
        back: Out(stream of vector(inputs)): d_{l-1}.
        write: In(word_write): a word of weights to store.
    """

    def __init__(self, layer: LayerShape | None, *, relu: bool = True):
        self.layer, self.relu = layer, relu
        if layer is None:
            super().__init__({"errors": In(EMPTY), "inputs": In(EMPTY), "back": Out(EMPTY), **_CYCLES})
            return
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
        outer, inner = (1, self.cycles) if layer is None else (layer.inputs, layer.blocks)
        control = Control(m, [self.errors, self.inputs], self.back, outer=outer, inner=inner)
        if layer is not None:
            self._add_datapath(m, layer, control)
        return m

    def _add_datapath(self, m: Module, layer: LayerShape, control: Control) -> None:
        memory, issue = _memory(m, layer, self.write), control.issue
        errors, active = Signal(vector(layer.outputs)), Signal(layer.inputs)
        with m.If(control.taken):
            m.d.sync += errors.eq(self.errors.payload)
            m.d.sync += active.eq(Cat(self.inputs.payload[k] > 0 for k in range(layer.inputs)))
        address = issue.inner * (layer.inputs + 1) + issue.outer
        m.d.comb += [memory.read_enable.eq(issue.go), memory.read_address.eq(address)]
        lanes = [registered(m, of_block[issue.inner], Number) for of_block in _blocks(errors, layer)]
        valid, first = registered(m, issue.go), registered(m, issue.inner == 0)
        ended, neuron = registered(m, issue.go & issue.inner_last), registered(m, issue.outer)
        passes = registered(m, active.bit_select(issue.outer, 1))
        weights = data.View(vector(layer.lanes), memory.read_data)
        total, before = Signal(signed(SUM_BITS)), Signal(signed(SUM_BITS))
        products = sum((weights[lane] * lanes[lane] for lane in range(layer.lanes)), Const(0, 1))
        m.d.comb += total.eq(Mux(first, 0, before) + products)
        with m.If(valid):
            m.d.sync += before.eq(total)
        value = Mux(passes, stored(m, total), 0) if self.relu else stored(m, total)
        result = KeptResult(m, self.back.payload, control.ends)
        for at in range(layer.inputs):
            result.set(m, at, value, ended & (neuron == at))


class GradientUnit(wiring.Component):
    """Adds the gradients of one layer for a sample, d_l a_{l-1}^T and d_l for the biases, to the batch's sums.

    d_l are the errors of the layer's outputs, and a_{l-1} its inputs.

    Args:
        layer: the layer; None for a unit without a datapath, which only counts cycles.

    Ports:
        errors: In(stream of vector(outputs)), inputs: In(stream of vector(inputs)): d_l and a_{l-1}, taken together.
        added: Out(1), all gradients of a sample are added in this cycle.
        take: In(1), address: In: the word of sums to output and clear, while no sample is in the unit.
        sums: Out(lanes x signed(SUM_BITS)), a cycle later.
    """

    def __init__(self, layer: LayerShape | None):
        self.layer = layer
        if layer is None:
            super().__init__({"errors": In(EMPTY), "inputs": In(EMPTY), "added": Out(1), **_CYCLES})
            return
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
        outer, inner = (1, self.cycles) if layer is None else (layer.blocks, layer.inputs + 1)
        control = Control(m, [self.errors, self.inputs], None, outer=outer, inner=inner)
        m.d.comb += self.added.eq(control.ends)
        if layer is not None:
            self._add_datapath(m, layer, control)
        return m

    def _add_datapath(self, m: Module, layer: LayerShape, control: Control) -> None:
        m.submodules.memory = memory = Ram(width=layer.lanes * SUM_BITS, depth=layer.words)
        errors, inputs, issue = Signal(vector(layer.outputs)), Signal(vector(layer.inputs)), control.issue
        with m.If(control.taken):
            m.d.sync += [errors.eq(self.errors.payload), inputs.eq(self.inputs.payload)]
        address = Mux(issue.go, issue.outer * (layer.inputs + 1) + issue.inner, self.address)
        m.d.comb += [memory.read_enable.eq(issue.go | self.take), memory.read_address.eq(address)]
        number = registered(m, _with_one(inputs, layer.inputs)[issue.inner], Number)
        lanes = [registered(m, of_block[issue.outer], Number) for of_block in _blocks(errors, layer)]
        adds, clears = registered(m, issue.go), registered(m, self.take)
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


class KeptResult:
    """Collects the numbers of a unit's result, which are computed one after another.

    Each number is kept from the cycle in which it is computed. All are put on `payload` together when the sample ends.

    Args:
        payload: the result's numbers.
        ends: the last number is computed in this cycle.
    """

    def __init__(self, m: Module, payload: Any, ends: Value):
        self._kept = Signal.like(payload)
        self._complete = Signal.like(payload)
        m.d.sync += self._kept.eq(self._complete)
        with m.If(ends):
            m.d.sync += payload.eq(self._complete)

    def set(self, m: Module, at: int, value: Value, now: Value) -> None:
        """Take a number of the result in one cycle, and keep it until the sample ends.

        Args:
            at: position of the number in the result.
            value: the number.
            now: 1 in the cycle in which `value` is valid.
        """
        m.d.comb += self._complete[at].eq(Mux(now, value, self._kept[at]))
