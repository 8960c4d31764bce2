"""What every sum tree must do, checked on every backend against the definition itself."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from placerl.primitives import backend, sum_tree
from placerl.primitives.sum_tree.reference_backend import ReferenceSumTree
from tests.limits import LIMIT_S
from tests.primitives.copies import WAYS, every_way
from tests.primitives.sum_tree.variants import AVAILABLE, REASONS, OnDevice, Variant, every_variant

# Probability that a right sampler fails one chi-square test. The seeds are fixed, so a pass stays a pass.
FALSE_ALARM_RATE = 1e-4

relaxed = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_prefix_index(
    tree: sum_tree.SumTree, priorities: NDArray[np.float64], prefix: NDArray[np.float64], epsilon: float
) -> None:
    """Each answer i has sum(P[:i]) <= prefix < sum(P[:i + 1]) up to the sums' rounding, and P[i] > 0."""
    found = tree.find(prefix)
    assert found.dtype == np.int64
    assert found.shape == prefix.shape
    sums = np.cumsum(priorities)
    # Each of the levels above a leaf adds at most `fanout` rounded terms.
    levels = np.ceil(np.log(max(tree.capacity, 2)) / np.log(tree.fanout)) + 1
    slack = epsilon * levels * (tree.fanout + 2) * sums[-1]
    assert (priorities[found] > 0).all()
    assert (prefix >= sums[found] - priorities[found] - slack).all()
    assert (prefix <= sums[found] + slack).all()


def filled(
    variant: Variant, capacity: int, fanout: int = 16, seed: int = 0, zeros: float = 0.3
) -> tuple[sum_tree.SumTree, NDArray[np.float64]]:
    """A tree with random priorities, a share of them 0, and these priorities as stored."""
    rng = np.random.default_rng(seed)
    priorities = rng.exponential(size=capacity) * (rng.random(capacity) >= zeros)
    priorities[rng.integers(capacity)] = 1.0
    tree = variant.create(capacity, fanout)
    tree.update(np.arange(capacity), priorities)
    return tree, tree.get(np.arange(capacity)).astype(np.float64)


@every_variant
def test_a_new_tree_is_all_zero(variant: Variant) -> None:
    tree = variant.create(1000, 7)
    assert (tree.total, tree.capacity, tree.fanout, tree.backend) == (0.0, 1000, 7, variant.backend)
    assert not tree.get(np.arange(1000)).any()
    with pytest.raises(ValueError, match="total"):
        tree.find(np.array([0.0]))
    with pytest.raises(ValueError, match="total"):
        tree.sample(1, np.random.default_rng(0))
    assert tree.find(np.array([])).shape == (0,)


@every_variant
def test_an_example_by_hand(variant: Variant) -> None:
    tree = variant.create(6, 2)
    tree.update([0, 1, 2, 4], [1.0, 0.0, 2.0, 4.0])
    assert tree.total == 7.0
    assert tree.find([0.0, 0.5, 1.0, 2.5, 3.0, 6.5]).tolist() == [0, 0, 2, 2, 4, 4]
    assert tree.get([4, 0, 5]).tolist() == [4.0, 1.0, 0.0]
    tree.update([4], [0.0])
    assert tree.total == 3.0
    assert tree.find([2.999]).tolist() == [2]


@every_variant
@pytest.mark.parametrize("capacity", [1, 2, 15, 16, 17, 255, 1000, 4097])
def test_find_is_the_definition(variant: Variant, capacity: int) -> None:
    for fanout in variant.fanouts:
        assert_finds_the_definition(variant, capacity, fanout)


def assert_finds_the_definition(variant: Variant, capacity: int, fanout: int) -> None:
    tree, priorities = filled(variant, capacity, fanout)
    assert tree.total == pytest.approx(priorities.sum(), rel=variant.epsilon * 256)
    prefix = np.random.default_rng(1).random(200) * tree.total
    assert_prefix_index(tree, priorities, prefix, variant.epsilon)
    edges = np.array([0.0, np.nextafter(tree.total, 0.0)])
    assert_prefix_index(tree, priorities, edges, variant.epsilon)


