"""The interface of a graph backend: an object that runs step graphs on one learner's state."""

from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.graph.graph import (
    Buffer,
    Graph,
    Instruction,
    Node,
    UnsupportedOperationError,
    View,
    contiguous_strides,
)

Array = NDArray[Any]


class Executable(ABC):
    """Runs the step graphs of a learner, one for each variant (kind of gradient step); all share one state.

    Attributes:
        graphs: each variant's graph, by the variant's name. The `state` buffers of all graphs agree in name, shape
            and dtype.
        not_finite: number of values so far that were NaN or infinite inside gradient steps, and which the device
            replaced by 0; always 0 for one that computes with them.
    """

    not_finite: int = 0

    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        """Check that the graphs belong together.

        Raises:
            ValueError: no graph, or graphs of different states.
        """
        if not graphs:
            raise ValueError("graphs: found none; allowed: at least one")
        first = next(iter(graphs.values()))
        self.state_buffers: dict[str, Buffer] = {buffer.name: buffer for _, buffer in first.of_kind("state")}
        self.graphs: dict[str, Graph] = {}
        for variant, graph in graphs.items():
            self._add_graph(variant, graph)

    def _add_graph(self, variant: str, graph: Graph) -> None:
        """Add a graph to `graphs`, of the same state."""
        if [buffer for _, buffer in graph.of_kind("state")] != [*self.state_buffers.values()]:
            raise ValueError(f"graphs: the state of variant {variant!r} differs from the first one's")
        self.graphs[variant] = graph

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return the arrays (leaves) of the learner's state by their buffers' names.

        The arrays are read-only, and valid until the next step.
        """

    def overflowed(self) -> bool:
        """Return whether one of Adam's second moments, or another number of the state, is NaN or infinite.

        A backend that looks at the moments while it writes them replaces this search of the whole state.
        """
        return any(leaf.dtype.kind == "f" and not np.isfinite(leaf).all() for leaf in self.state().values())

    @abstractmethod
    def write_state(self, name: str, value: Array) -> None:
        """Set one array (leaf) of the learner's state.

        Args:
            name: name of the state's buffer, such as `state/actor/0.weight`.
            value: the new values, in the buffer's shape.
        """

    @abstractmethod
    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step.

        Args:
            inputs: each input buffer by its name (`batch/reward`), with its shape and dtype; other keys are
                ignored.

        Returns:
            Copies of the graph's outputs by name, such as `td_error` and `losses/critic`.

        Raises:
            ValueError: an input is missing or of another shape or dtype; the state is unchanged.
            IndexError: the step looks up an element that does not exist; the state is of no use.
        """

    @property
    def place(self) -> Hashable:
        """An identifier of the device memory whose batches `step_on` reads; None if it reads none."""
        return None

    def step_on(self, variant: str, inputs: Mapping[str, Array], batch: Any) -> dict[str, Array]:
        """Run one gradient step on a batch that is in the device memory `place`.

        Args:
            inputs: the inputs that are not columns of the batch, as `step` takes them.
            batch: the columns of the inputs `batch/NAME` (`primitives.replay.device.DeviceBatch`).

        Returns:
            Copies of the graph's outputs by name, such as `td_error` and `losses/critic`.
        """
        raise NotImplementedError(f"{type(self).__name__}: it has no place")

    def checked_inputs(
        self, variant: str, inputs: Mapping[str, Array], elsewhere: Container[str] = ()
    ) -> list[tuple[int, Array]]:
        """Check the inputs of a gradient step, and return each with the position of its buffer in the graph.

        Args:
            elsewhere: names of inputs to leave out, because the batch in device memory holds them.

        Returns:
            A list of pairs (position in `Graph.buffers`, array).

        Raises:
            ValueError: an input is missing or of another shape or dtype.
        """
        checked = []
        for position, buffer in self.graphs[variant].of_kind("input"):
            if buffer.name in elsewhere:
                continue
            array = inputs.get(buffer.name)
            if array is None:
                raise ValueError(f"{buffer.name}: missing; allowed: {buffer.shape} {buffer.dtype}")
            if array.shape != buffer.shape or array.dtype != np.dtype(buffer.dtype):
                raise ValueError(
                    f"{buffer.name}: found {array.shape} {array.dtype}; the graph was traced for "
                    f"{buffer.shape} {buffer.dtype}"
                )
            checked.append((position, array))
        return checked


def require_supported(
    graph: Graph, backend: str, *, kinds: Sequence[str], operations: Sequence[str], dtypes: Sequence[str]
) -> None:
    """Check that a backend supports everything that the graph uses.

    Raises:
        UnsupportedOperationError: the message names the operation, the user's line and the backend.
    """
    for node in graph.nodes:
        where = f"at {node.source or 'unknown line'}: backend {backend!r} has no"
        if node.kind not in kinds:
            raise UnsupportedOperationError(f"{node.kind} {where} {node.kind}")
        for instruction in node.program:
            if instruction.op not in operations:
                raise UnsupportedOperationError(f"{instruction.op} {where} {instruction.op}")
        used = [graph.buffers[view.buffer].dtype for view in (*node.inputs, *node.outputs)]
        for dtype in (*used, *(instruction.dtype for instruction in node.program)):
            if dtype not in dtypes:
                raise UnsupportedOperationError(f"{node.kind} of {dtype} {where} {dtype}")


def copy_node(source: View, target: View, dtype: str) -> Node:
    """Return a node that copies one view (strided window on a buffer) to another.

    Args:
        source, target: views of the same shape.
    """
    program = (Instruction("copy", (0,), dtype),)
    return Node("elementwise", (source.squeezed(),), (target.squeezed(),), program, (1,))


def with_dense_outputs(graph: Graph) -> Graph:
    """Return the graph with every output contiguous in its own buffer, so that it can be copied as bytes."""
    buffers, nodes, outputs = list(graph.buffers), list(graph.nodes), {}
    for name, view in graph.outputs.items():
        buffer = buffers[view.buffer]
        if (
            view.is_contiguous
            and view.offset == 0
            and view.size == buffer.size
            and buffer.kind == "temporary"
        ):
            outputs[name] = view
            continue
        buffers.append(Buffer(f"output {name}", view.shape, buffer.dtype, "temporary"))
        copy = View(len(buffers) - 1, view.shape, contiguous_strides(view.shape))
        nodes.append(copy_node(view, copy, buffer.dtype))
        outputs[name] = copy
    return replace(graph, buffers=tuple(buffers), nodes=tuple(nodes), outputs=outputs)
