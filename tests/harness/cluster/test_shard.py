"""Shards of a replay sample as one replay of all their items would: item for item, weight for weight."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

pytest.importorskip("ray", reason="needs the extra 'cluster'")

from placerl.harness import workloads
from placerl.harness.cluster.shard import Drawn, SampleHandle, Shard, ShardSummary, dealt, whole_batches
from placerl.harness.cluster.training import shard_of
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import compose
from placerl.primitives.replay.prioritized import importance_weights

NATIVE = Mapping.parse("native-native-cpu")
BATCH, BATCHES, LEARNERS = 32, 40, 2
ALARM = 1e-4
"""The probability that one of these tests of frequencies fails by chance: seeds are fixed, so once for all."""


def shards_of(number: int, *, prioritized: bool = True) -> list[Shard]:
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 4096, "test")
    item = workloads.override(item, "replay.prioritized", prioritized, "test")
    shared, *own = np.random.SeedSequence(7).spawn(number + 1)
    return [Shard(item, NATIVE, seed, shared, i) for i, seed in enumerate(own)]


def transitions(rewards: Sequence[float]) -> dict[str, np.ndarray]:
    """Items told from one another by their reward."""
    fields = compose.columns_of(workloads.load("cartpole-dqn"))
    items = {name: np.zeros((len(rewards), *field.shape), field.dtype) for name, field in fields.items()}
    return items | {"reward": np.array(rewards, np.float32)}


def fill(shards: list[Shard], sizes: Sequence[int], *, spread: bool = True) -> np.ndarray:
    """Inserts items of priorities of their own; these, by the reward that names an item."""
    priorities, number = [], 0
    for shard, size in zip(shards, sizes, strict=True):
        if not size:
            continue
        shard.insert(transitions(range(number, number + size)))
        number += size
        errors = np.random.default_rng(size).uniform(0, 5, size) if spread else np.zeros(size)
        indices = np.arange(size)
        counts = np.array([[size]])
        handle = SampleHandle(shard.process, size, [indices], counts, np.zeros_like(counts))
        shard.update(handle, [errors])
        if spread:
            priorities += list(shard._replay.tree.get(indices).astype(float))
        else:
            priorities += [1.0] * size
    return np.array(priorities)


def sample(shards: list[Shard], call: int = 1) -> list[list[Drawn]]:
    """By learner, what each shard has drawn."""
    summaries = [shard.summary() for shard in shards]
    found = [shard.sample(call, LEARNERS, BATCHES, BATCH, summaries)[0] for shard in shards]
    return [[drawn[learner] for drawn in found] for learner in range(LEARNERS)]


def drawn_items(shards: list[Shard], calls: int) -> np.ndarray:
    found = []
    for call in range(calls):
        for drawn in sample(shards, call):
            found += [columns["reward"] for columns, _ in whole_batches(drawn, BATCH, [0.4] * BATCHES)]
    return np.concatenate(found).astype(int)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("sizes", [(20, 40), (60,), (50, 0, 10), (5, 30, 25)])
def test_items_are_drawn_as_from_one_replay_however_they_are_spread(sizes, prioritized):
    shards = shards_of(len(sizes), prioritized=prioritized)
    priorities = fill(shards, sizes, spread=prioritized)
    found = np.bincount(drawn_items(shards, calls=10), minlength=len(priorities))
    expected = found.sum() * priorities / priorities.sum()
    assert expected.min() > 5  # else the test of frequencies does not hold
    assert stats.chisquare(found, expected).pvalue > ALARM


def test_how_many_of_a_batch_come_from_a_shard_is_binomial():
    """A batch from one shard alone would have the same frequencies, but its items not be independent."""
    summaries = [ShardSummary("a", 1.0, 100, 1.0), ShardSummary("b", 3.0, 100, 1.0)]
    counts = dealt(summaries, (5000,), BATCH, np.random.default_rng(0))
    assert (counts.sum(-1) == BATCH).all()
    few, many = 4, 12
    clipped = np.bincount(np.clip(counts[:, 0], few, many))[few:]
    law = stats.binom(BATCH, 1 / 4)
    expected = np.array([law.cdf(few), *law.pmf(np.arange(few + 1, many)), law.sf(many - 1)])
    assert stats.chisquare(clipped, 5000 * expected).pvalue > ALARM


def test_weights_are_those_of_one_replay():
    shards = shards_of(3)
    priorities = fill(shards, (5, 30, 25))
    (first, *_) = sample(shards)
    betas = np.linspace(0, 1, BATCHES)
    for (columns, weights), beta in zip(whole_batches(first, BATCH, betas), betas, strict=True):
        mine = priorities[columns["reward"].astype(int)]
        expected = importance_weights(mine, priorities.sum(), len(priorities), beta)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_td_errors_go_to_the_items_that_they_are_of_and_a_new_item_takes_the_largest_priority_of_any_shard():
    shards = shards_of(2)
    fill(shards, (20, 40), spread=False)
    summaries = [shard.summary() for shard in shards]
    sampled = [shard.sample(1, LEARNERS, BATCHES, BATCH, summaries) for shard in shards]
    td_errors = []
    for learner in range(LEARNERS):
        batches = whole_batches([drawn[learner] for drawn, _ in sampled], BATCH, [0.4] * BATCHES)
        td_errors.append([columns["reward"] for columns, _ in batches])
    for shard, (_, handle) in zip(shards, sampled, strict=True):
        shard.update(handle, *td_errors)
    first = 0
    for shard in shards:
        replay = shard._replay
        numbers = first + np.arange(len(replay))
        seen = np.isin(numbers, np.concatenate([np.concatenate(errors) for errors in td_errors]))
        assert seen.any()
        expected = (numbers[seen] + replay.epsilon) ** replay.alpha
        np.testing.assert_allclose(replay.tree.get(np.flatnonzero(seen)), expected, rtol=1e-5)
        first += len(replay)
    largest = shards[1].summary().largest
    assert largest > shards[0].summary().largest
    sample(shards)
    for shard in shards:
        items = len(shard._replay)
        shard.insert(transitions([1000.0]))
        assert shard._replay.tree.get(np.array([items])) == pytest.approx(largest, rel=1e-6)


def test_a_shard_that_begins_empty_gives_nothing_until_it_holds_items():
    old, lost = shards_of(2)
    fill([old, lost], (40, 40))
    _, new = shards_of(2)
    summaries = [old.summary(), lost.summary()]  # the other died after it told
    drawn = [shard.sample(1, LEARNERS, BATCHES, BATCH, summaries)[0][0] for shard in (old, new)]
    whole = [batch is not None for batch in whole_batches(drawn, BATCH, [0.4] * BATCHES)]
    alone = drawn[0].counts == BATCH
    assert whole == list(alone)
    assert not alone.all()
    assert set(drawn_items([old, new], calls=1)) <= set(range(40))

    handle = lost.sample(1, LEARNERS, BATCHES, BATCH, summaries)[1]
    new.update(handle, *[[np.ones(BATCH)] * BATCHES] * LEARNERS)  # no items of its own: nothing happens
    handle = old.sample(1, LEARNERS, BATCHES, BATCH, summaries)[1]
    before = old.summary()
    old.update(
        handle, *[[np.zeros(0)] * BATCHES] * LEARNERS
    )  # batches that were not whole: nothing was learnt
    assert old.summary() == before


def test_fewer_items_than_a_batch_are_not_sampled():
    shards = shards_of(2)
    fill(shards, (10, 20))
    for drawn in sample(shards):
        assert whole_batches(drawn, BATCH, [0.4] * BATCHES) == [None] * BATCHES


@settings(deadline=None)
@given(shards=st.integers(1, 20), begin=st.integers(0, 50), actor=st.integers(0, 50))
def test_in_as_many_rounds_as_shards_each_takes_from_each_actor_once(shards, begin, actor):
    taken = [shard_of(actor, begin + number, shards) for number in range(shards)]
    assert sorted(taken) == list(range(shards))
