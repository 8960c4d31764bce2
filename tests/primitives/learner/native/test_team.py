"""The native learner on several threads: the same bits as on one, whatever is cut, and no trouble for its process."""

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import learner
from placerl.primitives.graph.graph import Buffer, Graph
from placerl.primitives.graph.lowering import Builder, Value
from placerl.primitives.graph.passes import finish
from placerl.primitives.learner import trace
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import NativeExecutable
from placerl.primitives.replay import ConcurrentReplay, LinearSchedule, Storage
from placerl.primitives.replay.storage import FieldSpec
from tests.limits import LIMIT_S
from tests.primitives.learner.graph_cases import CASES, make, named_leaves, random_batch, random_state
from tests.primitives.simd import USABLE

OWN_THREADS = Path("/proc/self/task")
THREADS = st.integers(2, 4)
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 128, 300, 331]))


def executable_of(graph: Graph, threads: int, simd: str = "") -> NativeExecutable:
    """The graph on so many threads, everything cut that can be."""
    return NativeExecutable({"full": graph}, simd=simd, threads=threads, part_ns=0)


def traced(step: Any, inputs: dict[str, np.ndarray]) -> Graph:
    example = {name: torch.from_numpy(value) for name, value in inputs.items()}
    return trace(lambda state, batch: (state, step(batch)), (torch.zeros(()), example))


def results(graph: Graph, inputs: dict[str, np.ndarray], threads: int) -> list[np.ndarray]:
    named = {f"batch/{name}": value for name, value in inputs.items()}
    return list(executable_of(graph, threads).step("full", named).values())


def parts(executable: NativeExecutable) -> list[int]:
    """How many threads share each operation."""
    found: list[int] = executable._executor.parts(executable._programs["full"])
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(USABLE),
    THREADS,
    st.integers(0, 3),
    *[SIZES] * 3,
    *[st.booleans()] * 2,
    st.sampled_from(["", "bias", "relu", "mask"]),
)
def test_products_of_every_shape_are_the_same_bits(
    simd: str,
    threads: int,
    batch: int,
    rows: int,
    columns: int,
    depth: int,
    turn_a: bool,
    turn_b: bool,
    after: str,
) -> None:
    rng = np.random.default_rng(rows * columns + depth)
    leading = (batch,) if batch else ()
    shapes = {
        "a": (*leading, depth, rows) if turn_a else (*leading, rows, depth),
        "b": (*leading, columns, depth) if turn_b else (*leading, depth, columns),
        "bias": (columns,),
        "other": (*leading, rows, columns),
    }
    arrays = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    builder = Builder()
    views = {
        name: builder.add_buffer(Buffer(name, shape, "float32", "input")) for name, shape in shapes.items()
    }
    turned = (0, 2, 1) if batch else (1, 0)
    product: Value = builder.matmul(
        views["a"].permute(turned) if turn_a else views["a"],
        views["b"].permute(turned) if turn_b else views["b"],
    )
    if after in ("bias", "relu"):
        product = builder.apply("add", [product, views["bias"]], "float32")
    if after == "relu":
        product = builder.apply("maximum", [product, 0], "float32")
    if after == "mask":
        hidden = builder.apply("le", [views["other"], 0], "bool")
        product = builder.apply("where", [hidden, 0, product], "float32")
    graph = finish(builder.buffers, builder.nodes, [], {"y": builder.materialised(product)})
    expected, found = (executable_of(graph, count, simd).step("full", arrays)["y"] for count in (1, threads))
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=15, deadline=None)
@given(THREADS, st.integers(1, 3000), st.integers(1, 40), st.booleans())
def test_what_is_no_product_is_the_same_bits(threads: int, rows: int, columns: int, turned: bool) -> None:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((columns, rows) if turned else (rows, columns), dtype=np.float32)
    inputs = {
        "x": x,
        "row": rng.standard_normal(columns, dtype=np.float32),
        "column": rng.standard_normal((rows, 1), dtype=np.float32),
        "index": rng.integers(columns, size=(rows, 1)),
        "flag": rng.random((rows, columns)) < 0.5,
    }

    def step(given: Any) -> Any:
        x = given["x"].T if turned else given["x"]
        mixed = torch.where(given["flag"], torch.tanh(x) * given["row"] + given["column"], x / 3)
        picked = x.gather(1, given["index"])
        spread = torch.zeros_like(x).scatter_add(1, given["index"], picked)
        both = torch.cat([mixed, spread], 1)
        return both, both.sum(0), both.sum(1), x.amax(0), x.amin(1), picked.sum(), mixed.argmax(1)

    graph = traced(step, inputs)
    for found, expected in zip(results(graph, inputs, threads), results(graph, inputs, 1), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_steps_of_every_algorithm_are_the_same_bits(name: str, variant: str, threads: int) -> None:
    algorithm, size = make(name, torch.float32), 150
    graph = step_graph(algorithm, size, variant)
    one, several = executable_of(graph, 1), executable_of(graph, threads)
    assert max(parts(one)) == 1
    assert max(parts(several)) == threads
    generator = torch.Generator().manual_seed(1)
    for leaf, value in named_leaves("state", random_state(algorithm, generator)).items():
        one.write_state(leaf, value)
        several.write_state(leaf, value)
    for _ in range(4):
        inputs = named_leaves("batch", random_batch(algorithm, size, generator))
        inputs |= named_leaves("draws", algorithm.draw(size, generator))
        expected, found = one.step("full", inputs), several.step("full", inputs)
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value)
        for leaf, value in one.state().items():
            np.testing.assert_array_equal(several.state()[leaf], value)


