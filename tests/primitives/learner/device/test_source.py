"""The kernels that small networks do not reach, on host C++ and on OpenCL; and all of them compiled for CUDA."""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from placerl.primitives.device import Groups
from placerl.primitives.graph.graph import ARITY, COMPARISONS, Buffer, Graph, Instruction, Node, View
from placerl.primitives.learner import trace
from placerl.primitives.learner.device import source
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.graph_learner import step_graph
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import compile_cubin
from tests.primitives.learner.graph_cases import CASES, make

TILED = (70, 33, 131)
"""Rows, depth and columns of a product that fills no tile: 9,170 elements."""
DEEP = (6, source.DEEP + 6, 5)
"""Those of a product whose depth a group shares, in float32."""
TRAINED_ON = ("sm_80", "sm_90", "sm_120")


def products(state: Any, batch: Any) -> Any:
    """A step of products whose operands are as they are, or transposed."""
    made = {
        f"{one}{other}": (batch[one].mT if one == "t" else batch[one])
        @ (batch[other].mT if other == "u" else batch[other])
        for one in "at"
        for other in "bu"
    }
    return {"w": state["w"] + 1}, {**made, "many": batch["many"] @ batch["more"]}


def operands(dtype: torch.dtype, size: tuple[int, int, int] = TILED) -> dict[str, torch.Tensor]:
    rows, depth, columns = size
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "a": (rows, depth),
        "t": (depth, rows),
        "b": (depth, columns),
        "u": (columns, depth),
        "many": (3, rows, depth),
        "more": (3, depth, columns),
    }
    return {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()}


def product_graph(dtype: torch.dtype, size: tuple[int, int, int] = TILED) -> Graph:
    return trace(products, ({"w": torch.zeros(1)}, operands(dtype, size)))


def results(
    kind: str, graph: Graph, inputs: dict[str, torch.Tensor], *, is_gpu: bool = False
) -> dict[str, NDArray[Any]]:
    device = device_of(kind)
    device.is_gpu |= is_gpu
    executable = DeviceExecutable({"full": graph}, device)
    return executable.step("full", {f"batch/{name}": value.numpy() for name, value in inputs.items()})


def groups(graph: Graph, *, is_gpu: bool = False) -> list[int]:
    """The items of each group of the launches of whole groups."""
    launches = [one for node in graph.nodes for one in source.launches(node, graph.buffers, is_gpu=is_gpu)]
    return [prod(launch.size.items) for launch in launches if isinstance(launch.size, Groups)]


@every_kind_with_barriers
@pytest.mark.parametrize(
    ("size", "dtype"), [(TILED, torch.float32), (TILED, torch.float64), (DEEP, torch.float32)]
)
def test_products_by_groups(kind: str, size: tuple[int, int, int], dtype: torch.dtype) -> None:
    given, graph = operands(dtype, size), product_graph(dtype, size)
    is_gpu = size is DEEP
    assert groups(graph, is_gpu=is_gpu) == [256] * 5
    assert groups(graph) == ([] if is_gpu else [256] * 5)
    expected = products({"w": 0}, {name: value.double() for name, value in given.items()})[1]
    found = results(kind, graph, given, is_gpu=is_gpu)
    assert len(found) == 5
    for name, value in found.items():
        right = expected[name.rpartition("/")[2]].numpy()
        tolerance = 64 * torch.finfo(dtype).eps * np.abs(right).max()
        np.testing.assert_allclose(value, right, rtol=0, atol=tolerance, err_msg=name)


