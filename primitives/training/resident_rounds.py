"""Rounds of off-policy training that never leave a device: environments, policy, replay and gradient steps.

A round is that of the other loops: N environments take V steps, each with one inference on the learner's weights, their
transitions are inserted, and G gradient steps follow. Several rounds are one recorded graph, which the host starts
without waiting for the one before. Random numbers are functions of counters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from math import ceil, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives import checks
from placerl.primitives.algorithms.dqn import BONUS
from placerl.primitives.device import Graph, philox
from placerl.primitives.environments.device_environments import DeviceEnvironments, NStep
from placerl.primitives.learner import Learner
from placerl.primitives.learner.acting import exploring_graph
from placerl.primitives.learner.device.resident_steps import STEPS_A_GRAPH, Graphs, ResidentSteps
from placerl.primitives.learner.device.started_steps import check
from placerl.primitives.one_caller import one_at_a_time
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.device.resident import ResidentReplay
from placerl.primitives.training.exploration import exploration_of
from placerl.primitives.training.fitting import check_environments

_EXPLORING, _FILLING = np.uint32(2**31), np.uint32(2**31 + 1)
"""What tells the random numbers of actions apart from those of gradient steps."""


def kernel_source() -> str:
    """Return the source of the kernels, in the language that all devices share."""
    return philox.kernel_source() + files(__package__).joinpath("resident_kernels.h").read_text()


@dataclass(frozen=True)
class ResidentActing:
    """What acts in the rounds.

    Attributes:
        id: Gymnasium's id of the environments (`device_environments.ids`).
        seeds: seed of each environment, (N,).
        vector_steps: V, steps of all environments in a round, at least 1.
        gradient_steps: G, gradient steps in a round, at least 1.
        n_step: how n-step transitions are made; None: the transitions are of one step.

    Raises:
        ValueError: a value is out of range.
    """

    id: str
    seeds: Sequence[int]
    vector_steps: int = 1
    gradient_steps: int = 1
    n_step: NStep | None = None

    def __post_init__(self) -> None:
        checks.whole("vector_steps", self.vector_steps, 1)
        checks.whole("gradient_steps", self.gradient_steps, 1)


class ResidentRounds(ResidentSteps):
    """Runs whole rounds on a learner's device, which the host only starts.

    Gradient steps can also be taken alone, with `run`. New items get the largest priority so far.

    Args:
        replay: empty, with the columns of the environments' transitions, and as `ResidentSteps` takes it. Nothing
            else inserts into it.
        learner: a learner with kernels on a device, to which no `ResidentSteps` belongs yet.
        acting: the environments, and the steps of a round.
        steps_a_graph: about how many gradient steps one graph has.

    Attributes:
        rounds_a_graph: most rounds that one graph has.

    Raises:
        TypeError: the learner's steps cannot stay on its device.
        ValueError: a device cannot explore for the algorithm, or environments and replay do not fit it.
        UnsupportedOperationError: the device lacks an operation of the policy.
    """

    def __init__(
        self,
        replay: ResidentReplay,
        learner: Learner,
        acting: ResidentActing,
        *,
        steps_a_graph: int = STEPS_A_GRAPH,
    ) -> None:
        executable, algorithm = check(learner), learner.algorithm
        self._exploration = exploration_of(algorithm, n_step=True)
        count = len(acting.seeds)
        self._explore = f"explore {count}"
        executable.add(self._explore, exploring_graph(algorithm, count))
        super().__init__(replay, learner, steps_a_graph=steps_a_graph)
        self._acting = acting
        # As `_steps_a_graph`: rounds after which as many batches ahead are in the same places.
        turn = lcm(acting.gradient_steps, replay.ahead + 1) // acting.gradient_steps
        self.rounds_a_graph = ceil(max(1, steps_a_graph // acting.gradient_steps) / turn) * turn
        inputs = executable.inputs(self._explore)
        self._seen, (self._drawn,) = (
            inputs["batch/observation"],
            [part for name, part in inputs.items() if name.startswith("draws/")],
        )
        (self._actions,) = executable.outputs(self._explore).values()
        self._environments = DeviceEnvironments(
            acting.id,
            acting.seeds,
            replay.storage,
            self._stream,
            self._seen,
            at_once=self.rounds_a_graph * acting.vector_steps,
            n_step=acting.n_step,
        )
        check_environments(self._environments.native, algorithm)
        written = self._environments.indices, self._environments.inserted, self._environments.rows_a_step
        self._insert_rows = replay.inserter(*written)
        self._action_kernels = executable.device.kernels(kernel_source())
        self._rounds: Graphs = {}
        self._exploring: dict[int, Graph] = {}  # by their vector steps
        with self._stream.recorded(*self._beside) as self._filling:
            self._launch_vector_step(explores=False)

    def _launch_vector_step(self, *, explores: bool) -> None:
        """Start an action, a step and an insertion for every environment."""
        stream, kernels = self._stream, self._action_kernels
        environments, count = self._environments, np.int64(self._environments.count)
        actions = np.int64(self._learner.algorithm.action_size)
        drawn, chosen = (np.int64(part.offset_bytes) for part in (self._drawn, self._actions))
        discrete, arena = self._learner.algorithm.discrete, self._executable.arena
        of = environments.counters, *self._replay.key
        written: tuple[Any, ...]
        if explores and self._exploration.epsilon_greedy:
            _, first, last, steps = self._exploration
            annealed = np.float64(first), np.float64(last), np.int64(steps), np.float32(BONUS)
            name, written = "draw_bonus", (_EXPLORING, arena, drawn, actions, *annealed, count)
        elif not explores and discrete:
            name, written = "draw_choices", (_FILLING, arena, chosen, actions, count)
        else:
            kernels = self._kernels
            to, at, uniform = (_EXPLORING, drawn, 0) if explores else (_FILLING, chosen, 1)
            name, written = "draw_numbers", (to, arena, at, np.int64(uniform), count * actions)
        stream.launch(kernels[name], int(written[-1]), *of, *written)
        if explores:
            self._executable.launch(self._explore)
        environments.launch_step(self._actions)
        for one in self._beside:
            one.wait_for(stream)
        self._insert_rows()
        for one in self._beside:
            stream.wait_for(one)

    @one_at_a_time
    def fill(self, vector_steps: int) -> None:
        """Start vector steps with uniformly random actions, whose transitions are inserted.

        Raises:
            ValueError: `vector_steps` is below 1.
        """
        checks.whole("vector_steps", vector_steps, 1)
        for _ in range(vector_steps):
            self._environments.count_started(1)
            self._filling.replay()
            self.graphs_started += 1

    @one_at_a_time
    def explore(self, vector_steps: int) -> None:
        """Start the vector steps of rounds without their gradient steps.

        Raises:
            ValueError: `vector_steps` is below 1.
        """
        checks.whole("vector_steps", vector_steps, 1)
        while vector_steps > 0:
            at_once = min(vector_steps, self.rounds_a_graph * self._acting.vector_steps)
            if at_once not in self._exploring:
                with self._stream.recorded(*self._beside) as self._exploring[at_once]:
                    for _ in range(at_once):
                        self._launch_vector_step(explores=True)
            self._environments.count_started(at_once)
            self._exploring[at_once].replay()
            self.graphs_started += 1
            vector_steps -= at_once

    @one_at_a_time
    def run_rounds(self, rounds: int) -> None:
        """Start rounds: vector steps with exploring actions, the insertion of their transitions, and gradient steps.

        Raises:
            ValueError: `rounds` is below 1, or there may be nothing to sample in the first one, since it ends before
                step n of the n-step transitions.
            RuntimeError: another process created this object, or a call of another thread is in progress.
        """
        checks.whole("rounds", rounds, 1)
        acting, learner = self._acting, self._learner
        if not self._has_items(acting.vector_steps):
            raise ValueError(EMPTY)
        while rounds > 0:
            at_once = self._at_once(rounds, self.rounds_a_graph)
            first = learner.gradient_steps
            steps = range(first, first + at_once * acting.gradient_steps)
            variants = tuple(learner.algorithm.variant(step) for step in steps)
            self._environments.count_started(at_once * acting.vector_steps)
            self._start(self._rounds, variants, partial(self._launch_rounds, variants))
            rounds -= at_once

    def _launch_rounds(self, variants: tuple[str, ...]) -> None:
        """Start rounds whose gradient steps are of these variants."""
        acting = self._acting
        for begin in range(0, len(variants), acting.gradient_steps):
            for _ in range(acting.vector_steps):
                self._launch_vector_step(explores=True)
            self.launch(variants[begin : begin + acting.gradient_steps])

    def _has_items(self, vector_steps: int = 0) -> bool:
        """Return whether there is certainly something to sample, after so many more vector steps."""
        n_step = self._acting.n_step
        return self._environments.vector_steps + vector_steps >= (n_step.n if n_step else 1)

    def _finish(self) -> None:
        super()._finish()
        self._environments.count_rows()

    def insert(self, batch: object, td_errors: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """Refuse items of the host: rows are counted by the environments' steps.

        Raises:
            TypeError: always.
        """
        raise TypeError("insert: found items of the host; allowed: those of the environments on the device")

    @property
    def environment_steps(self) -> int:
        """The number of environment steps started so far, over all environments."""
        return self._environments.vector_steps * self._environments.count

    @one_at_a_time
    def take_episodes(self) -> list[tuple[int, float]]:
        """Return (environment step, return) of each episode that ended since the last call; waits for the device."""
        return self._environments.take_returns()
