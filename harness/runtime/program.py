"""A user's program: an algorithm and an environment of one's own, on any mapping, in a few lines.

    training = compose("CartPole-v1", weights, step, act, mapping="native-native-cpu")
    progress = training.advance(10_000)

The same lines run on every mapping; README.md has a whole program.
"""

from functools import partial
from typing import Any

import gymnasium

from harness.mapping import Mapping
from harness.runtime.training import Training
from harness.workloads import Replay, custom_task
from harness.workloads import Training as TrainingTable
from harness.workloads.custom_task import CustomTask, MakeEnvironment
from primitives.algorithms.custom import Act, CustomAlgorithm, Step


def compose(
    environment: str | MakeEnvironment,
    state: Any,
    step: Step,
    act: Act,
    *,
    mapping: str,
    exploration: float = 0.1,
    batch_size: int = 32,
    capacity: int = 100_000,
    prioritized: bool = True,
    actors: int = 1,
    update_interval: int = 1,
    learning_starts: int = 1_000,
    name: str = "program",
    **runtime: Any,
) -> Training:
    """A training of a user's own algorithm in a user's own environment, ready to `advance`.

    Args:
        environment: a function that makes an environment with Gymnasium's interface, which travels to actors that
            are processes; or the id of a registered one. Its observations are a Box, or a Dict or Tuple of them,
            nested or not, which is flattened to one vector; its actions a Discrete that begins at 0, or a Box of one
            dimension with bounds.
        state: what the algorithm learns: tensors in a dict, nested or not.
        step: `step(state, batch)`, one gradient step as a pure function in plain PyTorch, to the new state and
            {"td_error": (B,), losses by name: ()}. The batch has the columns observation, action, reward,
            next_observation, terminated (0 or 1) and weight (importance, mean of the losses' weights), (B, ...).
        act: `act(state, observation)`, the greedy actions for (n, ...) observations: (n,) int64, or (n, A) in
            [-1, 1], which the actor scales to the environment's bounds.
        mapping: what runs where: LEARNER-RMM-STORAGE.
        exploration: see `CustomAlgorithm`.
        batch_size: B, transitions in a gradient step.
        capacity: transitions stored before the oldest is evicted.
        prioritized: prioritised replay, or uniform.
        actors: environments stepped together.
        update_interval: environment steps, of all actors, per gradient step.
        learning_starts: environment steps before the first gradient step.
        name: in errors.
        runtime: `seed`, `threads`, `processes`, `overlap`, `presampled_batches`, ... as for `Training`.

    Raises:
        UserError: the mapping names what is not there, the sizes do not fit together, or the environment has other
            spaces.
        ValueError: an argument out of range, or a `step` or `act` that returns something else.
    """
    make = partial(gymnasium.make, environment) if isinstance(environment, str) else environment
    make, spaces = custom_task.prepared(make, name)
    algorithm = CustomAlgorithm(**spaces, state=state, step=step, policy=act, exploration=exploration)
    algorithm.check()
    task = CustomTask(
        name,
        make,
        algorithm,
        Replay(capacity=capacity, prioritized=prioritized),
        TrainingTable(
            batch_size=batch_size,
            batch_sizes=(batch_size,),
            actors=actors,
            update_interval=update_interval,
            learning_starts=learning_starts,
        ),
    )
    return Training(task, Mapping.parse(mapping), **runtime)
