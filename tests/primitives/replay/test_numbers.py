"""Every replay takes the same numbers, refuses the same others by name, and computes the same weights."""

import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placerl.primitives import sum_tree
from placerl.primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    LinearSchedule,
    PrioritizedReplay,
    Replay,
    Storage,
    UniformReplay,
    importance_weights,
)
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.prioritized import PRIORITY_MIN, item_priorities
from tests.primitives.replay.device.memories import memory
from tests.primitives.replay.fake_tree import FakeTree

CAPACITY = 8
FIELDS = {
    "single": FieldSpec((), np.float32),
    "row": FieldSpec((3,), np.float32),
    "byte": FieldSpec((), np.uint8),
    "short": FieldSpec((), np.int8),
    "whole": FieldSpec((), np.int64),
    "flag": FieldSpec((), np.bool_),
}
TREES = [status.name for status in sum_tree.backends() if status.available and not status.simulated]


def over(tree: Callable[[], object]) -> Callable[..., Replay]:
    return lambda **options: PrioritizedReplay(Storage(CAPACITY, FIELDS), tree(), **options)  # type: ignore[arg-type]


PRIORITISED: dict[str, Callable[..., Replay]] = {
    "fake": over(lambda: FakeTree(CAPACITY)),
    **{
        name: over(lambda name=name: sum_tree.create(CAPACITY, backend=name))  # type: ignore[misc]
        for name in TREES
    },
    "concurrent": lambda **options: ConcurrentReplay(Storage(CAPACITY, FIELDS), **options),
    "device": lambda **options: PrioritizedReplay(
        DeviceStorage(CAPACITY, FIELDS, memory("stand-in")), FakeTree(CAPACITY), **options
    ),
}
EVERY = {**PRIORITISED, "uniform": lambda: UniformReplay(Storage(CAPACITY, FIELDS))}
prioritised = pytest.mark.parametrize("kind", PRIORITISED)
every = pytest.mark.parametrize("kind", EVERY)
# For what is decided before a tree is asked: trees of other backends would show the same.
prioritised_class = pytest.mark.parametrize("kind", [kind for kind in PRIORITISED if kind not in TREES])
every_class = pytest.mark.parametrize("kind", [kind for kind in EVERY if kind not in TREES])


def batch(n: int = 2, **others: object) -> dict[str, object]:
    return {name: np.zeros((n, *field.shape), field.dtype) for name, field in FIELDS.items()} | others


def filled(kind: str, n: int = CAPACITY, **options: object) -> Replay:
    replay = EVERY[kind](**options)
    replay.insert(batch(n))  # type: ignore[arg-type]
    return replay


def priorities_of(replay: Replay) -> np.ndarray:
    rows = np.arange(len(replay))
    if isinstance(replay, ConcurrentReplay):
        return replay.priorities(rows)
    assert isinstance(replay, PrioritizedReplay)
    return np.asarray(replay.tree.get(rows), np.float64)


# Weights and priorities

magnitudes = st.one_of(
    st.just(0.0),
    st.just(1e39),
    st.floats(1e-38, 1e38),
    st.floats(-38, 38).map(lambda power: float(10.0**power)),
)
exponents = st.one_of(st.floats(0, 2), st.floats(0, 1e308), st.sampled_from([0.0, 0.4, 0.5, 1.0]))


def exact_weights(priorities: np.ndarray, total: float, items: int, beta: float, how: str) -> np.ndarray:
    """The weights from logarithms, which neither overflow nor underflow."""
    logarithms = np.log(priorities.min() if how == "batch" else total / items) - np.log(priorities)
    with np.errstate(over="ignore"):
        return np.exp(np.clip(beta * logarithms, -1e300, 1e300))