@every_variant
@relaxed
@given(data=st.data())
def test_any_sequence_of_updates(variant: Variant, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 700), "capacity")
    fanout = data.draw(variant.fanout, "fanout")
    tree = variant.create(capacity, fanout)
    expected = np.zeros(capacity)
    low, high = float(np.float32(1e-30)), float(np.float32(1e30))
    pair = st.tuples(st.integers(0, capacity - 1), st.just(0.0) | st.floats(low, high, width=32))
    for updates in data.draw(st.lists(st.lists(pair, max_size=40), max_size=4), "updates"):
        priorities = variant.fitted(np.array([priority for _, priority in updates], np.float64))
        tree.update([index for index, _ in updates], priorities)
        for index, priority in updates:  # one after the other: where an index is repeated, the last wins
            expected[index] = variant.fitted(np.array(priority))
    assert tree.get(np.arange(capacity)).tolist() == expected.tolist()
    assert tree.total == pytest.approx(expected.sum(), rel=variant.epsilon * 300, abs=0)
    if tree.total > 0:
        fractions = data.draw(
            st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20), "fractions"
        )
        prefix = np.minimum(np.array(fractions) * tree.total, np.nextafter(tree.total, 0.0))
        assert_prefix_index(tree, expected, prefix, variant.epsilon)


@every_variant
def test_repeated_indices_the_last_one_wins(variant: Variant) -> None:
    tree = variant.create(100, 4)
    indices = np.tile(np.arange(10), 50)
    priorities = np.arange(500.0)
    tree.update(indices, priorities)
    assert tree.get(np.arange(10)).tolist() == priorities[-10:].tolist()
    assert tree.total == priorities[-10:].sum()


@every_variant
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize(("capacity", "fanout"), [(50, 16), (1000, 3), (1000, 64)])
def test_sampling_follows_the_priorities(
    variant: Variant, capacity: int, fanout: int, stratified: bool
) -> None:
    tree, priorities = filled(variant, capacity, fanout, seed=3)
    rng = np.random.default_rng(4)
    draws = np.concatenate([tree.sample(size, rng, stratified) for size in [1, 7, 256, 300, 4000] * 12])
    assert (priorities[draws] > 0).all()
    expected = priorities / priorities.sum() * len(draws)
    # Leaves expected fewer than 10 times are counted together, as the test's approximation needs.
    often = expected >= 10
    counts = np.bincount(draws, minlength=capacity)
    observed = [*counts[often], counts[~often].sum()]
    wanted = [*expected[often], expected[~often].sum()]
    if wanted[-1] < 10:
        observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
    # Stratified draws spread more evenly than independent ones, so this one-sided test holds for both.
    assert stats.chisquare(observed, wanted).pvalue > FALSE_ALARM_RATE


@every_variant
def test_plain_draws_are_independent(variant: Variant) -> None:
    """Leaves of one call neither repeat nor follow each other more often than chance has it."""
    tree = variant.create(16, 4)
    tree.update(np.arange(16), np.ones(16))
    draws = tree.sample(20000, np.random.default_rng(5))
    pairs = np.bincount(draws[:-1:2] * 16 + draws[1::2], minlength=256)
    assert stats.chisquare(pairs).pvalue > FALSE_ALARM_RATE


@every_variant
def test_a_million_leaves_are_drawn_evenly(variant: Variant) -> None:
    """A prefix needs more bits than a float32 holds to tell these leaves apart without bias."""
    capacity = 2**20
    tree = variant.create(capacity)
    tree.update(np.arange(capacity), np.ones(capacity))
    middle = np.arange(capacity - 4096, capacity)
    edge = np.repeat(middle, 2) + np.tile([0.01, 0.99], 4096)
    assert (tree.find(edge) == np.repeat(middle, 2)).all()


@every_variant
@pytest.mark.parametrize("batch_size", [1, 5, 64, 1000])
def test_stratified_draws_one_leaf_in_each_part(variant: Variant, batch_size: int) -> None:
    tree = variant.create(batch_size, 4)
    tree.update(np.arange(batch_size), np.ones(batch_size))
    rng = np.random.default_rng(6)
    assert tree.sample(batch_size, rng, stratified=True).tolist() == list(range(batch_size))


@every_variant
def test_the_same_generator_state_gives_the_same_leaves(variant: Variant) -> None:
    tree, _ = filled(variant, 1000)
    first = [tree.sample(size, rng) for rng in [np.random.default_rng(7)] for size in (3, 300)]
    second = [tree.sample(np.int64(size), rng) for rng in [np.random.default_rng(7)] for size in (3, 300)]
    other = tree.sample(300, np.random.default_rng(8))
    assert [a.tolist() for a in first] == [b.tolist() for b in second]
    assert other.tolist() != first[1].tolist()


