"""The training of a user's own algorithm, which can be saved and continued, and asked for actions and returns."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.evaluation import Evaluation
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.snapshot import Snapshot
from placerl.harness.runtime.training import Training
from placerl.harness.workloads.custom_task import CustomTask

_FORMAT = 1
_STATE = "training.npz"


class OwnTraining(Training):
    """A training of a user's own algorithm, as `placerl.compose` returns it.

    Args:
        resolved: what is trained, and how; the task is a user's own.
        seed: seed of all random numbers but the first state.

    Raises:
        UserError: a part cannot be created.
    """

    def __init__(self, resolved: Resolved, *, seed: int = 0) -> None:
        super().__init__(resolved, seed=seed)
        self._resolved, self._seed = resolved, seed

    def predict(self, observation: Any) -> Any:
        """Return the greedy action for one observation.

        Args:
            observation: as the environment returns it, also a dict or a tuple of arrays.

        Returns:
            An action in the environment's action space.

        Raises:
            UserError: a part of an observation that consists of several arrays is wrong.
            ValueError: the observation has another shape, or is not finite.
        """
        return self._evaluation.action(self.learner.act, observation)

    def evaluate(self, episodes: int = EPISODES) -> list[float]:
        """Return the undiscounted returns of greedy episodes in an environment of their own, from the same starts.

        Args:
            episodes: number of episodes.

        Raises:
            ValueError: `episodes` is below 1.
        """
        if episodes < 1:
            raise ValueError(f"episodes: found {episodes}; allowed: at least 1")
        return self._evaluation.returns(self.learner.act, episodes)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, optimiser, replay, counters and generators to a folder, with the task, mapping and schedule.

        Batches that were sampled ahead, transitions that wait to be inserted, and episodes that have begun are left
        out. At every moment the folder holds one whole training, the old or the new one.

        Args:
            folder: created if it does not exist; the folder around it exists.

        Raises:
            OSError: a file could not be written.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        notes = {
            "format": _FORMAT,
            "described": self._described(),
            "seed": self._seed,
            "sampling": self._loop.units.rng.bit_generator.state,
        }
        self.write_snapshot(folder / _STATE, notes)

    def load(self, folder: str | os.PathLike[str], *, elsewhere: bool = False) -> None:
        """Continue from a folder that `save` wrote.

        Gradient steps (`learn`) go on bit for bit. An environment cannot be saved, so new episodes begin, with seeds
        that follow from the saved ones: every training that loads the same folder goes on the same.

        Args:
            elsewhere: whether mapping and schedule may differ from the saved ones. Training then goes on up to
                rounding, and in the order of the new schedule.

        Raises:
            OSError: a file cannot be opened.
            UserError: this training has begun, or the task, or without `elsewhere` the mapping or the schedule, is not
                the saved one; nothing was loaded.
            ValueError: a file is damaged.
        """
        if self.environment_steps:
            found = f"a training of {self.environment_steps} environment steps"
            raise UserError("load", "training", found, "a new one of placerl.compose")
        folder = Path(folder)
        saved = Snapshot.read(folder / _STATE)
        if (form := saved.notes.get("format")) != _FORMAT:
            raise UserError(folder, "format", form, _FORMAT)
        _check_same(folder, saved.notes["described"], self._described(), elsewhere)
        self._load(saved)
        self._loop.units.rng.bit_generator.state = saved.notes["sampling"]
        self._seed = saved.notes["seed"]
        self.__dict__.pop("_evaluation", None)  # one that was asked before has the starts of another seed
        self._begin_episodes(saved.environment_steps)

    def _begin_episodes(self, environment_steps: int) -> None:
        """Replace the actors by new ones, for which `environment_steps` count as taken."""
        resolved, old = self._resolved, self._plan
        environment_seed, exploration_seed = np.random.SeedSequence([self._seed, environment_steps]).spawn(2)
        plan = actors_of(
            resolved.task,
            environment_seed,
            exploration_seed,
            old.fields,
            old.local_storage,
            resolved.schedule,
        )
        self._acting.close()
        actors = self._started_actors(
            replace(plan, environment_steps=environment_steps), resolved.processes, resolved.shape.overlapped
        )
        self._acting = self._loop.units.acting = actors
        self._opened.callback(actors.close)

    @cached_property
    def _evaluation(self) -> Evaluation:
        evaluation = Evaluation(self._resolved.task, self._seed)
        self._opened.callback(evaluation.close)
        return evaluation

    def _described(self) -> dict[str, str]:
        """Return what must be equal in the training that was saved and the one that continues it, as text by name."""
        resolved, task = self._resolved, self._resolved.task
        assert isinstance(task, CustomTask)
        algorithm = task.custom_algorithm
        fields = {f"columns.{name}": f"{field.shape} {field.dtype}" for name, field in task.columns().items()}
        state = {
            f"state.{name}": f"{array.shape} {array.dtype}"
            for name, array in self.learner.state_dict().items()
        }
        settings = task.replay.model_dump() | task.training.model_dump()
        own = {
            "action_size": algorithm.action_size,
            "exploration": algorithm.exploration,
            "n_step": task.n_step,
            "discount": task.discount,
            "mapping": resolved.mapping,
        }
        schedule = {f"schedule.{name}": value for name, value in resolved.schedule.given().items()}
        return {name: str(value) for name, value in (fields | state | settings | own | schedule).items()}


def _check_same(folder: Path, saved: Mapping[str, str], here: Mapping[str, str], elsewhere: bool) -> None:
    """Refuse a saved training that is not described as the one that is here; the first difference is reported."""
    for name in sorted(saved.keys() | here.keys()):
        place = name == "mapping" or name.startswith("schedule.")
        found, own = saved.get(name, "none"), here.get(name, "none")
        if found != own and not (place and elsewhere):
            way = ", or load(..., elsewhere=True)" if place else ""
            raise UserError(folder, name, found, f"{own}, as in this training{way}")
