"""What the replay costs its process in memory, and that it stays in it."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from placerl.primitives.replay import ConcurrentReplay, Replay, Storage
from placerl.primitives.sum_tree.running_sums import running_sums_max
from tests.limits import LIMIT_S
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.kinds import KINDS


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_forked_copy_refuses_to_be_used(make, storage: Storage, rng, tmp_path: Path) -> None:
    replay: Replay = make(storage)
    replay.insert(numbered_batch(storage, [1, 2]))
    replay.save(tmp_path / "parent")
    uses = [
        lambda: replay.insert(numbered_batch(storage, [3])),
        lambda: replay.sample(1, rng),
        lambda: replay.update_priorities([0], [1.0]),
        lambda: replay.save(tmp_path / "child"),
        lambda: replay.load(tmp_path / "parent"),
        lambda: pickle.dumps(replay),
        lambda: copy.deepcopy(replay),
    ]
    if isinstance(replay, ConcurrentReplay):
        uses += [lambda: replay.gather([0]), lambda: replay.priorities([0])]
    child = os.fork()
    if not child:
        refused = 0
        try:
            for use in uses:
                with pytest.raises(RuntimeError, match="belongs to process"):
                    use()
                refused += 1
        finally:
            os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == len(uses)
    assert not (tmp_path / "child").exists()
    replay.update_priorities([0], [1.0])


FILL = """
import numpy as np
import psutil
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, Storage, transition_fields
observation, action = FieldSpec((11,), np.float32), FieldSpec((3,), np.float32)
capacity, n = 1 << 20, 1 << 12
rng = np.random.default_rng(0)

def held_bytes():  # also what the system has swapped out
    used = psutil.Process().memory_full_info()
    return used.rss + getattr(used, "swap", 0)

small = ConcurrentReplay(Storage(2 * n, transition_fields(observation, action)))
batch = {name: np.ones((n, *column.shape[1:]), column.dtype) for name, column in small.storage.columns.items()}
small.insert(batch)
small.sample(256, rng)
before_bytes = held_bytes()
replay = ConcurrentReplay(Storage(capacity, transition_fields(observation, action)))
for _ in range(capacity // n + 5):
    replay.insert(batch)
    replay.update_priorities(replay.sample(256, rng).indices, rng.normal(size=256))
print(held_bytes() - before_bytes, replay.storage.nbytes)
"""


def test_a_full_replay_with_its_tree_takes_at_most_a_tenth_more_than_the_data() -> None:
    running_sums_max(1 << 20, 16)  # the first use on a machine measures it, with trees of its own
    done = subprocess.run(
        [sys.executable, "-c", FILL], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    taken_bytes, raw_bytes = map(int, done.stdout.split())
    assert raw_bytes == (1 << 20) * (11 * 4 + 3 * 4 + 4 + 11 * 4 + 1)
    assert raw_bytes <= taken_bytes <= 1.1 * raw_bytes
