import numpy as np
import pytest
from scipy import stats

from placerl.primitives.replay import Storage, UniformReplay
from placerl.primitives.replay.base import EMPTY
from tests.primitives.replay.batches import numbered_batch


@pytest.mark.parametrize("stratified", [False, True])
def test_every_item_is_equally_likely(storage: Storage, rng: np.random.Generator, stratified: bool) -> None:
    replay = UniformReplay(storage)
    replay.insert(numbered_batch(storage, np.arange(5)))
    counts = np.zeros(5)
    for _ in range(500):
        sample = replay.sample(7, rng, stratified=stratified)
        assert sample.weights.dtype == np.float32
        assert (sample.weights == 1).all()
        np.testing.assert_array_equal(sample.batch["action"], sample.indices)
        counts += np.bincount(sample.indices, minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_refuses_to_sample_nothing(storage: Storage, rng: np.random.Generator) -> None:
    replay = UniformReplay(storage)
    with pytest.raises(ValueError, match=EMPTY):
        replay.sample(1, rng)
    replay.insert(numbered_batch(storage, [1]))
    with pytest.raises(ValueError, match="batch_size"):
        replay.sample(0, rng)


def test_update_priorities_checks_its_arguments_though_it_changes_nothing(storage: Storage) -> None:
    replay = UniformReplay(storage)
    replay.insert(numbered_batch(storage, [1]))
    replay.update_priorities([0], [3.0])
    with pytest.raises(ValueError, match="indices"):
        replay.update_priorities([1], [3.0])
    with pytest.raises(ValueError, match="td_errors"):
        replay.update_priorities([0], [np.nan])


def test_a_refused_out_draws_nothing(storage: Storage, rng: np.random.Generator) -> None:
    replay = UniformReplay(storage)
    replay.insert(numbered_batch(storage, [1, 2, 3]))
    out, before = replay.allocate(4), rng.bit_generator.state
    with pytest.raises(ValueError, match="out"):
        replay.sample(4, rng, out=out._replace(batch={}))
    assert rng.bit_generator.state == before
