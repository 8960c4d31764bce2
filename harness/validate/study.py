"""Finds the best way to train one workload at one batch size, and judges predictions and strategies by it.

A choice says where learner, replay and storage run, in which loop, and with how many threads and actors
(`harness.validate.space.Decision`). A cell is one workload at one batch size on a number of cores. A strategy is a
performance model that chooses; a piece is a call of the training loop that is timed at its place in the loop.

1. The pieces of every setting are timed, and every choice of the space is predicted from them.
2. Choices are run in heats of interleaved rounds (`harness.measure.halving`): short runs of all, longer runs of the
   better half, and so on. Only those that are predicted to be more than `HOPELESS` times slower than the best are not:
   where gradient steps are long, such as on OpenCL with Pong's frames, starting them takes most of the time.
3. The finalists and what each strategy chose are run long, in the same rounds as the pieces that predict them: at
   least 5 rounds of each, and more of those that may still be the fastest (`harness.validate.finalists`). The best of
   them is the cell's best choice, and regrets are losses against it.

The rows have suite `bench-mapping`:

| quantity | strategy | what it is |
|---|---|---|
| `gradient_steps_per_s` | placerl | a choice's rate: of the final, or of the last heat that it ran in (`stage`) |
| `predicted_gradient_steps_per_s` | `OURS` | its prediction from step 1; of finalists with `error` |
| `regret` | a strategy | 1 - rate(chosen) / rate(best), from the final's rounds |

An error is predicted / achieved - 1. In the final it is that of a prediction from pieces of the same rounds, the
median over rounds: a machine that changed its speed since step 1 changes both. `error_before` is that of step 1's
prediction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from statistics import median
from time import monotonic
from typing import Any

from placerl.harness.core.progress import Report, part, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import Prediction
from placerl.harness.measure import statistics
from placerl.harness.measure.halving import Heats, Standing, halve
from placerl.harness.runtime.simulated_parts import of_mapping
from placerl.harness.validate.regret import loss, loss_of_best
from placerl.harness.validate.space import Decision
from placerl.harness.validate.study_cell import SUITE, Final, MeasuredCell
from placerl.harness.validate.study_file import NO_FILE, Search, StudyFile

OURS = "whole-space"
"""Name of this project's choice: the choice of the whole space with the highest prediction."""
FINALISTS = 4
HOPELESS = 3.0
"""Choices that are predicted to be more times slower than the fastest prediction are not run, unless a strategy chose
them. The worst of 21 errors on a quiet Xeon was 11%; a disturbed profile can rule out a good choice.
"""
PROFILE_SHARE, HEATS_SHARE, FINAL_SHARE = 0.4, 0.3, 0.3
"""Shares of a cell's seconds."""


@dataclass(frozen=True, kw_only=True)
class StudyResult(Row, table="study_result", who="strategy", where="mapping"):
    """The rate of a choice (a way to run a training), a prediction of it, or the regret of a strategy's choice.

    Attributes:
        strategy: the performance model that chose or predicted; "placerl" for a rate.
        cores: number of cores that a training may use.
        choice: the choice as text; None if the row is about none.
        mapping, loop, ahead, threads, actors, processes: its parts (`harness.validate.space.Decision`).
        stage: "final", or the last heat that the choice ran in.
        final_failed: why it failed in the final; None otherwise.
        terms_s: predicted seconds per gradient step by term.
        inputs: provenance of the times from which it is predicted.
        achieved: the rate that a predicted choice reached.
        error, error_low, error_high: predicted / achieved - 1 in the final, with its 95% interval.
        error_before: the same of the prediction from the pieces timed before.
        best: the best choice, to which a regret refers, as text.
        verdict, why_no_verdict: whether the choice is the best, and why that is not known.
    """

    strategy: str
    cores: int
    choice: str | None = None
    mapping: str = ""
    loop: str | None = None
    ahead: int | None = None
    threads: int | None = None
    actors: int | None = None
    processes: int | None = None
    stage: str | None = None
    final_failed: str | None = None
    terms_s: Mapping[str, float] | None = None
    inputs: str | None = None
    achieved: float | None = None
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None
    error_before: float | None = None
    best: str | None = None
    verdict: str | None = None
    why_no_verdict: str | None = None


