"""Compares this project with other libraries on the same workload, in interleaved rounds of worker processes.

Each system trains in a process and a virtual environment of its own (`harness.compare.protocol`) and reports how many
gradient steps it took in how many seconds, which it measures itself. In every round each system does one job, and this
project does two: the second compares it with itself (A/A), which shows the difference that the machine's noise alone
makes.

When whole trainings are compared, both systems then train from the start to the same number of environment steps
(`harness.compare.equal_steps`): the verdict is "faster" only if this project learns no less by then.

The comparison covers the whole training or a part of it: learner and replay without environment steps, or only
the replays. The baseline's name in the rows shows this, and also features that only this project uses (`OurSide`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from harness.compare import equal_steps, registry
from harness.compare.equal_steps import ComparedSide, Returns, StepExtent
from harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob, WorkerResult
from harness.core.progress import Report, silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Suite
from harness.mapping import Mapping
from harness.mapping.assignments import CPU, CUDA
from harness.measure import rows as summary_rows
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.measure.turns import Rounds, in_rounds
from harness.workloads import Workload

OURS, NULL = "placerl", "placerl (null)"
START_LIMIT_S = 600.0  # some systems compile for the workload before they begin
FIRST_JOB_STEPS = 20
# long compared with one episode's reset; short, so that both sides of a pair find the machine in the same state
JOB_S = 0.3
NOT_INSTALLABLE = {"sb3": {"openai-baselines": "OpenAI Baselines", "spinningup": "Spinning Up"}}
"""Systems of PPO Tables 1 and 2 that can no longer be installed, by the baseline that replaces them."""
LATE_FACTOR = 20  # a job that takes this many times its expected seconds is taken to hang
LEAST_LIMIT_S = 30.0
REPLAY_CALLS = ("insert", "sample", "update")
"""Calls of a replay whose seconds a worker reports (`WorkerResult.terms_s`) if replays alone are compared."""


class ComparedPart(StrEnum):
    """The part of a training that is compared: all of it, learner and replay, or the replay alone.

    Rows with the results have it in their field `primitive`.
    """

    TRAINING = "training"
    LEARNER_AND_REPLAY = "learner and replay"
    REPLAY = "replay"


FLUSHED = ", subnormals flushed"
"""Added to the name of a baseline that flushes subnormal numbers."""


@dataclass(frozen=True)
class OurSide:
    """Features that this project uses in a comparison and the other library does not; at most one of them.

    Attributes:
        envpool: whether EnvPool steps this project's environments.
        native_environments: whether C++ code steps them.
        threads_native: whether this project's actors and learner are C++ threads, on native environments; on one core,
            one thread that does both in turns.
    """

    envpool: bool = False
    native_environments: bool = False
    threads_native: bool = False

    def __str__(self) -> str:
        words = {
            "envpool": "EnvPool",
            "native_environments": "native environments",
            "threads_native": "C++ actors and learner",
        }
        return " and ".join(word for name, word in words.items() if getattr(self, name))


PLAIN = OurSide()


def label(
    baseline: str, part: ComparedPart = ComparedPart.TRAINING, ours: OurSide = PLAIN, cores: int = 0
) -> str:
    """Return the name that a baseline has in the rows of a comparison.

    Args:
        baseline: the baseline's own name.
        part: the part of the training that is compared; added to the name if it is not the whole training.
        ours: the features that only this project uses, such as EnvPool, which are added too.
        cores: number of cores that both systems are confined to, also added; 0 if they are not confined.
    """
    alone = "" if part is ComparedPart.TRAINING else f", {part} alone"
    with_what = f", this project with {ours}" if str(ours) else ""
    return f"{baseline}{alone}{with_what}" + (f", on {cores} core{'s' * (cores > 1)}" if cores else "")


def networks_on(mapping: Mapping) -> str:
    """Return the device on which a baseline's networks compute next to a mapping: "cpu", or the learner's CUDA device.

    A learner on a CUDA device is compared with a library on that device, and never with one that was kept on the CPU.

    Args:
        mapping: where this project runs its learner, replay management and storage.
    """
    device = mapping.learner.device
    return device if device.partition(":")[0] == CUDA else CPU


@dataclass
class _System:
    """One system under comparison, and its results so far.

    Attributes:
        name: `placerl` or the baseline's name, with `FLUSHED` if it flushes.
        start: function that starts its worker.
        job: its next job, with the number of gradient steps to take.
        worker: the running worker; None before the start and after a failure.
        failure: why it no longer runs.
        start_s: seconds from its start to the end of its first job.
        results: results of the timed rounds, one per round.
        again: results of the second job of each round, for this project only.
        timed: all of these results, in the order in which they were measured.
    """

    name: str
    start: Callable[[], Worker]
    job: WorkerJob
    worker: Worker | None = None
    failure: WorkerFailure | None = None
    start_s: float = 0.0
    results: list[WorkerResult] = field(default_factory=list)
    again: list[WorkerResult] = field(default_factory=list)
    timed: list[WorkerResult] = field(default_factory=list)

    def ask(self, limit_s: float) -> WorkerResult | None:
        """Have a job done; returns None once the system has failed."""
        if self.failure:
            return None
        try:
            if self.worker is None:
                self.worker = self.start()
            return self.worker.ask(self.job, limit_s)
        except WorkerFailure as failure:
            self.failure = failure
            return None

    def ask_timed(self, limit_s: float) -> WorkerResult | None:
        """Have a job of the timed rounds done; returns None once the system has failed."""
        if result := self.ask(limit_s):
            self.timed.append(result)
        return result

    def side(self) -> ComparedSide:
        """Return the side to train again, with the speed of its timed rounds."""
        return ComparedSide.of(self.name, self.start, self.start_s, self.timed)

    def size_jobs(self, result: WorkerResult, seconds: float) -> None:
        """Make further jobs last about `seconds`, estimated from the last one."""
        steps = max(1, round(seconds * result.gradient_steps / result.wall_s))
        self.job = self.job.model_copy(update={"gradient_steps": steps})


@dataclass(frozen=True)
class ComparisonSettings:
    """The settings with which this project and other libraries are compared.

    Attributes:
        batch_size: transitions per gradient step; by default the workload's.
        seed: seed of every system.
        threads: threads that each system may compute with.
        cpus: processors that each system's processes are confined to; by default they are not.
        rounds: most rounds; fewer if the budget ends first.
        environment: whether environments are stepped. If not, only learner and replay run, on the transitions that
            the replay holds when learning may start.
        ours: features that only this project uses, such as EnvPool; a baseline keeps its own environments.
        returns: how long both systems are trained again to compare their returns; by default they are not compared.
        flushed: baselines that run once more, as further systems, with subnormal numbers treated as zero.
    """

    batch_size: int | None = None
    seed: int = 0
    threads: int = 1
    cpus: Sequence[int] | None = None
    rounds: int = statistics.PAIRS
    environment: bool = True
    ours: OurSide = PLAIN
    returns: StepExtent | None = None
    flushed: Sequence[str] = ()


DEFAULTS = ComparisonSettings()


def compare(
    workload: Workload,
    mapping: Mapping,
    baselines: Sequence[str],
    *,
    budget_s: float,
    progress: Report = silent,
    settings: ComparisonSettings = DEFAULTS,
) -> list[Measurement]:
    """Time this project and baselines on one workload, and compare what they learn from it.

    Args:
        workload: the workload that each system trains.
        mapping: where this project runs its learner, replay management and storage.
        baselines: names of folders under `baselines/`.
        budget_s: no new round begins after this many seconds, once there are enough pairs for a verdict; building
            a baseline's environment is not counted.
        progress: called with the seconds spent.
        settings: settings of every system and of the rounds.

    Returns:
        Rows of suite `compare`, with the baseline in `details["baseline"]` and the device of its networks in `device`
        (`networks_on`): gradient and environment steps per second of both systems (`details["part"]` is `ours` or
        `theirs`), returns of the episodes that ended in the timed rounds, `throughput_ratio` (this project over the
        baseline, with `details["verdict"]`) and `null_ratio` (this project over itself), and of this project the
        fraction of the time that each part of its loop takes, summed over its threads. If both were trained to the
        same number of environment steps, also `return_at_equal_steps` of both and `return_difference` (this
        project's minus the baseline's).
        A system that failed has one row of status `failed`, with its last lines in the details. A system that
        cannot do the workload, or can no longer be installed, has one row of status `not_run`, with the reason.
        If only replays are compared, also the transitions inserted, batches sampled and batches updated per
        second, each in the time of its own calls.

    Raises:
        ValueError: training baselines and replay-only baselines are given together.
    """
    size = workload.training.batch_size if settings.batch_size is None else settings.batch_size
    kinds = {registry.replay_alone(name) for name in baselines}
    if len(kinds) > 1:
        raise ValueError(
            f"baselines: found {', '.join(baselines)}; allowed: all that train, or all replays alone"
        )
    part = ComparedPart.TRAINING if settings.environment else ComparedPart.LEARNER_AND_REPLAY
    if kinds == {True}:
        part = ComparedPart.REPLAY
    job = WorkerJob(
        workload=workload.tables(),
        batch_size=size,
        seed=settings.seed,
        threads=settings.threads,
        gradient_steps=FIRST_JOB_STEPS,
        environment=settings.environment,
        device=CPU if part is ComparedPart.REPLAY else networks_on(mapping),
    )

    def start() -> Worker:
        if part is ComparedPart.REPLAY:
            return registry.own_replay_worker(settings.cpus)
        return registry.own_worker(str(mapping), cpus=settings.cpus, **asdict(settings.ours))

    ours = _System(OURS, start, job)
    their_start = partial(registry.baseline_worker, cpus=settings.cpus)
    theirs = [_System(name, partial(their_start, name), job) for name in baselines]
    flushing = job.model_copy(update={"flush_subnormals": True})
    theirs += [
        _System(system.name + FLUSHED, system.start, flushing)
        for system in theirs
        if system.name in settings.flushed
    ]
    for outcome in registry.build_baselines(baselines).items():
        _note_build_failure(theirs, *outcome)
    begin_s = monotonic()

    def report(what: str) -> None:
        progress(min(monotonic() - begin_s, budget_s), budget_s, what)

    try:
        _warm_up(theirs, report)
        if any(not system.failure for system in theirs):
            _warm_up([ours], report)
        _rounds(ours, theirs, budget_s - (monotonic() - begin_s), settings.rounds, report)
    finally:
        _end([ours, *theirs])
    learnt = {
        system.name: _returns(ours, system, part, settings.returns, lambda done, total, what: report(what))
        for system in theirs
    }
    shared = {
        "mapping": "" if part is ComparedPart.REPLAY else str(mapping),
        "seed": settings.seed,
        "threads": settings.threads,
        "conditions": conditions(),
    }
    rows: list[Measurement] = []
    for system in theirs:
        rows += _Rows(
            workload.name,
            size,
            ours,
            system,
            shared,
            part,
            label(system.name, part, settings.ours, len(settings.cpus or ())),
            learnt[system.name],
        ).all()
    return rows + _stood_in_for(workload, size, baselines, shared)


def _stood_in_for(
    workload: Workload, batch_size: int, baselines: Sequence[str], shared: dict[str, Any]
) -> list[Measurement]:
    """Return a row for each system that a paper compares with and that can no longer be installed, naming its
    substitute.
    """
    if workload.algorithm.name != "ppo":
        return []
    return [
        Measurement(
            suite=Suite.COMPARE,
            workload=workload.name,
            primitive="training",
            backend=name,
            device="cpu",
            batch_size=batch_size,
            quantity="gradient_steps_per_s",
            provenance=Provenance.MEASURED,
            status="not_run",
            reason=f"not run: needs an older Python than 3.11, on which {what} does not install; {stand_in} stands in",
            details={"baseline": name, "part": "theirs"} | shared,
        )
        for stand_in, gone in NOT_INSTALLABLE.items()
        if stand_in in baselines
        for name, what in gone.items()
    ]


def _note_build_failure(systems: Sequence[_System], name: str, failure: WorkerFailure | None) -> None:
    for system in systems:
        if system.name.removesuffix(FLUSHED) == name:
            system.failure = failure


def _end(systems: Sequence[_System]) -> None:
    at_work = [system.worker for system in systems if system.worker]
    for worker in at_work:
        worker.hang_up()  # so that they all end at the same time
    for worker in at_work:
        worker.close()


def _returns(
    ours: _System, theirs: _System, part: ComparedPart, extent: StepExtent | None, report: Report
) -> Returns:
    """Return what both sides learn in the same number of environment steps, or why that is unknown."""
    if part is ComparedPart.LEARNER_AND_REPLAY:
        return Returns("learner and replay alone take no environment steps")
    if part is ComparedPart.REPLAY:
        return Returns("a replay alone trains nothing")
    if theirs.job.flush_subnormals:
        return Returns("those of the baseline that does not flush are")
    if extent is None:
        return Returns("not asked for")
    if not ours.results or not theirs.results or ours.failure or theirs.failure:
        return Returns("a side failed in the timed rounds")
    return equal_steps.compare(ours.side(), theirs.side(), ours.job, extent, report)


def _warm_up(systems: Sequence[_System], report: Callable[[str], None]) -> None:
    """Start the systems, and set the length of their jobs from a first job and a second one of the estimated
    length.
    """
    for system in systems:
        report(f"starting {system.name}")
        begin_s = monotonic()
        for limit_s in (START_LIMIT_S, LEAST_LIMIT_S):
            if result := system.ask(limit_s):
                system.start_s = system.start_s or monotonic() - begin_s
                system.size_jobs(result, JOB_S)


def _rounds(
    ours: _System, theirs: Sequence[_System], budget_s: float, rounds: int, report: Callable[[str], None]
) -> None:
    """Run interleaved rounds until there are enough, the time is over, or no baseline is left."""
    limit_s = max(LEAST_LIMIT_S, LATE_FACTOR * JOB_S)
    sides = {OURS: ours, NULL: ours} | {system.name: system for system in theirs}
    results = in_rounds(
        {name: partial(system.ask_timed, limit_s) for name, system in sides.items()},
        Rounds(rounds, fewest=statistics.FEWEST_PAIRS, budget_s=budget_s),
        report=lambda done, total, what: report(what),
        go_on=lambda: not ours.failure and any(not system.failure for system in theirs),
    )
    for name, system in sides.items():
        if name == NULL:
            system.again = results[name]
        else:
            system.results = results[name]


class _Rows:
    """The rows of this project compared with one baseline."""

    def __init__(
        self,
        workload: str,
        batch_size: int,
        ours: _System,
        theirs: _System,
        shared: dict[str, Any],
        part: ComparedPart,
        name: str,
        returns: Returns,
    ) -> None:
        self._workload, self._batch_size = workload, batch_size
        self._ours, self._theirs = ours, theirs
        self._part, self._returns = part, returns
        self._rate = "replay_cycles_per_s" if part is ComparedPart.REPLAY else "gradient_steps_per_s"
        self._details = {"baseline": name} | shared

    def all(self) -> list[Measurement]:
        """Return both systems' rates and returns, and the ratio of their rates."""
        rows: list[Measurement] = []
        for part, system in (("ours", self._ours), ("theirs", self._theirs)):
            rows += self._system(part, system)
        if not self._ours.failure and not self._theirs.failure:
            rows += [*self._learnt(), *self._ratios()]
        return rows

    def _common(self, backend: str, quantity: str, details: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that every kind of row has."""
        return {
            "suite": Suite.COMPARE,
            "workload": self._workload,
            "primitive": str(self._part),
            "backend": backend,
            "device": self._theirs.job.device,
            "batch_size": self._batch_size,
            "quantity": quantity,
            "details": self._details | details,
        }

    def _row(self, backend: str, quantity: str, details: dict[str, Any], **fields: Any) -> Measurement:
        common = self._common(backend, quantity, details)
        return Measurement(**common, provenance=Provenance.MEASURED, **fields)

    def _system(self, part: str, system: _System) -> list[Measurement]:
        details: dict[str, Any] = {"part": part}
        if system.failure:
            details |= {"kind": str(system.failure.kind), "last_lines": list(system.failure.last_lines)}
            refused = system.failure.kind is FailureKind.REFUSED
            reason = f"{system.name}: {system.failure}"
            if refused:  # nothing is broken: the system cannot do what the workload requires
                reason = f"not run: {system.name} cannot do it: {system.failure.detail}"
            status = "not_run" if refused else "failed"
            return [self._row(system.name, self._rate, details, status=status, reason=reason)]
        results = system.timed
        if not results:  # the other side failed before the first round
            return []
        first = results[0]
        details |= {
            "versions": first.versions,
            "notes": first.notes,
            "start_s": system.start_s,
            "gradient_steps": sum(result.gradient_steps for result in results),
            "environment_steps": sum(result.environment_steps for result in results),
        }

        def summary(quantity: str, samples: list[float], of: str = "", whole: float = 0.0) -> Measurement:
            common = self._common(system.name, quantity, details | {"part": part + of})
            return summary_rows.summary_row(samples, whole=whole, **common)

        rows = [summary(self._rate, [result.gradient_steps / result.wall_s for result in results])]
        if self._part is not ComparedPart.LEARNER_AND_REPLAY:
            rates = [result.environment_steps / result.wall_s for result in results]
            rows.append(summary("environment_steps_per_s", rates, ", environment"))
        if self._part is ComparedPart.REPLAY:
            for call in REPLAY_CALLS:
                rates = [
                    (result.environment_steps if call == "insert" else result.gradient_steps) / seconds
                    for result in results
                    if (seconds := result.terms_s.get(call, 0.0)) > 0
                ]
                if rates:
                    rows.append(summary(f"{call}s_per_s", rates, f", {call}s"))
        elif self._part is ComparedPart.TRAINING:
            for term in dict.fromkeys(term for result in results for term in result.terms_s):
                shares = [result.terms_s.get(term, 0.0) / result.wall_s for result in results]
                rows.append(summary("fraction_of_time", shares, f", {term}, of the time", whole=1.0))
        returns = [value for result in results for value in result.episode_returns]
        if returns:
            rows.append(self._returned(system.name, details | {"part": f"{part}, episodes"}, returns))
        return rows

    def _returned(self, backend: str, details: dict[str, Any], returns: list[float]) -> Measurement:
        """Return the row of the episodes' returns. They may be negative, so a wide interval is not "too noisy"."""
        low, high = None, None
        if len(returns) >= statistics.FEWEST_SAMPLES:
            low, high = statistics.interval(returns, in_order=True)
        value = float(np.median(returns))
        return self._row(
            backend, "episode_return", details, value=value, low=low, high=high, samples=tuple(returns)
        )

    def _learnt(self) -> list[Measurement]:
        """Return the mean return of both after the same number of environment steps, and their difference."""
        returns = self._returns
        rows = []
        for part, system, side in (
            ("ours", self._ours, returns.ours),
            ("theirs", self._theirs, returns.theirs),
        ):
            if side and all(one.last for one in side):
                details: dict[str, Any] = {
                    "part": f"{part}, return",
                    "seeds": [one.seed for one in side],
                    "environment_steps": [one.environment_steps for one in side],
                    "episodes": [len(one.last) for one in side],
                }
                samples = tuple(float(np.mean(one.last)) for one in side)
                rows.append(
                    self._mean(system.name, equal_steps.RETURN, details, equal_steps.mean(side), samples)
                )
        if not returns.reason:
            details = {"part": equal_steps.DIFFERENCE, "environment_steps": returns.environment_steps}
            rows.append(self._mean(OURS, equal_steps.DIFFERENCE, details, returns.difference()))
        return rows

    def _mean(
        self,
        backend: str,
        quantity: str,
        details: dict[str, Any],
        mean: equal_steps.Mean,
        samples: tuple[float, ...] = (),
    ) -> Measurement:
        low, high = mean.low, mean.high
        return self._row(backend, quantity, details, value=mean.value, low=low, high=high, samples=samples)

    def _ratios(self) -> list[Measurement]:
        """Return this project's throughput over the baseline's, and over its own."""
        outcome = statistics.compare(
            _step_times_s(self._ours.results),
            _step_times_s(self._theirs.results),
            _step_times_s(self._ours.again),
        )
        parts = (("throughput_ratio", outcome.ratio), ("null_ratio", outcome.null))
        details = {
            "pairs": outcome.pairs,
            "verdict": self._returns.verdict(outcome.verdict),
            "why_no_verdict": outcome.reason,
            "returns": str(self._returns),
        }
        rows = []
        for quantity, times in parts:
            if times is None:
                unknown = {"status": "not_run", "reason": outcome.reason}
                rows.append(self._row(OURS, quantity, details | {"part": quantity}, **unknown))
                continue
            common = self._common(OURS, quantity, details | {"part": quantity})
            rows.append(summary_rows.gain(times, **common))
        return rows


def _step_times_s(results: Sequence[WorkerResult]) -> list[float]:
    """Return seconds per gradient step in each round, including the whole loop."""
    return [result.wall_s / result.gradient_steps for result in results]