@every_variant
def test_priorities_from_1e_minus_30_to_1e30(variant: Variant) -> None:
    """Or over as many decades as the number format has."""
    low, high = variant.decades
    priorities = variant.fitted(10.0 ** np.arange(low, high + 1))
    tree = variant.create(len(priorities), 16)
    for up_to in range(1, len(priorities) + 1):  # each in turn is the largest, so that it dominates the total
        tree.update(np.arange(up_to), priorities[:up_to])
        assert tree.total == pytest.approx(priorities[:up_to].sum(), rel=variant.epsilon * 64)
        assert tree.find([tree.total * 0.95]).tolist() == [up_to - 1]
    tree.update(np.arange(1, len(priorities)), np.zeros(len(priorities) - 1))
    assert tree.total == pytest.approx(priorities[0], rel=variant.epsilon * 64)
    assert tree.find([0.0, tree.total * 0.99]).tolist() == [0, 0]


@every_variant
def test_a_leaf_of_priority_zero_is_never_answered(variant: Variant) -> None:
    """Sums that rounding absorbs are the hard case: tiny leaves beside huge ones, zeros at every border."""
    rng = np.random.default_rng(9)
    for fanout in (2, 16, 100):
        tree = variant.create(5000, fanout)
        for _ in range(20):
            priorities = variant.fitted(10.0 ** rng.uniform(-20, 20, 5000)) * (
                rng.random(5000) < rng.choice([0.01, 0.5])
            )
            priorities[rng.integers(5000)] = 1.0
            tree.update(np.arange(5000), priorities)
            prefix = np.concatenate([rng.random(200), [0.0, 1.0 - 1e-16]]) * np.nextafter(tree.total, 0.0)
            assert (tree.get(tree.find(prefix)) > 0).all()
            assert (tree.get(tree.sample(200, rng)) > 0).all()


@every_variant
def test_nothing_drifts(variant: Variant) -> None:
    """After many updates the sums are those of a tree that was given the final priorities at once."""
    tree = variant.create(1000, 16)
    rng = np.random.default_rng(10)
    for _ in range(200):
        tree.update(rng.integers(0, 1000, 256), variant.fitted(10.0 ** rng.uniform(-10, 10, 256)))
    fresh = variant.create(1000, 16)
    fresh.update(np.arange(1000), tree.get(np.arange(1000)))
    assert tree.total == fresh.total
    prefix = rng.random(2000) * tree.total
    assert tree.find(prefix).tolist() == fresh.find(prefix).tolist()
    tree.update(np.arange(1000), np.zeros(1000))
    assert tree.total == 0.0


@every_variant
@pytest.mark.slow
def test_nothing_drifts_in_large_calls(variant: Variant) -> None:
    """Sums changed by the difference of each of 524,288 priorities would not be those of a new tree."""
    tree, fresh = (variant.create(2**17, 16) for _ in range(2))
    rng = np.random.default_rng(11)
    for _ in range(8):
        tree.update(rng.integers(0, 2**17, 2**16), variant.fitted(rng.exponential(size=2**16)))
    fresh.update(np.arange(2**17), tree.get(np.arange(2**17)))
    assert tree.total == fresh.total


BAD_UPDATES = [
    ([0, 1], [1.0, np.nan], ValueError, "priorities: found nan"),
    ([0, 1], [1.0, np.inf], ValueError, "priorities: found inf"),
    ([0, 1], [1.0, -1.0], ValueError, "priorities: found -1"),
    ([0, 1], [1.0, 1e307], ValueError, "priorities: found (1e\\+307|inf)"),
    ([0, 100], [1.0, 1.0], ValueError, "indices: found 100; allowed: 0 to 99"),
    ([0, -1], [1.0, 1.0], ValueError, "indices: found -1"),
    ([0, 1], [1.0], ValueError, "priorities: found shape"),
    ([[0, 1]], [[1.0, 1.0]], ValueError, "indices: found shape"),
    ([0, 1], 1.0, ValueError, "priorities: found shape"),
    ([0.0, 1.0], [1.0, 1.0], TypeError, "indices: found dtype float64"),
    ([0, 1], ["a", "b"], TypeError, "priorities: found dtype"),
    ([0, 1], [1.0, 1.0j], TypeError, "priorities: found dtype complex128"),
    ([True, False], [1.0, 1.0], TypeError, "indices: found dtype bool"),
]


@every_variant
@pytest.mark.parametrize(("indices", "priorities", "error", "message"), BAD_UPDATES)
def test_a_wrong_update_leaves_the_tree_unchanged(
    variant: Variant, indices: object, priorities: object, error: type[Exception], message: str
) -> None:
    tree, before = filled(variant, 100)
    total = tree.total
    as_arrays = (np.asarray(indices), np.asarray(priorities))
    attempts = [(indices, priorities), as_arrays]
    if as_arrays[1].dtype == np.float64:
        with np.errstate(over="ignore"):
            attempts.append((as_arrays[0], as_arrays[1].astype(np.float32)))
    for arguments in attempts:
        with pytest.raises(error, match=message):
            tree.update(*arguments)
    assert tree.total == total
    assert tree.get(np.arange(100)).tolist() == before.tolist()