@dataclass(frozen=True)
class StudiedCell:
    """The workload, batch size and number of cores that a study is about; its rows name them.

    Attributes:
        workload: name of the workload.
        batch_size: transitions per gradient step.
        cores: number of cores that a training may use.
    """

    workload: str
    batch_size: int
    cores: int

    def row(self, strategy: str, choice: Decision | None, **values: Any) -> StudyResult:
        """Return a row of the study to store.

        Args:
            strategy: "placerl", or the name of a strategy (performance model).
            choice: the way to run the training that the row is about; None if it is about none.
        """
        common: dict[str, Any] = {
            "suite": SUITE,
            "workload": self.workload,
            "primitive": "training",
            "batch_size": self.batch_size,
            "cores": self.cores,
            "strategy": strategy,
            "provenance": of_mapping(choice.mapping) if choice else Provenance.MEASURED,
        }
        return StudyResult(**{**common, **(choice.columns() if choice else {}), **values})


@dataclass(frozen=True)
class Candidates:
    """What is known of the choices before any of them is run.

    Attributes:
        predictions: the prediction of each choice that could be predicted.
        chosen: the choice of each strategy by its name, or why it chooses nothing.
        asked: the choices of those that choose.
        tried: the choices that are run.
        hopeless: those that are not, each with how many times slower than the fastest prediction it is predicted to be.
    """

    predictions: Mapping[Decision, Prediction]
    chosen: Mapping[str, Decision | str]
    asked: Sequence[Decision]
    tried: Sequence[Decision]
    hopeless: Mapping[Decision, float]


def study(
    cell: StudiedCell,
    timed: MeasuredCell,
    budget_s: float,
    report: Report = silent,
    clock: Callable[[], float] = monotonic,
    file: StudyFile = NO_FILE,
) -> Sequence[StudyResult]:
    """Find the best choice, the fastest way to run a training, and judge predictions and strategies by it.

    Args:
        timed: times choices and the calls from which they are predicted.
        budget_s: seconds of the whole study; each of its parts runs at least one round.
        file: keeps what is found; a study that was killed goes on with its final from there.

    Returns:
        Rows with the rate of every choice, or why it was not run; the predicted rate of those that could be
        predicted; and the regret of each strategy. The module's docstring lists them.
    """
    search = file.search()
    resumed = _resumed(timed, search) if search else None
    candidates, standings = resumed or _searched(timed, budget_s, report, clock, file)
    able = [choice for choice, standing in standings.items() if standing.rates]
    last = dict.fromkeys([*able[:FINALISTS], *(one for one in candidates.asked if one in able)])
    finals = timed.finals(
        list(last), FINAL_SHARE * budget_s, part(report, 1 - FINAL_SHARE, FINAL_SHARE, 1, "final"), file
    )
    return _Findings(cell, candidates, standings, finals, timed.failures).rows()


def _searched(
    timed: MeasuredCell, budget_s: float, report: Report, clock: Callable[[], float], file: StudyFile
) -> tuple[Candidates, Mapping[Decision, Standing]]:
    """Time the pieces, run the candidates in heats, and keep what was found."""
    timed.profile(PROFILE_SHARE * budget_s, part(report, 0, PROFILE_SHARE, 1, "pieces"))
    candidates = _candidates(timed)
    sides = {choice: partial(timed.turn, choice) for choice in candidates.tried}
    heats = Heats(FINALISTS, budget_s=HEATS_SHARE * budget_s)
    heated = part(report, PROFILE_SHARE, HEATS_SHARE, 1, "")
    standings = halve(sides, heats, report=heated, clock=clock)
    by_text = {str(choice): standing for choice, standing in standings.items()}
    failures = {str(choice): why for choice, why in timed.failures.items()}
    file.begin_final(Search(timed.tables, by_text, failures))
    return candidates, standings


def _resumed(timed: MeasuredCell, search: Search) -> tuple[Candidates, Mapping[Decision, Standing]] | None:
    """Take over what a study had found that was killed in its final; None if other choices are to be run now.

    Links are measured anew, so that a strategy may choose something else.
    """
    timed.tables |= search.tables
    candidates = _candidates(timed)
    choices = {str(choice): choice for choice in candidates.tried}
    if choices.keys() != search.standings.keys():
        return None
    timed.failures |= {choices[text]: why for text, why in search.failures.items()}
    return candidates, {choices[text]: standing for text, standing in search.standings.items()}


def _candidates(timed: MeasuredCell) -> Candidates:
    """Predict every choice from the times of the pieces, and ask each strategy for its choice."""
    predictions, chosen = _predictions(timed, timed.choices), timed.strategies()
    if predictions:
        # Of equal predictions, up to rounding, the larger D: its replay manager is woken less often.
        chosen[OURS] = max(
            predictions, key=lambda choice: (float(f"{predictions[choice].gps:.6g}"), choice.ahead)
        )
    asked = [choice for choice in chosen.values() if isinstance(choice, Decision)]
    fastest = max((prediction.gps for prediction in predictions.values()), default=0.0)
    slower = {choice: fastest / one.gps for choice, one in predictions.items() if choice not in asked}
    hopeless = {choice: times for choice, times in slower.items() if times > HOPELESS}
    # A strategy may choose what is not in the space; it is run, and so its prediction is judged, too.
    every = dict.fromkeys([*timed.choices, *asked])
    tried = [choice for choice in every if choice not in hopeless]
    return Candidates(_predictions(timed, every), chosen, asked, tried, hopeless)


