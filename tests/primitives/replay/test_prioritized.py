import numpy as np
import pytest
from scipy import stats

from placerl.primitives.replay import LinearSchedule, PrioritizedReplay, Storage, importance_weights
from placerl.primitives.replay.base import EMPTY
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.fake_tree import FakeTree


@pytest.fixture
def replay(storage: Storage) -> PrioritizedReplay:
    return PrioritizedReplay(storage, FakeTree(8), alpha=0.5, beta=0.5)


def test_importance_weights_are_pal_algorithm_1_line_15() -> None:
    priorities = np.array([1.0, 4.0])
    # N = 4, sum = 16: 1/4 * 16/1 = 4, 1/4 * 16/4 = 1; to the power 0.5: 2, 1
    np.testing.assert_allclose(importance_weights(priorities, 16.0, 4, 0.5, "none"), [2, 1])
    np.testing.assert_allclose(importance_weights(priorities, 16.0, 4, 0.5), [1, 0.5])


def test_equal_priorities_give_weights_of_1(replay: PrioritizedReplay, rng: np.random.Generator) -> None:
    replay.normalisation = "none"
    replay.insert(numbered_batch(replay.storage, np.arange(6)))
    np.testing.assert_allclose(replay.sample(5, rng).weights, 1)


@pytest.mark.parametrize("stratified", [False, True])
def test_samples_in_proportion_to_the_power_of_td_errors(
    replay: PrioritizedReplay, rng: np.random.Generator, stratified: bool
) -> None:
    rows = replay.insert(numbered_batch(replay.storage, np.arange(4)))
    replay.update_priorities(rows, [-16.0, 9.0, 4.0, 1.0])
    counts = np.zeros(4)
    for _ in range(500):
        sample = replay.sample(10, rng, stratified=stratified)
        np.testing.assert_array_equal(sample.batch["action"], sample.indices)
        counts += np.bincount(sample.indices, minlength=4)
    assert stats.chisquare(counts, counts.sum() * np.array([4, 3, 2, 1]) / 10).pvalue > 1e-4


def test_weights_come_from_the_priorities_at_sampling_time(
    replay: PrioritizedReplay, rng: np.random.Generator
) -> None:
    rows = replay.insert(numbered_batch(replay.storage, np.arange(4)))
    replay.update_priorities(rows, [16.0, 9.0, 4.0, 1.0])
    sample = replay.sample(64, rng)
    expected = (np.array([4, 3, 2, 1.0])[sample.indices]) ** -0.5
    np.testing.assert_allclose(sample.weights, expected / expected.max(), rtol=1e-5)


def test_new_items_take_the_maximum_priority_so_far(replay: PrioritizedReplay) -> None:
    rows = replay.insert(numbered_batch(replay.storage, [0, 1]))
    np.testing.assert_allclose(replay.tree.get(rows), 1)
    replay.update_priorities(rows, [4.0, 100.0])
    replay.update_priorities(rows, [4.0, 0.0])
    np.testing.assert_allclose(replay.tree.get(replay.insert(numbered_batch(replay.storage, [2]))), 10)


def test_new_items_take_the_priority_of_their_own_td_error_when_given(replay: PrioritizedReplay) -> None:
    rows = replay.insert(numbered_batch(replay.storage, [0, 1]), td_errors=[4.0, 25.0])
    np.testing.assert_allclose(replay.tree.get(rows), [2, 5], rtol=1e-6)


def test_an_item_of_no_td_error_can_still_be_sampled(replay: PrioritizedReplay) -> None:
    rows = replay.insert(numbered_batch(replay.storage, [0]))
    replay.update_priorities(rows, [0.0])
    assert replay.tree.get(rows)[0] == pytest.approx(1e-3)


