"""Compares this project with other libraries on the same workload, in interleaved rounds of worker processes.

Each system trains in a process and a virtual environment of its own (`harness.compare.protocol`) and reports how many
gradient steps it took in how many seconds, which it measures itself. In every round each system does one job, and this
project does two: the second compares it with itself (A/A), which shows the difference that the machine's noise alone
makes.

When whole trainings are compared, both systems then train from the start to the same number of environment steps
(`harness.compare.equal_steps`): the verdict is "faster" only if this project does not clearly learn
less by then.

The comparison covers the whole training or a part of it: learner and replay without environment steps, or only
the replays. The baseline's name in the rows shows this, and also features that only this project uses (`OurSide`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Any

from placerl.harness.compare import equal_steps, registry
from placerl.harness.compare.comparison_rows import ComparisonRows
from placerl.harness.compare.equal_steps import Returns, StepExtent
from placerl.harness.compare.parts import FLUSHED, ONE_THREAD, OURS, PLAIN, ComparedPart, OurSide, label
from placerl.harness.compare.protocol import Worker, WorkerFailure, WorkerJob
from placerl.harness.compare.system import System
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.assignments import CPU, CUDA
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.store.rows import ComparisonResult
from placerl.harness.workloads import Workload

NULL = f"{OURS} (null)"
FIRST_JOB_STEPS = 20
# long compared with one episode's reset; short, so that both sides of a pair find the machine in the same state
JOB_S = 0.3
NOT_INSTALLABLE = {
    "ppo2_style": {"openai-baselines": "OpenAI Baselines"},
    "spinningup_style": {"spinningup": "Spinning Up"},
}
"""Systems of PPO Tables 1 and 2 that can no longer be installed, by the baseline that replaces them."""


def networks_on(mapping: Mapping) -> str:
    """Return the device on which a baseline's networks compute next to a mapping: "cpu", or the learner's CUDA device.

    A learner on a CUDA device is compared with a library on that device, and never with one that was kept on the CPU.
    """
    device = mapping.learner.device
    return device if device.partition(":")[0] == CUDA else CPU


@dataclass(frozen=True)
class ComparisonSettings:
    """The settings with which this project and other libraries are compared.

    Attributes:
        batch_size: transitions per gradient step; by default the workload's.
        threads: threads that each system may compute with.
        cpus: processors that each system's processes are confined to; by default they are not.
        rounds: most rounds; fewer if the budget ends first.
        environment: whether environments are stepped. If not, only learner and replay run, on the transitions that
            the replay holds when learning may start.
        ours: features that only this project uses, such as EnvPool; a baseline keeps its own environments.
        returns: how long both systems are trained again to compare their returns; by default they are not compared.
        flushed: baselines that run once more, as further systems, with subnormal numbers treated as zero.
        single_threaded: baselines that run once more, as further systems, with one thread on the same processors: small
            networks may be slower with several.
        asked: whether someone named this project's mapping, instead of the predictions choosing it; the rows say so.
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
    single_threaded: Sequence[str] = ()
    asked: bool = False


DEFAULTS = ComparisonSettings()


def compared_part(baselines: Sequence[str], environment: bool) -> ComparedPart:
    """Return the part of the training in which this project is compared with baselines.

    Raises:
        ValueError: training baselines and replay-only baselines are given together.
    """
    kinds = {registry.replay_alone(name) for name in baselines}
    if len(kinds) > 1:
        raise ValueError(
            f"baselines: found {', '.join(baselines)}; allowed: all that train, or all replays alone"
        )
    if kinds == {True}:
        return ComparedPart.REPLAY
    return ComparedPart.TRAINING if environment else ComparedPart.LEARNER_AND_REPLAY


