"""The verdict on threads within one call of the sum tree (MAP Fig. 12), from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome, Verdict, claims
from harness.papers.map import figure_12_threads
from harness.papers.map.tree_threads import EXPERIMENT, FIND, UPDATE, sides
from tests.harness.papers.rows import frame_of

NULL = 1.004
"""The second measurement of each side is slower by this factor: to take it for the first one changes the gain."""


def rows(times_us: dict[tuple[str, int], float], spread: float = 0.01) -> list[Measurement]:
    """Rows of every side from the microseconds of each call with so many threads, whose samples differ by `spread`."""
    made = []
    for side in sides():
        time_s = times_us[side.call, side.threads] * 1e-6 * (NULL if side.null else 1)
        samples = tuple(time_s * (1 + spread * (7 * i % 30) / 30) for i in range(30))
        made.append(
            Measurement(
                suite="claim",
                primitive=side.call,
                backend="atomic",
                device="cpu",
                batch_size=side.batch_size,
                quantity="time_per_call",
                unit="s",
                provenance=Provenance.MEASURED,
                value=time_s,
                low=time_s,
                high=(1 + spread) * time_s,
                samples=samples,
                details={"experiment": EXPERIMENT, "threads": side.threads, "null": side.null},
            )
        )
    return made


def times(find: float, update: float) -> dict[tuple[str, int], float]:
    """Microseconds with two threads; with one, 10."""
    return {(FIND, 1): 10.0, (FIND, 2): find, (UPDATE, 1): 10.0, (UPDATE, 2): update}


def verdict(folder: Path, made: list[Measurement]) -> Verdict:
    (claim,) = (claim for claim in claims() if claim.key == "MAP-F12-threads")
    return claim.evaluate(frame_of(folder, *made))


@pytest.mark.parametrize(
    ("find", "update", "outcome"),
    [
        (5, 10, Outcome.REPRODUCED),
        (5, 15, Outcome.REPRODUCED),
        (5, 6, Outcome.NOT_REPRODUCED),  # updates gain too
        (12, 10, Outcome.NOT_REPRODUCED),
        (10, 10, Outcome.NO_VERDICT),
        (4, 10, Outcome.NO_VERDICT),  # 2 threads 2.5 times as fast: suspect
    ],
)
def test_the_verdict(find: float, update: float, outcome: Outcome, tmp_path: Path) -> None:
    finding = verdict(tmp_path, rows(times(find, update))).finding
    assert finding.outcome is outcome
    sizes = len(finding.ours) // 2
    assert sizes > 0
    expected = [10 / find] * sizes + [10 / update] * sizes
    assert [number.value for number in finding.ours] == pytest.approx(expected, rel=1e-6)
    assert bool(finding.ours[0].suspect) == (find < 5)


def test_an_update_whose_interval_reaches_the_gain_of_finds_shows_nothing(tmp_path: Path) -> None:
    """Finds are 1.05 times as fast; updates as fast, but with samples that differ by half."""
    made = rows(times(10 / 1.05, 10))
    unsure = [row for row in rows(times(5, 10), spread=0.5) if row.primitive == UPDATE]
    shift = {1: 0, 2: 11}  # so that pairs differ from one another
    unsure = [
        replace(row, samples=row.samples[n:] + row.samples[:n])
        for row in unsure
        for n in [shift[row.details["threads"]]]
    ]
    finds = [row for row in made if row.primitive == FIND]
    finding = figure_12_threads.threads_in_a_call(frame_of(tmp_path, *finds, *unsure))
    ours = finding.ours
    assert min(n.low or 0 for n in ours if n.quantity.startswith(FIND)) > 1.0
    updates = [n for n in ours if n.quantity.startswith(UPDATE)]
    assert max(n.value for n in updates) < 1.04
    assert max(n.high or 0 for n in updates) > 1.06
    assert "update faster at 0 of" in finding.explanation
    assert finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(("null", "outcome"), [(1.01, Outcome.REPRODUCED), (1.3, Outcome.NO_VERDICT)])
def test_a_gain_within_what_a_side_differs_from_itself_shows_nothing(
    null: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Two threads find 1.11 times as fast."""
    made = [
        replace(row, samples=tuple(null / NULL * each for each in row.samples))
        if row.primitive == FIND and row.details["null"]
        else row
        for row in rows(times(9, 10))
    ]
    assert verdict(tmp_path, made).finding.outcome is outcome


@pytest.mark.parametrize("call", [FIND, UPDATE])
@pytest.mark.parametrize("lacking", [(1, False), (2, False), (2, True)])
def test_without_one_of_its_sides_a_call_is_not_judged(
    call: str, lacking: tuple[int, bool], tmp_path: Path
) -> None:
    def is_lacking(row: Measurement) -> bool:
        return row.primitive == call and (row.details["threads"], row.details["null"]) == lacking

    made = [row for row in rows(times(5, 10)) if not is_lacking(row)]
    assert verdict(tmp_path, made).needs == figure_12_threads.NEEDS


@pytest.mark.parametrize("name", ["another", "z"], ids=["before", "after"])
def test_rows_of_another_experiment_are_left_out(name: str, tmp_path: Path) -> None:
    others = [replace(row, details=dict(row.details) | {"experiment": name}) for row in rows(times(12, 5))]
    made = [*rows(times(5, 10)), *others]
    assert verdict(tmp_path, made).finding.outcome is Outcome.REPRODUCED
