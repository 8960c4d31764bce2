"""The learner on an FPGA: the step graph on the units of `primitives.fpga`, bit for bit and cycle by cycle.

A systolic core does every matrix product, on integers: operands are blocks of up to 32 bits with one exponent each
(`primitives.fpga.vector.block_fixed_point`), sums are exact in 64 bits. Stream and reduction units do the rest on
float32 numbers, a word of 16 a cycle (`jobs` has the table). The numbers come from the golden models, which the RTL's
tests hold to the RTL bit by bit; with `exact=True` the operands of every product go through the simulated RTL itself.

The cycles of a step depend on its shapes alone: `step_cycles` simulates the RTL for each distinct size once.

MAP (Fig. 3) gives every layer a tensor unit of its own: that design is `primitives.fpga.learner_pipeline`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from primitives.algorithms import Algorithm, checks
from primitives.fpga.devices import catalogue
from primitives.graph.executable import Array, require_supported
from primitives.graph.graph import Graph, Node
from primitives.graph.interpreter import ReferenceExecutable
from primitives.learner.base import Learner

SIMULATED = True
MODELLED = True  # the units of `MODELLED_UNITS` take part in every gradient step
DEVICES = catalogue.clocks_hz()
DEFAULT_SIDE = 16
HOST = "cpu"  # what `learner.create` passes unless told otherwise: the simulation runs there
NODE_KINDS = (
    *("elementwise", "matmul", "reduce", "argreduce"),
    *("gather", "scatter_add", "im2col", "col2im"),
)


def unavailable_reason() -> str:
    """Why the hardware cannot be simulated here; empty when it can."""
    from primitives.fpga.export import toolchain

    return toolchain.unavailable_reason()


MODELLED_UNITS = ("stream", "reduction")
"""Units whose cycles are `modelled`: their sequencer counts the words and the latency that a formula hands it."""


@dataclass(frozen=True)
class NodeCycles:
    """A node of a step with its clock cycles.

    Attributes:
        unit: "core", "stream", "reduction" or "layout".
        kind: the node's.
        shapes: of its inputs, or of its outputs where it has no inputs.
        cycles: simulated; those of `MODELLED_UNITS` modelled.
    """

    unit: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    cycles: int


class FpgaExecutable(ReferenceExecutable):
    """Executes the step graph with the FPGA's numbers, and knows its cycles.

    Attributes:
        not_finite: numbers so far that were not finite when they came to the core or a reduction, and became 0.
        clock_hz: the clock assumed.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        *,
        device: str = "u200",
        side: int = DEFAULT_SIDE,
        exact: bool = False,
    ) -> None:
        """Assign the nodes to units; the state starts at zero.

        Args:
            graphs: each variant's graph.
            device: one of `DEVICES`.
            side: P of the systolic core: 16 is PPO's design for MuJoCo on the U200 (PPO 5.2).
            exact: simulate every product's operands; thousands of times slower.

        Raises:
            UnsupportedOperationError: an operation or dtype that no unit has; names it and the user's line.
        """
        from primitives.fpga.cycles.simulated_units import GemmUnit
        from primitives.learner.fpga.jobs import job_of
        from primitives.learner.fpga.programs import INPUT_DTYPES, OPERATIONS

        for graph in graphs.values():
            require_supported(
                graph, "fpga", kinds=NODE_KINDS, operations=tuple(OPERATIONS), dtypes=INPUT_DTYPES
            )
        super().__init__(graphs)
        self.not_finite = 0
        self.clock_hz = DEVICES[device]
        self._node_cycles: dict[str, list[NodeCycles]] = {}
        self._steps = dict.fromkeys(graphs, 0)
        self._core = GemmUnit(side=side)
        self._jobs = {
            id(node): job_of(node, [graph.buffers[v.buffer].dtype for v in node.inputs], self._core, exact)
            for graph in graphs.values()
            for node in graph.nodes
        }

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One gradient step."""
        outputs = super().step(variant, inputs)
        self._steps[variant] += 1
        return outputs

    @property
    def cycles(self) -> int:
        """Clock cycles of all steps so far."""
        return sum(count * self.step_cycles(variant) for variant, count in self._steps.items() if count)

    def _execute(self, node: Node, inputs: list[Array]) -> list[Array]:
        outputs, not_finite = self._jobs[id(node)].execute(inputs)
        self.not_finite += not_finite
        return outputs

    def node_cycles(self, variant: str) -> list[NodeCycles]:
        """Each node of a variant's step with its cycles, in order; sizes that are new are simulated."""
        if variant in self._node_cycles:
            return self._node_cycles[variant]
        rows = []
        for node in self.graphs[variant].nodes:
            job = self._jobs[id(node)]
            shapes = tuple(view.shape for view in node.inputs or node.outputs)
            rows.append(NodeCycles(job.unit, node.kind, shapes, job.cycles()))
        self._node_cycles[variant] = rows
        return rows

    def step_cycles(self, variant: str) -> int:
        """Clock cycles of one gradient step: the units' sum, as they work one after another."""
        return sum(row.cycles for row in self.node_cycles(variant))


compile_graphs = FpgaExecutable


def create(
    algorithm: Algorithm, *, device: str = HOST, batch_size: int, seed: int = 0, **options: Any
) -> Learner:
    """A learner on the simulated FPGA; see `primitives.learner.create`.

    Args:
        device: one of `DEVICES`; the first where none is named.
        options: `side` and `exact` of `FpgaExecutable`.

    Raises:
        ValueError: there is no such device.
        UnsupportedOperationError: an operation that the FPGA has no unit for.
    """
    from primitives.learner.graph_learner import GraphLearner

    checks.one_of("device", device, (*DEVICES, HOST))
    device = next(iter(DEVICES)) if device == HOST else device
    return GraphLearner(
        algorithm,
        lambda graphs: FpgaExecutable(graphs, device=device, **options),
        backend="fpga",
        device=device,
        batch_size=batch_size,
        seed=seed,
    )