@every_variant
def test_wrong_finds_samples_and_gets(variant: Variant) -> None:
    tree, _ = filled(variant, 100)
    rng = np.random.default_rng(0)
    for prefix in (-1.0, np.nan, np.inf, tree.total, -1e-300):
        with pytest.raises(ValueError, match="prefix"):
            tree.find(np.array([0.0, prefix]))
    for index in (-1, 100, 2**40):
        with pytest.raises(ValueError, match="indices"):
            tree.get(np.array([0, index]))
    for size in (0, -1, np.int32(0)):
        with pytest.raises(ValueError, match="batch_size"):
            tree.sample(size, rng)
    for size in (1.5, "2", True, None):
        with pytest.raises(TypeError, match="batch_size"):
            tree.sample(size, rng)  # type: ignore[arg-type]
    for source in (None, 0, np.random.RandomState(0), rng.bit_generator):
        with pytest.raises(TypeError, match="rng"):
            tree.sample(2, source)  # type: ignore[arg-type]
    before = rng.bit_generator.state
    for stratified in ("False", 0, 1, None, 0.5):
        with pytest.raises(TypeError, match=r"^stratified: found .*; allowed: True, False$"):
            tree.sample(2, rng, stratified)  # type: ignore[arg-type]
    assert rng.bit_generator.state == before
    assert (tree.sample(9, rng, np.True_).tolist(), rng.bit_generator.state) != ([], before)  # type: ignore[arg-type]


