"""Times the trainings of a study, and the calls from which their rates are predicted.

These are the calls (pieces of the training loop) of every setting, short runs of every choice, and the long runs of
the final (`harness.validate.study`). A choice is a way to run the training, for one workload at one batch size.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import torch

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import (
    VALIDATED,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Target,
    predict,
)
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import NAMES, ComposedLoop
from placerl.harness.measure import protocol as measure
from placerl.harness.measure.conditions import set_blas_threads
from placerl.harness.pieces.learners import FRESH_STEP
from placerl.harness.pieces.storage import fitted
from placerl.harness.profile.cases import PrimitiveCase, distinct, primitive_cases
from placerl.harness.profile.cases.concurrent import concurrent_cases
from placerl.harness.profile.cases.on_policy import on_policy_cases
from placerl.harness.profile.cases.rounds import round_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.training import TimedTraining, training_case
from placerl.harness.profile.cases.validation_rounds import FPGA, validation_cases
from placerl.harness.store.rows import PieceTime
from placerl.harness.validate import piece_times
from placerl.harness.validate.finalists import Finalists
from placerl.harness.validate.rows import Profile
from placerl.harness.validate.space import (
    CPU,
    NATIVE,
    THREADED,
    Decision,
    Setting,
    simulated_space,
    space,
    under,
)
from placerl.harness.validate.space import PRECISIONS as OTHER_PRECISIONS
from placerl.harness.validate.study_file import NO_FILE, FinalRounds, Seconds, StudyFile
from placerl.harness.workloads import Workload, override
from placerl.harness.workloads.task import item_bytes
from placerl.primitives.quantization.precision import FLOAT_32

SUITE = Suite.BENCH_MAPPING
PRECISIONS = (FLOAT_32, *OTHER_PRECISIONS)
KEPT_BYTES = 2**23
"""Most bytes of the batches that wait in a training which stays open between its turns."""
OVERLAPPED = ((512, 32), (4096, 4), (2**20, 2))
"""Gradient steps of an iteration with concurrent actors, by the largest batch size: with long steps, a few of them hide
the hand-over just as well.
"""
BLOCK_S = 5e-3
"""Length of a block of pieces before any choice is run, seconds."""


@dataclass(frozen=True)
class Final:
    """The results of one choice (a way to run the training) in the long runs that decide which choice is best.

    Attributes:
        rates: gradient steps per second by number of the round; empty if the choice failed.
        errors: predicted / achieved - 1, one per round; empty if there is no prediction.
        slower: whether it was clearly slower than the fastest, so that it took no part in later rounds.
        reason: why it failed; empty otherwise.
    """

    rates: Mapping[int, float] = field(default_factory=dict)
    errors: tuple[float, ...] = ()
    slower: bool = False
    reason: str = ""


class FewCores:
    """A platform of which a training may use only some cores.

    Attributes:
        name: the platform's name.
    """

    def __init__(self, platform: Platform, cpu_cores: int) -> None:
        self.platform, self.name, self.cpu_cores = platform, platform.name, cpu_cores

    def bytes_per_s(self, source: str, target: str) -> float:
        """Return the bandwidth of the platform between two devices, bytes per second (`Platform.bytes_per_s`)."""
        return self.platform.bytes_per_s(source, target)

    def latency_s(self, source: str, target: str) -> float:
        """Return the platform's latency of a transfer between two devices, seconds (`Platform.latency_s`)."""
        return self.platform.latency_s(source, target)


@dataclass(frozen=True)
class _Shared:
    """What the pieces and trainings of a setting share."""

    workload: Workload
    problem: Problem
    parts: SharedParts
    pieces: list[PrimitiveCase]


