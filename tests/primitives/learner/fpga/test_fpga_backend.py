"""What the FPGA learner promises beyond the conformance suites of `test_graph_conformance.py`."""

from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from placerl.primitives import learner
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner import UnsupportedOperationError, trace
from placerl.primitives.learner.fpga import LANES, fpga_backend
from placerl.primitives.learner.fpga.fpga_backend import FpgaExecutable
from placerl.primitives.learner.fpga.pipeline_executable import PipelineExecutable
from placerl.primitives.learner.graph_learner import step_graph
from tests.primitives.learner.graph_cases import make

if reason := fpga_backend.unavailable_reason():
    pytest.skip(reason, allow_module_level=True)

from placerl.primitives.fpga.vector.stream_unit import StreamUnit
from placerl.primitives.learner.fpga.programs import stream_program
from tests.primitives.fpga.interpreter import interpreted


def graph_of(function: Any, *examples: Tensor) -> Graph:
    """The graph of a function of tensors, named x0, x1, ..."""

    def step(state: dict[str, Tensor], batch: dict[str, Tensor]) -> Any:
        return state, function(*batch.values())

    return trace(step, ({}, {f"x{i}": example for i, example in enumerate(examples)}))


def outputs_of(executable: ReferenceExecutable, *inputs: Tensor) -> dict[str, np.ndarray]:
    return executable.step("full", {f"batch/x{i}": value.numpy() for i, value in enumerate(inputs)})


def test_an_operation_that_the_fpga_lacks_is_an_error_with_its_name() -> None:
    graph = graph_of(lambda x: torch.sin(x), torch.zeros(3))
    with pytest.raises(
        UnsupportedOperationError, match=r"sin at .*test_fpga_backend.py:\d+: backend 'fpga' has no sin"
    ):
        FpgaExecutable({"full": graph})


def test_float64_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="float64"):
        FpgaExecutable({"full": step_graph(make("ddpg", torch.float64), 8, "full")})


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="device: found 'u9'"):
        learner.create(make("ddpg", torch.float32), backend="fpga", device="u9", batch_size=8)


def logic(a: Tensor, b: Tensor) -> Tensor:
    both = (a > b) & ~(a == 0) | (b != b.abs())
    return torch.where(both, a, -b) + both * torch.sign(a) + (both == (a <= 0)).float()


def pixels(image: Tensor, index: Tensor) -> Tensor:
    scaled = image / 255.0
    taken = scaled.gather(1, index)
    return torch.zeros_like(scaled).scatter_add(1, index, taken) + scaled.argmax(1, keepdim=True)


def test_truth_values_and_integers_are_those_of_the_reference() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn((2, 6, 5), generator=generator).round(decimals=1)
    image = torch.randint(0, 256, (6, 5), generator=generator, dtype=torch.uint8)
    index = torch.randint(0, 5, (6, 2), generator=generator)
    for function, inputs in ((logic, (a, b)), (pixels, (image, index))):
        graph = graph_of(function, *inputs)
        found = outputs_of(FpgaExecutable({"full": graph}), *inputs)
        expected = outputs_of(ReferenceExecutable({"full": graph}), *inputs)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_numbers_that_are_not_finite_are_counted() -> None:
    graph = graph_of(lambda a, b: a @ b, torch.zeros(2, 3), torch.zeros(3, 2))
    executable = FpgaExecutable({"full": graph})
    broken = torch.ones(2, 3)
    broken[0, 0] = torch.nan
    outputs_of(executable, broken, torch.ones(3, 2))
    assert executable.not_finite == 1