def compare(
    workload: Workload,
    mapping: Mapping,
    baselines: Sequence[str],
    *,
    budget_s: float,
    progress: Report = silent,
    settings: ComparisonSettings = DEFAULTS,
) -> list[ComparisonResult]:
    """Time this project and baselines on one workload, and compare what they learn from it.

    Args:
        budget_s: no new round begins after this many seconds, once there are enough pairs for a verdict; building
            a baseline's environment is not counted.
        progress: called with the seconds spent.

    Returns:
        Rows of suite `compare`, with its baseline and the device of its networks in `device`
        (`networks_on`): gradient and environment steps per second of both systems (`part` is `ours` or
        `theirs`), returns of the episodes that ended in the timed rounds, `throughput_ratio` (this project over the
        baseline, with a verdict) and `null_ratio` (this project over itself), both of gradient steps unless
        `rate` names environment steps, as for PPO; of this project also the fraction of the time that
        each part of its loop takes, summed over its threads. If both were trained to the same number of environment
        steps, also `return_at_equal_steps` of both and `return_difference` (this project's minus the baseline's).
        A system that failed has one row of status `failed`, with its last lines. A system that
        cannot do the workload, or can no longer be installed, has one row of status `not_run`, with the reason.
        If only replays are compared, also the transitions inserted, batches sampled and batches updated per
        second, each in the time of its own calls.
    """
    size = workload.training.batch_size if settings.batch_size is None else settings.batch_size
    part = compared_part(baselines, settings.environment)
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

    def once_more(names: Sequence[str], suffix: str, **changed: Any) -> list[System]:
        """Return some baselines as further systems, whose jobs differ from the others' in one setting."""
        other = job.model_copy(update=changed)
        return [
            System(name + suffix, partial(their_start, name), other) for name in baselines if name in names
        ]

    ours = System(OURS, start, job)
    their_start = partial(registry.baseline_worker, cpus=settings.cpus)
    theirs = [System(name, partial(their_start, name), job) for name in baselines]
    theirs += once_more(settings.flushed, FLUSHED, flush_subnormals=True)
    theirs += once_more(settings.single_threaded, ONE_THREAD, threads=1)
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
    learnt: dict[str, Returns] = {}
    for system in theirs:  # the number of threads changes what is learnt by rounding alone: once for both
        same = learnt.get(system.name.removesuffix(ONE_THREAD))
        learnt[system.name] = same or _returns(
            ours, system, part, settings.returns, lambda done, total, what: report(what)
        )
    shared = {
        "mapping": "" if part is ComparedPart.REPLAY else str(mapping),
        "seed": settings.seed,
        "threads": settings.threads,
        "timed": HowTimed(conditions=conditions()),
    }
    rows: list[ComparisonResult] = []
    for system in theirs:
        rows += ComparisonRows(
            workload,
            size,
            ours,
            system,
            shared,
            part,
            label(
                system.name,
                part,
                settings.ours,
                len(settings.cpus or ()),
                str(mapping) if settings.asked else "",
            ),
            learnt[system.name],
        ).all()
    return [*rows, *_stood_in_for(workload, job, baselines, shared)]


def _stood_in_for(
    workload: Workload, job: WorkerJob, baselines: Sequence[str], shared: dict[str, Any]
) -> list[ComparisonResult]:
    """Return a row for each system that a paper compares with and that can no longer be installed, naming its
    substitute.
    """
    if workload.algorithm.name != "ppo":
        return []
    return [
        ComparisonResult(
            suite=Suite.COMPARE,
            workload=workload.name,
            primitive="training",
            system=name,
            baseline=name,
            part="theirs",
            device=job.device,
            batch_size=job.batch_size,
            quantity="gradient_steps_per_s",
            provenance=Provenance.MEASURED,
            status="not_run",
            reason=f"not run: needs an older Python than 3.11, on which {what} does not install; {stand_in} stands in",
            **shared,
        )
        for stand_in, gone in NOT_INSTALLABLE.items()
        if stand_in in baselines
        for name, what in gone.items()
    ]


def _note_build_failure(systems: Sequence[System], name: str, failure: WorkerFailure | None) -> None:
    for system in systems:
        if system.name.removesuffix(FLUSHED).removesuffix(ONE_THREAD) == name:
            system.failure = failure


def _end(systems: Sequence[System]) -> None:
    at_work = [system.worker for system in systems if system.worker]
    for worker in at_work:
        worker.hang_up()  # so that they all end at the same time
    for worker in at_work:
        worker.close()


def _returns(
    ours: System, theirs: System, part: ComparedPart, extent: StepExtent | None, report: Report
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


def _warm_up(systems: Sequence[System], report: Callable[[str], None]) -> None:
    """Start the systems, and set the length of their jobs from a first job and a second one of the estimated
    length.
    """
    for system in systems:
        report(f"starting {system.name}")
        begin_s = monotonic()
        for _ in range(2):
            if result := system.ask():
                system.start_s = system.start_s or monotonic() - begin_s
                system.size_jobs(result, JOB_S)


def _rounds(
    ours: System, theirs: Sequence[System], budget_s: float, rounds: int, report: Callable[[str], None]
) -> None:
    """Run interleaved rounds until there are enough, the time is over, or no baseline is left."""
    sides = {OURS: ours, NULL: ours} | {system.name: system for system in theirs}
    results = in_rounds(
        {name: system.ask_timed for name, system in sides.items()},
        Rounds(rounds, fewest=statistics.FEWEST_PAIRS, budget_s=budget_s),
        report=lambda done, total, what: report(what),
        go_on=lambda: not ours.failure and any(not system.failure for system in theirs),
    )
    for name, system in sides.items():
        if name == NULL:
            system.again = results[name]
        else:
            system.results = results[name]
