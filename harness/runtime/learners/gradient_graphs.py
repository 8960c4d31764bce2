"""The gradients of an algorithm's losses as step graphs, which an accelerator computes for a part of a batch.

A gradient step differentiates one loss after another, and updates parameters in between. If several devices share a
batch, their gradients have to be put together before each update, so a step is cut at its gradients: the graph of
gradient number k computes that gradient of the current state, and nothing else.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from placerl.primitives import backend as backends_of
from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import AdamState, Auxiliary, Batch, Loss, Updates
from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import ITEM_BYTES, Graph
from placerl.primitives.graph.trace import leaf_names, trace

BACKENDS = ("opencl", "fpga")
"""Learner backends whose executables compute the gradients of parts of batches."""
_ROOM = "placerl.primitives.learner"


class Differentiated(NamedTuple):
    """The result of a gradient graph.

    Attributes:
        state: the state, unchanged.
        gradients: gradients by the parameters' names.
        loss: (), the mean loss of the part.
        rest: further results of the loss: tensors or tuples of tensors.
    """

    state: Any
    gradients: Parameters
    loss: Tensor
    rest: Any


class _Reached(Exception):
    """Raised by the gradient at which a graph ends, with its result."""


class _Until(Updates):
    """Updates that end a gradient step at a gradient; parameters stay as they are, because the state is current.

    Args:
        number: the gradient's number in the step, counted from 0.
    """

    def __init__(self, number: int) -> None:
        self._left = number

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        if not self._left:
            raise _Reached(super().gradients(loss, parameters, batch))
        self._left -= 1
        value, rest = loss(parameters, batch)
        return {name: torch.zeros_like(leaf) for name, leaf in parameters.items()}, value, rest

    def adam(
        self, parameters: Parameters, gradients: Parameters, state: AdamState, learning_rate: float | Tensor
    ) -> tuple[Parameters, AdamState]:
        return parameters, state

    def polyak(self, target: Parameters, online: Parameters, tau: float) -> Parameters:
        return target

    def clip(self, gradients: Parameters, maximum_norm: float | None) -> Parameters:
        return gradients


class GradientGraph(NamedTuple):
    """The graph of one gradient of a step.

    Attributes:
        graph: the step graph; its outputs are `gradients/NAME`, `loss` and `rest/...`.
        rest: structure of the loss's further results.
        rest_names: names of the outputs that these are made of, in order.
        leaves: names of the state's leaves that the graph reads.
    """

    graph: Graph
    rest: Any
    rest_names: tuple[str, ...]
    leaves: tuple[str, ...]


@lru_cache(maxsize=256)
def gradient_graphs(algorithm: Algorithm, batch_size: int, variant: str) -> tuple[GradientGraph, ...]:
    """Return the graph of each gradient of a step, in the order in which the step computes them.

    Args:
        batch_size: transitions in the part of a batch.
        variant: the kind of gradient step.

    Raises:
        UnsupportedOperationError: no graph backend has an operation.
    """
    generator = torch.Generator().manual_seed(0)
    batch = {
        name: torch.zeros(shape, dtype=dtype)
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }
    example = algorithm.initialise(generator), batch, algorithm.draw(batch_size, generator)
    graphs: list[GradientGraph] = []
    while (graph := _gradient_graph(algorithm, example, variant, len(graphs))) is not None:
        graphs.append(graph)
    return tuple(graphs)


def _gradient_graph(algorithm: Algorithm, example: Any, variant: str, number: int) -> GradientGraph | None:
    """Return the graph of gradient `number` of a step; None if the step has fewer."""
    rest: list[Any] = []

    def step(state: Any, batch: Any, draws: Any) -> Differentiated:
        try:
            replace(algorithm, updates=_Until(number)).gradient_step(state, batch, draws, variant)
        except _Reached as reached:
            gradients, loss, others = reached.args[0]
            rest[:] = [others]
            return Differentiated(state, gradients, loss, others)
        return Differentiated(state, {}, torch.zeros(()), ())

    graph = trace(step, example)
    if not rest:
        return None
    _, structure = pytree.tree_flatten(rest[0])
    read = {view.buffer for node in graph.nodes for view in node.inputs}
    read |= {view.buffer for view in graph.outputs.values()}
    leaves = tuple(buffer.name for position, buffer in graph.of_kind("state") if position in read)
    return GradientGraph(graph, structure, tuple(leaf_names("rest", rest[0])), leaves)


class PartGradients:
    """Computes the gradients of parts of batches on an accelerator, with an executable for each size of a part.

    Args:
        backend: one of `BACKENDS`.
        device: a device of the backend; None: its default.

    Raises:
        ValueError: the backend has no such device.
    """

    def __init__(self, algorithm: Algorithm, backend: str, device: str | None) -> None:
        if backend not in BACKENDS:
            raise ValueError(f"backend: found {backend}; allowed: {', '.join(BACKENDS)}")
        self._algorithm = algorithm
        self._compile = backends_of.load(_ROOM, backend).compile_graphs
        self._options = {} if device is None else {"device": device}
        self._compiled: dict[int, tuple[Executable, dict[str, GradientGraph]]] = {}

    def prepare(self, size: int) -> None:
        """Compile the graphs for parts of `size` samples, if they are not compiled yet."""
        if size in self._compiled:
            return
        graphs = {
            f"{variant}/{number}": graph
            for variant in self._algorithm.variants
            for number, graph in enumerate(gradient_graphs(self._algorithm, size, variant))
        }
        compiled = self._compile({name: graph.graph for name, graph in graphs.items()}, **self._options)
        self._compiled[size] = compiled, graphs

    def gradients(
        self, variant: str, number: int, state: Any, batch: Batch, draws: Batch
    ) -> tuple[Parameters, Tensor, Any]:
        """Return gradient `number` of a step for a part of a batch: the gradients, the loss and its other results.

        Args:
            variant: the kind of gradient step.
            number: the gradient's number in the step, counted from 0.
            state: the current state; the leaves that the gradient depends on are sent to the accelerator.
            batch: columns of the part, (n, ...).
            draws: the part's random numbers, (n, ...).
        """
        size = len(next(iter(batch.values())))
        self.prepare(size)
        executable, graphs = self._compiled[size]
        name = f"{variant}/{number}"
        graph, leaves = graphs[name], tree.flatten(state)
        for leaf in graph.leaves:
            executable.write_state(leaf, leaves[leaf.removeprefix("state/")].numpy())
        inputs: dict[str, Array] = {f"batch/{name}": _contiguous(column) for name, column in batch.items()}
        inputs |= {f"draws/{name}": _contiguous(column) for name, column in draws.items()}
        outputs = {output: torch.from_numpy(value) for output, value in executable.step(name, inputs).items()}
        rest = pytree.tree_unflatten([outputs[output] for output in graph.rest_names], graph.rest)
        gradients = {
            output.removeprefix("gradients/"): value
            for output, value in outputs.items()
            if output.startswith("gradients/")
        }
        return gradients, outputs["loss"], rest

    def sent_bytes(self, variant: str, number: int, size: int) -> tuple[int, int]:
        """Return the bytes of the weights sent to the accelerator for a gradient, and of the gradients sent back.

        Args:
            variant: the kind of gradient step.
            number: the gradient's number in the step.
            size: samples of the part.
        """
        self.prepare(size)
        executable, graphs = self._compiled[size]
        graph = graphs[f"{variant}/{number}"]
        weights = sum(executable.state_buffers[leaf].size_bytes for leaf in graph.leaves)
        gradients = sum(
            view.size * ITEM_BYTES[graph.graph.buffers[view.buffer].dtype]
            for output, view in graph.graph.outputs.items()
            if output.startswith("gradients/")
        )
        return weights, gradients

    @property
    def simulated_s(self) -> float:
        """The seconds that a simulated accelerator has worked so far; 0 if it is not simulated."""
        executables: list[Any] = [executable for executable, _ in self._compiled.values()]
        return sum(one.cycles / one.clock_hz for one in executables if hasattr(one, "clock_hz"))


def _contiguous(column: Tensor) -> Array:
    array: Array = column.contiguous().numpy()
    return array
