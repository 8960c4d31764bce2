"""What the C++ executor adds to the step graph: instruction sets, n steps in a call, matrices of every shape."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import _native, learner
from placerl.primitives.graph.graph import Buffer
from placerl.primitives.graph.lowering import Builder, Value
from placerl.primitives.graph.passes import finish
from placerl.primitives.learner import UnsupportedOperationError, trace
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import PRODUCTS, NativeExecutable
from tests.primitives.learner.graph_cases import make, named_leaves, random_batch, random_state
from tests.primitives.simd import USABLE

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 128, 300, 331]))


def normal(x: torch.Tensor) -> torch.Tensor:
    """The numbers as a step reads them: those too small to be normal as zero of their sign."""
    smallest = torch.finfo(torch.float32).tiny
    return torch.where(x.abs() < smallest, 0 * x, x)


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
        expected = getattr(torch, name)(normal(example).double()).numpy()
        with np.errstate(over="ignore"):
            as_float32 = expected.astype(np.float32)
        tiny = np.abs(expected) < 1.2e-38
        close = np.isclose(found, expected, rtol=1e-6, atol=2e-7 if name == "log" else 1e-37)
        same = (found == as_float32) | (np.isnan(found) & np.isnan(expected))
        assert np.all(close | same | tiny), (name, x[~(close | same | tiny)])


@pytest.mark.parametrize("simd", USABLE)
def test_the_hyperbolic_tangent_is_odd_accurate_and_never_above_1(simd: str) -> None:
    x = np.concatenate([np.linspace(0, 12, 200_000), np.logspace(-37, 1, 50_000)]).astype(np.float32)
    found = run_once(
        lambda batch: {"of": torch.tanh(batch["x"]), "less": torch.tanh(-batch["x"])}, {"x": x}, simd
    )
    value, turned = (found[name] for name in sorted(found, key=lambda name: name.endswith("less")))
    np.testing.assert_array_equal(value, -turned)
    assert value.max() == 1.0
    exact = np.tanh(x.astype(np.float64))
    assert np.all(np.abs(value - exact) <= 4e-7 * exact)


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize("length", [*range(1, 20), 31, 32, 33, 63, 64, 65, 130])
def test_a_row_of_any_length_is_reduced_in_one_order(simd: str, length: int) -> None:
    """That order: 64 partial results, folded in halves. A short row leaves some of them empty."""
    x = np.random.default_rng(length).standard_normal((3, length), dtype=np.float32)
    chains = np.zeros((3, -(-length // 64) * 64), np.float32)
    chains[:, :length] = x
    expected = np.zeros((3, 64), np.float32)
    for part in np.split(chains, chains.shape[1] // 64, axis=1):
        expected += part
    while expected.shape[1] > 1:
        expected = expected[:, : expected.shape[1] // 2] + expected[:, expected.shape[1] // 2 :]
    found = run_once(lambda batch: {"sum": batch["x"].sum(1), "max": batch["x"].amax(1)}, {"x": x}, simd)
    for name, value in found.items():
        np.testing.assert_array_equal(value, x.max(1) if name.endswith("max") else expected[:, 0])


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_elements_are_picked_along_any_axis_of_any_layout(shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1), "axis")
    order = data.draw(st.permutations(range(len(shape))), "order of the dimensions in memory")
    count = data.draw(st.integers(1, 5), "indices along the axis")
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    sizes = [data.draw(st.integers(1, size), f"indices along dimension {i}") for i, size in enumerate(shape)]
    sizes[axis] = count
    index = rng.integers(0, shape[axis], sizes)
    inputs: dict[str, np.ndarray] = {
        "x": rng.standard_normal([shape[i] for i in order], dtype=np.float32),
        "index": index,
        "rows": rng.integers(0, shape[axis], count),
        "source": rng.standard_normal(index.shape, dtype=np.float32),
    }

    def picked(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x = batch["x"].permute([order.index(i) for i in range(len(shape))])
        return {
            "gathered": x.gather(axis, batch["index"]),
            "scattered": x.scatter_add(axis, batch["index"], batch["source"]),
            "taken": x.index_select(axis, batch["rows"]),
            "largest": x.argmax(axis),
            "least": x.argmin(axis, keepdim=True),
        }

    expected = picked({name: torch.from_numpy(value) for name, value in inputs.items()})
    found = run_once(picked, inputs, "")
    assert len(found) == len(expected)
    for name, value in expected.items():
        (same,) = (array for key, array in found.items() if key.endswith(name))
        np.testing.assert_array_equal(same, value.numpy())


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
    expected = (normal(state["x"]).double() / normal(state["divisor"]).double()).numpy()
    with np.errstate(over="ignore"):
        as_float32 = expected.astype(np.float32)
    tiny = np.abs(expected) < 1.2e-38
    assert np.all(np.isclose(found, as_float32, rtol=2e-7, atol=0, equal_nan=True) | tiny)
    assert np.all(np.abs(found[tiny]) < 1.3e-38)


@pytest.mark.parametrize("simd", USABLE)
def test_the_remainder_is_numpy_s_for_large_quotients_and_infinities_too(simd: str) -> None:
    x = np.array([0, 3, -3, 5.5, -5.5, 1e20, -1e20, np.inf, np.nan], np.float32)
    y = np.array([3, -3, 0.7, -0.7, np.inf, -np.inf, 0, np.nan], np.float32)
    arrays = dict(zip("xy", (array.ravel() for array in np.meshgrid(x, y)), strict=True))
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    graph = trace(lambda state: (state, torch.remainder(state["x"], state["y"])), (state,))
    executable = NativeExecutable({"full": graph}, simd=simd)
    for name, array in arrays.items():  # inputs must be finite, the state need not be
        executable.write_state(f"state/{name}", array)
    (found,) = executable.step("full", {}).values()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.remainder(arrays["x"], arrays["y"]))


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


@pytest.mark.parametrize("simd", USABLE)
def test_a_number_becomes_a_flag_of_0_or_1(simd: str) -> None:
    found = run_once(
        lambda batch: {
            "flags": batch["x"].bool().float(),
            "any": batch["x"].clamp(max=0).any().float(),
            "counted": batch["x"].bool().float().sum(),
        },
        {"x": np.array([0.5, -2, 0, -0.0, 3], np.float32)},
        simd,
    )
    values = {name.split("/")[-1]: value.tolist() for name, value in found.items()}
    assert values == {"flags": [1, 1, 0, 0, 1], "any": 1, "counted": 3}


def test_integers_that_a_type_does_not_hold_become_its_nearest_and_bytes_are_modulo_256() -> None:
    found = run_once(
        lambda batch: {"int": batch["i"].to(torch.int32), "byte": batch["i"].to(torch.uint8)},
        {"i": np.array([300, -1, 2**40, -(2**40), 2**63 - 1, -(2**63)])},
        "",
    )
    values = {name.split("/")[-1]: value.tolist() for name, value in found.items()}
    most, least = 2**31 - 1, -(2**31)
    assert values == {"int": [300, -1, most, least, most, least], "byte": [44, 255, 0, 0, 255, 0]}


@pytest.mark.parametrize("threads", [1, 3])
def test_integers_are_summed_exactly_and_equal_extremes_share_a_gradient(threads: int) -> None:
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.integers(0, 4, (40, 70)).astype(np.float32),
        "i": rng.integers(-(2**50), 2**50, (40, 70)),
    }

    def step(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, i = batch["x"], batch["i"]
        return {
            "flags": (x > 1).sum(),
            "flags of rows": (x > 1).sum(1),
            "rows": i.sum(1),
            "columns": i.sum(0, keepdim=True),
            "turned": i.T[::2].sum(0),
            "all": i.sum(),
            "gradient": torch.func.grad(lambda x: (x.amax(1) ** 2).sum() + (x.amin() + 1) ** 2)(x),
        }

    example = {name: torch.from_numpy(value) for name, value in inputs.items()}
    graph = trace(lambda state, batch: (state, step(batch)), (torch.zeros(()), example))
    executable = NativeExecutable({"full": graph}, threads=threads, part_ns=0)
    found = executable.step("full", {f"batch/{name}": value for name, value in inputs.items()})
    expected = step(example)
    assert len(found) == len(expected)
    for path, value in found.items():
        name = path.rpartition("/")[2]
        right = expected[name].numpy()
        assert (value.shape, value.dtype) == (right.shape, right.dtype), name
        np.testing.assert_allclose(value, right, rtol=1e-6 if name == "gradient" else 0, err_msg=name)


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
    for kind, step in (
        ("reduce", lambda batch: batch["i"].amax()),
        ("argreduce", lambda batch: batch["i"].argmax()),
        ("take", lambda batch: batch["i"][batch["i"]]),
    ):
        with pytest.raises(UnsupportedOperationError, match=rf"^{kind} of int64 at .*test_executable.py:\d+"):
            run_once(step, {"i": np.zeros(3, np.int64)}, "")
    with pytest.raises(ValueError, match="simd: found 'sse9'"):
        NativeExecutable({"full": step_graph(make("ddpg", torch.float32), 8, "full")}, simd="sse9")


def test_the_peak_that_is_measured_is_that_of_a_processor() -> None:
    # Less than is more than any core has; a busy machine may give little of one.
    assert 0 < _native.learner.peak_gflops(0.01, "portable") < 10_000
    for products in kinds_of_products():
        assert 0 < _native.learner.peak_gflops(0.01, "", products) < 100_000


@pytest.mark.parametrize("simd", USABLE)
@pytest.mark.parametrize("threads", [1, 2])
def test_subnormal_numbers_are_zero_in_a_step_and_the_thread_keeps_its_mode(simd: str, threads: int) -> None:
    """A result below the smallest normal number is zero, and so is an operand; the caller's arithmetic stays IEEE's."""
    inputs = {
        "small": np.full((64, 64), 1e-30, np.float32),
        "subnormal": np.full((64, 64), 1e-40, np.float32),
    }
    example = {name: torch.from_numpy(value) for name, value in inputs.items()}

    def step(batch: Any) -> Any:
        product = batch["small"] @ batch["small"]
        return {"sum": product, "square": batch["small"] * batch["small"], "read": batch["subnormal"] * 1e20}

    graph = trace(lambda state, batch: (state, step(batch)), (torch.zeros(()), example))
    executable = NativeExecutable({"full": graph}, simd=simd, threads=threads, part_ns=0)
    found = executable.step("full", {f"batch/{name}": value for name, value in inputs.items()})
    assert {name.split("/")[-1]: float(np.abs(value).max()) for name, value in found.items()} == {
        "sum": 0.0,
        "square": 0.0,
        "read": 0.0,
    }
    assert np.float32(1e-30) * np.float32(1e-10) > 0


def test_adam_s_moments_decay_to_zero_and_not_below_the_normal_numbers() -> None:
    """After a gradient vanishes its moments shrink step by step; they reach zero where subnormals would begin."""
    algorithm = make("dqn", torch.float32)
    trained = learner.create(algorithm, batch_size=8, backend="native", seed=0)
    state = trained.state_dict()
    moments = [name for name in state if "/mean/" in name]
    smallest = float(np.finfo(np.float32).tiny)
    trained.load_state_dict(state | {name: np.full_like(state[name], 1.05 * smallest) for name in moments})
    batch = {
        name: np.zeros_like(column.numpy())
        for name, column in random_batch(algorithm, 8, torch.Generator().manual_seed(0)).items()
        if name != "weight"
    }
    trained.step(batch)
    after = trained.state_dict()
    unused = np.concatenate([after[name].ravel() for name in moments if name.endswith("0.weight")])
    assert len(unused)
    assert not unused.any()  # observations are zero, and so are the gradients of the first layer
    for name in moments:
        magnitudes = np.abs(after[name][after[name] != 0])
        assert not len(magnitudes) or magnitudes.min() >= smallest


def permits_tiles() -> bool:
    """Whether this process may use AMX tiles: a system may refuse them though the processor has them."""
    try:
        _native.learner.Executor(64, products="amx")
    except ValueError:
        return False
    return True


def kinds_of_products() -> list[str]:
    """Those in bfloat16 that this processor has, by the system's own account, and that the system permits."""
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text().split() if cpu.exists() and "avx512" in USABLE else []
    return [
        "emulated",
        *(["avx512bf16"] if "avx512_bf16" in flags else []),
        *(["amx"] if {"amx_bf16", "amx_tile", "avx512_bf16"} <= set(flags) and permits_tiles() else []),
    ]


