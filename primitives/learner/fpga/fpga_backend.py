"""The learner on a simulated FPGA: the step graph on the units of `primitives.fpga`, bit and cycle accurate.

A systolic core computes every matrix product on integers: operands are blocks of up to 32 bits with one exponent
each (`primitives.fpga.vector.block_fixed_point`), and sums are exact in 64 bits. Stream and reduction units
do the rest on float32 numbers, one word of 16 numbers per cycle (`jobs` has the table). The numbers come from
the golden models, which the RTL's tests compare with the RTL bit by bit. With `exact=True` the operands of
every product go through the simulated RTL itself.

The cycles of a step depend only on its shapes: `step_cycles` looks each distinct size up in the table of cycles.

In MAP (Fig. 3) every layer has its own tensor unit. That design, "pipeline" (`pipeline_executable`), runs DQN and DDPG
on fully connected layers. By default a learner has the design with fewer cycles (`design_of`). For small networks that
is the pipeline; with wide layers a pipeline that fits the device is slower than the core.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.fpga.cycles.gemm import best_dataflow, core_cycles
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.gemm.plan import GemmShape
from placerl.primitives.graph.executable import Array, require_supported
from placerl.primitives.graph.graph import Graph, Node
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner.base import Learner
from placerl.primitives.learner.fpga import LANES, pipeline
from placerl.primitives.learner.fpga.pipeline_executable import PipelineExecutable

if TYPE_CHECKING:
    from placerl.primitives.fpga.cycles.simulated_units import GemmUnit
    from placerl.primitives.learner.fpga.jobs import Job

SIMULATED = True
MODELLED = True  # the units of `MODELLED_UNITS` take part in every gradient step
DEVICES = catalogue.clocks_hz()
DEFAULT_SIDE = 16
HOST = "cpu"  # the default device of `learner.create`: the simulation runs there
CORE, PIPELINE = "core", "pipeline"
"""The hardware designs of a learner: one systolic core, as PPO's, or MAP's pipeline with units for every layer."""
NODE_KINDS = (
    *("elementwise", "matmul", "reduce", "argreduce"),
    *("gather", "scatter_add", "im2col", "col2im"),
)


def unavailable_reason() -> str:
    """Return why the hardware's cycles cannot be had here; empty if they can."""
    from placerl.primitives.fpga.cycles import timed_block

    return timed_block.unavailable_reason()


MODELLED_UNITS = ("stream", "reduction")
"""Units whose cycles are `modelled`: a formula gives the words and the latency that the simulated sequencer counts."""


@dataclass(frozen=True)
class NodeCycles:
    """The clock cycles of one node of the step graph.

    Attributes:
        unit: the unit that runs the node: "core", "stream", "reduction" or "layout".
        kind: kind of the node.
        shapes: shapes of its inputs, or of its outputs if it has no inputs.
        cycles: clock cycles: simulated, or modelled for `MODELLED_UNITS`.
    """

    unit: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    cycles: int


class FpgaExecutable(ReferenceExecutable):
    """Runs the step graph with the numbers that the FPGA would compute, and counts the FPGA's clock cycles.

    Attributes:
        not_finite: number of values so far that were not finite at the core's or a reduction's input, and became
            0.
        clock_hz: assumed clock frequency.
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
            device: one of `DEVICES`.
            side: P of the systolic core: 16 is PPO's design for MuJoCo on the U200 (PPO 5.2).
            exact: whether every product's operands go through the simulated RTL, which is thousands of times
                slower.

        Raises:
            UnsupportedOperationError: no unit has an operation or dtype; the message names it and the user's
                line.
        """
        from placerl.primitives.fpga.cycles.simulated_units import GemmUnit
        from placerl.primitives.learner.fpga.programs import INPUT_DTYPES, OPERATIONS

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
            key: job for graph in graphs.values() for key, job in _jobs(graph, self._core, exact).items()
        }

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step, add its clock cycles to `cycles`, and return copies of the graph's outputs by name."""
        outputs = super().step(variant, inputs)
        self._steps[variant] += 1
        return outputs

    @property
    def cycles(self) -> int:
        """The clock cycles of all gradient steps so far."""
        return sum(count * self.step_cycles(variant) for variant, count in self._steps.items() if count)

    def _execute(self, node: Node, inputs: list[Array]) -> list[Array]:
        outputs, not_finite = self._jobs[id(node)].execute(inputs)
        self.not_finite += not_finite
        return outputs

    def node_cycles(self, variant: str) -> list[NodeCycles]:
        """Return the clock cycles of each node of a step graph, in order.

        Raises:
            MissingCyclesError: the table of cycles lacks the size of a node.
        """
        if variant not in self._node_cycles:
            self._node_cycles[variant] = _counted(self.graphs[variant], self._jobs)
        return self._node_cycles[variant]

    def step_cycles(self, variant: str) -> int:
        """Return the clock cycles of one gradient step: the sum over the units, which work one after another."""
        return sum(row.cycles for row in self.node_cycles(variant))


compile_graphs = FpgaExecutable