def test_the_weight_update_in_rtl_gives_the_bits_that_the_learner_computes_with() -> None:
    graph = step_graph(make("ddpg", torch.float32), 8, "full")
    updates = [node for node in graph.nodes if sum(i.op == "sqrt" for i in node.program) == 1]
    node = max(updates, key=lambda node: node.outputs[0].size)  # Adam and the target of one weight matrix
    program = stream_program(node, [graph.buffers[view.buffer].dtype for view in node.inputs])
    count = 20
    inputs = np.random.default_rng(0).uniform(0.01, 1, (len(node.inputs), count)).astype(np.float32)
    run = interpreted(StreamUnit(program)).run(
        {"inputs": inputs.T.view(np.uint32).copy()}, {"results": count}
    )
    expected = np.stack([np.broadcast_to(x, (count,)) for x in program.golden(list(inputs))])
    np.testing.assert_array_equal(run.outputs["results"], expected.T.copy().view(np.uint32))
    assert run.cycles == count + program.latency


def counted(**variants: list[SimpleNamespace]) -> FpgaExecutable:
    """An executable of made-up nodes: each tells its cycles once, as simulating it again would take long."""
    made = object.__new__(FpgaExecutable)
    made.graphs = {name: SimpleNamespace(nodes=nodes) for name, nodes in variants.items()}
    made._node_cycles = {}
    made._steps = dict.fromkeys(variants, 0)
    made._jobs = {
        id(node): SimpleNamespace(unit=node.unit, cycles=iter([node.cycles]).__next__)
        for nodes in variants.values()
        for node in nodes
    }
    made.not_finite = 0
    return made


def node(unit: str, cycles: int, inputs: tuple = ((2, 3),), outputs: tuple = ((4,),)) -> SimpleNamespace:
    views = {
        name: [SimpleNamespace(shape=shape) for shape in shapes]
        for name, shapes in (("inputs", inputs), ("outputs", outputs))
    }
    return SimpleNamespace(unit=unit, kind=f"of {unit}", cycles=cycles, **views)


def test_a_node_has_the_shapes_of_its_inputs_or_of_its_outputs_where_it_has_none() -> None:
    executable = counted(full=[node("core", 7, ((2, 3), (3, 4))), node("stream", 5, (), ((4, 4),))])
    expected = [
        fpga_backend.NodeCycles("core", "of core", ((2, 3), (3, 4)), 7),
        fpga_backend.NodeCycles("stream", "of stream", ((4, 4),), 5),
    ]
    assert executable.node_cycles("full") == expected
    assert executable.node_cycles("full") == expected, "each is simulated once"
    assert executable.step_cycles("full") == 12


def test_cycles_are_those_of_every_step_of_every_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceExecutable, "step", lambda self, variant, inputs: {"variant": variant})
    executable = counted(full=[node("core", 7)], critic=[node("core", 100)], never=[node("core", 10_000)])
    assert executable.cycles == 0
    for variant in ("full", "critic", "full"):
        assert executable.step(variant, {}) == {"variant": variant}
    assert executable.cycles == 7 + 100 + 7
    assert "never" not in executable._node_cycles, "what no step ran is not simulated"


def test_numbers_that_are_not_finite_add_up_over_nodes() -> None:
    executable = counted(full=[node("core", 1)])
    executable._jobs = {id(executable): SimpleNamespace(execute=lambda inputs: ([inputs[0] + 1], 3))}
    for total in (3, 6):
        assert executable._execute(executable, [1]) == [2]
        assert executable.not_finite == total


def test_the_first_device_stands_for_the_host_and_options_reach_the_core() -> None:
    trainee = learner.create(make("ddpg", torch.float32), backend="fpga", batch_size=8, design="core")
    assert (trainee.device, trainee.executable.clock_hz) == ("u200", 285e6)
    other = learner.create(make("ddpg", torch.float32), backend="fpga", device="u50", batch_size=8, side=8)
    assert (other.device, other.executable.clock_hz) == ("u50", fpga_backend.DEVICES["u50"])
    assert (trainee.executable._core.side, other.executable._core.side) == (16, 8)
    assert trainee.executable.not_finite == trainee.executable.cycles == 0


@pytest.mark.parametrize("name", ["dqn", "ddpg", "ppo"])
def test_a_formula_gives_cycles_of_every_step(name: str) -> None:
    trainee = learner.create(make(name, torch.float32), backend="fpga", batch_size=8, design="core")
    units = [
        {trainee.executable._jobs[id(node)].unit for node in graph.nodes}
        for graph in trainee.executable.graphs.values()
    ]
    assert all(found & set(fpga_backend.MODELLED_UNITS) for found in units)
    assert fpga_backend.MODELLED


