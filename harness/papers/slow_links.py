"""Judges claims about mappings with a simulated device at two latencies of its link: none, and a high one.

MAP states no latency for its link; 1 ms is what PRL's authors list for another board. Virtual time and predictions
charge none for a link whose latency the platform does not state.
A validation's predictions state what they would be with a high latency (`mapping.predict.with_slow_links`), from which
the rates of the runs that they describe follow. A verdict that is the same at both does not depend on the link.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.choices import WITH_SIMULATED
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.papers.assumptions import (
    Check,
    both_numbers,
    both_outcomes,
    sentences_of_its_own,
    what_decides,
)
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.evidence import mapping_of, records, select
from placerl.harness.papers.number import Number

RUNS, PREDICTIONS = "gradient_steps_per_s", "predicted_gradient_steps_per_s"
NOT_COUNTED = "Transfers have no latency, and the rows do not count them: with one the gains are not known."
"""Said of verdicts on virtual time that cannot be given with slow links."""
_CHANGED = ("error", "error_low", "error_high", "chosen_among")
"""Columns of a prediction that slow links change, beside its rate."""
Place = tuple[str, int, str, str]


def latency_us(frame: pd.DataFrame) -> float | None:
    """Return the latency that a validation's predictions assume for slow links, us; None if none states one."""
    stated = {row.slow_link_us for row in _predictions(frame)}
    return max(stated, default=None)


def _predictions(frame: pd.DataFrame) -> list[Any]:
    rows = records(select(frame, suite=Suite.VALIDATION, quantity=PREDICTIONS))
    return [row for row in rows if row.slow_link_us is not None and row.value > 0]


def _place(row: Any) -> Place:
    return row.workload, int(row.batch_size), mapping_of(row), str(row.loop)


def at_slow_links(frame: pd.DataFrame) -> pd.DataFrame:
    """Return stored measurements as they would be if links had the high latency.

    Of each run of a validation in virtual time, the rate is changed by the ratio of the predictions of the model that
    describes its loop. Predictions get their own rate with slow links, their choice, and their error against the
    changed run. Other rows are returned unchanged, and the same frame if nothing changes.
    """
    predictions = _predictions(frame)
    own = {row.Index: row.slow_gps / row.value for row in predictions}
    of_runs = {_place(row): own[row.Index] for row in predictions if row.strategy in NAMES.values()}
    factors: dict[Any, float] = dict(own)
    changed: dict[Any, dict[str, Any]] = {}
    for row in records(select(frame, suite=Suite.VALIDATION, quantity=RUNS)):
        if row.provenance != Provenance.MEASURED and _place(row) in of_runs:
            factors[row.Index] = of_runs[_place(row)]
    for row in predictions:
        changed[row.Index] = _at_slow_links(row, own[row.Index] / of_runs.get(_place(row), 1.0))
    if not factors:
        return frame
    scale = pd.Series([factors.get(label, 1.0) for label in frame.index], frame.index)
    columns: dict[str, Any] = {name: frame[name] * scale for name in ("value", "low", "high")}
    columns["samples"] = [
        tuple(factors.get(label, 1.0) * sample for sample in samples)
        for label, samples in frame["samples"].items()
    ]
    for name in _CHANGED:
        new = [changed[label][name] if label in changed else value for label, value in frame[name].items()]
        columns[name] = pd.Series(new, frame.index, dtype=object)
    return frame.assign(**columns)


def _unchanged(frame: pd.DataFrame) -> set[int]:
    """Return the index labels of the runs in virtual time whose loop no prediction with slow links describes."""
    described = {_place(row) for row in _predictions(frame) if row.strategy in NAMES.values()}
    runs = records(select(frame, suite=Suite.VALIDATION, quantity=RUNS))
    return {
        int(row.Index)
        for row in runs
        if row.provenance != Provenance.MEASURED and _place(row) not in described
    }


def _at_slow_links(row: Any, ratio: float) -> dict[str, Any]:
    """Return the columns of a prediction that slow links change; it changes by `ratio` more than its run."""
    errors = {name: getattr(row, name) for name in _CHANGED if name != "chosen_among"}
    slowed = {name: None if error is None else (1 + error) * ratio - 1 for name, error in errors.items()}
    among = [devices for devices in row.chosen_among or () if devices != WITH_SIMULATED]
    return {**slowed, "chosen_among": among + [WITH_SIMULATED] * bool(row.slow_chosen)}


def at_both_latencies(check: Check) -> Check:
    """Return a check that judges runs in virtual time without latencies and with slow links.

    The outcome follows from both (`both_outcomes`). Numbers that depend on the latency are listed twice. Runs whose
    loop no prediction describes keep their rate, and the explanation counts those that the finding lists. A finding on
    whose rows no link has an influence is returned unchanged.
    """

    def judged(frame: pd.DataFrame) -> Finding:
        finding = check(frame)
        slowed = at_slow_links(frame)
        if slowed is frame or finding.outcome is Outcome.NOT_RUN:
            return finding
        slow, latency = check(slowed), latency_us(frame)
        assert latency is not None, "of predictions with slow links"
        listed = {label for number in finding.ours for label in number.rows}
        if unchanged := len(listed & _unchanged(frame)):
            said = (
                f"Runs that keep their rate with slow links, as no model describes their loop: {unchanged}."
            )
            finding, slow = (
                replace(each, explanation=f"{each.explanation} {said}".strip()) for each in (finding, slow)
            )
        return finding if slow == finding else _merged(finding, slow, f"{latency:g} us a transfer")

    return judged


class AtBothLatencies(Claim):
    """What claims share that are judged without latencies and with slow links."""

    def finding(self, frame: pd.DataFrame) -> Finding:
        return at_both_latencies(self.judge)(frame)


def _merged(fast: Finding, slow: Finding, latency: str) -> Finding:
    """Return one finding from those without latencies and with slow links."""
    outcome = both_outcomes(fast.outcome, slow.outcome)
    ours = both_numbers(fast, slow, lambda number: number, partial(_modelled, latency=latency))
    said = f"MAP states no latency for its link: without one {fast.outcome}, with {latency}, which PRL's authors list "
    said += f"for another board (slow links, modelled), {slow.outcome}."
    if news := sentences_of_its_own(slow.explanation, fast.explanation):
        said += f" With slow links: {news}"
    decides = what_decides(outcome, fast, slow)
    return Finding(outcome, ours, f"{fast.explanation} {said}".strip(), needs=fast.needs, decides=decides)


def _modelled(number: Number, latency: str) -> Number:
    return replace(
        number,
        quantity=f"{number.quantity}, at {latency}",
        provenance=Provenance.MODELLED,
        source="slow links",
    )