@prioritised
@settings(max_examples=30, deadline=None)
@given(
    alpha=st.floats(0, 1),
    beta=exponents,
    epsilon=st.sampled_from([1e-30, 1e-6, 1.0]),
    td_errors=st.lists(magnitudes, min_size=CAPACITY, max_size=CAPACITY),
    how=st.sampled_from(["batch", "none"]),
)
def test_weights_and_priorities_are_those_of_the_definition(
    kind: str, alpha: float, beta: float, epsilon: float, td_errors: list[float], how: str
) -> None:
    replay = filled(kind, alpha=alpha, beta=beta, epsilon=epsilon, normalisation=how)
    base = np.abs(td_errors) + epsilon
    expected = np.maximum(np.exp(alpha * np.log(base)), PRIORITY_MIN)
    assume(expected.max() < np.finfo(np.float32).max / (2 * CAPACITY) * 0.999)
    replay.update_priorities(np.arange(CAPACITY), td_errors)
    priorities = priorities_of(replay)
    np.testing.assert_allclose(priorities, expected, rtol=2e-6)
    total = float(np.sum(priorities))
    sample = replay.sample(64, np.random.default_rng(0))
    drawn = priorities[sample.indices]
    weights = exact_weights(drawn, total, CAPACITY, beta, how)
    assert not np.isnan(sample.weights).any()
    # How far the exponent spreads the rounding of logarithms and of the total.
    spread = 1e-6 + (beta * 1e-6 if how == "none" else beta * 1e-14)
    assume(spread < 0.01)
    largest = float(np.finfo(np.float32).max)
    within = weights < largest * (1 - spread)
    np.testing.assert_allclose(sample.weights[within], weights[within], rtol=spread, atol=2e-38)
    assert (sample.weights[weights > largest * (1 + spread)] == np.inf).all()
    if how == "batch":
        assert sample.weights.max() == 1


@prioritised
@pytest.mark.parametrize("beta", [0.0, 1.0, 40.0, 1e30, 1e308])
def test_no_exponent_makes_normalised_weights_overflow(kind: str, beta: float) -> None:
    replay = filled(kind, alpha=1.0, beta=beta)
    replay.update_priorities(np.arange(CAPACITY), 10.0 ** -np.arange(CAPACITY))
    weights = replay.sample(64, np.random.default_rng(0), stratified=True).weights
    assert np.isfinite(weights).all()
    assert (weights.min() >= 0, weights.max()) == (True, 1.0)


def test_importance_weights_of_equal_priorities_are_one_whatever_the_exponent() -> None:
    for priority in (1e-38, 1.0, 1e38):
        for beta in (0.0, 1.0, 1e308):
            assert importance_weights(np.full(3, priority), 3 * priority, 3, beta).tolist() == [1, 1, 1]


@prioritised
@settings(max_examples=20, deadline=None)
@given(
    alpha=st.floats(0, 1e6, exclude_min=True),
    epsilon=st.floats(min_value=0, max_value=0.9, exclude_min=True),
    inserted=st.booleans(),
)
def test_items_of_equal_td_errors_can_all_be_drawn(
    kind: str, alpha: float, epsilon: float, inserted: bool
) -> None:
    replay = EVERY[kind](alpha=alpha, epsilon=epsilon)
    if inserted:
        replay.insert(batch(CAPACITY), td_errors=np.zeros(CAPACITY))  # type: ignore[call-arg, arg-type]
    else:
        replay.insert(batch(CAPACITY))  # type: ignore[arg-type]
        replay.update_priorities(np.arange(CAPACITY), np.zeros(CAPACITY))
    assert (priorities_of(replay) >= PRIORITY_MIN).all()
    sample = replay.sample(64, np.random.default_rng(0), stratified=True)
    assert set(sample.indices.tolist()) == set(range(CAPACITY))
    assert sample.weights.tolist() == [1.0] * 64