@every_variant
def test_arrays_of_any_layout(variant: Variant) -> None:
    """What is not contiguous, or of another integer or float type, is converted."""
    tree = variant.create(100, 16)
    tree.update(np.arange(100, dtype=np.uint8), np.arange(100, dtype=np.float32))
    tree.update(np.arange(200)[::2][:50], np.arange(100, dtype=np.int32)[::2])
    tree.update([], [])
    expected = np.arange(100.0)
    expected[np.arange(0, 100, 2)] = np.arange(100)[::2]
    assert tree.get(np.arange(100)[::-1]).tolist() == expected[::-1].tolist()
    prefix = np.array([0.5, 10.5, 100.5], dtype=np.float32)
    assert tree.find(prefix).tolist() == tree.find(prefix.astype(np.float64)).tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"capacity": 0}, ValueError, "capacity: found 0"),
        ({"capacity": 10.0}, TypeError, "capacity: found 10.0"),
        ({"fanout": 1}, ValueError, "fanout: found 1; allowed: 2 to 256"),
        ({"fanout": 257}, ValueError, "fanout: found 257"),
        ({"dtype": "float16"}, ValueError, "dtype: found float16"),
        ({"dtype": "int32"}, ValueError, "dtype: found int32"),
    ],
)
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_wrong_creation(
    backend: str, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sum_tree.create(**{"capacity": 10, "backend": backend} | arguments)  # type: ignore[arg-type]


def test_an_unknown_backend_or_option() -> None:
    with pytest.raises(ValueError, match="backend: unknown 'none'; allowed: reference"):
        sum_tree.create(10, backend="none")


@pytest.mark.parametrize(
    ("backend", "allowed"),
    [
        ("reference", "dtype"),
        ("binary", "dtype"),
        ("flat", "dtype, device"),
        ("native", "dtype, simd, aligned, running_sums_max, threads"),
        ("opencl", "dtype, device"),
        ("fpga", "form, .*"),
    ],
)
@pytest.mark.parametrize("option", ["no_such_option", "threads"])
def test_an_option_that_a_backend_lacks_is_refused_by_name(backend: str, allowed: str, option: str) -> None:
    if backend not in AVAILABLE:
        pytest.skip(REASONS[backend])
    if backend == "native":
        option = "thread"
    words = rf"^{option}: found an option that backend '{backend}' lacks; allowed: {allowed}$"
    with pytest.raises(TypeError, match=words):
        sum_tree.create(10, backend=backend, **{option: 2})


@pytest.mark.parametrize(
    ("device", "allowed"),
    [
        ("gpu", "cpu, cuda"),
        ("meta", "cpu, cuda"),
        ("cpu:1", "cpu, cuda"),
        ("cuda:99", "cpu, or a CUDA device of this machine, which has"),
    ],
)
def test_a_device_that_pytorch_lacks_is_refused_by_name(device: str, allowed: str) -> None:
    if "flat" not in AVAILABLE:
        pytest.skip(REASONS["flat"])
    words = f"device: found '{device}'; allowed: {allowed}"
    with pytest.raises(ValueError, match=words):
        sum_tree.check(backend="flat", device=device)
    with pytest.raises(ValueError, match=words):
        sum_tree.create(10, backend="flat", device=device)


def life(tree: sum_tree.SumTree, seed: int) -> list[NDArray]:
    """Everything that a tree answers to some random calls."""
    rng = np.random.default_rng(seed)
    leaves = np.arange(tree.capacity)
    found: list[NDArray] = [np.array(tree.total), tree.get(leaves)]
    for _ in range(3):
        count = int(rng.integers(1, tree.capacity + 1))
        tree.update(rng.integers(tree.capacity, size=count), rng.random(count) + 0.5)
        found += [np.array(tree.total), tree.get(leaves), tree.find(rng.random(5) * tree.total * 0.999)]
        found += [tree.sample(9, rng), tree.sample(9, rng, stratified=True)]
    return found


def assert_same(found: list[NDArray], expected: list[NDArray]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@every_variant
@relaxed
@given(data=st.data())
def test_a_copy_answers_as_its_original_and_shares_nothing_with_it(
    variant: Variant, data: st.DataObject
) -> None:
    tree = variant.create(data.draw(st.integers(1, 300), "capacity"), data.draw(variant.fanout, "fanout"))
    priority = st.sampled_from([0.0, 1e-3, 1.0, tree.priority_max]) | st.floats(1e-3, 1e3)
    pair = st.tuples(st.integers(0, tree.capacity - 1), priority)
    for updates in data.draw(st.lists(st.lists(pair, min_size=1, max_size=20), max_size=4), "updates"):
        tree.update(*map(list, zip(*updates, strict=True)))
    way = WAYS[data.draw(st.sampled_from(sorted(WAYS)), "way")]
    if isinstance(variant, OnDevice):
        with pytest.raises(TypeError, match="no backend creates"):
            way(tree)
        return
    before = [np.array(tree.total), tree.get(np.arange(tree.capacity))]
    changed, copied = way(tree), way(tree)
    assert (copied.backend, copied.capacity, copied.fanout) == (tree.backend, tree.capacity, tree.fanout)
    life(changed, 1)
    assert_same([np.array(tree.total), tree.get(np.arange(tree.capacity))], before)
    assert_same(life(copied, 2), life(tree, 2))


CONTINUES = """
import pickle, sys
import numpy as np
trees = pickle.load(open(sys.argv[1], "rb"))
answers = [(tree.backend, tree.total, tree.sample(50, np.random.default_rng(5)).tolist()) for tree in trees]
pickle.dump(answers, open(sys.argv[2], "wb"))
"""


def test_unpickled_in_another_process_every_backend_continues(tmp_path: Path) -> None:
    trees = [sum_tree.create(1000, backend=name) for name in AVAILABLE if name != "fpga"]
    trees += [sum_tree.create(1000, dtype=np.float64), sum_tree.create(1000, fanout=3, simd="portable")]
    for tree in trees:
        tree.update(np.arange(1000), np.random.default_rng(4).random(1000))
    (tmp_path / "trees").write_bytes(pickle.dumps(trees))
    command = [sys.executable, "-c", CONTINUES, str(tmp_path / "trees"), str(tmp_path / "answers")]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    answers = pickle.loads((tmp_path / "answers").read_bytes())
    assert len(answers) == len(trees) >= 4
    for tree, answer in zip(trees, answers, strict=True):
        assert answer == (tree.backend, tree.total, tree.sample(50, np.random.default_rng(5)).tolist())


def test_unpickling_says_that_the_backend_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(sum_tree.create(8))
    module = backend.load("placerl.primitives.sum_tree", "native")
    monkeypatch.setattr(module, "unavailable_reason", lambda: "not built")
    with pytest.raises(
        backend.BackendUnavailableError, match=r"'native' of placerl\.primitives\.sum_tree .*: not built"
    ):
        pickle.loads(pickled)


@every_way
def test_a_tree_of_no_backend_is_not_copied_by_its_priorities(way: str) -> None:
    class Drifting(ReferenceSumTree):
        backend = "drifting"

    with pytest.raises(TypeError, match=r"Drifting: found a tree that no backend creates.*allowed.*native"):
        WAYS[way](Drifting(8, 2, np.float32))