@pytest.mark.parametrize("products", kinds_of_products())
@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.integers(1, 3), st.integers(0, 99))
def test_products_in_bfloat16_round_their_operands_and_add_up_in_float32(
    products: str, rows: int, columns: int, depth: int, turn_a: bool, turn_b: bool, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((depth, rows) if turn_a else (rows, depth), dtype=np.float32)
    b = rng.standard_normal((columns, depth) if turn_b else (depth, columns), dtype=np.float32)

    def step(batch: Any) -> Any:
        left = batch["a"].T if turn_a else batch["a"]
        right = batch["b"].T if turn_b else batch["b"]
        return {"y": torch.relu(left @ right), "z": left @ right}

    example = {"a": torch.from_numpy(a), "b": torch.from_numpy(b)}
    graph = trace(lambda state, batch: (state, step(batch)), (torch.zeros(()), example))
    executable = NativeExecutable({"full": graph}, products=products, threads=threads, part_ns=0)
    found = executable.step("full", {"batch/a": a, "batch/b": b})
    left, right = (
        torch.from_numpy(x).bfloat16().double() for x in (a.T if turn_a else a, b.T if turn_b else b)
    )
    exact = (left @ right).numpy()
    atol = 1e-6 * (4 + depth)
    for name, value in found.items():
        expected = np.maximum(exact, 0) if name.endswith("y") else exact
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=atol, err_msg=name)
    alone = NativeExecutable({"full": graph}, products=products)
    for name, value in alone.step("full", {"batch/a": a, "batch/b": b}).items():
        np.testing.assert_array_equal(value, found[name], err_msg="with another number of threads")


