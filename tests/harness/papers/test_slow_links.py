"""Verdicts without latencies and with slow links: rates by the model of the run's loop, choices, errors, merging."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping.choices import HERE, WITH_SIMULATED
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.evidence import number, records
from placerl.harness.papers.slow_links import AtBothLatencies, at_both_latencies, at_slow_links, latency_us
from tests.harness.old_form import details_of, replace
from tests.harness.papers.map.test_predictions import prediction, run
from tests.harness.papers.rows import frame_of

BOARD = "native-fpga-cpu"
SIMULATED = {"provenance": Provenance.SIMULATED}


def slowed(gps: float, chosen: bool = True, **more: Any) -> Row:
    """A prediction of 100 gradient steps a second that slow links would change to `gps`."""
    made = prediction(more.pop("error", 0.1), mapping=BOARD, **more)
    return replace(made, slow_link_us=1000.0, slow_gps=gps, slow_chosen=chosen)


def model(gps: float, loop: str = "relaxed") -> Row:
    made = slowed(gps, backend=NAMES[loop])
    return replace(made, details=details_of(made) | {"loop": loop, "ran": loop})


def test_runs_in_virtual_time_follow_the_model_of_their_loop(tmp_path: Path) -> None:
    rows = [
        replace(run(90.0, mapping=BOARD, **SIMULATED), samples=(88.0, 92.0)),
        run(80.0, mapping=BOARD, loop="overlapped", **SIMULATED),  # no model of this loop has slow links
        replace(run(70.0, mapping=BOARD), samples=(69.0, 71.0)),  # measured
        model(25.0),
        slowed(50.0, chosen=False, chosen_among=[HERE, WITH_SIMULATED]),
    ]
    frame = frame_of(tmp_path, *rows)
    assert latency_us(frame) == 1000.0
    slow = at_slow_links(frame)
    assert [float(f"{value:.6g}") for value in slow["value"]] == [22.5, 80.0, 70.0, 25.0, 50.0]
    assert list(slow["samples"])[:3] == [(22.0, 23.0), (), (69.0, 71.0)]
    own = records(slow)[4]
    assert own.chosen_among == [HERE], "another mapping is chosen with slow links"
    assert own.error == pytest.approx(1.1 * 0.5 / 0.25 - 1), "half the rate, of a quarter"
    assert records(frame)[4].error == 0.1


def test_without_a_band_nothing_changes(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, run(90.0, mapping=BOARD, **SIMULATED), prediction(0.1))
    assert at_slow_links(frame) is frame
    assert latency_us(frame) is None


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [(10.0, Outcome.IN_KIND), (50.0, Outcome.CONSISTENT), (95.0, Outcome.NOT_REPRODUCED)],
)
def test_a_verdict_follows_from_both_latencies(limit: float, outcome: Outcome, tmp_path: Path) -> None:
    frame = frame_of(tmp_path, run(90.0, mapping=BOARD, **SIMULATED), model(25.0))

    def check(frame: Any) -> Finding:
        row = records(frame)[0]
        found = Outcome.IN_KIND if row.value > limit else Outcome.NOT_REPRODUCED
        return Finding(found, (number(row, "rate"),), f"It reaches {row.value:g}.")

    judged = at_both_latencies(check)(frame)
    assert judged.outcome is outcome
    assert [n.value for n in judged.ours] == [90.0, 22.5]
    assert judged.ours[1].quantity == "rate, at 1000 us a transfer"
    assert judged.ours[1].provenance is Provenance.MODELLED
    assert "It reaches 90." in judged.explanation
    assert "With slow links: It reaches 22.5." in judged.explanation


def test_runs_that_keep_their_rate_with_slow_links_are_stated(tmp_path: Path) -> None:
    other = run(80.0, mapping=BOARD, loop="overlapped", **SIMULATED)
    frame = frame_of(tmp_path, run(90.0, mapping=BOARD, **SIMULATED), other, model(25.0))

    def check(count: int, frame: Any) -> Finding:
        rows = records(frame)[:count]
        return Finding(Outcome.IN_KIND, tuple(number(row, row.loop) for row in rows))

    for count, stated in ((1, False), (2, True)):
        explanation = at_both_latencies(partial(check, count))(frame).explanation
        kept = "keep their rate with slow links, as no model describes their loop: 1."
        assert (kept in explanation) is stated


def test_a_finding_on_which_no_link_has_an_influence_is_kept(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, run(90.0, mapping=BOARD, **SIMULATED), model(25.0))
    kept, lacking = Finding(Outcome.NO_VERDICT, (), "Nothing to see."), Finding(Outcome.NOT_RUN, needs="rows")
    assert at_both_latencies(lambda _: kept)(frame) is kept
    assert at_both_latencies(lambda _: lacking)(frame) is lacking


def test_the_claims_about_runs_in_virtual_time_have_the_band() -> None:
    from placerl.harness import papers

    wrapped = {claim.key for claim in papers.claims() if isinstance(claim, AtBothLatencies)}
    assert wrapped == {"MAP-VI-B", "MAP-F13", "MAP-T5-gains", "PRL-F8", "PRL-6.4-earlier-work"}