def test_replaced_items_take_a_new_priority(replay: PrioritizedReplay, rng: np.random.Generator) -> None:
    rows = replay.insert(numbered_batch(replay.storage, np.arange(8)))
    replay.update_priorities(rows, np.zeros(8))
    assert replay.insert(numbered_batch(replay.storage, [8, 9])).tolist() == [0, 1]
    np.testing.assert_allclose(replay.tree.get(np.array([0, 1, 2])), [1, 1, 1e-3], rtol=1e-3)
    assert set(replay.sample(64, rng).batch["action"]) >= {8, 9}


def test_beta_follows_its_schedule_over_samples(storage: Storage, rng: np.random.Generator) -> None:
    replay = PrioritizedReplay(storage, FakeTree(8), beta=LinearSchedule(0.4, 1.0, 2))
    replay.insert(numbered_batch(storage, [0]))
    betas = []
    for _ in range(4):
        betas.append(replay.beta)
        replay.sample(1, rng)
    assert betas == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_refused_arguments_leave_the_state_unchanged(replay: PrioritizedReplay) -> None:
    rows = replay.insert(numbered_batch(replay.storage, np.arange(3)))
    before = replay.tree.get(rows).copy()
    for indices, td_errors in [
        ([0, 3], [1.0, 1.0]),
        ([0, 1], [1.0, np.nan]),
        ([0, 1], [1.0, -np.inf]),
        ([0, 1], [1.0]),
        ([0, 1], [[1.0, 1.0]]),
    ]:
        with pytest.raises(ValueError, match=r"indices|td_errors"):
            replay.update_priorities(indices, td_errors)
    with pytest.raises(TypeError, match="td_errors"):
        replay.update_priorities([0], ["1"])
    with pytest.raises(ValueError, match="td_errors"):
        replay.insert(numbered_batch(replay.storage, [1]), td_errors=[np.inf])
    np.testing.assert_array_equal(replay.tree.get(rows), before)
    assert replay.max_priority == 1
    assert len(replay) == 3


def test_a_priority_that_the_tree_refuses_writes_nothing(storage: Storage) -> None:
    replay = PrioritizedReplay(storage, FakeTree(8), alpha=2)
    with pytest.raises(ValueError, match="priorities"), np.errstate(over="ignore"):
        replay.insert(numbered_batch(storage, [1]), td_errors=[1e300])
    assert len(replay) == 0
    assert not storage.columns["action"].any()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"beta": -1}, "beta"),
        ({"beta": LinearSchedule(-1, 1, 10)}, "beta"),
        ({"epsilon": 0}, "epsilon"),
        ({"normalisation": "max"}, "normalisation"),
    ],
)
def test_refuses_options_out_of_range(storage: Storage, options: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        PrioritizedReplay(storage, FakeTree(8), **options)


def test_refuses_a_tree_too_small_or_not_empty(storage: Storage, rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="tree"):
        PrioritizedReplay(storage, FakeTree(7))
    tree = FakeTree(8)
    tree.update(np.array([0]), np.array([1.0]))
    with pytest.raises(ValueError, match="tree"):
        PrioritizedReplay(storage, tree)
    with pytest.raises(ValueError, match=EMPTY):
        PrioritizedReplay(storage, FakeTree(8)).sample(1, rng)


def test_a_refused_out_draws_nothing(replay: PrioritizedReplay, rng: np.random.Generator) -> None:
    replay.insert(numbered_batch(replay.storage, np.arange(3)))
    out, before = replay.allocate(4), rng.bit_generator.state
    out.indices[:], out.weights[:] = -1, -1
    with pytest.raises(ValueError, match="out"):
        replay.sample(4, rng, out=out._replace(batch={"reward": out.batch["reward"]}))
    out.batch["reward"].flags.writeable = False
    with pytest.raises(ValueError, match=r"reward.*read-only"):
        replay.sample(4, rng, out=out)
    assert (out.indices.tolist(), out.weights.tolist()) == ([-1] * 4, [-1] * 4)
    assert (replay.samples_drawn, rng.bit_generator.state) == (0, before)
