"""The least arithmetic and memory traffic of one call of a primitive, counted from shapes, for the roofline.

| primitive | arithmetic | traffic |
|---|---|---|
| `sum_tree.sample` | K sums per level and item | the K children of one node per level, read |
| `sum_tree.update`, `.insert` | the same; a parent is its children's sum | the same, and one node per level written |
| `storage.gather`, `.insert` | none | each row read and written once |
| `learner.step` | 2 per multiply-accumulate of its matrix products | state read and written, inputs read |
| `actor.infer` | 2 per multiply-accumulate of the policy | parameters and observation, read |

K is the number of children of a node. Element-wise arithmetic of a step, temporaries, and work beyond the definition
(such as a cumulative sum over all leaves) are not counted, so that the achieved rate is that of useful work. An
environment's work does not follow from shapes.
"""

from dataclasses import dataclass
from math import ceil, prod

from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import Task, algorithm_of, item_bytes
from placerl.primitives.algorithms.networks import forward_macs, parameter_count
from placerl.primitives.graph.graph import Graph, plan
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.sum_tree.levels import levels_of

WORD_BYTES = 4
_ACTING_NETWORKS = ("actor", "q", "trunk", "policy")


@dataclass(frozen=True)
class Work:
    """The arithmetic and memory traffic of one call.

    Attributes:
        flops: float32 operations, two per multiply-accumulate; 0 if data is only moved.
        traffic_bytes: bytes read or written, each at least once.
        footprint_bytes: bytes of all memory that calls address; it determines which memory (a cache or DRAM)
            holds them.
    """

    flops: int
    traffic_bytes: int
    footprint_bytes: int


def tree_work(workload: Task, items: int, *, update: bool) -> Work:
    """Return the arithmetic and memory traffic of sampling or updating `items` leaves of a sum tree (MAP IV-C4).

    Args:
        update: whether the leaves are updated; otherwise sampled.
    """
    leaves, fanout = workload.replay.capacity, workload.replay.fanout
    levels = levels_of(leaves, fanout)
    nodes = leaves + ceil((leaves - 1) / (fanout - 1))
    visited = items * levels
    written = items * (levels + 1) if update else 0
    return Work(visited * fanout, (visited * fanout + written) * WORD_BYTES, nodes * WORD_BYTES)


def copy_work(workload: Workload, rows: int, capacity: int) -> Work:
    """Return the memory traffic of copying `rows` transitions out of or into a storage of `capacity` transitions."""
    row_bytes = item_bytes(workload)
    return Work(0, 2 * rows * row_bytes, (capacity + rows) * row_bytes)


def step_work(workload: Workload, batch_size: int) -> Work:
    """Return the arithmetic and the memory traffic of one gradient step of the workload's algorithm.

    If the algorithm has several kinds of gradient steps, this is the first of its `variants`.
    """
    algorithm = algorithm_of(workload)
    graph: Graph = step_graph(algorithm, batch_size, algorithm.variants[0])
    state, inputs = (
        sum(buffer.size_bytes for _, buffer in graph.of_kind(kind)) for kind in ("state", "input")
    )
    return Work(2 * graph.multiply_accumulates(), 2 * state + inputs, plan(graph).arena_bytes)


def infer_work(workload: Workload) -> Work:
    """Return the arithmetic and memory traffic of choosing the policy's action for one observation."""
    acting = [
        network for name, network in algorithm_of(workload).networks.items() if name in _ACTING_NETWORKS
    ]
    words = sum(map(parameter_count, acting)) + prod(workload.environment.observation_shape)
    return Work(2 * sum(map(forward_macs, acting)), words * WORD_BYTES, words * WORD_BYTES)
