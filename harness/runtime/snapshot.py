"""Snapshots of a training on disk: its learner and its replay, with which a later process continues.

A training in legs is one whose legs each begin with the snapshot of the leg before, new environments and random streams
of its own (`seed_of`). So it does not matter which process trains a leg: a training that was interrupted continues with
the same numbers, bit for bit, as one that was not. An episode in progress at the end of a leg is cut, like one that is
truncated.
"""

import json
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
        path: the file with the learner; the replay's items are in `replay_path`.
        gradient_steps, environment_steps: steps taken.
        notes: what else is known of the training, such as its returns; values that JSON has.
    """

    path: Path
    gradient_steps: int
    environment_steps: int
    notes: Mapping[str, Any]

    @property
    def replay_path(self) -> Path:
        """Return the path of the file with the replay's items."""
        return replay_path(self.path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the snapshot of a file, without its arrays.

        Raises:
            OSError: the file cannot be opened.
            ValueError, LookupError: it is not such a file.
        """
        with np.load(path, allow_pickle=False) as held:
            metadata = json.loads(held["metadata.json"])
        return cls(path, metadata["gradient_steps"], metadata["environment_steps"], metadata["notes"])

    def save(self, learner: Learner, replay: Replay) -> None:
        """Write both files; the learner's is written last, so that it exists only with a complete replay.

        Raises:
            OSError: a file cannot be written.
        """
        replay.save(self.replay_path)
        metadata = {
            "gradient_steps": self.gradient_steps,
            "environment_steps": self.environment_steps,
            "notes": dict(self.notes),
        }
        snapshot.write(self.path, learner.state_dict(), metadata)

    def load(self, learner: Learner, replay: Replay) -> None:
        """Give a learner and a replay of the same kind the saved state.

        Raises:
            OSError: a file cannot be opened.
            ValueError: the files belong to another learner or replay, or are damaged.
        """
        with np.load(self.path, allow_pickle=False) as held:
            learner.load_state_dict({name: held[name] for name in held.files if name != "metadata.json"})
        replay.load(self.replay_path)


def replay_path(path: Path) -> Path:
    """Return the path of the replay's file of a snapshot, from that of the learner's."""
    return path.with_name(f"{path.name}.replay")


def seed_of(seed: int, leg: int) -> int:
    """Return the seed of the random streams of a leg: the training's own for the first one, 0."""
    return int(np.random.SeedSequence((seed, leg)).generate_state(1)[0]) if leg else seed