def _jobs(graph: Graph, core: "GemmUnit", exact: bool) -> dict[int, "Job"]:
    """Return what each node of a graph does on its unit, by the node's identity."""
    from placerl.primitives.learner.fpga.jobs import job_of

    return {
        id(node): job_of(node, [graph.buffers[v.buffer].dtype for v in node.inputs], core, exact)
        for node in graph.nodes
    }


def _counted(graph: Graph, jobs: Mapping[int, "Job"]) -> list[NodeCycles]:
    rows = []
    for node in graph.nodes:
        job = jobs[id(node)]
        shapes = tuple(view.shape for view in node.inputs or node.outputs)
        rows.append(NodeCycles(job.unit, node.kind, shapes, job.cycles()))
    return rows


def node_cycles(graph: Graph, side: int = DEFAULT_SIDE) -> list[NodeCycles]:
    """Return the clock cycles of each node of a step graph on the systolic core, in order, without its state.

    Raises:
        MissingCyclesError: the table of cycles lacks the size of a node.
    """
    from placerl.primitives.fpga.cycles.simulated_units import GemmUnit

    return _counted(graph, _jobs(graph, GemmUnit(side=side), exact=False))


def design_of(algorithm: Algorithm, batch_size: int, device: str) -> str:
    """Return the hardware design that a learner has by default, "pipeline" or "core".

    It is MAP's pipeline, with units for every layer, if the pipeline runs the algorithm, fits the device, and takes
    fewer cycles per gradient step than the core, which computes one matrix product after another. Both numbers of
    cycles come from formulas.
    """
    from placerl.primitives.learner.graph_learner import step_graph

    if pipeline.refusal(algorithm):
        return CORE
    try:
        design = pipeline.best_design(algorithm, batch_size, catalogue.device(device))
    except ValueError:  # it does not fit the device
        return CORE
    graph = step_graph(algorithm, batch_size, algorithm.variants[0])
    return PIPELINE if design.formula_cycles < core_formula_cycles(graph) else CORE


def core_formula_cycles(graph: Graph, side: int = DEFAULT_SIDE) -> int:
    """Return the clock cycles of a gradient step on the systolic core, computed by formulas and not simulated.

    Products take the cycles of `core_cycles`; every other node takes one cycle per memory word of its largest array.
    """
    cycles = 0
    for node in graph.nodes:
        if node.kind == "matmul":
            *batch, rows, columns = node.outputs[0].shape
            shape = GemmShape(rows, node.inputs[0].shape[-1], columns)
            dataflow = best_dataflow(shape, side=side)
            cycles += prod(batch) * core_cycles(shape, side=side, dataflow=dataflow)
        else:
            cycles += -(-max(view.size for view in (*node.inputs, *node.outputs)) // LANES)
    return cycles


def check_device(device: str) -> None:
    """Raise ValueError unless the device is one of `DEVICES`, or the default."""
    checks.one_of("device", device, (*DEVICES, HOST))


def create(
    algorithm: Algorithm,
    *,
    device: str = HOST,
    batch_size: int,
    seed: int = 0,
    design: str | None = None,
    pipelines: int | None = None,
    side: int | None = None,
    exact: bool | None = None,
) -> Learner:
    """Create a learner on the simulated FPGA.

    Args:
        device: one of `DEVICES`; by default the first.
        design: "core" (a systolic array, one product after another) or "pipeline" (units for every layer, MAP Fig. 3);
            by default the pipeline with `pipelines`, the core with `side` or `exact`, and otherwise that of
            `design_of`.
        pipelines: number of pipelines, which divide a batch; by default that of the fastest design that fits.
        side: rows and columns of the systolic core, at least 1; by default `DEFAULT_SIDE`. Only for the core.
        exact: whether products go through the simulated RTL; by default not. Only for the core.

    Raises:
        ValueError: there is no such device or design, the pipeline does not run the algorithm or fit the device, or
            the systolic core should have several pipelines.
        UnsupportedOperationError: an operation that the FPGA has no unit for.
    """
    from placerl.primitives.learner.graph_learner import GraphLearner

    options: dict[str, Any] = {}
    if side is not None:
        checks.whole("side", side, 1)
        options["side"] = int(side)
    if exact is not None:
        checks.truth("exact", exact)
        options["exact"] = exact
    check_device(device)
    device = next(iter(DEVICES)) if device == HOST else device
    if design is None and pipelines is not None:
        design = PIPELINE
    elif design is None:
        design = CORE if options else design_of(algorithm, batch_size, device)
    checks.one_of("design", design, (CORE,) if options else (CORE, PIPELINE))
    if design == CORE and pipelines is not None:
        raise ValueError(f"pipelines: found {pipelines}; allowed: None with the design {CORE}")

    def compiled(graphs: Mapping[str, Graph]) -> ReferenceExecutable:
        if design == PIPELINE:
            return PipelineExecutable(
                graphs, algorithm, batch_size=batch_size, device=device, pipelines=pipelines
            )
        return FpgaExecutable(graphs, device=device, **options)

    return GraphLearner(
        algorithm,
        compiled,
        backend="fpga",
        device=device,
        batch_size=batch_size,
        seed=seed,
    )
