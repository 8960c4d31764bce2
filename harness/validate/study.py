"""The study of one cell: which choice is best, what was predicted, and what each strategy's choice loses.

1. The pieces of every setting are timed, and every choice of the space is predicted from them.
2. Every choice is run, in heats of interleaved rounds (`harness.measure.halving`): short runs of all, longer runs of
   the better half, and so on.
3. The finalists and what each strategy chose are run long, in the same rounds as the pieces that predict them. The best
   of them is the cell's best choice, and regrets are losses against it.

The rows have suite `bench-mapping`:

| quantity | backend | what it is |
|---|---|---|
| `gradient_steps_per_s` | placerl | a choice's rate: of the final, or of the last heat that it ran in (`stage`) |
| `predicted_gradient_steps_per_s` | `OURS` | its prediction from step 1; of finalists with `error` |
| `regret` | a strategy | 1 - rate(chosen) / rate(best), from the final's rounds |

An error is predicted / achieved - 1. In the final it is that of a prediction from pieces of the same rounds, the median
over rounds: a machine that changed its speed since step 1 changes both. `error_before` is that of step 1's prediction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import monotonic
from typing import Any, Protocol

from harness.core.progress import Report, part, silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Suite
from harness.mapping import Prediction
from harness.mapping.metrics import regret
from harness.measure import statistics
from harness.measure.halving import Heats, Standing, halve
from harness.validate.regret import BEST, loss
from harness.validate.space import Decision

SUITE = Suite.BENCH_MAPPING
OURS = "whole-space"
"""Name of this project's choice: the choice of the whole space with the highest prediction."""
FINALISTS = 4
PROFILE_SHARE, HEATS_SHARE, FINAL_SHARE = 0.4, 0.3, 0.3
"""Shares of a cell's seconds."""


@dataclass(frozen=True)
class Final:
    """A choice's runs in the final.

    Attributes:
        rates: gradient steps per second by round; empty if it failed.
        errors: predicted / achieved - 1 by round; empty if there is no prediction.
        reason: why it failed; empty otherwise.
    """

    rates: Mapping[int, float] = field(default_factory=dict)
    errors: tuple[float, ...] = ()
    reason: str = ""


class Timed(Protocol):
    """What a study times: `harness.validate.study_cell.MeasuredCell`, or a fake.

    Attributes:
        choices: the space.
        failures: why a choice could not be run.
    """

    choices: Sequence[Decision]
    failures: dict[Decision, str]

    def profile(self, budget_s: float, report: Report) -> None:
        """Time the pieces from which choices are predicted."""

    def predict(self, choice: Decision) -> Prediction | None:
        """Return the prediction of a choice; None if a piece of it was not timed."""

    def strategies(self) -> dict[str, Decision | str]:
        """Return what each paper's strategy chooses, by its name, or why it chooses nothing."""

    def turn(self, choice: Decision, seconds: float) -> float | None:
        """Run a choice for about so many seconds; returns gradient steps per second, or None if it failed."""

    def finals(self, choices: Sequence[Decision], budget_s: float, report: Report) -> dict[Decision, Final]:
        """Run choices and the pieces that predict them, in the same interleaved rounds."""


@dataclass(frozen=True)
class StudiedCell:
    """What the rows of a study name.

    Attributes:
        workload: name of the workload.
        batch_size: transitions per gradient step.
        cores: cores that it may use.
    """

    workload: str
    batch_size: int
    cores: int

    def row(self, backend: str, choice: Decision | None, **values: Any) -> Measurement:
        """Return a row of the cell, of a choice if there is one."""
        details = {"cores": self.cores} | (choice.details() | {"choice": str(choice)} if choice else {})
        return Measurement(
            suite=SUITE,
            workload=self.workload,
            primitive="training",
            backend=backend,
            device=str(choice.mapping) if choice else "",
            batch_size=self.batch_size,
            **{"provenance": Provenance.MEASURED, **values, "details": details | values.get("details", {})},
        )


