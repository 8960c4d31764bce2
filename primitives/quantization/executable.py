"""Step graphs in fixed point: what every backend of it shares, and the backend in NumPy, the definition of right.

A backend keeps each buffer as a flat array (int32 raw values where its storage is a `Q`) and makes one callable of
each node. What a node computes is said in `roles`, `fixed_point`, `affine` and `vector_unit`; all backends agree to
the last bit.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from primitives.learner.executable import Executable, require_supported
from primitives.learner.graph import ITEM_BYTES, NODE_KINDS, Graph, Node, UnsupportedOperationError, View
from primitives.learner.reference_backend import execute_node
from primitives.quantization import fixed_point, roles, vector_unit
from primitives.quantization.affine import Affine
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.precision import Precision
from primitives.quantization.roles import Operand, Plain, Role, Roles, Storage

Step = Callable[[], None]
Multiply = Callable[[Array, Array, tuple[Operand, Operand]], Array]
"""From the integers of A (.., M, K) and B (.., K, N), raw or centred codes, and what they are, to their exact product
(.., M, N) in int64 or Python's integers."""
_DTYPES = {Plain.BINARY32: "float32", Plain.BINARY64: "float64"}


@dataclass(frozen=True)
class Located:
    """A view where it lies.

    Attributes:
        array: the backend's, of the view's shape and strides.
        storage: what it holds.
        label: what its saturations are counted under.
    """

    array: Any
    storage: Storage
    label: str


@dataclass(frozen=True)
class Product:
    """A matrix product where it lies.

    Attributes:
        operands: what A and B are.
        a, b, c: where they are; all of a `Q`.
    """

    operands: tuple[Operand, Operand]
    a: Located
    b: Located
    c: Located

    def formats(self) -> tuple[Q, Q, Q]:
        """The formats of A, B and C."""
        a, b, c = self.a.storage, self.b.storage, self.c.storage
        assert isinstance(a, Q)
        assert isinstance(b, Q)
        assert isinstance(c, Q)
        return a, b, c


