"""A user's program: trains the user's own algorithm in the user's own environment, on any mapping, in a few lines.

    training = placerl.compose("CartPole-v1", weights, step, act, mapping="native-native-cpu")
    progress = training.advance(10_000)
    print(training.evaluate(), training.predict(observation))
    training.save("learnt")  # and `load`

A mapping says where learner, replay management and storage run; the same lines run on every mapping. Without
`mapping`, PRL's composer, which predicts the fastest one from times measured here, chooses it.
docs/tutorials/algorithm.md shows a whole program.
"""

import sys
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import Annotated, Any

import gymnasium
from pydantic import Field

from placerl.harness import environments
from placerl.harness.core.checked import checked
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.choice import MappingChoice, choose
from placerl.harness.runtime.own_training import OwnTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.workloads import ReplayTable, TrainingTable, custom_task
from placerl.harness.workloads.custom_task import CustomTask, MakeEnvironment
from placerl.primitives.algorithms.custom import Act, CustomAlgorithm, MisfitError, Step


@checked
class Settings:
    """Settings of a program's training.

    Attributes:
        exploration: for discrete actions the probability of a random action; for continuous actions the standard
            deviation of Gaussian noise.
        batch_size: B, transitions per gradient step.
        capacity: transitions stored before the oldest is evicted.
        prioritized: whether the replay is prioritised; if not, it is uniform.
        alpha: exponent of the priorities; 0 samples uniformly.
        beta_initial, beta_final, beta_steps: exponent of the importance weights: it changes linearly from the first to
            the second over so many gradient steps.
        n_step: most steps whose rewards a transition sums.
        discount: gamma of that sum. Batches then have the column `discount`, gamma^m for the m steps of a transition,
            fewer than `n_step` at an episode's end, which replaces gamma in the target. None: transitions of one step.
        actors: number of environments stepped together.
        update_interval: environment steps of all actors per gradient step.
        learning_starts: environment steps before the first gradient step.
        name: name of the program in error messages.

    Raises:
        UserError: a value is of another type or out of range, there is no such setting, the replay cannot hold a
            batch, or what the actors collect between two gradient steps, or a setting would be ignored.
    """

    exploration: Annotated[float, Field(ge=0)] = 0.1
    batch_size: Annotated[int, Field(ge=1, le=2**20)] = 32
    capacity: Annotated[int, Field(ge=2, le=2**31)] = 100_000
    prioritized: bool = True
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.6
    beta_initial: Annotated[float, Field(ge=0, le=1)] = 0.4
    beta_final: Annotated[float, Field(ge=0, le=1)] = 1.0
    beta_steps: Annotated[int, Field(ge=1, le=10**12)] = 100_000
    n_step: Annotated[int, Field(ge=1, le=1000)] = 1
    discount: Annotated[float | None, Field(ge=0, le=1)] = None
    actors: Annotated[int, Field(ge=1, le=4096)] = 1
    update_interval: Annotated[int, Field(ge=1, le=10**6)] = 1
    learning_starts: Annotated[int, Field(ge=1, le=10**9)] = 1_000
    name: str = "program"

    def __post_init__(self) -> None:
        """Raise UserError for settings that contradict each other."""
        together = lcm(self.actors, self.update_interval)
        if self.capacity < (needed := max(self.batch_size, together)):
            why = f"a batch, and the {together} transitions between two insertions (actors, update_interval)"
            raise UserError("Settings", "capacity", self.capacity, f"at least {needed}: {why}")
        for name in ("alpha", "beta_initial", "beta_final", "beta_steps"):
            if not self.prioritized and (found := getattr(self, name)) != (only := getattr(Settings, name)):
                raise UserError("Settings", name, found, f"{only} without a prioritised replay")
        if self.n_step > 1 and self.discount is None:
            raise UserError("Settings", "discount", None, f"0 to 1 with n_step={self.n_step}")
        if self.learning_starts < (needed := self.n_step * self.actors):
            why = "n_step * actors, the first transitions"
            raise UserError("Settings", "learning_starts", self.learning_starts, f"at least {needed}: {why}")


DEFAULTS = Settings()
_OF_THE_REPLAY = ("capacity", "prioritized", "alpha", "beta_initial", "beta_final", "beta_steps")


