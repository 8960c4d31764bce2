"""Training with C++ threads as actors and learners (PAL IV-D and V), run by `primitives.training.parallel`.

On one core, or with 0 actor threads, one thread does both in turns: the whole loop without the interpreter.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import STRICT, Fusion, Schedule, is_on_policy
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime import memory
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import replay_of, storage_of
from placerl.harness.runtime.learner_memory import check_learner
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS, Progress
from placerl.harness.workloads import Workload
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives import learner
from placerl.primitives.environments import factory as native_environments
from placerl.primitives.learner import UnsupportedOperationError
from placerl.primitives.replay import ConcurrentReplay
from placerl.primitives.training.parallel import Pacing, ParallelTraining

MAPPING = "native-native-cpu"
LEAD = 64
"""Environment steps by which actors may be ahead of the learners, in addition to one vector step of each actor."""
_SUPPORTED = (
    "actors",
    "processes",
    "native_environments",
    "learners",
    "presampled_batches",
    "threads_native",
)
"""Schedule that may differ from their defaults."""


def actor_threads(schedule: Schedule, environments: int) -> int:
    """Return the number of actor threads; with 0, the learner's thread steps the environments itself, in turns.

    It is the requested number; else the largest that divides the environments evenly, with a core for each that no
    learner needs. Several learners have at least one actor thread.

    Args:
        schedule: `processes` is the requested number of threads, if any, and `learners` that of the learners.
        environments: number of environments.
    """
    if schedule.processes is not None:
        return schedule.processes
    free = min(environments, len(usable_cores()) - schedule.learners)
    if free < 1:
        return 0 if schedule.learners == 1 else 1
    return max(threads for threads in range(1, free + 1) if environments % threads == 0)


def check(schedule: Schedule, task: Task, mapping: Mapping, batch_size: int) -> None:
    """Check that C++ threads can train a task, before anything starts or is stored.

    Args:
        schedule: the requested options.
        task: the task to train.
        mapping: must be `MAPPING`.
        batch_size: transitions per gradient step.

    Raises:
        UserError: the mapping, an option, the workload or its environment is not supported; the first one
            is reported.
    """
    if str(mapping) != MAPPING:
        raise UserError(task.name, "mapping", mapping, f"{MAPPING} with --threads-native")
    for name, found in schedule.given().items():
        if name not in _SUPPORTED:
            raise UserError(task.name, name, found, f"{getattr(STRICT, name)} with --threads-native")
    if ahead := schedule.ahead(task):  # requested, or the workload's
        raise UserError(task.name, "presampled_batches", ahead, "0 with --threads-native")
    if is_on_policy(task) or not task.replay.prioritized:
        found = "no prioritised replay"
        raise UserError(task.name, "replay", found, "a prioritised one, which the threads share")
    if not 1 <= schedule.learners <= batch_size or batch_size % schedule.learners:
        raise UserError(
            task.name, "learners", schedule.learners, f"a divisor of the batch size, {batch_size}"
        )
    environments = task.training.actors
    threads = actor_threads(schedule, environments)
    if threads == 0 and schedule.learners > 1:
        raise UserError(task.name, "processes", threads, f"at least 1 with {schedule.learners} learners")
    if threads < 0 or (threads and environments % threads):
        raise UserError(
            task.name, "processes", threads, f"a divisor of training.actors, {environments}, or 0"
        )
    memory.check(task, batch_size, 0, 0)
    check_learner(task, batch_size, mapping.learner.backend)
    _environments(task, 1)


class ThreadedTraining:
    """A training of a workload whose actors and learners are C++ threads.

    It has the interface `measured_run.Trains`. Between two calls of `advance` no thread runs. The seconds of its
    terms are summed over all threads.

    Args:
        workload: the workload to train; its environment must exist natively.
        mapping: must be `MAPPING`.
        batch_size: transitions per gradient step, of all learners together; by default the workload's.
        seed: seed of everything random.
        schedule: `actors`, `processes` (here the number of actor threads, see `actor_threads`) and `learners` are used.
        lead: environment steps by which actor threads may be ahead of the learners.

    Raises:
        UserError: an option or the workload is not supported.
    """

    fusion = Fusion.REPLAY
    provenance = Provenance.MEASURED

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        schedule: Schedule = STRICT,
        lead: int = LEAD,
    ) -> None:
        settings = workload.training
        size = settings.batch_size if batch_size is None else batch_size
        check(schedule, workload, mapping, size)
        threads = actor_threads(schedule, settings.actors)
        self.replay = replay_of(workload, mapping, storage_of(workload, mapping), Fusion.REPLAY)
        assert isinstance(self.replay, ConcurrentReplay)
        actors = threads or 1
        self._environments = [_environments(workload, settings.actors // actors) for _ in range(actors)]
        try:
            self.training = ParallelTraining(
                algorithm_of(workload),
                self._environments,
                self.replay,
                learners=schedule.learners,
                batch_size=size,
                pacing=Pacing(settings.learning_starts, settings.update_interval, lead if threads else 0),
                seed=int(np.random.SeedSequence(seed).generate_state(1)[0]),
            )
        except (ValueError, UnsupportedOperationError) as error:
            raise UserError(
                workload.name, "threads_native", str(error), "what C++ threads can train"
            ) from error

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


def _environments(task: Task, count: int) -> Any:
    """Return native environments that step together; UserError if there are none of this kind here."""
    allowed = f"{', '.join(native_environments.ids())} with --threads-native"
    if isinstance(task, CustomTask):
        raise UserError(task.name, "environment", "an environment of your own", allowed)
    name = task.environment.id
    if name not in native_environments.ids():
        raise UserError(task.name, "environment.id", name, allowed)
    if reason := native_environments.unavailable_reason(name):
        raise UserError(task.name, "environment.id", name, f"what can be created here: {reason}")
    return native_environments.make_native(name, count, autoreset="same_step")
