"""Whole training under a mapping, timed as one more case beside its pieces."""

from collections import defaultdict
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import cast

import numpy as np
import numpy.typing as npt

from harness.core.provenance import Provenance
from harness.mapping import Loop, Mapping, Problem
from harness.measure.protocol import Case
from harness.profile.cases.base import PrimitiveCase
from harness.profile.cases.learners import LATE
from harness.profile.cases.shared_parts import SharedParts
from harness.runtime.actors.actor import Actor
from harness.runtime.actors.pool import ActorPlan, ActorPool
from harness.runtime.clock import simulated_s
from harness.runtime.compose import Fusion, Parts, TimedStorage, actors_of, fusions
from harness.runtime.on_policy import OnPolicyTraining
from harness.runtime.training import Progress, Training
from harness.workloads import Workload
from primitives.learner.fused import FusedSteps
from primitives.quantization.precision import DYNAMIC
from primitives.replay import ConcurrentReplay

SIMULATED_GRADIENT_STEPS = 8
"""Of a call in virtual time, at least: at its end the devices are waited for, which is not the steady state."""
SIMULATED_LEARNER_GRADIENT_STEPS = 2
"""The same where the learner is simulated: what is waited for, a priority update, is little beside its step."""
STRETCH_S = 10e-3
"""Of a call: so long that the call's own time is nothing."""
LONG_CALL_S = 0.1
"""Of a call: so long that what the caches held before it is nothing."""


@dataclass
class Run:
    """A training under way, and what was counted of it.

    Attributes:
        training: where it stands.
        gradient_steps: of a call.
        long: whether a call takes so long that one before it would change nothing.
        terms_s: seconds of each part of the loop since they were last taken; `loop` is what the others leave.
    """

    training: Training | OnPolicyTraining
    gradient_steps: int = 1
    long: bool = False
    terms_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def simulated(self) -> bool:
        """Whether its seconds are those of virtual time."""
        return self.training.provenance is not Provenance.MEASURED

    def block(self, calls: int) -> float:
        """Seconds of some calls, after one that does not count: in virtual time, where a device is simulated."""
        # A simulation leaves the caches to nobody, and many gradient steps find them as they themselves left them.
        if not self.simulated and not self.long:
            self.advance()
        self.taken()
        start_s = perf_counter()
        told_s = sum(self.advance().wall_s for _ in range(calls))
        return told_s if self.simulated else perf_counter() - start_s

    def advance(self) -> Progress:
        """One call's gradient steps."""
        progress = self.training.advance(self.gradient_steps)
        for name, seconds in progress.terms_s.items():
            self.terms_s[name] += seconds
        self.terms_s["loop"] += progress.wall_s - sum(progress.terms_s.values())
        return progress

    def taken(self) -> dict[str, float]:
        """Seconds of each part since the last call."""
        found, self.terms_s = dict(self.terms_s), defaultdict(float)
        return found

    def close(self) -> None:
        """Close the environments, and the actors' process where there is one."""
        self.training.close()


def training_case(
    workload: Workload,
    problem: Problem,
    mapping: Mapping,
    runs: dict[str, Run],
    loop: Loop = Loop.FUSED,
    parts: SharedParts | None = None,
) -> PrimitiveCase:
    """`training`: gradient steps with everything that belongs to them, at the steady state.

    The replay is full, of random transitions, and exploration has reached its end: so are they in the pieces that
    the prediction is made from, and in most of a long training. With a simulated device in the mapping the seconds
    are those of virtual time.

    Args:
        workload: with a replay that fits the memory.
        problem: what the models know of the workload.
        mapping: what runs where.
        runs: where the run puts itself, by the case's name.
        loop: how it is run.
        parts: learners and replays, where other cases have them too.
    """
    name = case_name(mapping, loop)

    def setup() -> Run:
        training = (
            OnPolicyTraining(workload, mapping, batch_size=problem.batch_size, delay=_delay(mapping))
            if problem.on_policy
            else _off_policy(workload, problem, mapping, loop, parts or SharedParts(workload, problem))
        )
        run = Run(training)
        if isinstance(
            training, Training
        ):  # the protocol warms up: what `warm_up` does is many large steps too much
            if run.simulated:  # and each of them is a simulation
                training.gradient_steps = 1
            else:
                training.take(1)
        if problem.on_policy:
            run.gradient_steps = run.advance().gradient_steps  # whole iterations
        else:
            _size(run, problem, loop)
        runs[name] = run
        return run

    def check(run: Run) -> None:
        """It learns: the acting parameters move and stay finite, as do the losses."""
        before = run.training.learner.parameters()
        progress = run.advance()
        after = run.training.learner.parameters()
        if progress.gradient_steps != run.gradient_steps:
            raise AssertionError(
                f"gradient steps: found {progress.gradient_steps}; expected {run.gradient_steps}"
            )
        if not progress.losses or not np.isfinite(list(progress.losses.values())).all():
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
            close=Run.close,
            block=Run.block,
            parts=Run.taken,
        ),
    )