@dataclass(frozen=True, eq=False)
class Program:
    """A user's own algorithm in a user's own environment, for which `placerl.map` chooses a mapping.

    Attributes:
        environment, state, step, act, settings: as the arguments of `compose`.
        schedule: how the mapping will be run, such as the number of threads, with which learners are timed.
    """

    environment: str | gymnasium.Env[Any, Any] | MakeEnvironment
    state: Any
    step: Step
    act: Act
    settings: Settings = DEFAULTS
    schedule: Schedule = STRICT

    def task(self) -> CustomTask:
        """Return the program as a task, which is checked.

        Raises:
            UserError: the environment's spaces are not supported, or `step` or `act` returns something else.
        """
        settings, make = self.settings, self.environment
        if isinstance(make, str):
            environments.register()
            make = partial(gymnasium.make, make)
        elif isinstance(make, gymnasium.Env):
            make = custom_task.copies_of(make)
        make, spaces = custom_task.prepared(make, settings.name)
        if "discrete" in spaces.values() and settings.exploration > 1:
            raise UserError("Settings", "exploration", settings.exploration, "0 to 1 for discrete actions")
        algorithm = CustomAlgorithm(
            **spaces,
            state=self.state,
            step=self.step,
            policy=self.act,
            exploration=settings.exploration,
            n_step=settings.discount is not None,
        )
        try:
            algorithm.check()
        except MisfitError as error:
            raise UserError(error.function, error.field, error.found, error.allowed) from None
        return CustomTask(
            settings.name,
            make,
            algorithm,
            ReplayTable(**{name: getattr(settings, name) for name in _OF_THE_REPLAY}),
            TrainingTable(
                batch_size=settings.batch_size,
                batch_sizes=(settings.batch_size,),
                actors=settings.actors,
                update_interval=settings.update_interval,
                learning_starts=settings.learning_starts,
            ),
            settings.n_step,
            settings.discount,
        )

    def choose(self) -> MappingChoice:
        """Return the mapping that PRL's composer chooses, from times of some seconds that are taken here.

        Raises:
            UserError: as of `task`, or no mapping runs the program with its options.
        """
        return choose(self.task(), self.schedule)


def compose(
    environment: str | gymnasium.Env[Any, Any] | MakeEnvironment,
    state: Any,
    step: Step,
    act: Act,
    *,
    mapping: str | None = None,
    settings: Settings = DEFAULTS,
    seed: int = 0,
    schedule: Schedule = STRICT,
) -> OwnTraining:
    """Create a training of a user's own algorithm in a user's own environment, ready for `advance`.

    Args:
        environment: a function that creates an environment with Gymnasium's interface, and that is sent to actor
            processes; an environment, of which each actor steps a copy; or the ID of a registered one. Its
            observations are a Box, or a Dict or Tuple (possibly nested), which is flattened to one vector; they are
            stored as float32, images too. Its actions are a Discrete that begins at 0, or a one-dimensional Box with
            bounds.
        state: the learnt state: a dict, possibly nested, of tensors.
        step: `step(state, batch)`, one gradient step as a pure function in plain PyTorch. It returns the new
            state and {"td_error": (B,), losses by name: ()}. The batch has the columns observation, action,
            reward, next_observation, terminated (0 or 1), weight (importance weights for the mean of the losses)
            and, with `Settings.discount`, discount, (B, ...).
        act: `act(state, observation)` returns the greedy actions for (n, ...) observations: (n,) int64, or (n, A)
            in [-1, 1], which the actor scales to the environment's bounds.
        mapping: the mapping as text: LEARNER-RMM-STORAGE. Without one, PRL's composer chooses it from times of some
            seconds (`harness.runtime.choice`), and standard error says what it chose and why.
        settings: settings of the training, such as its batch size.
        seed: seed of everything random except the first state.
        schedule: how the mapping is run: threads, processes, overlap, ...

    Raises:
        UserError: the mapping names something that does not exist here, an option is not supported or would be
            ignored (`harness.runtime.resolve`), the sizes are not compatible, the environment's spaces are not
            supported, or `step` or `act` returns something else. While it trains, it is also raised for an environment
            that returns something else than its spaces and Gymnasium's interface say.
    """
    task = Program(environment, state, step, act, settings).task()
    try:
        chosen = _chosen(task, schedule) if mapping is None else Mapping.parse(mapping)
        return OwnTraining(resolve(schedule, task, chosen), seed=seed)
    except UserError as error:
        raise error.in_python("compose") from None


def _chosen(task: CustomTask, schedule: Schedule) -> Mapping:
    """Return the composer's mapping, and print what it is and why."""
    choice = choose(task, schedule)
    for line in choice.lines():
        print(f"{task.name}: {line}", file=sys.stderr)
    return choice.prediction.mapping
