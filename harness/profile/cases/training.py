"""Defines how whole training under a mapping is timed, in the same rounds as the calls from which it is predicted."""

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import cast

import numpy as np
import numpy.typing as npt

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import IN_PARALLEL, Fusion, Schedule
from placerl.harness.mapping import Loop, Mapping, Problem
from placerl.harness.mapping.target import NATIVE
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.pieces.learners import LATE
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.runtime.actors.in_process import Actors, Collecting
from placerl.harness.runtime.actors.pool import ActorPlan
from placerl.harness.runtime.clock import simulated_s
from placerl.harness.runtime.compose import Parts, actors_of, rounds_of, start_actors, steps_of
from placerl.harness.runtime.fusions import chosen_fusion
from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.native_rounds import RoundActors
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.runtime.timed_storage import TimedStorage
from placerl.harness.runtime.training import Progress, Training
from placerl.harness.workloads import Workload
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.replay import ConcurrentReplay

SIMULATED_GRADIENT_STEPS = 8
"""Least gradient steps per call in virtual time.

At the end of a call the loop waits for the devices, which it does not do in the steady state; with more steps this
wait matters less.
"""
SIMULATED_LEARNER_GRADIENT_STEPS = 2
"""Least gradient steps per call if the learner is simulated; its steps are long compared with the wait at the end."""
SIMULATED_AHEAD = 2
"""Batches sampled ahead in virtual time, where each is simulated. There a call always takes the same time, so one batch
ahead hides as much as fifty would.
"""
STRETCH_S = 10e-3
"""Length of a call, seconds: long enough that the call's own overhead is negligible."""
LONG_CALL_S = 0.1
"""Length of a call, seconds, from which on it does not matter what the caches hold before the call."""
CONCURRENT_STRETCHES = 5
"""Lengths `STRETCH_S` of a call in the concurrent loop, which starts and ends threads and drops the batches ahead."""
SURELY_LONG_CALL_S = 1.0
"""Length of a call, seconds, that no other loop makes shorter than `LONG_CALL_S`, so that none needs to be tried."""


@dataclass
class TimedTraining:
    """A training in progress that is timed call by call.

    Attributes:
        gradient_steps: gradient steps per call.
        long: whether a call is so long that no untimed call needs to precede it.
        step_s: seconds per gradient step when the length of a call was chosen; 0 if they were not measured.
        terms_s: seconds of each part of the loop since the last call of `taken`; `loop` is the rest, which threads that
            work at the same time do not have.
    """

    training: Training | OnPolicyTraining | NativeIterations | ThreadedTraining
    gradient_steps: int = 1
    long: bool = False
    step_s: float = 0.0
    terms_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def simulated(self) -> bool:
        """Return whether the training's seconds are virtual time, because a device is simulated."""
        return self.training.provenance is not Provenance.MEASURED

    def block(self, calls: int) -> float:
        """Return the seconds that a number of calls takes; virtual time if a device is simulated.

        One untimed call precedes them, unless calls are long or a device is simulated.
        """
        # A simulation displaces everything from the caches, and in a long call most gradient steps follow others.
        if not self.simulated and not self.long:
            self.advance()
        self.taken()
        start_s = perf_counter()
        told_s = sum(self.advance().wall_s for _ in range(calls))
        return told_s if self.simulated else perf_counter() - start_s

    def advance(self) -> Progress:
        """Take the gradient steps of one call, and return what happened in them."""
        progress = self.training.advance(self.gradient_steps)
        for name, seconds in progress.terms_s.items():
            self.terms_s[name] += seconds
        if not isinstance(self.training, ThreadedTraining):
            self.terms_s["loop"] += progress.wall_s - sum(progress.terms_s.values())
        return progress

    def parameters(self) -> dict[str, npt.NDArray]:
        """Return what has been learnt so far, by name."""
        if isinstance(self.training, ThreadedTraining):
            return self.training.training.state_dict()
        return dict(self.training.learner.parameters())

    def taken(self) -> dict[str, float]:
        """Return the seconds of each part of the loop since the last call of this method, by the part's name."""
        terms_s, self.terms_s = dict(self.terms_s), defaultdict(float)
        return terms_s

    def close(self) -> None:
        """Close the environments, and the actors' process if there is one."""
        self.training.close()


