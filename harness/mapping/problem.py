"""The properties of a workload that a mapping strategy needs, such as the size of a transition."""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING

import numpy as np

from placerl.harness.workloads import Workload

if TYPE_CHECKING:
    from placerl.primitives.algorithms import Algorithm

WORD_BYTES = 4  # E and traffic are counted in 32-bit words (MAP VI-B step 3)
INDEX_BYTES, WEIGHT_BYTES, TD_ERROR_BYTES, PRIORITY_BYTES = 8, 4, 4, 12
"""Bytes that the runtime sends per item: its index, its importance weight, its TD error, and a new item's index with
its priority (together). A TD error comes without an index, because the replay management keeps those of its samples.
"""

OVERLAPPED_GRADIENT_STEPS = 32
"""Gradient steps of an iteration with concurrent actors: many, so that the hand-over costs little, but few enough to
keep the actors' weights fresh.
"""
SIMULATED_OVERLAPPED_GRADIENT_STEPS = 8
"""Gradient steps of such an iteration in virtual time, where a single step may take a second to simulate."""

RELAXED_AHEAD = 50
"""D, batches sampled ahead in the relaxed loop, so that sampling need not wait for training (50 in MAP VII-B)."""

MOST_AHEAD_BYTES = 2**28
"""Most bytes of the batches that wait for the learner: an eighth of the memory that a process may take."""


@dataclass(frozen=True)
class Problem:
    """The properties of a workload that a strategy needs.

    Attributes:
        batch_size: B, items per gradient step.
        item_words: E, 32-bit words of one stored transition (MAP VI-B step 3).
        actors: number of actors, each on the CPU.
        update_interval: environment steps between gradient steps.
        trajectory_length: T, vector steps of an on-policy iteration; 0 for off-policy training.
        epochs: K, passes over the samples of an on-policy iteration.
        acting_words: 32-bit words of the parameters that actors need.
        stored_bytes: bytes of a transition as the runtime stores it; 0: E words.
        ahead: D, the number of batches sampled ahead in the relaxed loop, where sampling runs in parallel with the
            learner: `RELAXED_AHEAD`, or fewer if the replay does not hold so many.
        learner_threads: threads of the learner.
        overlapped_gradient_steps: gradient steps of an iteration with concurrent actors.
        actor_processes: number of processes of the actors; 0: they are in the learner's.
    """

    batch_size: int
    item_words: int
    actors: int = 1
    update_interval: int = 1
    trajectory_length: int = 0
    epochs: int = 1
    acting_words: int = 0
    stored_bytes: int = 0
    ahead: int = RELAXED_AHEAD
    learner_threads: int = 1
    overlapped_gradient_steps: int = OVERLAPPED_GRADIENT_STEPS
    actor_processes: int = 0

    @property
    def item_bytes(self) -> int:
        """Return the bytes of a transition as it is stored, and sent over a link."""
        return self.stored_bytes or self.item_words * WORD_BYTES

    @property
    def on_policy(self) -> bool:
        """Return whether the workload trains only on its own latest samples (PPO 2.1)."""
        return self.trajectory_length > 0

    @property
    def round_gradient_steps(self) -> int:
        """Return the number of gradient steps per round.

        A round is the smallest unit with whole gradient steps and whole vector steps (steps of all actors together).
        """
        return self.actors // gcd(self.actors, self.update_interval)

    @property
    def round_vector_steps(self) -> int:
        """Return the number of vector steps (steps of all actors together) per round.

        A round is the smallest unit with whole gradient steps and whole vector steps.
        """
        return self.update_interval // gcd(self.actors, self.update_interval)

    @property
    def iteration_gradient_steps(self) -> int:
        """Return the number of gradient steps in an on-policy iteration."""
        return self.epochs * (self.trajectory_length * self.actors // self.batch_size)

    def overlapped_rounds(self, simulated: bool = False) -> int:
        """Return how many rounds the actors step at a time if they run in parallel with the learner.

        A round is the smallest unit with whole gradient steps and whole vector steps.

        Args:
            simulated: whether a part is simulated, so that time is virtual.
        """
        steps = SIMULATED_OVERLAPPED_GRADIENT_STEPS if simulated else self.overlapped_gradient_steps
        return -(-steps // self.round_gradient_steps)


def problem_of(workload: Workload, batch_size: int) -> Problem:
    """Return the properties of a workload that a mapping strategy needs, such as the size of a transition."""
    # PyTorch takes a second to load, and mappings are named without it.
    from placerl.harness.workloads.task import algorithm_of

    settings = workload.algorithm.hyperparameters
    on_policy = workload.algorithm.name == "ppo"
    return Problem(
        batch_size=batch_size,
        item_words=workload.item_words,
        actors=workload.training.actors,
        update_interval=workload.training.update_interval,
        trajectory_length=settings["trajectory_length"] if on_policy else 0,
        epochs=settings["epochs"] if on_policy else 1,
        acting_words=_acting_words(algorithm_of(workload)),
        stored_bytes=(stored_bytes := _stored_bytes(workload)),
        ahead=0 if on_policy else relaxed_ahead(workload.replay.capacity, batch_size, stored_bytes),
    )


def relaxed_ahead(capacity: int, batch_size: int, item_bytes: int) -> int:
    """Return D, the number of batches that the relaxed loop samples ahead of their gradient step.

    In this loop sampling runs in parallel with the learner.

    It is `RELAXED_AHEAD`, or fewer if the replay, or memory of `MOST_AHEAD_BYTES`, does not hold so many in addition
    to the batch that is being learnt.
    """
    held = min(capacity // batch_size, MOST_AHEAD_BYTES // (batch_size * item_bytes))
    return max(0, min(RELAXED_AHEAD, held - 1))


def _stored_bytes(workload: Workload) -> int:
    """Return the bytes of a transition in the storage; on-policy, of a sample as the learner takes it."""
    from placerl.harness.workloads.task import algorithm_of, columns_of

    if workload.algorithm.name == "ppo":
        columns = algorithm_of(workload).columns(1).values()
        return sum(prod(shape) * dtype.itemsize for shape, dtype in columns)
    return sum(prod(one.shape) * np.dtype(one.dtype).itemsize for one in columns_of(workload).values())


@lru_cache(maxsize=64)  # counting allocates a state, of millions of words for frames
def _acting_words(algorithm: "Algorithm") -> int:
    import torch

    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return sum(value.numel() for value in algorithm.acting_parameters(state).values())