@prioritised_class
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("alpha", "beta", "epsilon") for value in ("0.4", None, True, 1j, [0.4])),
        *((name, value) for name in ("alpha", "beta") for value in (np.nan, np.inf, -0.1)),
        *(("epsilon", value) for value in (np.nan, np.inf, 0.0)),
        *(("beta", lambda step, value=value: value) for value in ("0.4", np.nan, -1.0, None)),
    ],
)
def test_an_exponent_that_is_no_number_is_refused_by_name(kind: str, name: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: found .*; allowed: "):
        EVERY[kind](**{name: value})


@prioritised_class
@pytest.mark.parametrize("late", [np.nan, -1.0, "0.4", None, np.inf])
def test_a_schedule_that_fails_later_is_refused_by_name_and_changes_nothing(kind: str, late: object) -> None:
    replay = filled(kind, beta=lambda step: 0.4 if step < 1 else late)
    rng = np.random.default_rng(0)
    replay.sample(4, rng)
    before = rng.bit_generator.state
    with pytest.raises((TypeError, ValueError), match=r"^beta: found .*; allowed: "):
        replay.sample(4, rng)
    assert rng.bit_generator.state == before
    assert replay.samples_drawn == 1  # type: ignore[attr-defined]


@prioritised
def test_numbers_of_numpy_are_numbers(kind: str) -> None:
    replay = filled(kind, alpha=np.float32(0.5), beta=np.int64(1), epsilon=np.float64(1e-6))
    assert replay.sample(np.int64(3), np.random.default_rng(0)).weights.shape == (3,)  # type: ignore[arg-type]
    assert filled(kind, beta=LinearSchedule(np.float32(0.5), 1, np.int64(3))).sample(  # type: ignore[arg-type]
        2, np.random.default_rng(0)
    ).weights.shape == (2,)


# What is inserted


@every_class
@pytest.mark.parametrize(
    "wrong",
    [
        {"single": np.zeros((2, 1), np.float32)},
        {"single": np.float32(0)},
        {"row": np.zeros(3, np.float32)},
        {"row": np.zeros((2, 1), np.float32)},
        {"row": np.zeros((1, 3), np.float32)},
        {"single": ["1", "2"]},
        {"single": [b"1", b"2"]},
        {"single": [None, 1.0]},
        {"single": np.array([1.0, 2.0], object)},
        {"single": [1j, 2j]},
        {"single": np.array([1e39, 0.0])},
        {"single": np.array([-1e300, 0.0])},
        {"flag": [None, None]},
        {"flag": [0.0, 1.0]},
        {"flag": [0, 2]},
        {"flag": ["False", ""]},
        {"whole": [3.7, 3.0]},
        {"whole": np.array([2**63, 0], np.uint64)},
        {"byte": np.array([300, 0], np.uint16)},
        {"short": [300, 0]},
        {"short": [-129, 0]},
        {"other": np.zeros(2)},
        {1: np.zeros(2)},
    ],
    ids=str,
)
def test_what_a_column_cannot_hold_is_refused_by_name_and_changes_nothing(
    kind: str, wrong: dict[str, object]
) -> None:
    replay = EVERY[kind]()
    with pytest.raises((TypeError, ValueError), match=r"^batch.*: found .*; allowed: "):
        replay.insert(batch() | wrong)  # type: ignore[arg-type]
    assert (len(replay), replay.storage.cursor) == (0, 0)
    replay.insert(batch())  # type: ignore[arg-type]


@every_class
def test_a_batch_that_is_no_mapping_is_refused(kind: str) -> None:
    with pytest.raises(TypeError, match=r"^batch: found list; allowed: "):
        EVERY[kind]().insert([np.zeros(2)] * len(FIELDS))  # type: ignore[arg-type]


numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(),
    st.floats(-1e39, 1e39),
    st.booleans(),
)
dtypes = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])


@every_class
@settings(max_examples=50, deadline=None)
@given(name=st.sampled_from([name for name in FIELDS if name != "row"]), dtype=dtypes, data=st.data())
def test_what_is_inserted_is_the_nearest_number_that_its_column_holds(
    kind: str, name: str, dtype: str, data: st.DataObject
) -> None:
    value = data.draw(numbers)
    with np.errstate(all="ignore"):
        try:
            array = np.array([value], np.dtype(dtype))
        except (OverflowError, ValueError):
            assume(False)
    replay = EVERY[kind]()
    column = np.dtype(FIELDS[name].dtype)
    try:
        replay.insert(batch(1) | {name: array})  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # The kind was wrong, or the number is out of the column's range.
        if np.can_cast(array.dtype, column, "same_kind"):
            limits = np.finfo(column) if column.kind == "f" else np.iinfo(column)
            assert not limits.min <= array[0] <= limits.max
        return
    stored = replay.storage.columns[name][0]
    if column.kind == "f":
        exact = float(array[0])
        np.testing.assert_allclose(float(stored), exact, rtol=1e-7, atol=1e-45)
        assert np.isfinite(stored) == np.isfinite(array[0])
    else:
        assert Fraction(int(stored)) == Fraction(int(array[0]))


# How it is drawn and updated


@every_class
@pytest.mark.parametrize("size", [True, 2.5, "3", None, np.float64(3), [3], -1])
def test_a_batch_size_that_is_no_count_is_refused_by_name(kind: str, size: object) -> None:
    replay, rng = filled(kind), np.random.default_rng(0)
    before = rng.bit_generator.state
    for call in (lambda: replay.sample(size, rng), lambda: replay.allocate(size)):  # type: ignore[arg-type]
        with pytest.raises((TypeError, ValueError), match=r"^batch_size: found .*; allowed: "):
            call()
    for out_of_range in (0, 2**70):
        with pytest.raises(ValueError, match=r"^batch_size: found .*; allowed: "):
            replay.sample(out_of_range, rng)
    assert rng.bit_generator.state == before


