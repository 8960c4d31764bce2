"""Step graphs in fixed point: what every backend of it shares.

A backend keeps each buffer as a flat array (int32 raw values where its storage is a `Q`) and makes one callable of
each node. What a node computes is said in `roles`, `fixed_point`, `affine` and `vector_unit`; all backends agree to
the last bit.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from primitives.graph.executable import Executable, require_supported
from primitives.graph.graph import ITEM_BYTES, NODE_KINDS, Graph, Node, UnsupportedOperationError, View
from primitives.graph.interpreter import execute_node
from primitives.quantization import roles, vector_unit
from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.places import Located, Product, Step
from primitives.quantization.precision import Precision
from primitives.quantization.ranges import CapturedRanges
from primitives.quantization.roles import Plain, Roles, Storage

_DTYPES = {Plain.BINARY32: "float32", Plain.BINARY64: "float64"}


class FixedPointExecutable(Executable, CapturedRanges):
    """The graphs on a backend's arrays. `precision` is fixed; `quantise` is Algorithm 1's change at step d.

    Attributes:
        saturated: how many numbers did not fit their format so far, by label.
    """

    def __init__(self, graphs: Mapping[str, Graph], precision: Precision) -> None:
        """Assign roles and lay out the buffers; the state starts at zero.

        Args:
            graphs: by variant.
            precision: the formats.

        Raises:
            UnsupportedOperationError: an operation that the vector unit lacks, or a product of what is not
                fixed-point; names the user's line.
        """
        Executable.__init__(self, graphs)
        CapturedRanges.__init__(self, precision)
        self.saturated: Counter[str] = Counter()
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
                self._state[buffer.name] if buffer.kind == "state" else self._located(array, variant, i)
                for i, (buffer, array) in enumerate(zip(graph.buffers, self._memory(variant), strict=True))
            ]
            for i, buffer in graph.of_kind("constant"):
                self._write(self._buffers[variant][i], np.asarray(buffer.values))
            self._steps[variant] = [
                self._planned(variant, position, node) for position, node in enumerate(graph.nodes)
            ]

    @abstractmethod
    def _empty(self, size: int, dtype: str) -> Any:
        """A flat array of zeros."""

    def _memory(self, variant: str) -> list[Any]:
        """A flat array of zeros for each buffer of a graph; those of the state are not used."""
        return [
            self._empty(0 if buffer.kind == "state" else buffer.size, self._dtype(variant, i))
            for i, buffer in enumerate(self.graphs[variant].buffers)
        ]

    @abstractmethod
    def _view(self, array: Any, view: View) -> Any:
        """A view of a flat array."""

    @abstractmethod
    def _numpy(self, array: Any) -> Array:
        """The array for NumPy to read, not to write."""

    @abstractmethod
    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy's values into an array of the same dtype."""

    @abstractmethod
    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        """What runs an element-wise program."""

    @abstractmethod
    def _matmul(self, product: Product) -> Step:
        """What runs a matrix product."""

    @abstractmethod
    def _reduce(self, node: Node, source: Located, target: Located) -> Step:
        """What runs a reduction."""

    def quantise(self) -> None:
        """From now on products read n-bit codes over the captured extremes (Algorithm 1, t >= d)."""
        pairs = (pair for assigned in self._roles.values() for pair in assigned.operands.values())
        self.quantise_operands(operand for pair in pairs for operand in pair)

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
        for run in self._runs(variant):
            run()
        graph = self.graphs[variant]
        outputs = {}
        for name, view in graph.outputs.items():
            place = self._at(variant, view)
            value = self._real(self._numpy(place.array), place.storage)
            outputs[name] = np.array(value, graph.buffers[view.buffer].dtype)
        return outputs

    def _runs(self, variant: str) -> Sequence[Step]:
        """What a gradient step calls, one after another."""
        return self._steps[variant]

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
