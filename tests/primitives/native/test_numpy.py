"""Native calls draw from the bit generator that a Generator has at the time of the call, and keep it alive."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import sum_tree
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import RelaxedSteps
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage
from tests.primitives.learner.fused.replay_and_learner import parts

BITS = (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
Draw = Callable[[np.random.Generator], object]


def tree() -> Draw:
    made = sum_tree.create(64, backend="native")
    made.update(np.arange(64), np.ones(64))
    return lambda rng: made.sample(8, rng)


def replay() -> Draw:
    made = ConcurrentReplay(Storage(64, {"x": FieldSpec((), np.float32)}))
    made.insert({"x": np.zeros(64, np.float32)})
    return lambda rng: made.sample(8, rng)


def fused() -> Draw:
    steps = FusedSteps(*parts("dqn")[:2])
    return lambda rng: steps.run(1, rng)


def relaxed() -> Draw:
    steps = RelaxedSteps(*parts("dqn")[:2], 1)
    return lambda rng: steps.run(1, rng)


ENTRIES = {"tree": tree, "replay": replay, "fused": fused, "relaxed": relaxed}


def words(rng: np.random.Generator, count: int) -> list[int]:
    return rng.integers(2**64 - 1, size=count, dtype=np.uint64, endpoint=True).tolist()


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_generator_that_was_re_initialised_is_drawn_from_as_it_is_now(entry: str) -> None:
    draw, rng = ENTRIES[entry](), np.random.default_rng(0)
    draw(rng)
    for seed, kind in enumerate(BITS):
        rng.__init__(kind(seed))  # type: ignore[misc]
        gc.collect(1)  # the young objects: whatever else is alive takes seconds
        overwritten = [bytes(size) for size in range(16, 400) for _ in range(50)]
        draw(rng)
        other = np.random.Generator(kind(seed))
        words(other, 2)  # they seed one sample
        assert words(rng, 4) == words(other, 4)
        del overwritten


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_bit_generator_in_use_outlives_its_generator(entry: str) -> None:
    class Bits(np.random.PCG64):
        pass

    draw, bits = ENTRIES[entry](), Bits(1)
    rng = np.random.Generator(bits)
    draw(rng)
    alive = weakref.ref(bits)
    del rng, bits
    gc.collect()
    assert alive() is not None
    draw(np.random.default_rng(2))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, *BITS]), st.integers(0, 9)), max_size=30))
def test_whatever_generators_are_used_the_draws_are_those_of_a_tree_that_saw_no_other(
    uses: list[tuple[int, type | None, int]],
) -> None:
    drawn = tree()
    ours = [np.random.default_rng(seed) for seed in range(3)]
    theirs = [np.random.default_rng(seed) for seed in range(3)]
    for which, kind, seed in uses:
        if kind is not None:
            ours[which].__init__(kind(seed))  # type: ignore[misc]
            theirs[which] = np.random.Generator(kind(seed))
        np.testing.assert_array_equal(drawn(ours[which]), tree()(theirs[which]))


@pytest.mark.parametrize(
    "other", [None, 3, np.random.RandomState(0), np.random.PCG64(0), np.random.Generator]
)
def test_what_is_no_generator_is_refused(other: object) -> None:
    for name in ("tree", "replay", "fused"):
        with pytest.raises(TypeError, match="rng"):
            ENTRIES[name]()(other)  # type: ignore[arg-type]
