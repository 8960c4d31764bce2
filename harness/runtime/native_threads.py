"""Training with C++ threads as actors and learners (PAL IV-D and V), run by `primitives.training.parallel`.

On one core, or with 0 actor threads, one thread does both in turns: the whole loop without the interpreter. With
batches sampled ahead (MAP V-A) the learners' replay managers can have threads, too.
"""

from collections.abc import Callable
from dataclasses import asdict
from time import perf_counter

import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.environments import native_pool
from placerl.harness.loop.placement import Placement
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import replay_of, storage_of
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS, Progress
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.learner import UnsupportedOperationError
from placerl.primitives.replay import ConcurrentReplay
from placerl.primitives.training.parallel import Pacing, ParallelTraining

LEAD = 64
"""Environment steps by which actors may be ahead of the learners, in addition to one vector step of each actor."""


class ThreadedTraining:
    """A training of a workload whose actors and learners are C++ threads.

    It has the interface `measured_run.Trains`. Between two calls of `advance` no thread runs. The seconds of its
    terms are summed over all threads.

    Args:
        resolved: what is trained, and how; its processes are actor threads (`resolve.actor_threads`).
        lead: environment steps by which actor threads may be ahead of the learners.
        replay: the replay; None: an empty one of its own.

    Attributes:
        placement: the core of each thread, if they are bound.

    Raises:
        UserError: C++ threads cannot train the algorithm, which they find when they are created.
    """

    provenance = Provenance.MEASURED

    def __init__(
        self,
        resolved: Resolved,
        *,
        seed: int = 0,
        lead: int = LEAD,
        replay: ConcurrentReplay | None = None,
    ) -> None:
        self.fusion = resolved.fusion
        workload, mapping, threads = resolved.workload, resolved.mapping, resolved.processes
        settings, schedule = workload.training, resolved.schedule
        batches = schedule.learners if schedule.own_batches else 1
        own = replay or replay_of(workload, mapping, storage_of(workload, mapping), self.fusion)
        assert isinstance(own, ConcurrentReplay)
        self.replay = own
        actors = threads or 1
        each, more = divmod(settings.actors, actors)
        self._environments = [
            native_pool.make(workload.environment, each + (rank < more), "same_step")
            for rank in range(actors)
        ]
        try:
            self.training = ParallelTraining(
                algorithm_of(workload),
                self._environments,
                self.replay,
                learners=schedule.learners,
                batch_size=batches * settings.batch_size,
                pacing=Pacing(
                    settings.learning_starts,
                    settings.update_interval,
                    lead if threads else 0,
                    resolved.shape.ahead,
                    schedule.replay_beside,
                ),
                seed=int(np.random.SeedSequence(seed).generate_state(1)[0]),
            )
        except (ValueError, UnsupportedOperationError) as error:
            raise UserError(
                workload.name, "threads_native", str(error), "what C++ threads can train"
            ) from error

        self.placement: Placement | None = None
        if schedule.pinned:
            managers = schedule.learners * schedule.replay_beside
            self.placement = Placement.of(usable_cores(), schedule.learners, managers, threads)
            self.training.place(**asdict(self.placement))

    @property
    def gradient_steps(self) -> int:
        """Return the number of gradient steps taken so far."""
        return self.training.gradient_steps

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all actors."""
        return self.training.environment_steps

    def warm_up(self) -> Progress:
        """Fill the replay with random actions, then take the first gradient steps."""
        before = self._counts()
        self.training.run(WARM_UP_GRADIENT_STEPS)
        return self._progress(before)

    def advance(self, gradient_steps: int) -> Progress:
        """Continue training for `gradient_steps`, and return what happened.

        Raises:
            ValueError: `gradient_steps` is below 1, or a thread found a number that is not finite.
        """
        before = self._counts()
        self.training.run(gradient_steps)
        return self._progress(before)

    def collect(self, environment_steps: int) -> Progress:
        """Run the actors alone for at least `environment_steps`, without learning, and return what happened."""
        before = self._counts()
        self.training.collect(environment_steps)
        return self._progress(before)

    def learn(self, gradient_steps: int) -> Progress:
        """Run the learners alone for `gradient_steps`, without acting, and return what happened."""
        before = self._counts()
        self.training.learn(gradient_steps)
        return self._progress(before)

    def greedy(self) -> Callable[[npt.NDArray], npt.NDArray]:
        """Return the learners' present policy, without exploration: it maps an observation to an action."""
        algorithm, state = self.training.algorithm, self.training.state_dict()
        del state["environment_steps"]
        policy = learner.create(algorithm, backend="native", batch_size=1)
        policy.load_state_dict(state)
        return policy.act

    def close(self) -> None:
        """Do nothing: no thread runs, and memory is freed with the object."""

    def _counts(self) -> tuple[float, int, int, dict[str, float]]:
        return perf_counter(), self.gradient_steps, self.environment_steps, self.training.spent_s()

    def _progress(self, before: tuple[float, int, int, dict[str, float]]) -> Progress:
        begun_s, gradient_steps, environment_steps, spent_s = before
        now_s, spent_now_s = perf_counter(), self.training.spent_s()
        return Progress(
            gradient_steps=self.gradient_steps - gradient_steps,
            environment_steps=self.environment_steps - environment_steps,
            wall_s=now_s - begun_s,
            episodes=[Episode(step, total) for step, total in self.training.take_episodes()],
            terms_s={name: spent_now_s[name] - spent_s[name] for name in spent_now_s},
        )
