"""Training in whole rounds that never leave the learner's device, run by `primitives.training.resident_rounds`."""

from collections.abc import Callable
from math import ceil
from time import perf_counter

import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.training_loop import Shape
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import beta_of, environment_seeds
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS, Progress
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives.learner import UnsupportedOperationError
from placerl.primitives.learner.device import started_steps
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.resident import ResidentReplay
from placerl.primitives.replay.device.resident_prioritized import Prioritised, ResidentPrioritizedReplay
from placerl.primitives.replay.device.resident_uniform import ResidentUniformReplay
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from placerl.primitives.training.resident_rounds import ResidentActing, ResidentRounds


class ResidentTraining:
    """A training of a workload whose rounds are graphs of a device, which the host starts and then waits for.

    It has the interface `measured_run.Trains`. A stretch of it has one term, "round": its parts run without the host,
    which could not tell them apart.

    Args:
        resolved: what is trained, and how (`resident.check`).

    Attributes:
        fusion: always `Fusion.RESIDENT`.
        learner, replay: on the device.
        rounds: runs the rounds.

    Raises:
        UserError: a part cannot be created, such as a replay that the device's memory does not hold.
    """

    provenance = Provenance.MEASURED

    def __init__(self, resolved: Resolved, *, seed: int = 0) -> None:
        self.fusion = resolved.fusion
        workload, mapping, shape = resolved.workload, resolved.mapping, resolved.shape
        self._learning_starts = workload.training.learning_starts
        seeds = np.random.SeedSequence(seed).spawn(3)
        environment_seed, number_seed, learner_seed = seeds
        self.learner = learner_of(workload, mapping, learner_seed, resolved.schedule)
        executable = started_steps.check(self.learner)
        if not executable.device.has_double:
            raise UserError(mapping, "learner", executable.device.name, "a device with double precision")
        try:
            self.replay = _replay(workload, shape, executable, number_seed)
            acting = ResidentActing(
                workload.environment.id,
                environment_seeds(environment_seed, workload.training.actors),
                shape.vector_steps,
                shape.gradient_steps,
            )
            self.rounds = ResidentRounds(self.replay, self.learner, acting)
        except (MemoryError, UnsupportedOperationError) as error:
            raise UserError(mapping, "loop", str(error), "what its device can train in rounds") from error
        self._shape, self._actors = shape, workload.training.actors

    @property
    def gradient_steps(self) -> int:
        """Return the number of gradient steps taken so far."""
        return self.learner.gradient_steps

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self.rounds.environment_steps

    def warm_up(self) -> Progress:
        """Fill the replay to `learning_starts` with random actions, then take the first gradient steps."""
        missing = self._learning_starts - self.environment_steps
        return self._timed(WARM_UP_GRADIENT_STEPS, max(0, ceil(missing / self._actors)))

    def advance(self, gradient_steps: int) -> Progress:
        """Continue training for at least `gradient_steps`, in whole rounds, and return what happened.

        The first call also runs the warm-up, which the result does not include.

        Raises:
            ValueError: `gradient_steps` is below 1, or a number of the training is not finite.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        return self._timed(gradient_steps)

    def greedy(self) -> Callable[[npt.NDArray], npt.NDArray]:
        """Return the learner's present policy, without exploration: it maps an observation to an action."""
        return self.learner.act

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    def _timed(self, gradient_steps: int, filled: int = 0) -> Progress:
        """Take vector steps with random actions, then rounds, and wait for them."""
        begun_s, steps, environment_steps = perf_counter(), self.gradient_steps, self.environment_steps
        if filled:
            self.rounds.fill(filled)
        self.rounds.run_rounds(ceil(gradient_steps / self._shape.gradient_steps))
        losses = self.rounds.losses  # which waits
        wall_s = perf_counter() - begun_s
        return Progress(
            gradient_steps=self.gradient_steps - steps,
            environment_steps=self.environment_steps - environment_steps,
            wall_s=wall_s,
            episodes=[Episode(step, total) for step, total in self.rounds.take_episodes()],
            terms_s={"round": wall_s},
            losses=losses,
        )


def _replay(
    workload: Workload, shape: Shape, executable: DeviceExecutable, seeds: np.random.SeedSequence
) -> ResidentReplay:
    """Return the replay, which draws batches ahead on a stream of its own."""
    settings, device = workload.replay, executable.device
    storage = DeviceStorage(settings.capacity, columns_of(workload), device)
    seed = int(seeds.generate_state(1, np.uint64)[0])
    stream = None if shape.ahead else executable.stream
    if not settings.prioritized:
        return ResidentUniformReplay(storage, shape.batch_size, ahead=shape.ahead, seed=seed, stream=stream)
    tree = DeviceSumTree(settings.capacity, settings.fanout, np.float32, device)
    how = Prioritised(settings.alpha, beta_of(workload), settings.epsilon)
    return ResidentPrioritizedReplay(
        tree, storage, shape.batch_size, how, ahead=shape.ahead, seed=seed, stream=stream
    )
