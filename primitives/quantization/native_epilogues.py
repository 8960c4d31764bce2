"""Fuse operations into the matrix products whose results they read: bias and ReLU, or ReLU's derivative."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from placerl.primitives.graph.graph import Graph, Node


def with_followers(graph: Graph) -> tuple[Graph, frozenset[int]]:
    """Return the graph with element-wise nodes moved to directly after the matrix products that only they read.

    A node stays where it is if the product is an output of the graph, or if a node in between reads or writes the
    same buffers in a way that forbids the move.

    Returns:
        The graph, and the positions in it of the products that such a node follows directly.
    """
    nodes, followed = list(graph.nodes), set()
    position = 0
    while position < len(nodes):
        follower = _follower(graph, nodes, position)
        if follower is not None:
            followed.add(position)
            nodes.insert(position + 1, nodes.pop(follower))
        position += 1
    return replace(graph, nodes=tuple(nodes)), frozenset(followed)


def joined(graph: Graph, followed: frozenset[int]) -> Graph:
    """Return a graph in which products that a fused node follows also have that node's outputs.

    Buffers are placed in memory by this graph. Because these outputs count as the product's own, they share no memory
    with the product's inputs, and the product may write them directly.

    Args:
        graph: the graph that `with_followers` returned.
        followed: the positions of the products, which `with_followers` returned too.
    """
    nodes = list(graph.nodes)
    for position in followed:
        product, follower = nodes[position : position + 2]
        nodes[position] = replace(product, outputs=(*product.outputs, *follower.outputs))
    return replace(graph, nodes=tuple(nodes))


def _follower(graph: Graph, nodes: Sequence[Node], position: int) -> int | None:
    product = nodes[position]
    if product.kind != "matmul":
        return None
    result = product.outputs[0].buffer
    if graph.buffers[result].kind != "temporary" or any(v.buffer == result for v in graph.outputs.values()):
        return None
    readers: dict[int, set[int]] = defaultdict(set)
    for i, node in enumerate(nodes):
        for view in node.inputs:
            readers[view.buffer].add(i)
    if len(readers[result]) != 1:
        return None
    (reader,) = readers[result]
    group = nodes[reader]
    if reader < position or group.kind != "elementwise":
        return None
    reads, writes = ({view.buffer for view in side} for side in (group.inputs, group.outputs))
    for node in nodes[position + 1 : reader]:
        if any(view.buffer in reads | writes for view in node.outputs):
            return None
        if any(view.buffer in writes for view in node.inputs):
            return None
    return reader if not any(view.buffer in writes for view in product.inputs) else None