def test_made_without_a_device_or_a_seed_it_has_those_of_every_backend() -> None:
    here, everywhere = (signature(made).parameters for made in (fpga_backend.create, learner.create))
    for name in ("device", "seed"):
        assert here[name].default == everywhere[name].default


def test_it_says_that_it_is_simulated_and_how_wide_its_units_are() -> None:
    """PPO's core for MuJoCo on the same board (PPO VI), and a memory word as wide."""
    assert fpga_backend.SIMULATED
    assert fpga_backend.DEFAULT_SIDE == LANES == 16


def test_a_learner_has_the_design_with_fewer_cycles_by_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    ddpg, sac = make("ddpg", torch.float32), make("sac", torch.float32)
    design = fpga_backend.pipeline.best_design(ddpg, 8, fpga_backend.catalogue.device("u200"))
    for core, expected in ((design.formula_cycles + 1, "pipeline"), (design.formula_cycles, "core")):
        monkeypatch.setattr(fpga_backend, "core_formula_cycles", lambda graph, cycles=core: cycles)
        assert fpga_backend.design_of(ddpg, 8, "u200") == expected
        trainee = learner.create(ddpg, backend="fpga", batch_size=8)
        assert isinstance(trainee.executable, FpgaExecutable) == (expected == "core")
    monkeypatch.setattr(fpga_backend, "core_formula_cycles", lambda graph: 10**9)
    assert fpga_backend.design_of(sac, 8, "u200") == "core", "the pipeline does not run it"

    def too_small(*_: object) -> None:
        raise ValueError("device: too small")

    monkeypatch.setattr(fpga_backend.pipeline, "best_design", too_small)
    assert fpga_backend.design_of(ddpg, 8, "u200") == "core"


def test_options_of_the_core_choose_the_core_and_exclude_the_pipeline() -> None:
    ddpg = make("ddpg", torch.float32)
    trainee = learner.create(ddpg, backend="fpga", batch_size=8, side=8)
    assert isinstance(trainee.executable, FpgaExecutable)
    for options, allowed in (
        ({"design": "pipeline", "side": 8}, "core"),
        ({"design": "cores"}, "core, pipeline"),
    ):
        with pytest.raises(ValueError, match=f"design: found .*; allowed: {allowed}$"):
            learner.create(ddpg, backend="fpga", batch_size=8, **options)


def test_a_learner_has_as_many_pipelines_as_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    ddpg = make("ddpg", torch.float32)
    monkeypatch.setattr(fpga_backend, "core_formula_cycles", lambda graph: 1)  # by itself it has the core
    trainee = learner.create(ddpg, backend="fpga", batch_size=8, pipelines=4)
    assert isinstance(trainee.executable, PipelineExecutable)
    assert trainee.executable.design.pipelines == 4
    for options, words in (
        ({"design": "core", "pipelines": 2}, "pipelines: found 2; allowed: None with the design core"),
        ({"side": 8, "pipelines": 2}, "design: found 'pipeline'; allowed: core"),
        ({"pipelines": 3}, "pipelines: found 3; allowed: 1, 2, 4, 8"),
    ):
        with pytest.raises(ValueError, match=words):
            learner.create(ddpg, backend="fpga", batch_size=8, **options)


def test_a_step_of_the_core_by_formulas_is_its_products_and_a_word_a_cycle() -> None:
    graph = graph_of(lambda a, b: torch.relu(a @ b), torch.zeros(20, 3), torch.zeros(3, 40))
    dataflow = fpga_backend.best_dataflow(shape := fpga_backend.GemmShape(20, 3, 40), side=16)
    product = fpga_backend.core_cycles(shape, side=16, dataflow=dataflow)
    assert fpga_backend.core_formula_cycles(graph) == product + 800 // LANES
