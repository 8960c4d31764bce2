"""Keeps one system of a comparison, this project or another library: its worker process, its next job, its results."""

from collections.abc import Callable
from dataclasses import dataclass, field

from placerl.harness.compare.equal_steps import ComparedSide
from placerl.harness.compare.protocol import Worker, WorkerFailure, WorkerJob, WorkerResult

START_LIMIT_S = 600.0  # some systems compile for the workload before they begin
LATE_FACTOR = 20  # a job that takes this many times its expected seconds is taken to hang
LEAST_LIMIT_S = 30.0


@dataclass
class System:
    """One system under comparison, and its results so far.

    Attributes:
        name: `placerl` or the baseline's name, with `FLUSHED` if it flushes, `ONE_THREAD` if it has one thread alone.
        start: function that starts its worker.
        job: its next job, with the number of gradient steps to take.
        expected_s: most seconds that its next job should take; 0 before the first one.
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
    expected_s: float = 0.0
    worker: Worker | None = None
    failure: WorkerFailure | None = None
    start_s: float = 0.0
    results: list[WorkerResult] = field(default_factory=list)
    again: list[WorkerResult] = field(default_factory=list)
    timed: list[WorkerResult] = field(default_factory=list)

    @property
    def limit_s(self) -> float:
        """Return the seconds after which its next job is taken to hang."""
        if not self.expected_s:
            return START_LIMIT_S
        return min(START_LIMIT_S, max(LEAST_LIMIT_S, LATE_FACTOR * self.expected_s))

    def ask(self) -> WorkerResult | None:
        """Have a job done; returns None once the system has failed."""
        if self.failure:
            return None
        try:
            if self.worker is None:
                self.worker = self.start()
            return self.worker.ask(self.job, self.limit_s)
        except WorkerFailure as failure:
            self.failure = failure
            return None

    def ask_timed(self) -> WorkerResult | None:
        """Have a job of the timed rounds done; returns None once the system has failed."""
        if result := self.ask():
            self.timed.append(result)
        return result

    def side(self) -> ComparedSide:
        """Return the side to train again, with the speed of its timed rounds."""
        return ComparedSide.of(self.name, self.start, self.start_s, self.timed)

    def size_jobs(self, result: WorkerResult, seconds: float) -> None:
        """Make further jobs last about `seconds`, estimated from the last one."""
        steps = max(1, round(seconds * result.gradient_steps / result.wall_s))
        self.job = self.job.model_copy(update={"gradient_steps": steps})
        # However few steps it asks for, a job takes a whole round of training, such as an iteration of PPO.
        self.expected_s = result.wall_s * max(1.0, steps / result.gradient_steps)
