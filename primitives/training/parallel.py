"""Train with actors and learners in C++ threads on one replay (PAL IV-D and V), without the interpreter lock.

Each actor has a vector of native environments and its own copy of the weights. It inserts with lazy writing: a row has
priority 0 while it is written. Each of L learners has its own copy of the state, and samples B / L transitions on its
own (PAL V-B), with importance weights normalised over these. The learners' gradients are averaged in the order of the
learners; then all learners make the same update, so that their states stay equal bit for bit. New items get the
largest priority so far.

A gradient step begins only after its `interval` environment steps are inserted. The actors may be ahead of the learners
by at most `lead` environment steps and one step of their vector. With one actor, one learner and a lead of 0 the two
take turns on one thread, and the same seed gives the same training bit for bit. Otherwise the training depends on the
order in which the threads reach the replay, and only its statistics are the same.

With D > 0 each learner has D batches sampled ahead (MAP V-A), so that sampling does not wait for the priorities of its
last steps, and a row that holds another item by then keeps the priority of that item. The sampling and the updates are
the work of a replay manager with a thread of its own, or of the learner's thread.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.graph.graph import Graph
from placerl.primitives.learner import finite
from placerl.primitives.learner.acting import exploring_graph
from placerl.primitives.learner.base import checked_count, checked_state
from placerl.primitives.learner.columns import refuse_columns
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import NativeExecutable
from placerl.primitives.one_caller import OneCaller, one_at_a_time
from placerl.primitives.replay import ConcurrentReplay, LinearSchedule
from placerl.primitives.training.acting_weights import acting_weights
from placerl.primitives.training.exploration import exploration_of
from placerl.primitives.training.fitting import check_environments
from placerl.primitives.training.phases import is_mean, phase_graphs

COLUMNS = ("observation", "action", "reward", "next_observation", "terminated")
LONGEST_PERIOD = 1 << 15
_COLUMN, _WEIGHT, _NOISE, _GIVEN = range(4)
_BOTH, _ACTORS, _LEARNERS = range(3)


@dataclass(frozen=True)
class Pacing:
    """The ratio of environment steps to gradient steps, and how far actors and replay managers may run ahead.

    Attributes:
        learning_starts: environment steps with random actions before the first gradient step, at least 1.
        interval: environment steps per gradient step, at least 1.
        lead: environment steps by which actors may be ahead of the learners, at least 0. With 0, actors and learners
            take turns; one of each then needs one thread.
        ahead: D, batches that are sampled ahead for each learner, at least 0. They are dropped at the end of a call, so
            that the replay may be used between two calls.
        managed: whether each learner has a replay manager, a thread that samples and updates priorities for it.
    """

    learning_starts: int
    interval: int = 1
    lead: int = 64
    ahead: int = 0
    managed: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        checks.whole("learning_starts", self.learning_starts, 1)
        checks.whole("interval", self.interval, 1)
        checks.whole("lead", self.lead, 0)
        checks.whole("ahead", self.ahead, 0)
        checks.truth("managed", self.managed)


class ParallelTraining(OneCaller):
    """A training with actors and learners in C++ threads.

    One Python thread at a time may call it: a method raises RuntimeError while a call of another is in progress, and in
    a forked process, which has none of the threads. The counts of steps can be read at any time.

    Args:
        algorithm: an off-policy algorithm in float32, with transitions of one step.
        environments: for each actor thread its native environments (`primitives.environments`), at least one. They
            begin the next episode in the step that ends one ("same_step").
        replay: an empty replay with the columns of transitions. Only this object may use it during a run.
        learners: L, number of learner threads, a divisor of B; 1 for an algorithm that computes no gradients by
            `Updates.gradients`, such as a `CustomAlgorithm`.
        batch_size: B, transitions per gradient step of all learners together.
        pacing: environment steps per gradient step, and how far actors and replay managers may run ahead.
        seed: seed of all random numbers; the seeds with which the actors' environments are reset derive from it.

    Raises:
        ValueError: an argument is out of range, or the replay or the environments do not match the algorithm.
        RuntimeError: another process created the replay: this is a forked copy.
        UnsupportedOperationError: the native executor lacks an operation of the algorithm.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        environments: Sequence[Any],
        replay: ConcurrentReplay,
        *,
        learners: int,
        batch_size: int,
        pacing: Pacing,
        seed: int = 0,
    ) -> None:
        from placerl.primitives import _native

        super().__init__()
        replay._check_process()
        checks.whole("learners", learners, 1, batch_size)
        if batch_size % learners:
            raise ValueError(
                f"learners: found {learners}; allowed: a divisor of the batch size, {batch_size}"
            )
        if not environments:
            raise ValueError("environments: found none; allowed: at least one actor's")
        if len(set(map(id, environments))) < len(environments):
            raise ValueError("environments: found some twice; allowed: each actor's own")
        check_parts(algorithm, environments, replay)
        self.algorithm, self.replay, self.learners, self._pacing = algorithm, replay, learners, pacing
        variants = {name: number for number, name in enumerate(algorithm.variants)}
        graphs = _graphs(algorithm, batch_size // learners, learners)
        _check_draws(algorithm, graphs)
        flat = {f"{variant}/{i}": graph for variant, parts in graphs.items() for i, graph in enumerate(parts)}
        self._executables = [NativeExecutable(flat) for _ in range(learners)]
        if algorithm.finite_state:
            for executable in self._executables:
                executable.require_finite_state()
        structure = algorithm.initialise(torch.Generator().manual_seed(seed))
        self._write({name: leaf.numpy() for name, leaf in tree.flatten(structure).items()})
        columns = list(replay.storage.columns)
        limits = {"batch/action": algorithm.action_size} if algorithm.discrete else {}
        plans = [
            _plan(self._executables[0], variant, graphs[variant], columns, limits) for variant in variants
        ]
        acting = [acting_weights(algorithm, structure, executable) for executable in self._executables]
        self._actors = [
            _actor(algorithm, envs, [value.shape for value in acting[0]]) for envs in environments
        ]
        self._threads = _native.training.Threads(
            replay._native,
            self._actors,
            [
                (executable._executor, weights)
                for executable, weights in zip(self._executables, acting, strict=True)
            ],
            plans,
            [columns.index(name) for name in COLUMNS],
            exploration_of(algorithm),
            batch_size // learners,
            (pacing.learning_starts, pacing.interval, pacing.lead),
            _beta(replay),
            (pacing.ahead, pacing.managed),
            [variants[name] for name in period_of(algorithm)],
            seed,
        )

    @property
    def gradient_steps(self) -> int:
        """The number of gradient steps taken so far, by all learners together."""
        return int(self._threads.gradient_steps)

    @property
    def environment_steps(self) -> int:
        """The number of environment steps inserted so far, over all actors."""
        return int(self._threads.environment_steps)

    @property
    def filled(self) -> bool:
        """Whether the actors have taken the `learning_starts` random steps that precede the first gradient step."""
        return bool(self._threads.filled)

    @one_at_a_time
    def fill(self) -> None:
        """Let the actors take the `learning_starts` random steps, unless they have taken them."""
        self._fill()

    def _fill(self) -> None:
        if not self.filled:
            self._threads.run(0, _BOTH)

    @one_at_a_time
    def run(self, gradient_steps: int) -> None:
        """Run all threads until `gradient_steps` more gradient steps are taken.

        The first call begins with the random environment steps (`fill`).

        After Ctrl-C every thread finishes its step, and KeyboardInterrupt is raised; the training can be continued.

        Raises:
            ValueError: `gradient_steps` is below 1, or a thread found a number of a batch or an action that is
                not finite.
            NotFiniteError: a TD error or a number of the state is NaN or infinite after a gradient step; the message
                names the step.
        """
        checks.whole("gradient_steps", gradient_steps, 1)
        self._fill()
        self._run(gradient_steps, _BOTH)

    @one_at_a_time
    def collect(self, environment_steps: int) -> None:
        """Run the actors alone, with the current policy, until at least `environment_steps` more steps are inserted.

        Afterwards the learners do not catch up: they count as having taken the gradient steps for these steps. Ctrl-C
        ends the call as in `run`.

        Raises:
            ValueError: `environment_steps` is below 1, or a thread found a number that is not finite.
        """
        checks.whole("environment_steps", environment_steps, 1)
        self._fill()
        self._run(environment_steps, _ACTORS)

    @one_at_a_time
    def learn(self, gradient_steps: int) -> None:
        """Run the learners alone until `gradient_steps` more steps are taken.

        Afterwards the actors do not catch up: they count as having taken the environment steps for these steps. Ctrl-C
        ends the call as in `run`.

        Raises:
            ValueError: `gradient_steps` is below 1, or a thread found a number in a batch that is not finite.
            NotFiniteError: a TD error or a number of the state is NaN or infinite after a gradient step; the message
                names the step.
        """
        checks.whole("gradient_steps", gradient_steps, 1)
        self._fill()
        self._run(gradient_steps, _LEARNERS)

    def _run(self, steps: int, working: int) -> None:
        before = self.gradient_steps
        try:
            self._threads.run(steps, working)
        except FloatingPointError as error:
            raise finite.not_finite(self.gradient_steps, str(error)) from None
        if self.gradient_steps > before and self.algorithm.finite_state:
            leaves = {
                name.removeprefix("state/"): leaf for name, leaf in self._executables[0].state().items()
            }
            finite.require_finite_state(before + 1, self.gradient_steps, leaves)

    @one_at_a_time
    def place(
        self, learners: Sequence[int], managers: Sequence[int] = (), actors: Sequence[int] = ()
    ) -> None:
        """Bind each thread to a core; the threads of the next calls, too.

        Args:
            learners: numbers of cores, one for each learner's thread, which may also be the actor in turns.
            managers: numbers of cores, one for each replay manager's thread.
            actors: numbers of cores, one for each other actor's thread.

        Raises:
            ValueError: another number of cores, or a core that this process may not use.
        """
        turns = self._pacing.lead == 0 and len(self._actors) == self.learners == 1
        counts = {
            "learners": (learners, self.learners),
            "managers": (managers, self.learners * self._pacing.managed),
            "actors": (actors, 0 if turns else len(self._actors)),
        }
        usable = os.sched_getaffinity(0)
        for name, (cores, count) in counts.items():
            if len(cores) != count or not usable.issuperset(cores):
                allowed = f"{count} of {sorted(usable)}, one for each thread"
                raise ValueError(f"{name}: found {list(cores)}; allowed: {allowed}")
        self._threads.place(learners, managers, actors)

    @one_at_a_time
    def take_episodes(self) -> list[tuple[int, float]]:
        """Return a pair (environment step, return) for each episode that has ended since the last call."""
        episodes: list[tuple[int, float]] = self._threads.take_episodes()
        return episodes

    @one_at_a_time
    def spent_s(self) -> dict[str, float]:
        """Return the seconds since the start that all threads together have spent on each kind of work.

        Actors spend "environment" (steps), "infer" (actions), "insert" and "actor_wait" (for the learners);
        learners spend "sample", "learner" (gradients), "aggregate" (averaging gradients), "update" (of priorities)
        and "learner_wait". If learners have replay managers, these spend "sample" and "update", and "learner_wait"
        includes the waiting for them.
        """
        spent: dict[str, float] = self._threads.spent_s()
        return spent

    @one_at_a_time
    def state_dict(self, learner: int = 0) -> dict[str, npt.NDArray]:
        """Return copies of a learner's whole state and of the counts of steps, by name.

        Args:
            learner: number of the learner, from 0; the states of all learners are equal.
        """
        state = {
            name.removeprefix("state/"): np.array(array, order="C")
            for name, array in self._executables[learner].state().items()
        }
        return state | {
            "gradient_steps": np.asarray(self.gradient_steps),
            "environment_steps": np.asarray(self.environment_steps),
        }

    @one_at_a_time
    def load_state_dict(self, state: Mapping[str, npt.NDArray]) -> None:
        """Continue from a state that `state_dict` returned.

        Replay, environments and random numbers are not part of it: restore the replay separately. The environments go
        on with the episodes that they are in, in a new object with new ones.

        Raises:
            ValueError: a name or a shape differs, or a value is not of the right kind; the state is unchanged.
        """
        counts = ("gradient_steps", "environment_steps")
        own = {name.removeprefix("state/"): array for name, array in self._executables[0].state().items()}
        if set(state) != {*own, *counts}:
            raise ValueError(f"state: found {sorted(state)}; allowed: {sorted([*own, *counts])}")
        environment_steps = checked_count(state, "environment_steps")
        checked = checked_state(own, {name: state[name] for name in (*own, "gradient_steps")})
        self._write(checked.leaves)
        self._threads.restore(environment_steps, checked.gradient_steps)

    def _write(self, leaves: Mapping[str, npt.NDArray]) -> None:
        for executable in self._executables:
            for name, value in leaves.items():
                executable.write_state(f"state/{name}", value)


def period_of(algorithm: Algorithm) -> list[str]:
    """Return the period in which an algorithm's variants (kinds of gradient step) repeat.

    Returns:
        The shortest list such that step n is of the variant at position n modulo the list's length.

    Raises:
        ValueError: the period is longer than `LONGEST_PERIOD` steps.
    """
    if len(algorithm.variants) == 1:
        return list(algorithm.variants)
    seen = [algorithm.variant(step) for step in range(2 * LONGEST_PERIOD)]
    # The longest start that is also an end (Knuth, Morris and Pratt 1977); what is before it is the period.
    borders = [0] * len(seen)
    for i in range(1, len(seen)):
        border = borders[i - 1]
        while border and seen[i] != seen[border]:
            border = borders[border - 1]
        borders[i] = border + (seen[i] == seen[border])
    if (period := len(seen) - borders[-1]) > LONGEST_PERIOD:
        raise ValueError(f"variants: found no period; allowed: at most {LONGEST_PERIOD} gradient steps")
    return seen[:period]


def _graphs(algorithm: Algorithm, part: int, learners: int) -> dict[str, tuple[Any, ...]]:
    """Return the graphs of each variant; one learner needs no phases.

    Raises:
        ValueError: several learners, and the algorithm has no gradients that they could average.
    """
    if learners == 1:
        return {variant: (step_graph(algorithm, part, variant),) for variant in algorithm.variants}
    graphs: dict[str, tuple[Any, ...]] = {}
    if not isinstance(algorithm, CustomAlgorithm):
        graphs = {variant: phase_graphs(algorithm, part, variant) for variant in algorithm.variants}
    if not graphs or any(len(phases) == 1 for phases in graphs.values()):
        raise ValueError(
            f"learners: found {learners}; allowed: 1 with a step of your own, which has no gradients to share"
        )
    return graphs


def _plan(
    executable: NativeExecutable,
    variant: str,
    graphs: Sequence[Any],
    columns: Sequence[str],
    limits: Mapping[str, int],
) -> tuple[Any, ...]:
    """Return a variant's phases and links, as `Threads` takes them; `limits`: of the integers of inputs, by name."""
    phases, links = [], []
    inputs = [[buffer.name for _, buffer in graph.of_kind("input")] for graph in graphs]
    for i, names in enumerate(inputs):
        read = {view.buffer for node in graphs[i].nodes for view in node.inputs}
        used = [number in read for number, _ in graphs[i].of_kind("input")]
        sources = [
            (*(_source(name, columns) if known else (_GIVEN, 0)), name, limits.get(name, 0))
            for name, known in zip(names, used, strict=True)
        ]
        phases.append((executable._programs[f"{variant}/{i}"], sources))
        for output, (name, view) in enumerate(graphs[i].outputs.items()):
            if not name.startswith("found/"):
                continue
            wanted = f"given/{i}/{_renamed(name)}"
            averaged = is_mean(name, view.shape)
            links += [
                (i, output, j, inputs[j].index(wanted), averaged)
                for j in range(i + 1, len(graphs))
                if wanted in inputs[j]
            ]
    return phases, links, list(graphs[-1].outputs).index("td_error")


def _renamed(name: str) -> str:
    """Return the name that an output of a phase has among the inputs of the next: both are paths in `Gradients`."""
    return name.removeprefix("found/")


def _source(name: str, columns: Sequence[str]) -> tuple[int, int]:
    kind, _, rest = name.partition("/")
    if kind == "given":
        return _GIVEN, 0
    if kind == "draws":
        return _NOISE, 0
    return (_WEIGHT, 0) if rest == "weight" else (_COLUMN, columns.index(rest))


def _actor(algorithm: Algorithm, environments: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Return an actor's environments, executor, program and weights, as `Threads` takes them."""
    executable = NativeExecutable({"explore": exploring_graph(algorithm, environments.count)})
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    weights = acting_weights(algorithm, state, executable)
    assert [value.shape for value in weights] == list(shapes)
    return environments, executable._executor, executable._programs["explore"], weights, executable


def _check_draws(algorithm: Algorithm, graphs: Mapping[str, Sequence[Graph]]) -> None:
    """Refuse random numbers of a gradient step that are not standard normal, which is what the learners draw."""
    names = {
        buffer.name for parts in graphs.values() for graph in parts for _, buffer in graph.of_kind("input")
    }
    drawn = {name.removeprefix("draws/") for name in names if name.startswith("draws/")}
    normal = set(algorithm.noises) if type(algorithm).draw is Algorithm.draw else set()
    if other := sorted(drawn - normal):
        raise ValueError(
            f"algorithm: found random numbers {', '.join(other)} of a distribution of its own; allowed: the standard "
            "normal ones of Algorithm.draw"
        )


def _beta(replay: ConcurrentReplay) -> tuple[float, float, int]:
    beta = replay._beta
    if isinstance(beta, LinearSchedule):
        return beta.initial, beta.final, beta.steps
    if callable(beta):
        raise ValueError("beta: found a schedule of another kind; allowed: a constant, or a LinearSchedule")
    return float(beta), float(beta), 1


def check_parts(algorithm: Algorithm, environments: Sequence[Any], replay: ConcurrentReplay) -> None:
    """Check that a replay holds an algorithm's transitions, and that actors in C++ can act for it.

    Raises:
        ValueError: the algorithm, an environment or the replay does not fit the others.
    """
    exploration_of(algorithm)
    columns = algorithm.columns(1)
    refuse_columns(replay.storage.fields, columns)
    fields = {
        name: (tuple(field.shape), np.dtype(field.dtype)) for name, field in replay.storage.fields.items()
    }
    wanted = {
        name: (tuple(columns[name].shape[1:]), torch.zeros((), dtype=columns[name].dtype).numpy().dtype)
        for name in COLUMNS
    } | {"terminated": ((), np.dtype(bool))}
    if fields != wanted:
        raise ValueError(f"replay: found columns {fields}; allowed: {wanted}")
    for envs in environments:
        check_environments(envs, algorithm)
