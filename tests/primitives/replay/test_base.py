"""What the interface promises holds for every replay."""

from collections.abc import Callable

import numpy as np
import pytest

from placerl.primitives.replay import Replay, Storage
from placerl.primitives.replay.base import EMPTY
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.kinds import KINDS

Make = Callable[[Storage], Replay]


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_nothing_to_sample_changes_neither_replay_nor_generator(
    make: Make, storage: Storage, rng: np.random.Generator, stratified: bool
) -> None:
    replay, before = make(storage), rng.bit_generator.state
    for out in (None, replay.allocate(2)):
        with pytest.raises(ValueError, match=EMPTY):
            replay.sample(2, rng, stratified=stratified, out=out)
    assert rng.bit_generator.state == before
    assert getattr(replay, "samples_drawn", 0) == 0
    replay.insert(numbered_batch(storage, [3]))
    assert replay.sample(2, rng, stratified=stratified).indices.tolist() == [0, 0]
