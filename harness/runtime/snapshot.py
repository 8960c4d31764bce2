"""Snapshots of a training on disk: its learner and its replay, with which a later process continues.

A snapshot is a file with the learner's state and what is known of the training, and a file with the replay's items next
to it, whose name has a random end: at every moment the first one belongs to a whole replay.

A training in legs is one whose legs each begin with the snapshot of the leg before, new environments and random streams
of its own (`seed_of`). So it does not matter which process trains a leg: a training that was interrupted continues with
the same numbers, bit for bit, as one that was not. An episode in progress at the end of a leg is cut, like one that is
truncated.
"""

import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from placerl.primitives.learner import Learner
from placerl.primitives.replay import snapshot
from placerl.primitives.replay.base import Replay


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a training.

    Attributes:
        path: the file with the learner.
        replay_path: the file with the replay's items.
        gradient_steps, environment_steps: steps taken.
        notes: what else is known of the training, such as its returns; values that JSON has.
    """

    path: Path
    replay_path: Path
    gradient_steps: int
    environment_steps: int
    notes: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the snapshot of a file, without its arrays.

        Raises:
            OSError: the file cannot be opened.
            ValueError: it is not such a file.
        """
        with snapshot.Reader(path) as reader:
            found = reader.metadata
        if not {"gradient_steps", "environment_steps", "notes", "replay"} <= found.keys():
            raise ValueError(f"{path}: found metadata of {sorted(found)}; allowed: a snapshot of a training")
        replay_path = path.with_name(Path(found["replay"]).name)
        return cls(path, replay_path, found["gradient_steps"], found["environment_steps"], found["notes"])

    def load(self, learner: Learner, replay: Replay) -> None:
        """Give a learner and a replay of the same kind the saved state.

        Raises:
            OSError: a file cannot be opened.
            ValueError: the files belong to another learner or replay, or are damaged.
        """
        try:  # a state may hold more arrays than one at the start, such as extremes that were seen
            with np.load(self.path, allow_pickle=False) as held:
                state = {name: held[name] for name in held.files if name != "metadata.json"}
        except zipfile.BadZipFile as error:
            raise ValueError(f"{self.path}: found {error}; allowed: an undamaged snapshot") from error
        replay.load(self.replay_path)
        learner.load_state_dict(state)


def write(
    path: Path,
    learner: Learner,
    replay: Replay,
    *,
    gradient_steps: int,
    environment_steps: int,
    notes: Mapping[str, Any],
) -> None:
    """Write a snapshot; at every moment the path has one whole snapshot, the old or the new one.

    Args:
        notes: values that JSON has.

    Raises:
        OSError: a file cannot be written; the old snapshot stays.
    """
    earlier = _replays(path)
    replay_path = path.with_name(f"{path.name}.replay-{secrets.token_hex(4)}")
    replay.save(replay_path)
    metadata = {
        "gradient_steps": gradient_steps,
        "environment_steps": environment_steps,
        "notes": dict(notes),
        "replay": replay_path.name,
    }
    snapshot.write(path, learner.state_dict(), metadata)
    for each in earlier:
        each.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a snapshot, if there is one."""
    for each in (path, *_replays(path)):
        each.unlink(missing_ok=True)


def _replays(path: Path) -> list[Path]:
    return [each for each in path.parent.glob("*.replay-*") if each.name.startswith(f"{path.name}.replay-")]


def seed_of(seed: int, leg: int) -> int:
    """Return the seed of the random streams of a leg: the training's own for the first one, 0."""
    return int(np.random.SeedSequence((seed, leg)).generate_state(1)[0]) if leg else seed