def training_case(
    workload: Workload,
    problem: Problem,
    mapping: Mapping,
    runs: dict[str, TimedTraining],
    loop: Loop = Loop.FUSED,
    parts: SharedParts | None = None,
    step_s: float = 0.0,
) -> PrimitiveCase:
    """Return the benchmark case of whole training in the steady state: gradient steps, acting, and the replay's work.

    The replay is full, and exploration has reached its final rate, as in the pieces from which training is predicted
    and in most of a long training. If the mapping has a simulated device, the seconds are virtual time.

    Args:
        workload: a workload whose replay fits the memory.
        runs: dict in which the timed training is stored under the case's name.
        parts: learners and replays shared with other cases; None creates them.
    """
    name = case_name(mapping, loop)

    def setup() -> TimedTraining:
        shared = parts or SharedParts(workload, problem)
        training = (
            _on_policy(workload, problem, mapping, shared)
            if problem.on_policy
            else concurrent(workload, problem, mapping, shared)
            if loop is Loop.CONCURRENT
            else _off_policy(workload, problem, mapping, loop, shared)
        )
        run = TimedTraining(training)
        if isinstance(training, Training):
            fused = runs.get(case_name(mapping, Loop.FUSED))
            other_loop_s = fused.step_s if fused else 0.0
            surely_long = other_loop_s * _least_steps(run, problem, loop) > SURELY_LONG_CALL_S
            # The protocol warms up; `warm_up` would take too long with many large steps.
            if run.simulated or surely_long:
                training.gradient_steps = 1
            else:
                training.take(1)
            _size(run, problem, loop, step_s or (other_loop_s if surely_long else 0.0), other_loop_s)
        elif isinstance(training, ThreadedTraining):
            _size(run, problem, loop)
            run.gradient_steps *= 1 if run.long else CONCURRENT_STRETCHES
        else:
            run.gradient_steps = run.advance().gradient_steps  # whole iterations
        runs[name] = run
        return run

    def check(run: TimedTraining) -> None:
        """Check that it learns: the acting parameters change and stay finite, as do the losses."""
        before = run.parameters()
        progress = run.advance()
        after = run.parameters()
        if progress.gradient_steps != run.gradient_steps:
            raise AssertionError(
                f"gradient steps: found {progress.gradient_steps}; expected {run.gradient_steps}"
            )
        told = progress.losses or isinstance(run.training, ThreadedTraining)  # which tell none
        if not told or not np.isfinite(list(progress.losses.values())).all():
            raise AssertionError(f"losses: found {progress.losses}; expected finite numbers")
        if not all(np.isfinite(array).all() for array in after.values()):
            raise AssertionError("parameters: found NaN or infinity; expected finite numbers")
        if all(np.array_equal(before[name], after[name]) for name in before):
            raise AssertionError("parameters: found no change; expected a gradient step")

    return PrimitiveCase(
        "training",
        mapping.learner,
        problem.batch_size,
        Case(
            name=name,
            setup=setup,
            check=check,
            inputs=lambda run, rng: None,
            call=lambda run, _: run.advance(),
            close=TimedTraining.close,
            block=TimedTraining.block,
            parts=TimedTraining.taken,
        ),
    )


def case_name(mapping: Mapping | str, loop: Loop) -> str:
    """Return the name of the benchmark case of training with a mapping in a loop (order of calls)."""
    return f"training {mapping}, {loop}"


def _least_steps(run: TimedTraining, problem: Problem, loop: Loop) -> int:
    """Return the gradient steps of the shortest call: of a round, or of all rounds that actors step at a time."""
    rounds = problem.overlapped_rounds(run.simulated) if loop in IN_PARALLEL else 1
    return problem.round_gradient_steps * rounds