@pytest.mark.parametrize("name", ["dqn", "ddpg", "sac"])
def test_a_step_in_bfloat16_is_near_that_of_float32_and_not_the_same(name: str) -> None:
    """Weights and Adam stay in float32; only the operands of products lose their lower bits."""
    algorithm = make(name, torch.float32)
    batch = {
        column: value.numpy()
        for column, value in random_batch(algorithm, 64, torch.Generator().manual_seed(0)).items()
        if column != "weight"
    }
    exact, rounded = (
        learner.create(algorithm, batch_size=64, backend="native", precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert (exact.products, rounded.products in PRODUCTS[2:]) == ("float32", True)
    one, two = exact.step(batch).td_errors, rounded.step(batch).td_errors
    assert not np.array_equal(one, two)
    np.testing.assert_allclose(two, one, atol=0.02)
    for leaf, value in rounded.state_dict().items():
        assert value.dtype == exact.state_dict()[leaf].dtype, leaf


@pytest.mark.parametrize("simd", [level for level in USABLE if level != "avx512"])
def test_bfloat16_without_its_instructions_is_emulated(simd: str) -> None:
    algorithm = make("dqn", torch.float32)
    trainee = learner.create(algorithm, batch_size=8, backend="native", simd=simd, precision="bfloat16")
    assert trainee.products == "emulated"
