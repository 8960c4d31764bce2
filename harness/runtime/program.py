"""A user's program: trains the user's own algorithm in the user's own environment, on any mapping, in a few lines.

    training = compose("CartPole-v1", weights, step, act, mapping="native-native-cpu")
    progress = training.advance(10_000)

A mapping says where learner, replay management and storage run; the same lines run on every mapping. Without
`mapping`, PRL's composer, which predicts the fastest one from times measured here, chooses it.
docs/tutorials/algorithm.md shows a whole program.
"""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from harness.mapping import Mapping
from harness.runtime import check_options
from harness.runtime.choice import choose
from harness.runtime.options import STRICT, Options
from harness.runtime.training import Training
from harness.workloads import ReplayTable, TrainingTable, custom_task
from harness.workloads.custom_task import CustomTask, MakeEnvironment
from primitives.algorithms.custom import Act, CustomAlgorithm, Step


@dataclass(frozen=True)
class Settings:
    """Settings of a program's training.

    Attributes:
        exploration: for discrete actions the probability of a random action; for continuous actions the standard
            deviation of Gaussian noise.
        batch_size: B, transitions per gradient step.
        capacity: transitions stored before the oldest is evicted.
        prioritized: whether the replay is prioritised; if not, it is uniform.
        actors: number of environments stepped together.
        update_interval: environment steps of all actors per gradient step.
        learning_starts: environment steps before the first gradient step.
        name: name of the program in error messages.
    """

    exploration: float = 0.1
    batch_size: int = 32
    capacity: int = 100_000
    prioritized: bool = True
    actors: int = 1
    update_interval: int = 1
    learning_starts: int = 1_000
    name: str = "program"


DEFAULTS = Settings()


def compose(
    environment: str | MakeEnvironment,
    state: Any,
    step: Step,
    act: Act,
    *,
    mapping: str | None = None,
    settings: Settings = DEFAULTS,
    seed: int = 0,
    options: Options = STRICT,
) -> Training:
    """Create a training of a user's own algorithm in a user's own environment, ready for `advance`.

    Args:
        environment: a function that creates an environment with Gymnasium's interface, and that is sent to actor
            processes; or the ID of a registered environment. Its observations are a Box, or a Dict or Tuple
            (possibly nested), which is flattened to one vector; they are stored as float32, images too. Its actions
            are a Discrete that begins at 0, or a one-dimensional Box with bounds.
        state: the learnt state: a dict, possibly nested, of tensors.
        step: `step(state, batch)`, one gradient step as a pure function in plain PyTorch. It returns the new
            state and {"td_error": (B,), losses by name: ()}. The batch has the columns observation, action,
            reward, next_observation, terminated (0 or 1) and weight (importance weights for the mean of the
            losses), (B, ...).
        act: `act(state, observation)` returns the greedy actions for (n, ...) observations: (n,) int64, or (n, A)
            in [-1, 1], which the actor scales to the environment's bounds.
        mapping: the mapping as text: LEARNER-RMM-STORAGE. Without one, PRL's composer chooses it from times of some
            seconds (`harness.runtime.choice`), and standard error says what it chose and why.
        settings: settings of the training, such as its batch size.
        seed: seed of everything random except the first state.
        options: how the mapping is run: threads, processes, overlap, ...

    Raises:
        UserError: the mapping names something that does not exist here, an option is not supported or would be
            ignored (`harness.runtime.check_options`), the sizes are not compatible, or the environment's spaces are
            not supported.
        ValueError: an argument is out of range, or `step` or `act` returns something else.
    """
    make = partial(gymnasium.make, environment) if isinstance(environment, str) else environment
    make, spaces = custom_task.prepared(make, settings.name)
    algorithm = CustomAlgorithm(
        **spaces, state=state, step=step, policy=act, exploration=settings.exploration
    )
    algorithm.check()
    task = CustomTask(
        settings.name,
        make,
        algorithm,
        ReplayTable(capacity=settings.capacity, prioritized=settings.prioritized),
        TrainingTable(
            batch_size=settings.batch_size,
            batch_sizes=(settings.batch_size,),
            actors=settings.actors,
            update_interval=settings.update_interval,
            learning_starts=settings.learning_starts,
        ),
    )
    chosen = _chosen(task, options) if mapping is None else Mapping.parse(mapping)
    check_options.check(options, task, chosen, settings.batch_size)
    return Training(task, chosen, seed=seed, options=options)


def _chosen(task: CustomTask, options: Options) -> Mapping:
    """Return the composer's mapping, and print what it is and why; UserError for options that no mapping could run."""
    check_options.check_without_mapping(options, task, task.training.batch_size)
    choice = choose(task, options)
    for line in choice.lines():
        print(f"{task.name}: {line}", file=sys.stderr)
    return choice.prediction.mapping