def _predictions(timed: MeasuredCell, choices: Iterable[Decision]) -> dict[Decision, Prediction]:
    """Return the predictions of those choices that can be predicted."""
    predictions = {choice: timed.predict(choice) for choice in choices}
    return {choice: prediction for choice, prediction in predictions.items() if prediction is not None}


@dataclass(frozen=True)
class _Findings:
    """What a study has found, from which its rows follow."""

    cell: StudiedCell
    candidates: Candidates
    standings: Mapping[Decision, Standing]
    finals: Mapping[Decision, Final]
    failures: Mapping[Decision, str]

    def rows(self) -> list[StudyResult]:
        """Return the rows to store, in the order of the table in the module's docstring."""
        return [
            *map(self._achieved, self.candidates.tried),
            *starmap(self._not_run, self.candidates.hopeless.items()),
            *starmap(self._predicted, self.candidates.predictions.items()),
            *starmap(self._regret, self.candidates.chosen.items()),
        ]

    def _final(self, choice: Decision) -> Final:
        """Return a choice's results in the final; empty if it was not in it."""
        return self.finals.get(choice, Final())

    def _achieved(self, choice: Decision) -> StudyResult:
        final, standing = self._final(choice), self.standings[choice]
        rates, of = tuple(final.rates.values()) or standing.rates, {"quantity": "gradient_steps_per_s"}
        if not rates:
            reason = self.failures.get(choice) or "it failed"
            return self.cell.row("placerl", choice, **of, status="failed", reason=reason)
        enough = len(rates) >= statistics.FEWEST_SAMPLES
        low, high = statistics.interval(rates, in_order=True) if enough else (None, None)
        columns = {"value": median(rates), "low": low, "high": high, "samples": rates}
        stage = "final" if final.rates else f"heat {standing.heats}"
        lost = " ".join(final.reason.split()) or None  # a column holds one line
        return self.cell.row("placerl", choice, **of, **columns, stage=stage, final_failed=lost)

    def _not_run(self, choice: Decision, times: float) -> StudyResult:
        reason = f"predicted {times:.1f} times slower than the best; from {HOPELESS:g} times on none is run"
        fields = {"quantity": "gradient_steps_per_s", "status": "not_run", "reason": reason}
        return self.cell.row("placerl", choice, **fields)

    def _predicted(self, choice: Decision, prediction: Prediction) -> StudyResult:
        columns: dict[str, Any] = {"terms_s": dict(prediction.terms_s), "inputs": str(prediction.inputs)}
        final, standing = self._final(choice), self.standings.get(choice)
        if rates := tuple(final.rates.values()) or (standing.rates if standing else ()):
            achieved = median(rates)
            columns |= {"achieved": achieved, "error_before": prediction.gps / achieved - 1}
        if final.errors:
            columns["error"] = median(final.errors)
            if len(final.errors) >= statistics.FEWEST_SAMPLES:
                columns["error_low"], columns["error_high"] = statistics.interval(final.errors, in_order=True)
        return self.cell.row(
            OURS,
            choice,
            quantity="predicted_gradient_steps_per_s",
            provenance=prediction.provenance,
            value=prediction.gps,
            **columns,
        )

    def _regret(self, name: str, choice: Decision | str) -> StudyResult:
        row = partial(self.cell.row, name, quantity="regret")
        if isinstance(choice, str):
            return row(None, status="not_run", reason=f"needs: {choice}")
        able = {one: list(final.rates.values()) for one, final in self.finals.items() if final.rates}
        if choice not in able:
            why = self._final(choice).reason or self.failures.get(choice) or "it failed"
            return row(choice, status="not_run", reason=f"{choice}: {why}")
        # What was left out ran in other rounds than the rest, in which the machine may have been faster.
        best = max(able, key=lambda one: (not self.finals[one].slower, median(able[one])))
        rates = self.finals[choice].rates
        lost = loss_of_best(rates) if best == choice else loss(rates, self.finals[best].rates)
        return row(
            choice,
            value=lost.value,
            low=lost.low,
            high=lost.high,
            best=str(best),
            verdict=lost.verdict,
            why_no_verdict=lost.reason,
        )