def _delay(mapping: Mapping) -> int | None:
    """Return 1 for a learner whose precision changes in training: what is timed is the longer part, after it."""
    return 1 if mapping.learner.precision == DYNAMIC else None


def case_name(mapping: Mapping | str, loop: Loop) -> str:
    """The case of a mapping under a loop."""
    return f"training {mapping}, {loop}"


def _size(run: Run, problem: Problem, loop: Loop) -> None:
    """Set the gradient steps of a call: whole rounds, and long against what begins and ends one."""
    least = problem.round_gradient_steps
    if loop is Loop.OVERLAPPED:
        least *= problem.overlapped_rounds(run.simulated)
    run.gradient_steps = least
    if run.simulated:  # each is a simulation, and the device takes as long every time
        learns = simulated_s(run.training.learner)
        fewest = SIMULATED_LEARNER_GRADIENT_STEPS if learns else SIMULATED_GRADIENT_STEPS
        run.gradient_steps = least * -(-fewest // least)
        return
    while (step_s := _least_step_s(run)) * run.gradient_steps < STRETCH_S / 2:
        wanted = min(STRETCH_S / step_s, 10 * run.gradient_steps)
        run.gradient_steps = round(wanted / least) * least


class LateActors(ActorPlan):
    """An actor whose exploration has reached its final rate."""

    def build(self, columns: MappingABC[str, npt.NDArray] | None = None) -> Actor:
        actor = super().build(columns)
        actor.environment_steps = LATE
        return actor


def _least_step_s(run: Run) -> float:
    """Seconds a gradient step, the least of three calls; of two where both are long: one may have been held up."""
    least_s = inf
    for calls in (1, 2, 3):
        start_s = perf_counter()
        taken = run.advance().gradient_steps
        least_s = min(least_s, (perf_counter() - start_s) / taken)
        if calls > 1 and least_s * taken > LONG_CALL_S:
            run.long = True
            break
    return least_s


def _off_policy(
    workload: Workload, problem: Problem, mapping: Mapping, loop: Loop, shared: SharedParts
) -> Training:
    fusion = Fusion.NONE if loop is Loop.STRICT else fusions(workload, mapping, 0)[-1]
    replay, learner = shared.replay(mapping.rmm, fusion), shared.learner(mapping.learner)
    simulated = any(map(simulated_s, (replay, learner)))
    overlap = 0
    if loop is Loop.OVERLAPPED:
        overlap = problem.overlapped_rounds(simulated) * problem.round_gradient_steps
    environment_seed, exploration_seed, sampling_seed = np.random.SeedSequence(0).spawn(3)
    storage = cast(TimedStorage, replay.storage)
    room = max(256, problem.round_vector_steps * overlap)
    actors = actors_of(workload, environment_seed, exploration_seed, storage.fields, room)
    parts = Parts(
        actors=LateActors(**vars(actors)),
        storage=storage,
        replay=replay,
        learner=learner,
        rng=np.random.default_rng(sampling_seed),
        fusion=fusion,
        steps=FusedSteps(cast(ConcurrentReplay, replay), learner) if fusion is Fusion.STEP else None,
    )
    training = Training(
        workload,
        mapping,
        batch_size=problem.batch_size,
        presampled_batches=0,
        parts=parts,
        overlap=overlap,
        processes=int(overlap > 0 and not simulated),  # a thread would share the host's GIL
    )
    if isinstance(training._acting, ActorPool):
        training._acting.environment_steps = LATE
    return training