class FixedPointExecutable(Executable):
    """The graphs on NumPy arrays. `precision` is fixed; `quantise` is Algorithm 1's change at step d.

    Attributes:
        precision: the formats.
        extremes: the smallest and largest raw value seen so far of each operand that will be quantised, by key.
        affine: the n-bit rule of each operand since `quantise`, by key; empty before.
        saturated: how many numbers did not fit their format so far, by label.
    """

    def __init__(
        self, graphs: Mapping[str, Graph], precision: Precision, *, multiply: Multiply | None = None
    ) -> None:
        """Assign roles and lay out the buffers; the state starts at zero.

        Args:
            graphs: by variant.
            precision: the formats.
            multiply: makes the exact sums of products of the definition's backend: hardware's, where a model of
                hardware runs the step (see `processing_element`); by default `fixed_point.exact_matmul`.

        Raises:
            UnsupportedOperationError: an operation that the vector unit lacks, or a product of what is not
                fixed-point; names the user's line.
        """
        super().__init__(graphs)
        self.precision = precision
        self._multiply = multiply or (lambda a, b, operands: fixed_point.exact_matmul(a, b))
        self.extremes: dict[str, tuple[int, int]] = {}
        self.affine: dict[str, Affine] = {}
        self.saturated: Counter[str] = Counter()
        self.capturing = precision.narrows
        for graph in graphs.values():
            require_supported(
                graph,
                "fixed point",
                kinds=tuple(NODE_KINDS),
                operations=vector_unit.OPERATIONS,
                dtypes=tuple(ITEM_BYTES),
            )
        self._roles = {variant: roles.assign(graph, precision) for variant, graph in graphs.items()}
        first = next(iter(graphs))
        self._state = {
            buffer.name: self._located(self._empty(buffer.size, self._dtype(first, i)), first, i)
            for i, buffer in graphs[first].of_kind("state")
        }
        self._buffers: dict[str, list[Located]] = {}
        self._steps: dict[str, list[Step]] = {}
        for variant, graph in graphs.items():
            self._buffers[variant] = [
                self._state[buffer.name]
                if buffer.kind == "state"
                else self._located(self._empty(buffer.size, self._dtype(variant, i)), variant, i)
                for i, buffer in enumerate(graph.buffers)
            ]
            for i, buffer in graph.of_kind("constant"):
                self._write(self._buffers[variant][i], np.asarray(buffer.values))
            self._steps[variant] = [
                self._planned(variant, position, node) for position, node in enumerate(graph.nodes)
            ]

    # What a backend gives.

    def _empty(self, size: int, dtype: str) -> Any:
        """A flat array of zeros."""
        return np.zeros(size, dtype)

    def _view(self, array: Any, view: View) -> Any:
        strides = tuple(stride * array.itemsize for stride in view.strides)
        return as_strided(array[view.offset :], view.shape, strides)

    def _numpy(self, array: Any) -> Array:
        """The array for NumPy to read, not to write."""
        return np.asarray(array)

    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy's values into an array of the same dtype."""
        array[...] = values

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        def run() -> None:
            with np.errstate(all="ignore"):
                registers = [self._real(self._numpy(place.array), place.storage) for place in inputs]
                for instruction in node.program:
                    arguments = [registers[i] for i in instruction.arguments]
                    registers.append(vector_unit.NUMPY.apply(instruction, arguments))
                results = [registers[i] for i in node.results]
            for place, result in zip(outputs, results, strict=True):
                self._write(place, np.broadcast_to(result, place.array.shape))

        return run

    def _matmul(self, product: Product) -> Step:
        a_format, b_format, c_format = product.formats()

        def run() -> None:
            a, a_step = self.codes(product.operands[0], product.a.array, a_format)
            b, b_step = self.codes(product.operands[1], product.b.array, b_format)
            stored = self.rounded(self._multiply(a, b, product.operands), a_step, b_step, c_format)
            self.count(product.c.label, stored.saturated)
            product.c.array[...] = stored.raw

        return run

    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        def run() -> None:
            values = self._numpy(source.array)
            if isinstance(source.storage, Q):
                values = values.astype(np.int64)
                (reduced,) = execute_node(node, [values])
                self._move(reduced, source.storage, target)
            elif node.attributes["op"] == "sum" and source.storage is not Plain.WHOLE:
                # Correctly rounded, so that the order of the terms does not matter.
                self._write(target, np.asarray(math.fsum(values.ravel().tolist())))
            else:
                self._write(target, np.asarray(execute_node(node, [values])[0]))

        return run

    # What they share.

    def codes(self, operand: Operand, raw: Array, fmt: Q) -> tuple[Array, float]:
        """An operand as the product reads it, and what one step of it stands for.

        Before `quantise`, raw values, whose extremes are captured; after it, centred codes of n bits.
        """
        self.capture(operand, raw)
        affine = self.affine.get(operand.key)
        if affine is None:
            return raw, fmt.resolution
        stored = affine.centred(raw, fmt)
        self.count(f"{operand.role} codes", stored.saturated)
        return stored.raw, affine.delta

    def capture(self, operand: Operand, raw: Any) -> None:
        """Widen the extremes of an operand, where it will be quantised and is not yet."""
        if self.captures(operand):
            self.widen(operand, int(raw.min()), int(raw.max()))

    def captures(self, operand: Operand) -> bool:
        """Whether the extremes of an operand are being captured."""
        return self.capturing and operand.bits(self.precision) is not None

    def widen(self, operand: Operand, low: int, high: int) -> None:
        """Widen the captured extremes of an operand to hold these."""
        old = self.extremes.get(operand.key, (low, high))
        self.extremes[operand.key] = (min(low, old[0]), max(high, old[1]))

    @staticmethod
    def rounded(exact: Array, a_step: float, b_step: float, out: Q) -> fixed_point.Stored:
        """A product's exact sums in the format of its result.

        Where both steps are powers of two this is a shift. Else the sum is scaled by one binary64 factor.

        Args:
            exact: int64, or Python's integers where a sum takes more.
            a_step, b_step: what 1 of A and of B stands for.
            out: the result's format.
        """
        factor = product_factor(a_step, b_step, out)
        mantissa, exponent = math.frexp(factor)
        if mantissa == 0.5:
            return out.store(fixed_point.shifted(exact, 1 - exponent))
        return out.store(fixed_point.round_half_up(exact.astype(np.float64) * factor))

    def quantise(self) -> None:
        """From now on products read n-bit codes over the captured extremes (Algorithm 1, t >= d).

        What was never read in the capture (by a kind of step that was not taken) keeps all its bits.
        """
        formats = {
            Role.WEIGHT: self.precision.weights,
            Role.ACTIVATION: self.precision.activations,
            Role.ERROR: self.precision.gradients,
        }
        for assigned in self._roles.values():
            for operand in (one for pair in assigned.operands.values() for one in pair):
                bits = operand.bits(self.precision)
                if bits is not None and operand.key in self.extremes:
                    low, high = self.extremes[operand.key]
                    step = formats[operand.role].resolution
                    self.affine[operand.key] = Affine.of_range(bits, low * step, high * step)
        self.capturing = False

    def restart_capture(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """Before `quantise` again, with these extremes captured so far."""
        self.extremes, self.affine = dict(extremes), {}
        self.capturing = self.precision.narrows

    def count(self, label: str, saturated: int) -> None:
        """Note numbers that did not fit."""
        if saturated:
            self.saturated[label] += saturated

    def state(self) -> dict[str, Array]:
        """Each state leaf, exactly: float64, but for Adam's second moment where that is binary32."""
        return {name: self.leaf(name) for name in self.state_buffers}

    def leaf(self, name: str) -> Array:
        """One state leaf, as in `state`."""
        place = self._state[name]
        value = self._real(self._numpy(place.array), place.storage)
        return np.array(value).reshape(self.state_buffers[name].shape)

    def raw(self, name: str) -> Array:
        """One state leaf as it is stored: raw values where it is fixed-point; a copy."""
        return np.array(self._numpy(self._state[name].array)).reshape(self.state_buffers[name].shape)

    def write_state(self, name: str, value: Array) -> None:
        """Set a state leaf to the nearest numbers of its format."""
        self._write(self._state[name], np.asarray(value).ravel())

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One gradient step."""
        buffers = self._buffers[variant]
        for position, value in self.checked_inputs(variant, inputs):
            self._write(buffers[position], value.ravel())
        for run in self._steps[variant]:
            run()
        graph = self.graphs[variant]
        outputs = {}
        for name, view in graph.outputs.items():
            place = self._at(variant, view)
            value = self._real(self._numpy(place.array), place.storage)
            outputs[name] = np.array(value, graph.buffers[view.buffer].dtype)
        return outputs

    def profile(self, variant: str, steps: int) -> list[tuple[Node, float]]:
        """Where a step's time goes: steps on the inputs of the last one, which go on changing the state.

        Args:
            variant: a key of `graphs`.
            steps: how many to take the least time of, at least 1.

        Returns:
            Each node, in order, with its seconds.
        """
        least_s = [math.inf] * len(self._steps[variant])
        for _ in range(steps):
            for i, run in enumerate(self._steps[variant]):
                began_s = perf_counter()
                run()
                least_s[i] = min(least_s[i], perf_counter() - began_s)
        return list(zip(self.graphs[variant].nodes, least_s, strict=True))

    def _dtype(self, variant: str, position: int) -> str:
        storage = self._roles[variant].storage[position]
        if isinstance(storage, Q):
            return "int32"
        return _DTYPES.get(storage) or self.graphs[variant].buffers[position].dtype

    def _located(self, array: Any, variant: str, position: int) -> Located:
        assigned: Roles = self._roles[variant]
        return Located(array, assigned.storage[position], assigned.labels[position])

    def _at(self, variant: str, view: View) -> Located:
        whole = self._buffers[variant][view.buffer]
        return Located(self._view(whole.array, view), whole.storage, whole.label)

    def _planned(self, variant: str, position: int, node: Node) -> Step:
        inputs = [self._at(variant, view) for view in node.inputs]
        outputs = [self._at(variant, view) for view in node.outputs]
        match node.kind:
            case "elementwise":
                return self._elementwise(node, inputs, outputs)
            case "matmul":
                if not all(isinstance(place.storage, Q) for place in (*inputs, *outputs)):
                    where = node.source or "unknown line"
                    raise UnsupportedOperationError(f"matmul at {where}: its operands are not fixed-point")
                return self._matmul(Product(self._roles[variant].operands[position], *inputs, *outputs))
            case "reduce":
                return self._reduce(node, inputs[0], outputs[0])
        return self._moved(node, inputs, outputs[0])

    def _moved(self, node: Node, inputs: list[Located], target: Located) -> Step:
        """Nodes that move numbers, some adding what meets: as whole numbers of 64 bits."""
        data = inputs[0].storage

        def run() -> None:
            values = [self._numpy(place.array) for place in inputs]
            if isinstance(data, Q):
                values = [
                    value.astype(np.int64) if isinstance(place.storage, Q) else value
                    for value, place in zip(values, inputs, strict=True)
                ]
            (result,) = execute_node(node, values)
            self._move(result, Plain.WHOLE if node.kind == "argreduce" else data, target)

        return run

    def _move(self, values: Array, source: Storage, target: Located) -> None:
        """Write whole numbers of the source's format, exactly or rounded once."""
        if isinstance(source, Q) and isinstance(target.storage, Q):
            stored = target.storage.rescale(values, source.fraction_bits)
            self.count(target.label, stored.saturated)
            self._assign(target.array, stored.raw)
        else:
            self._write(target, self._real(values, source))

    @staticmethod
    def _real(values: Array, storage: Storage) -> Array:
        """The numbers that stored ones stand for: float64, but for whole numbers and flags."""
        if isinstance(storage, Q):
            return storage.to_float(values)
        return values if storage is Plain.WHOLE else values.astype(np.float64)

    def _write(self, place: Located, values: Array) -> None:
        """Store numbers, rounded once."""
        if isinstance(place.storage, Q):
            stored = place.storage.from_float(values)
            self.count(place.label, stored.saturated)
            values = stored.raw
        self._assign(place.array, values)


def product_factor(a_step: float, b_step: float, out: Q) -> float:
    """What an exact sum of products is multiplied by to count steps of the result's format."""
    return a_step * b_step * 2.0**out.fraction_bits
