"""What the C++ executor adds to the step graph: instruction sets, n steps in a call, matrices of every shape."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives import _native
from primitives.graph.graph import Buffer
from primitives.graph.lowering import Builder, Value
from primitives.graph.passes import finish
from primitives.learner import UnsupportedOperationError, trace
from primitives.learner.graph_learner import step_graph
from primitives.learner.native.executable import NativeExecutable
from tests.primitives.learner.graph_cases import make, named_leaves, random_batch, random_state

LEVELS = ["portable", "avx2", "avx512"]
USABLE = LEVELS[: LEVELS.index(_native.simd_level()) + 1]
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 128, 300, 331]))


def run_once(step: Any, inputs: dict[str, np.ndarray], simd: str) -> dict[str, np.ndarray]:
    example = {name: torch.from_numpy(value) for name, value in inputs.items()}
    graph = trace(lambda state, batch: (state, step(batch)), (torch.zeros(()), example))
    named = {f"batch/{name}": value for name, value in inputs.items()}
    return NativeExecutable({"full": graph}, simd=simd).step("full", named)


@pytest.mark.parametrize("simd", USABLE)
@settings(max_examples=60, deadline=None)
@given(
    SIZES,
    SIZES,
    SIZES,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "bias", "relu", "mask"]),
    st.integers(0, 99),
)
def test_products_of_every_shape(
    simd: str, rows: int, columns: int, depth: int, turn_a: bool, turn_b: bool, after: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((depth, rows) if turn_a else (rows, depth), dtype=np.float32)
    b = rng.standard_normal((columns, depth) if turn_b else (depth, columns), dtype=np.float32)
    bias, other = (
        rng.standard_normal(columns, dtype=np.float32),
        rng.standard_normal((rows, columns), dtype=np.float32),
    )

    arrays = {"a": a, "b": b, "bias": bias, "other": other}
    builder = Builder()
    views = {
        name: builder.add_buffer(Buffer(name, array.shape, "float32", "input"))
        for name, array in arrays.items()
    }
    left, right = (views["a"].permute((1, 0)) if turn_a else views["a"], views["b"])
    product: Value = builder.matmul(left, right.permute((1, 0)) if turn_b else right)
    expected = (a.T if turn_a else a).astype(np.float64) @ (b.T if turn_b else b).astype(np.float64)
    if after in ("bias", "relu"):
        product, expected = builder.apply("add", [product, views["bias"]], "float32"), expected + bias
    if after == "relu":
        product, expected = builder.apply("maximum", [product, 0], "float32"), np.maximum(expected, 0)
    if after == "mask":
        hidden = builder.apply("le", [views["other"], 0], "bool")
        product, expected = builder.apply("where", [hidden, 0, product], "float32"), expected * (other > 0)
    graph = finish(builder.buffers, builder.nodes, [], {"y": builder.materialised(product)})
    found = NativeExecutable({"full": graph}, simd=simd).step("full", arrays)["y"]
    np.testing.assert_allclose(found, expected, atol=8e-6 * depth**0.5, rtol=1e-5)


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize(("rows", "depth"), [(4099, 33), (515, 331), (1301, 130)])
@pytest.mark.parametrize("turn_b", [False, True])
def test_products_of_more_rows_than_a_block_has(simd: str, rows: int, depth: int, turn_b: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, depth), dtype=np.float32)
    b = rng.standard_normal((37, depth) if turn_b else (depth, 37), dtype=np.float32)
    bias = rng.standard_normal(37, dtype=np.float32)
    found = run_once(
        lambda batch: torch.relu(batch["a"] @ (batch["b"].T if turn_b else batch["b"]) + batch["bias"]),
        {"a": a, "b": b, "bias": bias},
        simd,
    )
    expected = np.maximum(a.astype(np.float64) @ (b.T if turn_b else b) + bias, 0)
    (product,) = found.values()
    np.testing.assert_allclose(product, expected, atol=8e-6 * depth**0.5, rtol=1e-5)


@pytest.mark.parametrize("simd", USABLE)
def test_functions_are_accurate_over_their_range_and_at_its_ends(simd: str) -> None:
    x = np.concatenate(
        [np.linspace(-100, 100, 4001), np.logspace(-38, 38, 500), -np.logspace(-38, 38, 500),
         [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45]]
    ).astype(np.float32)  # fmt: skip
    functions = (
        "exp",
        "log",
        "log1p",
        "tanh",
        "sigmoid",
        "sqrt",
        "expm1",
        "sin",
        "abs",
        "sign",
        "floor",
        "round",
    )
    example = torch.from_numpy(x)
    graph = trace(lambda state: (state, [getattr(torch, f)(state) for f in functions]), (example,))
    executable = NativeExecutable({"full": graph}, simd=simd)
    executable.write_state("state", x)  # inputs must be finite, the state need not be
    outputs = executable.step("full", {})
    for name, found in zip(functions, outputs.values(), strict=True):
        expected = getattr(torch, name)(example.double()).numpy()
        with np.errstate(over="ignore"):
            as_float32 = expected.astype(np.float32)
        tiny = np.abs(expected) < 1.2e-38
        close = np.isclose(found, expected, rtol=1e-6, atol=2e-7 if name == "log" else 1e-37)
        same = (found == as_float32) | (np.isnan(found) & np.isnan(expected))
        assert np.all(close | same | tiny), (name, x[~(close | same | tiny)])


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize("divisor", [3, -0.1, 255, 1e-30, 2e-38, 1e-38, 1e-45, 3e38, 0.0, np.inf, np.nan])
def test_division_by_one_number_is_accurate_over_its_range(simd: str, divisor: float) -> None:
    x = np.concatenate([np.logspace(-37, 38, 500), -np.logspace(-37, 38, 500), [0, np.inf, np.nan]])
    state = {"x": torch.from_numpy(x.astype(np.float32)), "divisor": torch.tensor(divisor)}
    graph = trace(lambda state: (state, state["x"] / state["divisor"]), (state,))
    executable = NativeExecutable({"full": graph}, simd=simd)
    for name, value in state.items():
        executable.write_state(f"state/{name}", value.numpy())
    (found,) = executable.step("full", {}).values()
    expected = (state["x"].double() / state["divisor"].double()).numpy()
    with np.errstate(over="ignore"):
        as_float32 = expected.astype(np.float32)
    tiny = np.abs(expected) < 1.2e-38
    assert np.all(np.isclose(found, as_float32, rtol=2e-7, atol=0, equal_nan=True) | tiny)
    assert np.all(np.abs(found[tiny]) < 1.3e-38)


@pytest.mark.parametrize("name", ["ddpg", "dqn"])
def test_n_steps_in_one_call_are_n_calls(name: str) -> None:
    algorithm = make(name, torch.float32)
    graph = step_graph(algorithm, 16, "full")
    one, many = NativeExecutable({"full": graph}), NativeExecutable({"full": graph})
    generator = torch.Generator().manual_seed(1)
    for leaf, value in named_leaves("state", random_state(algorithm, generator)).items():
        one.write_state(leaf, value)
        many.write_state(leaf, value)
    batches = [named_leaves("batch", random_batch(algorithm, 16, generator)) for _ in range(5)]
    single = [one.step("full", batch) for batch in batches]
    together = many.steps(["full"] * 5, {key: np.stack([b[key] for b in batches]) for key in batches[0]})
    for key, value in together.items():
        np.testing.assert_array_equal(value, np.stack([outputs[key] for outputs in single]))
    for leaf, value in one.state().items():
        np.testing.assert_array_equal(many.state()[leaf], value)


def test_many_steps_refuse_what_is_not_finite_and_change_nothing() -> None:
    algorithm = make("ddpg", torch.float32)
    executable = NativeExecutable({"full": step_graph(algorithm, 8, "full")})
    batch = named_leaves("batch", random_batch(algorithm, 8, torch.Generator().manual_seed(0)))
    inputs = {key: np.stack([value] * 3) for key, value in batch.items()}
    inputs["batch/reward"][2, 5] = np.inf
    before = {name: value.copy() for name, value in executable.state().items()}
    with pytest.raises(ValueError, match="batch/reward: found NaN or infinity"):
        executable.steps(["full"] * 3, inputs)
    with pytest.raises(ValueError, match=r"batch/reward: found \(3, 7\)"):
        executable.steps(["full"] * 3, {**inputs, "batch/reward": np.zeros((3, 7), np.float32)})
    for name, value in executable.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_an_index_out_of_range_is_an_error() -> None:
    with pytest.raises(IndexError, match=r"found 7; allowed: 0 .. 4"):
        run_once(
            lambda batch: batch["x"].gather(1, batch["i"]),
            {"x": np.zeros((3, 5), np.float32), "i": np.full((3, 1), 7)},
            "",
        )


def test_what_the_executor_lacks_is_an_error_that_names_it_and_the_line() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"test_executable.py:\d+.*float64"):
        run_once(lambda batch: batch["x"] + 1, {"x": np.zeros(3)}, "")
    with pytest.raises(UnsupportedOperationError, match=r"add to int64 at .*test_executable.py:\d+"):
        run_once(lambda batch: batch["i"] + 1, {"i": np.zeros(3, np.int64)}, "")
    with pytest.raises(ValueError, match="simd: found 'sse9'"):
        NativeExecutable({"full": step_graph(make("ddpg", torch.float32), 8, "full")}, simd="sse9")


def test_denormals_survive() -> None:
    """Flushing them to zero is a setting of the whole process, which a native extension must leave alone."""
    tiny = np.float32(1e-40)
    found = run_once(lambda batch: batch["x"] * 1.5, {"x": np.full(20, tiny)}, "")["output0"]
    np.testing.assert_array_equal(found, np.full(20, tiny * np.float32(1.5)))
    assert tiny * np.float32(0.5) > 0


def test_the_peak_that_is_measured_is_that_of_a_processor() -> None:
    # Less than is more than any core has; a busy machine may give little of one.
    assert 0 < _native.learner.peak_gflops(0.01, "portable") < 10_000
