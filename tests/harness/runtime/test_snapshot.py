from pathlib import Path

import numpy as np
import pytest

from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.harness.runtime.snapshot import Snapshot, seed_of
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload
from tests.harness.runtime.short_workloads import short

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")


def leg(resolved: Resolved, number: int, before: Path | None, after: Path) -> tuple[list[float], Training]:
    """Train a leg, save it, and return the returns of its episodes and the ended training."""
    begun = Snapshot.read(before) if before else None
    training = Training(resolved, seed=seed_of(3, number), begun=begun)
    episodes = training.advance(60).episodes
    training.write_snapshot(after, {"leg": number})
    training.close()
    return [episode.episode_return for episode in episodes], training


@pytest.mark.parametrize(
    ("item", "mapping", "options"),
    [
        (short("cartpole-dqn"), NATIVE, {}),  # whole rounds in one call
        (short("cartpole-dqn"), NATIVE, {"presampled_batches": 3}),
        (short("pendulum-sac"), TORCH, {}),  # with a generator of the learner's own
        (short("cartpole-ddpg", actors=2), TORCH, {"overlap": 4, "processes": 2}),
    ],
)
def test_a_training_that_is_continued_in_a_new_one_goes_on_as_it_would_have(
    tmp_path: Path, item: Workload, mapping: Mapping, options: dict[str, int]
) -> None:
    resolved = resolve(Schedule(**options), item, mapping)
    _, ended = leg(resolved, 0, None, tmp_path / "first")
    begun = Snapshot.read(tmp_path / "first")
    assert (begun.gradient_steps, begun.environment_steps) == (ended.gradient_steps, ended.environment_steps)
    assert begun.notes == {"leg": 0}
    returns = [leg(resolved, 1, tmp_path / "first", tmp_path / name) for name in ("once", "again")]
    assert returns[0][0] == returns[1][0]
    once, again = (np.load(tmp_path / name) for name in ("once", "again"))
    assert set(once.files) == set(again.files)
    for name in set(once.files) - {"metadata.json"}:
        assert np.array_equal(once[name], again[name]), name
    last = Snapshot.read(tmp_path / "once")
    assert last.gradient_steps - ended.gradient_steps == 60, "the warm-up is the first leg's"
    assert last.environment_steps > begun.environment_steps >= item.training.learning_starts
    start = np.load(tmp_path / "first")
    assert any(not np.array_equal(start[name], once[name]) for name in once.files if "metadata" not in name)


def test_a_leg_begins_with_the_weights_items_and_priorities_of_the_one_before(tmp_path: Path) -> None:
    resolved = resolve(Schedule(), short("cartpole-dqn"), NATIVE)
    _, ended = leg(resolved, 0, None, tmp_path / "first")
    training = Training(resolved, seed=seed_of(3, 1), begun=Snapshot.read(tmp_path / "first"))
    training.fill()  # which has nothing left to do
    assert training.environment_steps == ended.environment_steps
    before, now = ended.learner.state_dict(), training.learner.state_dict()
    assert all(np.array_equal(before[name], now[name]) for name in before)
    replays = ended.replay, training.replay
    rngs = np.random.default_rng(0), np.random.default_rng(0)
    batches = [replay.sample(8, rng) for replay, rng in zip(replays, rngs, strict=True)]
    assert np.array_equal(batches[0].indices, batches[1].indices)
    assert np.array_equal(batches[0].weights, batches[1].weights)
    assert all(np.array_equal(batches[0].batch[name], batches[1].batch[name]) for name in batches[0].batch)
    training.close()


def test_each_leg_has_random_streams_of_its_own() -> None:
    assert seed_of(7, 0) == 7
    assert len({seed_of(seed, number) for seed in range(5) for number in range(1, 20)}) == 5 * 19


def test_a_snapshot_of_another_learner_is_refused(tmp_path: Path) -> None:
    leg(resolve(Schedule(), short("cartpole-dqn"), NATIVE), 0, None, tmp_path / "first")
    with pytest.raises(ValueError, match="found"):
        Training(resolve(Schedule(), short("pendulum-sac"), NATIVE), begun=Snapshot.read(tmp_path / "first"))
