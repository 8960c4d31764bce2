"""The native backend's own: any number of threads gives the same bits and counts, no node is left out, none is refused
without its name."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import _native, algorithms
from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.graph.graph import Graph, UnsupportedOperationError
from placerl.primitives.graph.trace import trace
from placerl.primitives.learner.acting import acting_graph, exploring_graph
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.quantization import precision as formats
from placerl.primitives.quantization.fixed_point import Q
from placerl.primitives.quantization.native_backend import NativeFixedPointExecutable
from placerl.primitives.quantization.reference_backend import ReferenceFixedPointExecutable
from tests.primitives.quantization import cases

STEPS = 4
NATIVE: Any = _native.quantization


def image(kind: str) -> Algorithm:
    """An algorithm on small pictures."""
    return algorithms.create(
        kind,
        observation_shape=(2, 36, 36),
        action_size=3,
        action_kind="discrete",
        network={"kind": "nature_cnn"},
    )


def graphs_of(algorithm: Algorithm) -> dict[str, Graph]:
    return {variant: step_graph(algorithm, cases.BATCH_SIZE, variant) for variant in algorithm.variants}


def batch(algorithm: Algorithm, rng: np.random.Generator) -> dict[str, np.ndarray]:
    columns, kinds = cases.batch(algorithm, rng), algorithm.columns(cases.BATCH_SIZE)
    pixels = [name for name, (_, dtype) in kinds.items() if dtype == torch.uint8]
    return columns | {name: rng.integers(0, 256, kinds[name][0], np.uint8) for name in pixels}


def stepped(made: Any, algorithm: Algorithm) -> Iterator[Any]:
    """What steps give, and what they leave."""
    rng, generator = np.random.default_rng(5), torch.Generator().manual_seed(1)
    for name, leaf in tree.flatten(algorithm.initialise(generator)).items():
        made.write_state(f"state/{name}", leaf.numpy())
    precision = made.precision
    for step in range(STEPS):
        if precision.narrows and step == precision.delay:
            made.quantise()
        inputs = {f"batch/{name}": column for name, column in batch(algorithm, rng).items()}
        inputs["batch/weight"] = np.ones(cases.BATCH_SIZE, np.float32)
        for name, value in algorithm.draw(cases.BATCH_SIZE, generator).items():
            inputs[f"draws/{name}"] = value.numpy()
        yield made.step(algorithm.variant(step), inputs)
    yield {name: made.raw(name) for name in made.state_buffers}
    yield made.extremes
    yield made.saturated


def agree(one: Any, other: Any, algorithm: Algorithm) -> None:
    for first, second in zip(stepped(one, algorithm), stepped(other, algorithm), strict=True):
        np.testing.assert_equal(second, first)


@pytest.mark.parametrize("precision", cases.PRECISIONS)
@pytest.mark.parametrize("kind", cases.KINDS)
def test_any_number_of_threads_gives_the_same_bits_and_counts(kind: str, precision: str) -> None:
    algorithm = cases.algorithm(kind, (40, 70))
    graphs, held = graphs_of(algorithm), cases.PRECISIONS[precision]
    alone = list(stepped(NativeFixedPointExecutable(graphs, held), algorithm))
    for threads in (2, 3):
        shared = NativeFixedPointExecutable(graphs, held, threads=threads, part_ns=0)
        assert max(shared._executor.parts(shared._programs["full"])) == threads
        np.testing.assert_equal(list(stepped(shared, algorithm)), alone)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["dqn", "ppo"])
def test_convolutions_take_the_same_steps_as_the_definition(kind: str, threads: int) -> None:
    algorithm = image(kind)
    graphs, held = graphs_of(algorithm), cases.PRECISIONS["narrow everywhere"]
    agree(
        ReferenceFixedPointExecutable(graphs, held),
        NativeFixedPointExecutable(graphs, held, threads=threads, part_ns=0),
        algorithm,
    )


@pytest.mark.parametrize("kind", [*cases.KINDS, "dqn image", "ppo image"])
def test_every_node_of_every_algorithm_is_the_executors(kind: str) -> None:
    algorithm = image(kind.split()[0]) if kind.endswith("image") else cases.algorithm(kind)
    graphs = {**graphs_of(algorithm), "act": acting_graph(algorithm), "explore": exploring_graph(algorithm)}
    made = NativeFixedPointExecutable(graphs, formats.fixed_32())
    for variant, graph in made.graphs.items():
        assert len(made.profile(variant, 1)) == len(graph.nodes)


def both(
    step: Any, inputs: Sequence[np.ndarray], threads: int = 1
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What a function of arrays gives by the definition and by the native backend."""
    batch = {f"x{i}": torch.from_numpy(array) for i, array in enumerate(inputs)}
    graph = trace(lambda state, batch: (state, step(*batch.values())), (torch.zeros(()), batch))
    arrays = {f"batch/x{i}": array for i, array in enumerate(inputs)}
    made = (
        ReferenceFixedPointExecutable({"full": graph}, formats.fixed_32()),
        NativeFixedPointExecutable({"full": graph}, formats.fixed_32(), threads=threads, part_ns=0),
    )
    expected, found = (one.step("full", arrays) for one in made)
    assert made[1].saturated == made[0].saturated
    return expected, found


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
THREADS = st.sampled_from((1, 3))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("largest", [0.2, 0.3, 0.45, 1.0, 10.0, 3e4])
def test_a_product_of_an_array_with_itself(largest: float, threads: int) -> None:
    """Both sides read the same numbers, and the plan may give them other numbers of limbs."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-largest, largest, (20, 64)).astype(np.float32)
    expected, found = both(lambda x: [x @ x.T, x.T @ x, torch.relu(x @ x.T) @ x], [x], threads)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.data(), THREADS, st.integers(0, 99))
def test_reductions_and_where_their_extremes_are(
    shape: tuple[int, ...], data: Any, threads: int, seed: int
) -> None:
    x = (100 * np.random.default_rng(seed).standard_normal(shape)).round(1).astype(np.float32)
    axis = data.draw(st.integers(0, len(shape) - 1))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))

    def reduced(x: torch.Tensor) -> dict[str, torch.Tensor]:
        turned = x.permute(*reversed(range(x.ndim)))
        return {
            "sum": x.sum(axes),
            "max": torch.amax(x, axes),
            "min": torch.amin(x, axes),
            "which": x.argmax(axis),
            "least": turned.argmin(axis),
            "whole": x.sum(),
            "turned": turned.sum(axis),
        }

    np.testing.assert_equal(*both(reduced, [x], threads))


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.data(), THREADS, st.integers(0, 99))
def test_what_is_looked_up_and_what_is_added_there(
    shape: tuple[int, ...], data: Any, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = (9000 * rng.standard_normal(shape)).astype(np.float32)  # sums of some saturate
    axis = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, 6))
    index_shape = (*shape[:axis], count, *shape[axis + 1 :])
    index = rng.integers(0, shape[axis], index_shape)
    added = (9000 * rng.standard_normal(index_shape)).astype(np.float32)

    def moved(x: torch.Tensor, index: torch.Tensor, added: torch.Tensor) -> dict[str, torch.Tensor]:
        line = index[tuple(slice(None) if i == axis else 0 for i in range(len(shape)))]
        return {
            "gathered": x.gather(axis, index),
            "added": x.scatter_add(axis, index, added),
            "taken": x.index_select(axis, line),
            "turned": x.T.gather(len(shape) - 1 - axis, index.T) if len(shape) == 2 else x,
        }

    np.testing.assert_equal(*both(moved, [x, index, added], threads))


def test_errors_that_are_scattered_inside_a_network_are_added_in_their_own_format() -> None:
    """Their own format is that of gradients; other temporary numbers, such as zeros, are stored as activations."""
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.uniform(-1, 1, shape).astype(np.float32)
        for name, shape in {"v": (6, 4), "w": (3, 2)}.items()
    }
    inputs = {
        "x": rng.uniform(-1, 1, (5, 4)).astype(np.float32),
        "index": rng.integers(0, 6, (5, 2)),
        "start": np.zeros((6, 9), np.float32),
        "places": rng.integers(0, 9, (6, 4)),
    }

    def step(state: Any, batch: Any) -> Any:
        def loss(v: torch.Tensor) -> torch.Tensor:
            hidden = torch.tanh(batch["x"] @ v.T)
            return ((hidden.gather(1, batch["index"]) @ state["w"].T) ** 2).sum()

        return state, {"gradient": torch.func.grad(loss)(state["v"])}

    def mixed(state: Any, batch: Any) -> Any:
        gradient = step(state, batch)[1]["gradient"]
        return state, batch["start"].scatter_add(1, batch["places"], gradient)

    example = tuple(
        {name: torch.from_numpy(array) for name, array in held.items()} for held in (arrays, inputs)
    )
    backends: tuple[Any, ...] = (ReferenceFixedPointExecutable, NativeFixedPointExecutable)
    for backend in backends:
        made = backend({"full": trace(step, example)}, formats.fixed_32())
        for name, array in arrays.items():
            made.write_state(f"state/{name}", array)
        (found,) = made.step("full", {f"batch/{name}": array for name, array in inputs.items()}).values()
        np.testing.assert_allclose(found, step(*example)[1]["gradient"].numpy(), atol=1e-3)
        with pytest.raises(UnsupportedOperationError, match=r"scatter_add at .*Q\(32, 24\) to Q\(32, 16\)"):
            backend({"full": trace(mixed, example)}, formats.fixed_32())


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(3, 9), st.integers(3, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    THREADS,
    st.integers(0, 99),
)
def test_convolutions_of_every_size_and_their_gradients(
    shape: Any, kernel: Any, stride: Any, padding: Any, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    weight = rng.standard_normal((4, shape[1], *kernel)).astype(np.float32)

    def convolved(x: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        def total(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.conv2d(x, weight, stride=stride, padding=padding)
            return (y * y).sum()

        by_x, by_weight = torch.func.grad(total, argnums=(0, 1))(x, weight)
        y = torch.nn.functional.conv2d(x, weight, stride=stride, padding=padding)
        return {"y": y, "by x": by_x, "by weight": by_weight}

    np.testing.assert_equal(*both(convolved, [x, weight], threads))


def test_products_in_batches_and_whole_numbers_in_programs() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 5, 2))
    whole = rng.integers(-9, 9, (3, 4, 5))

    def step(a: torch.Tensor, b: torch.Tensor, whole: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "products": a @ b,
            "cut off": (a * 7).long() + 2 * whole,
            "flags": torch.where((a * 2).long().bool(), a, -a),
            "chosen": torch.where(whole > 3, whole, -whole).clamp(-2, 5),
            "total": whole.sum((0, 2)),
            "largest": whole.amax(1),
        }

    np.testing.assert_equal(*both(step, [a.astype(np.float32), b.astype(np.float32), whole]))


def test_what_the_backend_lacks_is_refused_by_its_name_and_line() -> None:
    graph = trace(
        lambda state, batch: (state, batch["x"] // 2),
        (torch.zeros(()), {"x": torch.arange(5)}),
    )
    with pytest.raises(UnsupportedOperationError, match=r"test_native_backend\.py.*fixed point"):
        NativeFixedPointExecutable({"full": graph}, formats.fixed_32())


RAW = st.integers(-(2**31), 2**31 - 1)
BITS = st.integers(2, 32)


@settings(deadline=None, max_examples=100)
@given(st.lists(RAW, min_size=1, max_size=20), BITS, BITS, st.data())
def test_what_is_moved_into_another_format_is_rounded_once_and_counted(
    values: list[int], bits: int, to_bits: int, data: Any
) -> None:
    source, target = (Q(n, data.draw(st.integers(0, n))) for n in (bits, to_bits))
    x = np.clip(np.array(values), source.lowest, source.highest).astype(np.int32)
    index = np.array(data.draw(st.lists(st.integers(0, len(x) - 1), max_size=9)), np.int64)
    y, total = np.zeros(len(index), np.int32), np.zeros(1, np.int32)
    places = source.fraction_bits - target.fraction_bits
    as_stored = (True, source == target, places, source.resolution, 2.0**target.fraction_bits,
                 target.lowest, target.highest)  # fmt: skip
    gather = NATIVE.Gather(
        [len(index)],
        (address(x), 0, [0]),
        1,
        len(x),
        (address(index), 4, [1]),
        (address(y), 0, [1]),
        as_stored,
    )
    gather.run()
    expected = target.rescale(x[index].astype(np.int64), source.fraction_bits)
    np.testing.assert_array_equal(y, expected.raw)
    assert gather.saturated == [expected.saturated]
    adds = NATIVE.Reduce(0, [], (address(x), 0, []), (address(total), 0, []), [len(x)], [1], as_stored)
    adds.run()
    expected = target.rescale(x.astype(np.int64).sum(keepdims=True), source.fraction_bits)
    np.testing.assert_array_equal(total, expected.raw)
    assert adds.saturated == [expected.saturated]


def test_an_index_out_of_range_is_refused() -> None:
    x, index, y = np.zeros(3, np.int32), np.array([3]), np.zeros(1, np.int32)
    as_stored = (True, True, 0, 1.0, 1.0, -(2**31), 2**31 - 1)
    gather = NATIVE.Gather(
        [1], (address(x), 0, [0]), 1, 3, (address(index), 4, [1]), (address(y), 0, [1]), as_stored
    )
    with pytest.raises(IndexError, match=r"^index: found 3; allowed: 0 \.\. 2"):
        gather.run()


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
