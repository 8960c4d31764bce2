"""The base class of the executables that run step graphs in fixed point.

A step graph holds a gradient step as a list of nodes, the array operations, and the buffers that they read and write.
A backend keeps each buffer as a flat array (int32 raw values if the buffer is in a fixed-point format `Q`) and runs
the nodes in order. `roles`, `fixed_point`, `affine` and `vector_unit` define what a node computes; all backends agree
bit by bit.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from placerl.primitives.graph.executable import Executable, require_supported
from placerl.primitives.graph.graph import ITEM_BYTES, NODE_KINDS, Graph, Node, View
from placerl.primitives.quantization import roles, vector_unit
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.places import BINARY32_LEAST, Located
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.ranges import CapturedRanges
from placerl.primitives.quantization.roles import Plain, Roles, Storage

_DTYPES = {Plain.BINARY32: "float32", Plain.BINARY64: "float64"}


class FixedPointExecutable(Executable, CapturedRanges):
    """Runs step graphs, which hold a learner's gradient steps as array operations, in fixed point.

    At first matrix products read their operands as stored, and the ranges of the operands are recorded. From step d
    of FIX Algorithm 1 on, after `quantise`, products read n-bit codes of the operands over these ranges.
    """

    def __init__(self, graphs: Mapping[str, Graph], precision: Precision) -> None:
        """Find each buffer's format, and allocate the buffers; the state starts at zero.

        Raises:
            UnsupportedOperationError: the vector unit lacks an operation, the operand of a product is not in fixed
                point, or numbers would be added to those of another format; the message names the user's line.
        """
        Executable.__init__(self, graphs)
        CapturedRanges.__init__(self, precision)
        self._saturated: Counter[str] = Counter()
        for graph in graphs.values():
            require_supported(
                graph,
                "fixed point",
                kinds=tuple(NODE_KINDS),
                operations=vector_unit.OPERATIONS,
                dtypes=tuple(ITEM_BYTES),
            )
        self._roles = {variant: roles.assign(graph, precision) for variant, graph in graphs.items()}
        memory = self._memory()
        first = next(iter(graphs))
        self._state = {
            buffer.name: self._located(memory[first][i], first, i)
            for i, buffer in graphs[first].of_kind("state")
        }
        self._buffers: dict[str, list[Located]] = {}
        for variant, graph in graphs.items():
            self._buffers[variant] = [
                self._state[buffer.name] if buffer.kind == "state" else self._located(array, variant, i)
                for i, (buffer, array) in enumerate(zip(graph.buffers, memory[variant], strict=True))
            ]
            for i, buffer in graph.of_kind("constant"):
                self._write(self._buffers[variant][i], np.asarray(buffer.values))
            self._prepare(variant)

    def overflowed(self) -> bool:
        """Return False: fixed point has no NaN or infinity, and the squares of its numbers fit moments in float32."""
        return False

    @abstractmethod
    def _memory(self) -> dict[str, list[Any]]:
        """Return by variant a flat array of zeros for each buffer of its graph; all variants share the first
        one's state.
        """

    @abstractmethod
    def _prepare(self, variant: str) -> None:
        """Prepare a variant to run, after its buffers were created."""

    @abstractmethod
    def _view(self, array: Any, view: View) -> Any:
        """Return a view of a flat array."""

    @abstractmethod
    def _numpy(self, array: Any) -> Array:
        """Return the array as a read-only NumPy array."""

    @abstractmethod
    def _assign(self, array: Any, values: Array) -> None:
        """Write NumPy values into an array of the same dtype."""

    @abstractmethod
    def profile(self, variant: str, steps: int) -> list[tuple[Node, float]]:
        """Time each node (array operation) in a number of gradient steps, which change the learner's state.

        The steps use the inputs of the last step.

        Args:
            steps: number of steps, at least 1; each time is the minimum over them.

        Returns:
            Each node, in order, with its time in seconds.
        """

    def quantise(self) -> None:
        """Begin to quantise the operands of matrix products to n bits over their recorded ranges.

        FIX's Algorithm 1 does this at step d.
        """
        pairs = (pair for assigned in self._roles.values() for pair in assigned.operands.values())
        self.quantise_operands(operand for pair in pairs for operand in pair)

    def count(self, label: str, saturated: int) -> None:
        """Add to the count of numbers that did not fit their format.

        Args:
            label: kind of the numbers, such as "weights".
        """
        if saturated:
            self._saturated[label] += saturated

    @property
    def saturated(self) -> Counter[str]:
        """Return how many numbers have not fitted their format so far, by kind (such as "weights")."""
        self.collect()
        return self._saturated

    def state(self) -> dict[str, Array]:
        """Return copies of the state's arrays (leaves) by name, with the exact numbers.

        The copies are float64, also of arrays that are stored in fixed point or as float32. Integers and flags keep
        their dtype.
        """
        return {name: self.leaf(name) for name in self.state_buffers}

    def leaf(self, name: str) -> Array:
        """Return a copy of one array (leaf) of the state, with the exact numbers as float64 (`state`).

        Args:
            name: name of the array, such as `state/actor/0.weight`.
        """
        place = self._state[name]
        value = self._real(self._numpy(place.array), place.storage)
        return np.array(value).reshape(self.state_buffers[name].shape)

    def raw(self, name: str) -> Array:
        """Return a copy of one array (leaf) of the state as it is stored: raw values if it is in fixed point."""
        return np.array(self._numpy(self._state[name].array)).reshape(self.state_buffers[name].shape)

    def write_raw(self, name: str, raw: Array) -> None:
        """Set one array (leaf) of the state to values that `raw` returned."""
        self._assign(self._state[name].array, raw.ravel())

    def coded_operands(self, variant: str) -> tuple[str, ...]:
        """Return the keys (`Operand.key`) of the operands of a graph's products that `quantise` quantises, sorted."""
        pairs = self._roles[variant].operands.values()
        keys = {one.key for pair in pairs for one in pair if one.bits(self.precision) is not None}
        return tuple(sorted(keys))

    @property
    def operand_keys(self) -> frozenset[str]:
        """The keys (`Operand.key`) of the operands of all graphs' products, also of those that keep all their bits."""
        pairs = (pair for assigned in self._roles.values() for pair in assigned.operands.values())
        return frozenset(one.key for pair in pairs for one in pair if one.layer)

    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the state; numbers are rounded to the array's format.

        Args:
            name: name of the array, such as `state/actor/0.weight`.
            value: the numbers, in the array's shape.
        """
        self._write(self._state[name], np.asarray(value).ravel())

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

    @staticmethod
    def _real(values: Array, storage: Storage) -> Array:
        """Return the numbers that stored values represent: float64, except integers and flags."""
        if isinstance(storage, Q):
            return storage.to_float(values)
        return values if storage is Plain.WHOLE else values.astype(np.float64)

    def _write(self, place: Located, values: Array) -> None:
        """Store numbers, rounded once."""
        if isinstance(place.storage, Q):
            stored = place.storage.from_float(values)
            self.count(place.label, stored.saturated)
            values = stored.raw
        elif place.storage is Plain.BINARY32:
            values = np.where(np.abs(values) < BINARY32_LEAST, 0.0, values).astype(np.float32)
        self._assign(place.array, values)