@every_kind_with_barriers
def test_a_product_a_little_less_deep_than_a_tile(kind: str) -> None:
    """Its kernel ended Intel's compiler: the twelve numbers of SAC's policy for six actions, by its last layer."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"a": (64, source.TILE_DEPTH - 4), "b": (source.TILE_DEPTH - 4, 256)}
    given = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    graph = trace(
        lambda state, batch: (state, {"c": batch["a"] @ batch["b"]}), ({"w": torch.zeros(1)}, given)
    )
    assert groups(graph) == [256]
    (found,) = results(kind, graph, given).values()
    np.testing.assert_allclose(found, (given["a"] @ given["b"]).numpy(), rtol=0, atol=1e-5)


@every_kind_with_barriers
@pytest.mark.parametrize("is_gpu", [False, True], ids=["", "gpu"])
def test_reductions_by_a_group(kind: str, is_gpu: bool) -> None:
    """Of 512 numbers or more, on a GPU from 1024 on by a larger one."""

    def step(state: Any, batch: Any) -> Any:
        wide, short = batch["x"], batch["x"][:, :511]
        return {"w": state["w"] + 1}, (
            wide.sum(1),
            wide.amax(1),
            wide.amin(1),
            short.sum(1),
            wide[:, :512].sum(1),
        )

    x = torch.randn((5, 2000), generator=torch.Generator().manual_seed(0))
    graph = trace(step, ({"w": torch.zeros(1)}, {"x": x}))
    assert groups(graph, is_gpu=is_gpu) == [256 if is_gpu else 64] * 3 + [64]
    expected = step({"w": 0}, {"x": x.double()})[1]
    for found, right in zip(results(kind, graph, {"x": x}, is_gpu=is_gpu).values(), expected, strict=True):
        np.testing.assert_allclose(found, right.numpy(), rtol=0, atol=1e-5 * np.abs(right.numpy()).max())


@every_kind_with_barriers
def test_whole_numbers(kind: str) -> None:
    def step(state: Any, batch: Any) -> Any:
        x = batch["x"]
        return {"w": state["w"] + 1}, (
            torch.remainder(x, 3),
            torch.remainder(x, -3),
            x.abs(),
            x.sign(),
            x.maximum(-x),
            x.amax(),
            x.amin(),
            (x + 9).to(torch.uint8).amin(),
            torch.remainder((x + 7).to(torch.uint8), 3),
            x.floor(),
        )

    x = torch.arange(-7, 8)
    graph = trace(step, ({"w": torch.zeros(1)}, {"x": x}))
    for found, right in zip(
        results(kind, graph, {"x": x}).values(), step({"w": 0}, {"x": x})[1], strict=True
    ):
        assert found.tolist() == right.tolist()


@every_kind_with_barriers
def test_the_remainder_is_numpy_s_for_large_quotients_and_infinities_too(kind: str) -> None:
    x = torch.tensor([0, 3, -3, 5.5, -5.5, 1e6, -1e6])

    def step(state: Any, batch: Any) -> Any:
        divisors = (0.7, -0.7, 3, torch.inf, -torch.inf)
        return {"w": state["w"] + 1}, tuple(torch.remainder(batch["x"], divisor) for divisor in divisors)

    graph = trace(step, ({"w": torch.zeros(1)}, {"x": x}))
    for found, divisor in zip(
        results(kind, graph, {"x": x}).values(), (0.7, -0.7, 3, np.inf, -np.inf), strict=True
    ):
        np.testing.assert_array_equal(found, np.remainder(x.numpy(), np.float32(divisor)))


@every_kind_with_barriers
def test_negative_indices_count_from_the_end(kind: str) -> None:
    def step(state: Any, batch: Any) -> Any:
        x, i = batch["x"], batch["i"]
        return {"w": state["w"] + 1}, (x[i], torch.zeros(4, 3).index_put((i,), x, accumulate=True))

    inputs = {"x": torch.arange(12.0).reshape(4, 3), "i": torch.tensor([-1, 0, 3, -4])}
    graph = trace(step, ({"w": torch.zeros(1)}, inputs))
    for found, right in zip(results(kind, graph, inputs).values(), step({"w": 0}, inputs)[1], strict=True):
        np.testing.assert_array_equal(found, right.numpy())


PICKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "take": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter_add": lambda x, i: torch.zeros(4, 3).index_put((i,), x, accumulate=True),
}


@every_kind_with_barriers
@pytest.mark.parametrize("kind_of_node", PICKS)
def test_an_index_out_of_range_is_an_error_of_its_step(kind: str, kind_of_node: str) -> None:
    pick = PICKS[kind_of_node]
    x, i = torch.arange(12.0).reshape(4, 3), torch.tensor([3, 0, 2, 1])
    example = {"w": torch.zeros(1)}, {"x": x, "i": i}
    graph = trace(lambda state, batch: (state, pick(batch["x"], batch["i"])), example)
    assert kind_of_node in {node.kind for node in graph.nodes}
    executable = DeviceExecutable({"full": graph}, device_of(kind))
    for wrong in (4, -5, 2**40):
        indices = np.array([3, 0, wrong, 1])
        with pytest.raises(IndexError, match=rf"^index: found {wrong}; allowed: -4 to 3$"):
            executable.step("full", {"batch/x": x.numpy(), "batch/i": indices})
        (found,) = executable.step("full", {"batch/x": x.numpy(), "batch/i": i.numpy()}).values()
        np.testing.assert_array_equal(found, pick(x, i).numpy())
    assert not executable.overflowed()


def every_kind_of_node() -> Graph:
    """A step with the kinds that the algorithms' small networks lack."""

    def step(state: Any, batch: Any) -> Any:
        def loss(weight: torch.Tensor) -> torch.Tensor:
            hidden = functional.conv2d(batch["image"], weight, padding=1)
            return (functional.conv2d(hidden, weight[:, :2]) ** 2).mean()

        best = batch["image"].flatten(1).argmax(1)
        taken = batch["image"].index_select(0, best % 2)
        return {"w": state["w"] - torch.func.grad(loss)(state["w"])}, (best, taken)

    return trace(step, ({"w": torch.zeros(2, 2, 3, 3)}, {"image": torch.zeros(2, 2, 6, 6)}))