def _size(
    run: TimedTraining, problem: Problem, loop: Loop, step_s: float = 0.0, other_loop_s: float = 0.0
) -> None:
    """Set the gradient steps per call: whole rounds, and long compared with the start and end of one.

    `step_s` are the seconds per gradient step if they are known, and `other_loop_s` those of the mapping in another
    loop; 0 if not.
    """
    run.gradient_steps = least = _least_steps(run, problem, loop)
    if run.simulated and not isinstance(
        run.training, ThreadedTraining
    ):  # the device always takes the same time
        learns = simulated_s(run.training.learner)
        fewest = SIMULATED_LEARNER_GRADIENT_STEPS if learns else SIMULATED_GRADIENT_STEPS
        run.gradient_steps = least * -(-fewest // least)
        return
    if step_s:
        run.gradient_steps = max(1, round(STRETCH_S / step_s / least)) * least
        run.long = step_s * run.gradient_steps > LONG_CALL_S
        return
    while (step_s := _least_step_s(run, other_loop_s)) * run.gradient_steps < STRETCH_S / 2:
        wanted = min(STRETCH_S / step_s, 10 * run.gradient_steps)
        run.gradient_steps = round(wanted / least) * least
    run.step_s = step_s


def _least_step_s(run: TimedTraining, other_loop_s: float = 0.0) -> float:
    """Return the seconds per gradient step, the minimum of three calls: one may be disturbed.

    Two long calls are enough, or one if the calls of another loop were so slow that this one must be long as well.
    """
    least_s = inf
    for calls in (1, 2, 3):
        start_s = perf_counter()
        taken = run.advance().gradient_steps
        least_s = min(least_s, (perf_counter() - start_s) / taken)
        known = calls > 1 or other_loop_s * taken > LONG_CALL_S
        if known and least_s * taken > LONG_CALL_S:
            run.long = True
            break
    return least_s


def _on_policy(
    workload: Workload, problem: Problem, mapping: Mapping, shared: SharedParts
) -> OnPolicyTraining | NativeIterations:
    def starting(plan: ActorPlan, learner: Learner, processes: int) -> Actors:
        start = shared.on_policy_actors if processes else start_actors
        return start(plan, learner, processes)

    schedule = Schedule(threads=problem.learner_threads, processes=problem.actor_processes)
    fusion, learner = chosen_fusion(workload, mapping, schedule), shared.learner(mapping.learner)
    resolved = resolve(schedule, workload, mapping, problem.batch_size, existing=fusion)
    if fusion is Fusion.ITERATION:
        return NativeIterations(resolved, learner=learner)
    return OnPolicyTraining(resolved, starting=starting, learner=learner)


def concurrent(
    workload: Workload, problem: Problem, mapping: Mapping, shared: SharedParts
) -> ThreadedTraining:
    """Return a training in the concurrent loop that goes on from the shared parts' state, late in training."""
    schedule = Schedule(presampled_batches=problem.ahead)
    resolved = resolve(schedule, workload, mapping, problem.batch_size, loop=Loop.CONCURRENT)
    training = ThreadedTraining(resolved, replay=cast(ConcurrentReplay, shared.replay(NATIVE)))
    trained, state = shared.learner(mapping.learner).state_dict(), training.training.state_dict()
    late = {"environment_steps": np.asarray(LATE)}
    training.training.load_state_dict({name: (trained | late)[name] for name in state})
    return training


def _off_policy(
    workload: Workload, problem: Problem, mapping: Mapping, loop: Loop, shared: SharedParts
) -> Training:
    relaxed = loop is Loop.RELAXED
    simulated = is_simulated(mapping)
    ahead = problem.ahead if relaxed else 0
    if simulated:
        ahead = min(ahead, SIMULATED_AHEAD)
    overlap = 0
    if loop in IN_PARALLEL:
        overlap = problem.overlapped_rounds(simulated) * problem.round_gradient_steps
    schedule = Schedule(
        threads=problem.learner_threads, presampled_batches=ahead, overlap=overlap, replay_beside=relaxed
    )
    fusion = Fusion.NONE if loop is Loop.STRICT else chosen_fusion(workload, mapping, schedule)
    resolved = resolve(schedule, workload, mapping, problem.batch_size, existing=fusion)
    learner = shared.learner(mapping.learner)
    replay = shared.replay(mapping.rmm, fusion, mapping.storage, mapping.learner)
    environment_seed, exploration_seed, sampling_seed = np.random.SeedSequence(0).spawn(3)
    storage = cast(TimedStorage, replay.storage)
    room = max(256, problem.round_vector_steps * overlap)
    plan = actors_of(
        workload, environment_seed, exploration_seed, storage.fields, room, environment_steps=LATE
    )
    steps: FusedSteps | None = None
    # Actors in a thread would share the host's GIL.
    acting: Collecting | None = shared.actors(mapping.learner) if overlap and not simulated else None
    if fusion is Fusion.STEP:
        steps = steps_of(replay, learner, ahead, relaxed)
    elif fusion is Fusion.ROUND:
        steps = rounds = rounds_of(replay, learner, plan, resolved.shape)
        acting = RoundActors(rounds)
    parts = Parts(
        actors=plan,
        storage=storage,
        replay=replay,
        learner=learner,
        rng=np.random.default_rng(sampling_seed),
        steps=steps,
        acting=acting,
    )
    return Training(resolved, parts=parts)