def test_small_operations_are_not_handed_out() -> None:
    graph = step_graph(make("ddpg", torch.float32), 32, "full")
    assert max(parts(NativeExecutable({"full": graph}, threads=4))) == 1
    assert max(parts(executable_of(graph, 4))) == 4


@pytest.mark.parametrize("threads", [0, -1, 65, True, 2.0, "2"])
def test_a_wrong_number_of_threads_is_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match=r"threads: found .*; allowed: an integer from 1 to 64"):
        learner.create(make("ddpg", torch.float32), backend="native", batch_size=8, threads=threads)


def test_an_error_in_any_thread_comes_out_and_the_next_step_works() -> None:
    inputs = {"x": np.ones((40, 5), np.float32), "i": np.zeros((40, 1), np.int64)}
    graph = traced(lambda batch: batch["x"].gather(1, batch["i"]), inputs)
    executable = executable_of(graph, 4)
    for row in (0, 15, 39):
        wrong = {name: value.copy() for name, value in inputs.items()}
        wrong["i"][row] = 7
        with pytest.raises(IndexError, match=r"found 7; allowed: 0 .. 4"):
            executable.step("full", {f"batch/{name}": value for name, value in wrong.items()})
        (found,) = executable.step(
            "full", {f"batch/{name}": value for name, value in inputs.items()}
        ).values()
        np.testing.assert_array_equal(found, np.ones((40, 1)))


def learner_and_batch(threads: int, size: int = 4000) -> tuple[Any, dict[str, np.ndarray]]:
    """A learner large enough for its operations to be shared, and a batch for it."""
    algorithm = make("ddpg", torch.float32)
    one = learner.create(algorithm, backend="native", batch_size=size, seed=3, threads=threads)
    generator = torch.Generator().manual_seed(0)
    batch = {name: value.numpy() for name, value in random_batch(algorithm, size, generator).items()}
    del batch["weight"]
    return one, batch


def test_a_learner_on_two_threads_learns_what_one_does() -> None:
    one, batch = learner_and_batch(1)
    two, _ = learner_and_batch(2)
    assert max(parts(two.executable)) == 2
    for _ in range(10):
        np.testing.assert_array_equal(two.step(batch).td_errors, one.step(batch).td_errors)
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(two.state_dict()[name], value)
    assert min(seconds for _, seconds in two.executable.profile("full", 2)) > 0


def test_fused_steps_may_have_threads() -> None:
    found = []
    for threads in (1, 3):
        one, batch = learner_and_batch(threads)
        fields = {name: FieldSpec(value.shape[1:], value.dtype) for name, value in batch.items()}
        replay = ConcurrentReplay(
            Storage(5000, fields), fanout=16, alpha=0.6, beta=LinearSchedule(0.4, 1.0, 100), epsilon=1e-6
        )
        replay.insert(batch)
        FusedSteps(replay, one).run(5, np.random.default_rng(0))
        found.append(one.state_dict())
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value)


def test_an_idle_learner_takes_no_time() -> None:
    """Its threads fall asleep, however late; one that waits at work stays runnable, however little it runs."""
    others = set(os.listdir(OWN_THREADS))
    one, batch = learner_and_batch(4)
    one.step(batch)
    own = set(os.listdir(OWN_THREADS)) - others
    assert len(own) >= 3
    deadline_s = time.monotonic() + LIMIT_S
    while any(state_of(thread) != "S" for thread in own):
        assert time.monotonic() < deadline_s, "a thread of an idle learner is at work"
        time.sleep(0.01)


def state_of(thread: str) -> str:
    """R where it runs or could, S where it sleeps (proc(5))."""
    return (OWN_THREADS / thread / "stat").read_text().rpartition(")")[2].split()[0]


def test_an_executable_can_go_on_in_a_forked_process_and_leave() -> None:
    one, batch = learner_and_batch(3)
    other, _ = learner_and_batch(3)
    one.step(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost is what is tried here
        child = os.fork()
    if child == 0:
        status = 1
        try:
            executable, inputs = one.executable, one._inputs(batch | one._weights(None))
            before = {name: value.copy() for name, value in executable.state().items()}
            executable.step(one.algorithm.variant(1), inputs)  # the learner itself refuses
            changed = any(np.any(before[name] != value) for name, value in executable.state().items())
            del other  # threads that are not here are not waited for
            status = 0 if changed else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    one.step(batch)