def study(
    cell: StudiedCell,
    timed: Timed,
    budget_s: float,
    report: Report = silent,
    clock: Callable[[], float] = monotonic,
) -> list[Measurement]:
    """Find a cell's best choice, and judge predictions and choices by it.

    Args:
        cell: what the rows name.
        timed: times pieces and choices.
        budget_s: seconds of the whole; each part runs at least one round.
        report: called with the progress.
        clock: returns seconds from some moment.
    """
    timed.profile(PROFILE_SHARE * budget_s, part(report, 0, PROFILE_SHARE, 1, "pieces"))
    found = {choice: timed.predict(choice) for choice in timed.choices}
    predicted = {choice: made for choice, made in found.items() if made is not None}
    chosen = timed.strategies()
    if predicted:
        chosen[OURS] = max(predicted, key=lambda choice: predicted[choice].gps)
    asked = [choice for choice in chosen.values() if isinstance(choice, Decision)]
    sides = {choice: partial(timed.turn, choice) for choice in dict.fromkeys([*timed.choices, *asked])}
    heats = Heats(FINALISTS, budget_s=HEATS_SHARE * budget_s)
    heated = part(report, PROFILE_SHARE, HEATS_SHARE, 1, "")
    standings = halve(sides, heats, report=heated, clock=clock)
    able = [choice for choice, standing in standings.items() if standing.rates]
    last = dict.fromkeys([*able[:FINALISTS], *(choice for choice in asked if choice in able)])
    finals = timed.finals(
        list(last), FINAL_SHARE * budget_s, part(report, 1 - FINAL_SHARE, FINAL_SHARE, 1, "final")
    )
    return [
        *(_achieved(cell, choice, standings[choice], finals.get(choice), timed) for choice in sides),
        *(
            _predicted(cell, choice, made, standings[choice], finals.get(choice))
            for choice, made in predicted.items()
        ),
        *(_regret(cell, name, one, finals, timed) for name, one in chosen.items()),
    ]


def _achieved(
    cell: StudiedCell, choice: Decision, standing: Standing, final: Final | None, timed: Timed
) -> Measurement:
    of = {"quantity": "gradient_steps_per_s"}
    rates = tuple(final.rates.values()) if final and final.rates else standing.rates
    stage = "final" if final and final.rates else f"heat {standing.heats}"
    if not rates:
        reason = timed.failures.get(choice) or "it failed"
        return cell.row("placerl", choice, **of, status="failed", reason=reason)
    low, high = statistics.interval(rates) if len(rates) >= statistics.FEWEST_SAMPLES else (None, None)
    details = {"stage": stage} | ({"final_failed": final.reason} if final and final.reason else {})
    return cell.row(
        "placerl", choice, **of, value=median(rates), low=low, high=high, samples=rates, details=details
    )


def _predicted(
    cell: StudiedCell, choice: Decision, made: Prediction, standing: Standing, final: Final | None
) -> Measurement:
    details: dict[str, Any] = {"terms_s": dict(made.terms_s), "inputs": str(made.inputs)}
    rates = tuple(final.rates.values()) if final else ()
    if rates or standing.rates:
        achieved = median(rates or standing.rates)
        details |= {"achieved": achieved, "error_before": made.gps / achieved - 1}
    if final and final.errors:
        details["error"] = median(final.errors)
        if len(final.errors) >= statistics.FEWEST_SAMPLES:
            details["error_low"], details["error_high"] = statistics.interval(final.errors)
    return cell.row(
        OURS,
        choice,
        quantity="predicted_gradient_steps_per_s",
        provenance=made.provenance,
        value=made.gps,
        details=details,
    )


def _regret(
    cell: StudiedCell, name: str, choice: Decision | str, finals: Mapping[Decision, Final], timed: Timed
) -> Measurement:
    able = {one: list(final.rates.values()) for one, final in finals.items() if final.rates}
    if isinstance(choice, str):
        return cell.row(name, None, quantity="regret", status="not_run", reason=f"needs: {choice}")
    if choice not in able:
        final = finals.get(choice)
        why = (final.reason if final else "") or timed.failures.get(choice) or "it failed"
        return cell.row(name, choice, quantity="regret", status="not_run", reason=f"{choice}: {why}")
    best = max(able, key=lambda one: median(able[one]))
    lost = BEST if best == choice else loss(finals[choice].rates, finals[best].rates)
    return cell.row(
        name,
        choice,
        quantity="regret",
        value=regret(median(able[choice]), [median(able[best])]),
        low=lost.low,
        high=lost.high,
        details={
            "best": best.details() | {"choice": str(best)},
            "verdict": lost.verdict,
            "why_no_verdict": lost.reason,
        },
    )