def every_operation(dtype: str) -> Graph:
    """A node of all scalar operations of a floating-point type."""
    program: list[Instruction] = []
    for name in source.OPERATIONS:
        kind = "bool" if name in COMPARISONS or name.startswith("logical") else dtype
        program.append(Instruction(name, (0,) * ARITY[name], kind, 0.5 if name == "constant" else None))
    buffers = tuple(Buffer(name, (7,), dtype, "temporary") for name in "xy")
    views = [View(i, (7,), (1,)) for i in range(2)]
    node = Node("elementwise", (views[0],), (views[1],), tuple(program), (len(program),))
    return Graph(buffers, (node,), {})


@cache
def every_kernel() -> tuple[dict[str, str], str]:
    """The names of all kernels and their source, as `source.named` returns them."""
    graphs = [step_graph(make(name, torch.float32), 24, variant) for name, variant in CASES]
    graphs += [product_graph(torch.float32, size) for size in (TILED, DEEP)] + [every_kind_of_node()]
    assert {node.kind for graph in graphs for node in graph.nodes} == {*source.KINDS}
    graphs += [every_operation("float32"), every_operation("float64")]
    return source.named(
        one
        for graph in graphs
        for node in graph.nodes
        for one in source.launches(node, graph.buffers, is_gpu=True)
    )


@pytest.mark.parametrize("architecture", TRAINED_ON)
def test_every_kernel_compiles_for_cuda(architecture: str) -> None:
    names, text = every_kernel()
    assert len(names) > 100
    cubin = compile_cubin(text, architecture, flush_subnormals=True)
    assert all(f".text.{name}\0".encode() in cubin for name in names.values())


def test_equal_kernels_are_compiled_once() -> None:
    graph = step_graph(make(*CASES[0][:1], torch.float32), 24, CASES[0][1])
    launches = [one for node in graph.nodes for one in source.launches(node, graph.buffers)]
    names, text = source.named([*launches, *launches])
    assert len(names) == text.count("KERNEL(") < len(launches)
    assert source.named(launches) == (names, text)