class MeasuredCell:
    """Times all ways (choices) to train a workload at one batch size, in this process.

    The process must be pinned to `cores` cores before it starts any thread.

    Args:
        batch_size: transitions per gradient step; the replay holds at least one batch.
        simulated: whether the choices are those with the simulated FPGA, in virtual time: its cycles are those of the
            committed table.

    Attributes:
        choices: all choices of the study.
        failures: why a choice could not be run, by the choice.
        tables: the times of the pieces (calls of the training loop) of each setting.
    """

    def __init__(
        self, item: Workload, batch_size: int, cores: int, platform: Platform, *, simulated: bool = False
    ) -> None:
        self.choices: Sequence[Decision] = (
            simulated_space(item, batch_size) if simulated else space(item, batch_size, cores)
        )
        self._simulated = simulated
        self.failures: dict[Decision, str] = {}
        self._item, self._batch_size = item, batch_size
        self._platform = FewCores(platform, cores)
        self._small = fitted(item)
        self._settings: dict[Setting, _Shared] = {}
        self.tables: dict[Setting, PerformanceTable] = {}
        self._predictions: dict[Decision, Prediction | None] = {}
        self._open: dict[Decision, TimedTraining] = {}
        self._checked: set[Decision] = set()
        self._own = Setting(1, item.training.actors)

    def close(self) -> None:
        """End every training that is still open, and every process."""
        self._close_runs()
        for shared in self._settings.values():
            shared.parts.close()

    def profile(self, budget_s: float, report: Report) -> None:
        """Time the pieces (calls of the training loop) of every setting, from which the rates of choices are predicted.

        Args:
            budget_s: seconds after which no further round begins; a round times every call once.
        """
        settings = list(dict.fromkeys([self._own, *(choice.setting for choice in self.choices)]))
        pieces = {setting: self._shared(setting).pieces for setting in settings}
        every = distinct(piece for some in pieces.values() for piece in some)
        set_threads(1, 1)
        timings = piece_times.timed(every, report, budget_s=budget_s, block_s=BLOCK_S, warm_up_s=BLOCK_S)
        for setting, some in pieces.items():
            rows = piece_times.piece_rows(some, timings, self._item, self._batch_size)
            if self._simulated:
                board = piece_times.board_rows(self._item, self._batch_size, self._shared(setting).problem)
                rows += [row for row in board if isinstance(row, PieceTime)]
            self.tables[setting] = predict.table_from(rows, self._batch_size)
        self._predictions.clear()

    def predict(self, choice: Decision) -> Prediction | None:
        """Return the predicted rate of a choice; None if one of the calls from which it is predicted was not timed."""
        if choice not in self._predictions:
            try:
                prediction = self._predicted(choice, self.tables[choice.setting])
            except KeyError:
                prediction = None
            self._predictions[choice] = prediction
        return self._predictions[choice]

    def strategies(self) -> dict[str, Decision | str]:
        """Return the choice of each paper's strategy (performance model) by its name, or why it chooses nothing.

        Strategies choose among learners in float32 with one thread, and with the workload's actors.
        """
        floats = (entry for entry in self.tables[self._own] if entry.target.precision == FLOAT_32)
        table, problem = PerformanceTable(floats), self._shared(self._own).problem
        choices: dict[str, Decision | str] = {}
        for name, strategy in VALIDATED.items():
            if name in NAMES.values():
                continue
            try:
                mapping = strategy.choose(table, problem, self._platform).mapping
            except (ValueError, UserError) as error:
                choices[name] = str(error)
                continue
            choices[name] = under(self._small, mapping, strategy.loop, problem.ahead)
        return choices

    def turn(self, choice: Decision, seconds: float) -> float | None:
        """Run a choice for about the given time.

        Returns:
            Gradient steps per second; None if the choice failed, now or before (`failures`).
        """
        if choice in self.failures:
            return None
        run: TimedTraining | None = None
        try:
            run = self._open.pop(choice, None) or self._started(choice)
            self._set_threads(choice.threads, choice.mapping.learner)
            prediction = self.predict(choice)
            call_s = run.gradient_steps / prediction.gps if prediction else seconds
            calls = 1 if run.simulated else max(1, round(seconds / call_s))
            rate = calls * run.gradient_steps / run.block(calls)
        except Exception as error:  # an exception of one choice must not stop the others
            self.failures[choice] = f"{type(error).__name__}: {error}"
            if run is not None:
                with suppress(Exception):  # what broke the choice may break its end, too
                    run.close()
            return None
        waiting_bytes = choice.ahead * self._batch_size * item_bytes(self._item)
        if waiting_bytes > KEPT_BYTES:
            run.close()
        else:
            self._open[choice] = run
        return rate

    def finals(
        self, choices: Sequence[Decision], budget_s: float, report: Report, file: StudyFile = NO_FILE
    ) -> dict[Decision, Final]:
        """Run choices and the pieces (calls of the training loop) that predict them, in the same interleaved rounds.

        Args:
            budget_s: seconds after which no further round begins. A round times every choice and every call once; the
                first `FEWEST_SAMPLES` are run in any case, and later ones leave out what is clearly slower.
            file: keeps each round that is done. If it holds earlier ones, at least one more follows them.

        Returns:
            The rates and the prediction errors of each choice.
        """
        self._close_runs()
        runs: dict[Decision, dict[str, TimedTraining]] = {choice: {} for choice in choices}
        trainings = {choice: self._training(choice, runs[choice]) for choice in choices}
        pieces = {choice: self._pieces_of(choice) for choice in choices}
        every = [*(piece for some in pieces.values() for piece in some), *trainings.values()]
        by_name = {trainings[choice].case.name: choice for choice in choices}
        earlier, begin_s = file.rounds(), monotonic()
        finalists = Finalists(
            {name: [piece.case.name for piece in pieces[choice]] for name, choice in by_name.items()},
            earlier.left,
        )

        def steps_per_call(name: str) -> int:
            """Return the gradient steps of a training's call; 1 for a piece."""
            return next(iter(runs[by_name[name]].values())).gradient_steps if name in by_name else 1

        def with_earlier(seconds: Seconds) -> Seconds:
            return earlier.followed_by(
                {
                    name: {number: s / steps_per_call(name) for number, s in by.items()}
                    for name, by in seconds.items()
                }
            )

        def narrow(seconds: Seconds, cost_s: Mapping[str, float], left_s: float) -> Collection[str]:
            so_far = with_earlier(seconds)
            chosen = finalists(so_far, cost_s, left_s)
            file.keep(FinalRounds(so_far, finalists.left, earlier.spent_s + monotonic() - begin_s))
            return chosen

        set_threads(1, 1)
        timings = piece_times.timed(
            distinct(every),
            report,
            narrow,
            budget_s=max(0.0, budget_s - earlier.spent_s),
            rounds=max(1, piece_times.PROTOCOL.rounds - earlier.count),
        )
        seconds = with_earlier(
            {name: dict(zip(one.clock_rounds, one.clock_s, strict=True)) for name, one in timings.items()}
        )
        finals = {}
        for choice, case in trainings.items():
            timing = case.timing(timings)
            if timing.status == "failed":
                finals[choice] = Final(reason=timing.reason)
                continue
            rates = {number: 1 / s for number, s in seconds[timing.name].items()}
            rows = piece_times.piece_rows(pieces[choice], timings, self._item, self._batch_size)
            by_piece = [seconds[piece.timing(timings).name] for piece in pieces[choice]]
            errors = self._errors(choice, rows, by_piece, rates)
            finals[choice] = Final(rates, errors, slower=case.case.name not in finalists.left)
        return finals

    def _errors(
        self,
        choice: Decision,
        rows: Sequence[PieceTime],
        by_piece: Sequence[Mapping[int, float]],
        rates: Mapping[int, float],
    ) -> tuple[float, ...]:
        """Return the errors of the predictions from each round's pieces, as the clock had them.

        Args:
            rows: the times of the pieces.
            by_piece: seconds of each piece by number of the round.
        """
        if not rows or any(row.value is None for row in rows):
            return ()
        profile = Profile(rows, by_piece, self._batch_size)
        before = self.tables[choice.setting]
        # A prediction also asks which other pieces there are; it uses the times of the final's alone.
        tables = {n: PerformanceTable([*before, *profile.at(n)]) for n in rates}
        return tuple(self._predicted(choice, tables[n]).gps / gps - 1 for n, gps in rates.items())

    def _predicted(self, choice: Decision, table: PerformanceTable) -> Prediction:
        problem = self._problem(choice)
        return ComposedLoop(choice.loop).predict(table, problem, self._platform, choice.mapping)

    def _problem(self, choice: Decision) -> Problem:
        return replace(self._shared(choice.setting).problem, ahead=choice.ahead)

    def _pieces_of(self, choice: Decision) -> list[PrimitiveCase]:
        """Return the pieces from which a choice is predicted."""
        prediction = self.predict(choice)
        cells = set(prediction.cells) if prediction else set()
        return [
            piece for piece in self._shared(choice.setting).pieces if (piece.primitive, piece.target) in cells
        ]

    def _shared(self, setting: Setting) -> _Shared:
        """Return what the pieces and trainings of a setting share, which is made the first time."""
        if setting not in self._settings:
            small = override(self._small, "training.actors", setting.actors, "the study")
            steps = next(steps for largest, steps in OVERLAPPED if self._batch_size <= largest)
            problem = replace(
                problem_of(small, self._batch_size),
                learner_threads=setting.threads,
                actor_processes=setting.processes,
                overlapped_gradient_steps=steps,
            )
            like = next((shared.parts for shared in self._settings.values()), None)
            parts = SharedParts(small, problem, like)
            pieces = self._pieces(setting, small, problem, parts)
            self._settings[setting] = _Shared(small, problem, parts, pieces)
        return self._settings[setting]

    def _pieces(
        self, setting: Setting, workload: Workload, problem: Problem, parts: SharedParts
    ) -> list[PrimitiveCase]:
        """Return the pieces of a setting; only the workload's own has those that no combined choice needs."""
        if problem.on_policy:
            pieces = list(on_policy_cases(workload, problem, PRECISIONS, parts))
        else:
            pieces = [
                *round_cases(workload, problem, parts, PRECISIONS),
                *concurrent_cases(workload, problem, parts),
                *validation_cases(workload, problem, parts, PRECISIONS),
            ]
        if setting == self._own:
            primitives = primitive_cases(self._small, self._batch_size)
            pieces += [piece for piece in primitives if piece.primitive != FRESH_STEP]
        else:
            pieces = [piece for piece in pieces if _combined(piece, setting)]
        return [
            self._in_setting(piece, setting)
            for piece in pieces
            if piece.target.backend not in COMPARED_ONLY
            and (self._simulated or not (piece.target == FPGA or piece.case.name.endswith(str(FPGA))))
        ]

    def _in_setting(self, piece: PrimitiveCase, setting: Setting) -> PrimitiveCase:
        """Return a piece under a name of its setting; before each block it sets the threads of PyTorch and NumPy."""
        case: measure.Case[Any] = piece.case

        def inputs(state: Any, rng: Any) -> Any:
            self._set_threads(setting.threads, piece.target)
            return case.inputs(state, rng)

        name = (
            f"{setting.threads} threads, {setting.actors} actors, {setting.processes} processes: {case.name}"
        )
        return replace(piece, case=replace(case, name=name, inputs=inputs))

    def _set_threads(self, threads: int, learner: Target) -> None:
        """Set the threads of PyTorch and NumPy to those of a training whose learner has `threads` threads."""
        if self._shared(self._own).problem.on_policy:  # see `OnPolicyLoop`
            set_threads(threads if learner.backend == "torch" else 1, 1)
        else:
            set_threads(threads, threads)

    def _training(self, choice: Decision, runs: dict[str, TimedTraining]) -> PrimitiveCase:
        shared, prediction = self._shared(choice.setting), self.predict(choice)
        case = training_case(
            shared.workload,
            self._problem(choice),
            choice.mapping,
            runs,
            choice.loop,
            shared.parts,
            1 / prediction.gps if prediction else 0.0,
        )

        def block(run: TimedTraining, calls: int) -> float:
            self._set_threads(choice.threads, choice.mapping.learner)
            return run.block(calls)

        return replace(case, case=replace(case.case, name=str(choice), block=block))

    def _started(self, choice: Decision) -> TimedTraining:
        """Start a training; the first time, check what it does."""
        self._set_threads(choice.threads, choice.mapping.learner)
        case = self._training(choice, {}).case
        run: TimedTraining = case.setup()
        try:
            if choice not in self._checked:
                case.check(run)
                self._checked.add(choice)
        except BaseException:
            run.close()
            raise
        return run

    def _close_runs(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


def set_threads(torch_threads: int, blas_threads: int) -> None:
    """Set the numbers of threads that PyTorch and NumPy's matrix products use.

    Settings with several numbers of threads share a process. A training that starts sets both numbers, too, so if
    PyTorch's number is the wanted one, nothing is done: in a process, one number of PyTorch's threads must always go
    with the same number of NumPy's.
    """
    if torch.get_num_threads() != torch_threads:
        torch.set_num_threads(torch_threads)
        set_blas_threads(blas_threads)


def _combined(piece: PrimitiveCase, setting: Setting) -> bool:
    """Whether a piece is needed where only the native replay on the host is combined with everything else."""
    name = piece.case.name
    elsewhere = any(f"round of replay {other}" in name for other in ("flat", "opencl", "cuda"))
    stored = "round of " in name and name.count("-") >= 2
    threaded = setting.threads == 1 or piece.target in (CPU, NATIVE) or piece.target.backend in THREADED
    return threaded and not elsewhere and not stored