@every
def test_counts_of_numpy_are_counts(kind: str) -> None:
    replay = filled(kind)
    for size in (3, np.int64(3), np.uint8(3)):
        assert replay.sample(size, np.random.default_rng(0)).indices.shape == (3,)  # type: ignore[arg-type]
        assert replay.allocate(size).weights.shape == (3,)  # type: ignore[arg-type]


@every_class
@pytest.mark.parametrize("value", ["False", 0, 1, None, 0.5])
def test_stratified_is_true_or_false(kind: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"^stratified: found .*; allowed: True, False$"):
        filled(kind).sample(4, np.random.default_rng(0), stratified=value)  # type: ignore[arg-type]
    filled(kind).sample(4, np.random.default_rng(0), stratified=np.True_)  # type: ignore[arg-type]


@every_class
@pytest.mark.parametrize(
    "rng", [None, 3, np.random.RandomState(0), np.random.PCG64(0), np.random.default_rng]
)
def test_random_numbers_come_from_a_generator(kind: str, rng: object) -> None:
    with pytest.raises(TypeError, match=r"^rng: found .*; allowed: numpy\.random\.Generator$"):
        filled(kind).sample(4, rng)  # type: ignore[arg-type]


@every_class
@pytest.mark.parametrize("out", [0, "", (), [], {}, (None, None, None), False])
def test_an_out_that_is_no_sample_is_refused(kind: str, out: object) -> None:
    with pytest.raises(TypeError, match=r"^out: found .*; allowed: "):
        filled(kind).sample(4, np.random.default_rng(0), out=out)  # type: ignore[arg-type]


@every_class
@pytest.mark.parametrize(
    ("indices", "td_errors", "name"),
    [
        ([0.0, 1.0], [1.0, 1.0], "indices"),
        (["0", "1"], [1.0, 1.0], "indices"),
        ([True, False], [1.0, 1.0], "indices"),
        ([None], [1.0], "indices"),
        ([[0]], [[1.0]], "indices"),
        (0, 1.0, "indices"),
        ([-1], [1.0], "indices"),
        ([CAPACITY], [1.0], "indices"),
        ([2**64 - 1], [1.0], "indices"),
        ([0, 1], [1.0], "td_errors"),
        ([0, 1], 1.0, "td_errors"),
        ([0, 1], [[1.0], [1.0]], "td_errors"),
        ([0], ["1"], "td_errors"),
        ([0], [None], "td_errors"),
        ([0], [True], "td_errors"),
        ([0], [1j], "td_errors"),
        ([0], [np.nan], "td_errors"),
        (np.zeros(0, np.int64), [1.0, 2.0], "td_errors"),
    ],
)
def test_an_update_that_does_not_fit_is_refused_by_name(
    kind: str, indices: object, td_errors: object, name: str
) -> None:
    replay = filled(kind)
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: found .*; allowed: "):
        replay.update_priorities(indices, td_errors)  # type: ignore[arg-type]
    if kind != "uniform":
        assert (priorities_of(replay) == 1).all()


@pytest.mark.parametrize("capacity", [True, 2.5, "3", None, 0, -1])
def test_a_capacity_is_a_count(capacity: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^capacity: found .*; allowed: "):
        Storage(capacity, FIELDS)  # type: ignore[arg-type]
    assert Storage(np.int64(3), FIELDS).capacity == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fanout", "release_from_lines"])
@pytest.mark.parametrize("value", [True, 2.5, "3", None, -1])
def test_options_of_the_concurrent_replay_are_counts(name: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: found .*; allowed: "):
        ConcurrentReplay(Storage(CAPACITY, FIELDS), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1e-31, 1e-30, 1e-6, 1e30, 1e31])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 1.5, 8.0])
def test_the_priority_of_any_td_error_is_drawable_and_warns_of_nothing(alpha: float, epsilon: float) -> None:
    largest = float(np.finfo(np.float64).max)
    td_errors = np.array([0.0, -0.0, 1e-300, 1e-30, 1.0, largest, -largest])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        priorities = item_priorities(td_errors, alpha, epsilon)
    assert (priorities >= PRIORITY_MIN).all()
    assert alpha > 1 or np.isfinite(priorities).all()
